class DFlashWorkerV2:
    def __init__(self, device):
        self.device = device
