"""For benchmarks only: SIGUSR1 takes the hooks of SGLang's plugins off a worker, and puts them back.

Put this file on the server's path beside an entry point of group `sglang.srt.plugins` naming
`emitter_toggle:register`; `emitter.py --toggle` sends the signal. Off is off: the original functions are
in their classes again, as if no hook had ever been made.
"""

import signal
import sys

METHODS = {
    "sglang.srt.speculative.eagle_worker_v2": (
        ("EagleDraftWorker", "draft"),
        ("EagleDraftWorker", "_draft_extend_for_decode"),
        ("EAGLEWorkerV2", "verify"),
        ("EAGLEWorkerV2", "on_verify_complete_cpu"),
    ),
    "sglang.srt.speculative.eagle_worker": (
        ("EAGLEWorker", "draft"),
        ("EAGLEWorker", "verify"),
        ("EAGLEWorker", "forward_draft_extend_after_decode"),
    ),
}


def register() -> None:
    """The entry point: installs the signal's handler in a scheduler's process."""
    hooked: dict[tuple[type, str], object] = {}

    def toggle(_signal: int, _frame: object) -> None:
        if hooked:
            for (owner, method), function in hooked.items():
                setattr(owner, method, function)
            hooked.clear()
            return
        for module, methods in METHODS.items():
            for owner_name, method in methods:
                owner = getattr(sys.modules.get(module), owner_name, None)
                function = vars(owner).get(method) if owner else None
                if hasattr(function, "__wrapped__"):
                    hooked[owner, method] = function
                    setattr(owner, method, function.__wrapped__)

    if "sglang.srt.managers.scheduler" in sys.modules:
        signal.signal(signal.SIGUSR1, toggle)
