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
            for name, method in methods:
                worker = getattr(sys.modules.get(module), name, None)
                function = vars(worker).get(method) if worker is not None else None
                original = getattr(function, "__wrapped__", None)
                if worker is not None and original is not None:
                    hooked[worker, method] = function
                    setattr(worker, method, original)

    if "sglang.srt.managers.scheduler" in sys.modules:
        signal.signal(signal.SIGUSR1, toggle)
