"""Level 6: `logwatch demo`: recorded server logs with a regression in them, played live and watched."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import click

from logwatch.commands.common import Number
from logwatch.config import Config
from logwatch.model import Change, Cycle, Incident, Item, RunStarted
from logwatch.resources import folder
from logwatch.units import milliseconds

if TYPE_CHECKING:
    from logwatch.daemon import Daemon

VERIFY = "target_verify"
STRIP_WIDTH = 60
RECORDED_BAND = ("4.5ms", "6.5ms")
FIELD_BAND = ("17ms", "21ms")
FIELD_BASELINE = 82.2
# Verify ms and share as the field's machine wrote them, before and after the restart.
FIELD_GOOD = ((19.14, 95.0), (19.14, 95.2), (19.14, 95.2), (19.15, 95.0), (19.15, 95.1))
FIELD_BAD = ((28.96, 97.0), (28.94, 96.9), (28.96, 96.8), (28.95, 97.1), (28.94, 96.9))
FIELD_ROUNDS = 3


@click.command(short_help="Watch a regression happen: a tour of half a minute.")
@click.option("--seconds", type=Number(1, 86400), default=30, show_default=True, help="How long to play.")
@click.option("--field", "field_case", is_flag=True, help="Play the 19.145 and 28.95 ms case instead.")
def command(seconds: float, field_case: bool) -> None:
    """Watch a regression happen: a self-contained tour of about half a minute.

    Plays real SGLang logs (two H200, EAGLE-3) into a live file: a healthy run, a restart after which NCCL
    goes over sockets, and the healthy run again. With --field: the 8-GPU machine of the README, rebuilt
    from its figures.

    \b
    Example:
      logwatch demo --seconds 20
    """
    from logwatch.daemon import Daemon
    from logwatch.outlets.log import Log

    pieces = list(_field_pieces() if field_case else _recorded_pieces())
    low, high = FIELD_BAND if field_case else RECORDED_BAND
    with tempfile.TemporaryDirectory(prefix="logwatch-demo-") as directory:
        log = Path(directory, "server.log")
        log.touch()
        config = Config.model_validate(
            {
                "source": [{"path": str(log), "start": "beginning"}],
                "band": [{"phase": VERIFY, "low": low, "high": high}],
                "speculation": {"baseline_tokens_per_second": FIELD_BASELINE} if field_case else {},
                "http": {"listen": "127.0.0.1:0"},
            }
        )
        show = _Show(log, low, high)
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            # The story is told here: the daemon's own log would tell it twice.
            daemon = Daemon(config, state_directory=Path(directory, "state"), sinks=[show], log=Log(nowhere))
            _watch(
                daemon, show, threading.Thread(target=_play, args=(log, pieces, seconds, daemon), daemon=True)
            )
    show.summary()


def _watch(daemon: Daemon, show: _Show, player: threading.Thread) -> None:
    """Run the daemon, the player beside it, until the player has stopped it."""

    def ready() -> None:
        show.ready(daemon.address)
        player.start()

    daemon.on_ready = ready
    try:
        daemon.run()
    finally:
        show.close()


def _recorded_pieces() -> Iterator[str]:
    """The recorded runs, cut after each report."""
    for name in ("healthy", "nccl_over_sockets", "healthy"):
        yield from _cut(_demo_log(name).read_text(encoding="utf-8", errors="replace"))


def _demo_log(name: str) -> Path:
    packaged = folder("demo") / f"{name}.log"
    if packaged.is_file():
        return packaged
    recorded = {"healthy": "v0517_31_tp2_nccl_default", "nccl_over_sockets": "v0517_34_tp2_nccl_socket"}
    return folder("fixtures") / "logs" / "sglang_h200" / f"{recorded[name]}.log"


def _field_pieces() -> Iterator[str]:
    """Reports rebuilt from the figures of the field's two greps; other phases share what verify leaves."""
    for number, (reports, graph, variables) in enumerate(
        (
            (FIELD_GOOD, 100.0, " NCCL_PROTO=LL NCCL_ALGO=Ring NCCL_P2P_LEVEL=SYS"),
            (FIELD_BAD, 0.0, ""),
            (FIELD_GOOD, 100.0, " NCCL_PROTO=LL NCCL_ALGO=Ring NCCL_P2P_LEVEL=SYS"),
        )
    ):
        clock = f"2026-02-11 08:{15 + 5 * number}"
        yield (
            f"[{clock}:00] server_args=ServerArgs(model_path='/models/moe-1t', tp_size=8, "
            "speculative_algorithm='EAGLE3', speculative_num_steps=2, speculative_eagle_topk=1, "
            f"speculative_num_draft_tokens=3)\n[{clock}:00 TP0] EAGLE3_PROFILE environment"
            f" CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7{variables}\n"
        )
        for second, (verify, share) in enumerate(reports * FIELD_ROUNDS, 2):
            total = verify / share * 100
            rest = total - verify
            yield (
                f"[{clock}:{second:02} TP0] EAGLE3_PROFILE 100 cycles, batch 1.0, graph {graph}%\n"
                f"  Draft forward:      {rest * 0.52:.2f} ms/cyc  ({52 * rest / total:5.1f}%)\n"
                f"  Target verify:     {verify:.2f} ms/cyc  ({share:5.1f}%)\n"
                f"  Draft extend:       {rest * 0.48:.2f} ms/cyc  ({48 * rest / total:5.1f}%)\n"
                f"  Total cycle:       {total:.2f} ms/cyc\n"
                "  Accept len:         0.92\n"
            )


