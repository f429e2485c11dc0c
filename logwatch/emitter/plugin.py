"""`plugin.py`: the entry point `sglang.srt.plugins`, and the hooks.

SGLang calls `register` in every process before it reads its arguments; only a process that holds a
scheduler is of interest, and there only `Scheduler.__init__` is hooked at first. When that has returned,
logging works, the rank is known and exactly the modules of the workers in use are loaded: their methods are
hooked then.

Nothing in here may harm the server: an original is called exactly once and only its errors are raised; an
error of our own is said once and ends all measuring.
"""

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from logwatch.emitter import server
from logwatch.emitter.lines import Report, environment_text, report_text
from logwatch.emitter.profiler import Profiler
from logwatch.emitter.targets import (
    ACCEPT,
    DRAFT,
    EXTEND,
    NEWEST,
    OLDEST,
    START,
    VERIFY,
    Target,
    Version,
    targets_of,
)
from logwatch.emitter.timer import timer_for

LOGGER: Final = "sglang.logwatch"
"""Below SGLang's own logger, so that its handlers, format and rank prefix apply."""

EVERY: Final = 100
"""Cycles a report, unless `EAGLE3_PROFILE_EVERY` says otherwise."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment asks for."""

    on: bool = False
    every: int = EVERY
    all_ranks: bool = False
    complaint: str = ""

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> "Settings":
        """Reads `EAGLE3_PROFILE`, `EAGLE3_PROFILE_EVERY` and `EAGLE3_PROFILE_RANKS`."""
        if environ.get("EAGLE3_PROFILE", "").strip().lower() in {"", "0", "false", "no", "off"}:
            return cls()
        every, complaint = EVERY, ""
        text = environ.get("EAGLE3_PROFILE_EVERY", "").strip()
        if text.isdecimal() and int(text) > 0:
            every = int(text)
        elif text:
            complaint = f"EAGLE3_PROFILE_EVERY must be a whole number above 0, not {text!r}; using {EVERY}"
        return cls(True, every, environ.get("EAGLE3_PROFILE_RANKS", "").strip().lower() == "all", complaint)


def register() -> None:
    """The entry point: does nothing at all without `EAGLE3_PROFILE`, nor in a process without a scheduler."""
    settings = Settings.read(os.environ)
    if not settings.on or START.rsplit(".", 2)[0] not in sys.modules:
        return
    plugin = Plugin(settings)
    try:
        registry, kinds = server.registry()
        registry.register(START, plugin.started, kinds.AFTER)
    except Exception as error:  # noqa: BLE001 - whatever is wrong here, the server must start
        plugin.switch_off(error)