def _cut(text: str) -> Iterator[str]:
    """Pieces that each end with a report (`Accept len` closes one)."""
    piece: list[str] = []
    for line in text.splitlines(keepends=True):
        piece.append(line)
        if line.lstrip().startswith("Accept len"):
            yield "".join(piece)
            piece.clear()
    if piece:
        yield "".join(piece)


def _play(log: Path, pieces: Sequence[str], seconds: float, daemon: Daemon) -> None:
    """Append the pieces evenly over the time, then stop the daemon."""
    pause = threading.Event()
    with log.open("a", encoding="utf-8") as file:
        for piece in pieces:
            file.write(piece)
            file.flush()
            pause.wait(seconds / len(pieces))
    daemon.stop()


@dataclass
class _Show:
    """A sink that tells the story: a line an event and, on a terminal, a strip of verify time.

    Attributes:
        log: The file that is followed.
        low, high: Edges of the band, as text with unit.
    """

    log: Path
    low: str
    high: str
    verify_s: list[float] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)

    def ready(self, address: str) -> None:
        """Say where everything is."""
        self._say(f"following {self.log}")
        self._say(f"metrics at {address}/metrics, status page at {address}/")
        self._say(f"band: {VERIFY} {self.low}..{self.high}")

    def take(self, item: Item) -> None:
        """Tell runs, samples of verify and incidents."""
        if isinstance(item, RunStarted) and item.settings:
            self._say(f"line {item.place.line}: server start, run {item.run + 1}")
        elif isinstance(item, Cycle) and VERIFY in item.phases_s and item.rank in {None, "TP0"}:
            self.verify_s.append(item.phases_s[VERIFY])
            if sys.stdout.isatty():
                click.echo(f"\r\x1b[2K{self._strip()} {milliseconds(self.verify_s[-1])}", nl=False)
        elif isinstance(item, Incident):
            self._incident(item)

    def _incident(self, incident: Incident) -> None:
        from logwatch.outlets.report.wording import incident_text

        if incident.change is Change.OPENED:
            self.incidents.append(incident)
        over = incident.resolved
        colour = "red" if over is None else "green"
        what = incident_text(incident)
        if over is None:
            told = f"{what}, since line {incident.onset.line}"
        else:
            told = (
                f"{what.replace(' is ', ' was ', 1)}, from line {incident.onset.line} until line {over.line}"
            )
        self._say(f"{click.style(incident.change.value, fg=colour)}: {told}")
        if incident.change is Change.OPENED and len(self.incidents) == 1:  # the second rank says the same
            for cause in incident.causes:
                self._say(f"  likely {cause.cause}: {cause.evidence}")
            if incident.detail:
                self._say(f"  {incident.detail}")

    def _strip(self) -> str:
        """The last samples as bars, those out of the band in red."""
        from logwatch.units import parse_duration

        low, high = parse_duration(self.low), parse_duration(self.high)
        shown = self.verify_s[-STRIP_WIDTH:]
        top = max(*shown, high * 1.5)
        bars = "▁▂▃▄▅▆▇█"
        return "".join(
            click.style(
                bars[int(value / top * (len(bars) - 1))], fg="green" if low <= value <= high else "red"
            )
            for value in shown
        )

    def _say(self, text: str) -> None:
        click.echo(("\r\x1b[2K" if sys.stdout.isatty() else "") + text)

    def close(self) -> None:
        """End the strip's line."""
        if sys.stdout.isatty():
            click.echo()

    def summary(self) -> None:
        """What was seen, in two lines."""
        if not self.verify_s:
            self._say("no report was read")
            return
        self._say(
            f"{len(self.verify_s)} reports of rank 0, verify median {milliseconds(median(self.verify_s))}"
        )
        opened = len(self.incidents)
        self._say(f"{opened} incident{'' if opened == 1 else 's'} opened. Try: logwatch replay YOUR.log")