class Plugin:
    """The plugin in one process: off, or on with a profiler.

    Args:
        settings: From the environment.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._on = True
        self._begun = False
        self._profiler: Profiler | None = None

    def started(self, _result: object, scheduler: object, *_args: object, **_kwargs: object) -> None:
        """AFTER `Scheduler.__init__`: says the environment, then hooks what this version has."""
        if self._begun or not self._on:
            return
        self._begun = True
        try:
            self._start(scheduler)
        except Exception as error:  # noqa: BLE001 - a profiler's own bug must not stop the server
            self.switch_off(error)

    def switch_off(self, error: Exception) -> None:
        """Ends all measuring; says so the first time."""
        if not self._on:
            return
        self._on = False
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        place = f" at {Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" if frame else ""
        what = " ".join(f"{type(error).__name__}: {error}".split())
        _say(f"switched itself off, the server is not affected: {what}{place}")

    def _start(self, scheduler: object) -> None:
        logger = logging.getLogger(LOGGER)
        if not logger.isEnabledFor(logging.INFO):
            _say("reports are logged at level INFO, which this server hides; start it with --log-level info")
        if self._settings.complaint:
            _say(self._settings.complaint)
        environment = environment_text(os.environ)
        if environment is not None:
            logger.info("%s", environment)
        if not self._settings.all_ranks and server.rank_of(scheduler) not in {0, None}:
            return
        version = server.version()
        wanted = targets_of(version)
        present = [target for target in wanted if server.method(target) is not None]
        hooked = self._hook(present)
        refused = [target for target in present if target not in hooked]
        missing = [target for target in wanted if target not in present and target.module in sys.modules]
        measured = {target.phase for target in hooked}
        lost = {
            target.phase for target in missing + refused if target.phase != ACCEPT or ACCEPT not in measured
        }
        if not measured & {DRAFT, VERIFY}:
            _say(_nothing(scheduler, version))
            return
        if lost:
            _say(_partly([target for target in missing + refused if target.phase in lost], version))
        self._profiler = Profiler(timer_for, _write, self._settings.every, measured - lost)

    def _hook(self, targets: Sequence[Target]) -> list[Target]:
        """Hooks what it can; returns what is hooked now. SGLang logs what it cannot hook, and goes on."""
        if not targets:
            return []
        registry, kinds = server.registry()
        before = [server.method(target) for target in targets]
        for target in targets:
            if target.phase == ACCEPT:
                registry.register(target.path, self._accepting(target), kinds.AFTER)
            else:
                registry.register(target.path, self._timing(target), kinds.AROUND)
        registry.apply_hooks()
        return [
            target for target, old in zip(targets, before, strict=True) if server.method(target) is not old
        ]

    def _timing(self, target: Target) -> Callable[..., Any]:
        phase = target.phase

        def size_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
            return (
                0 if phase == EXTEND else server.batch_size(server.argument(args, kwargs, target.parameters))
            )

        def timed(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            token = None
            profiler = self._profiler
            if self._on and profiler is not None:
                try:
                    device = getattr(args[0], "device", "cuda")
                    token = profiler.begin(phase, device, size_of(args, kwargs))
                except Exception as error:  # noqa: BLE001 - see the module
                    self.switch_off(error)
            if token is None or profiler is None:
                return original(*args, **kwargs)
            try:
                result = original(*args, **kwargs)
            except BaseException:
                try:
                    profiler.abandon(token)
                except Exception as error:  # noqa: BLE001 - see the module
                    self.switch_off(error)
                raise
            try:
                if phase == VERIFY:
                    profiler.end(token, graph=server.graph(result), accepted=server.counts_of_verify(result))
                else:
                    profiler.end(token)
            except Exception as error:  # noqa: BLE001 - see the module
                self.switch_off(error)
            return result

        return timed

    def _accepting(self, target: Target) -> Callable[..., None]:
        def accepted(_result: Any, /, *args: Any, **kwargs: Any) -> None:
            if not self._on or self._profiler is None:
                return
            try:
                self._profiler.accepted(server.counts(server.argument(args, kwargs, target.parameters)))
            except Exception as error:  # noqa: BLE001 - see the module
                self.switch_off(error)

        return accepted


def _nothing(scheduler: object, version: Version | None) -> str:
    algorithm = getattr(getattr(scheduler, "server_args", None), "speculative_algorithm", None)
    if not algorithm:
        return "nothing to measure: this server runs without speculative decoding"
    worker = getattr(scheduler, "draft_worker", None)
    if worker is None:
        return (
            f"nothing to measure: no speculative worker in this process ({algorithm} runs in another stage)"
        )
    name = type(worker).__name__
    return f"nothing to measure: {_known(version)} runs {name} ({algorithm}) without any part that is timed"


def _partly(targets: Sequence[Target], version: Version | None) -> str:
    names = ", ".join(target.short for target in targets)
    phases = ", ".join(sorted({target.phase for target in targets}))
    return f"{_known(version)} offers no {names}: {phases} left out"


def _known(version: Version | None) -> str:
    told = "SGLang of unknown version" if version is None else f"SGLang {'.'.join(map(str, version))}"
    if version is not None and OLDEST <= version <= NEWEST:
        return told
    read = f"{'.'.join(map(str, OLDEST))} to {'.'.join(map(str, NEWEST))}"
    return f"{told} (this plugin knows {read})"


def _write(report: Report) -> None:
    logging.getLogger(LOGGER).info("%s", report_text(report))


def _say(text: str) -> None:
    logging.getLogger(LOGGER).warning("sglang-logwatch: %s", text)
