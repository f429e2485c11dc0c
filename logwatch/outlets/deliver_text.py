"""Level 3: the words of alerts: what, since when, by how much, what it costs, why, and what to try.

Everything that comes out of a log passes `clean` first: whoever can write to a log must not be able to write
a message of his own (line breaks, invisible or right-to-left characters, endless text) to people on call.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from logwatch.units import milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from logwatch.model import Cause, Incident, Moment

LIMIT = 400
"""Longest quoted text, characters."""

NAMES = {
    "out_of_band": "SpecPhaseOutOfBand",
    "level_shift": "SpecPhaseShifted",
    "spread": "SpecPhaseShifted",
    "second_mode": "SpecPhaseShifted",
    "acceptance_dropped": "SpecAcceptanceDropped",
    "slower_than_baseline": "SpecSlowerThanBaseline",
    "graph_lost": "SpecGraphLost",
    "draft_does_nothing": "SpecDraftDoesNothing",
    "one_rank_slow": "SpecOneRankSlow",
    "silence": "SpecSilence",
}
"""Alert by kind of incident, as the Prometheus rules have them; a kind not named here gives `Spec<Kind>`."""

VERIFY = "SpecVerifyOutOfBand"

SUMMARIES = {
    "out_of_band": "{phase} is {above} its tuned band.",
    "level_shift": "{phase} has moved to a {higher} level.",
    "spread": "{phase} varies more than before.",
    "second_mode": "Some samples of {phase} lie at another level than the others.",
    "acceptance_dropped": "The draft's tokens are accepted less often than before.",
    "slower_than_baseline": "Speculative decoding is slower than decoding without it.",
    "graph_lost": "Target verify runs without CUDA graphs.",
    "draft_does_nothing": "No drafted token is ever accepted.",
    "one_rank_slow": "One rank is slower than the others: {phase}.",
    "silence": "Requests are answered, but the log holds no samples any more.",
}
"""First sentence of an alert, by kind of incident."""

ADVICE = {
    "cuda_graph_off": (
        "Compare `--cuda-graph-max-bs` with the batch size, and look for `--disable-cuda-graph` in the"
        " server's arguments; restart with graphs that cover the batch."
    ),
    "draft_graph_missing": (
        "Look for the draft graph's capture in the start of the log; another attention backend for the"
        " draft may be captured where this one is not."
    ),
    "nccl_environment": (
        "Run `logwatch doctor` on the host: it shows which NCCL variables each worker process really has;"
        " restart with the missing ones exported to every worker."
    ),
    "settings_changed": "Put the named setting back, or tune a new band if the change is meant.",
    "version_changed": "Compare both with `logwatch compare`; pin the old version until it is understood.",
    "load": "Look whether more requests or longer contexts are wanted; then give the band its `when`.",
    "neighbour": "Look who else uses these GPUs (`nvidia-smi`), and at clocks and temperatures.",
    "acceptance_dropped": "Compare what is asked now with what was asked before, and check the draft model.",
    "draft_misconfigured": (
        "Check that the draft model fits `--speculative-algorithm`: an EAGLE-3 draft needs `EAGLE3`."
    ),
    "kv_pressure": "Lower `--max-running-requests` or raise `--mem-fraction-static`: requests are retracted.",
    "one_rank_slow": "Look at this rank's GPU: clocks, temperature, PCIe link width, other processes.",
    "server_stuck": "Read the watchdog's or the crash's stack in the log; restart the server if it does not go on.",
    "log_went_quiet": (
        "Ask for one long answer and look whether the log gets a line; compare `--log-level` and"
        " `--decode-log-interval` with the start before."
    ),
    "warm_up": "Wait for a few more reports: the first ones after a start are slow.",
    "unknown": "Run `logwatch compare GOOD BAD` on the logs of the last good run and of this one.",
}
"""What to try, by cause (`judging/causes.py`)."""


def clean(value: str | None, limit: int = LIMIT) -> str:
    """One line of visible text: control, format and unassigned characters out, blanks joined, cut to `limit`.

    >>> clean("TP0\\n[FIRING] all is well\\u202e")
    'TP0 [FIRING] all is well'
    """
    kept = (
        " " if character.isspace() or unicodedata.category(character)[0] in "CZ" else character
        for character in (value or "")[: 4 * limit]
    )
    line = " ".join("".join(kept).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def alert_name(incident: Incident) -> str:
    """CamelCase name of the alert: the same as that of the Prometheus rule for the same trouble."""
    if incident.kind == "out_of_band" and incident.phase == "target_verify":
        return VERIFY
    words = re.findall(r"[A-Za-z0-9]+", incident.kind)
    return NAMES.get(incident.kind, "Spec" + "".join(word.capitalize() for word in words))


def phase_words(phase: str) -> str:
    """`target_verify` as people say it: `Target verify`."""
    words = clean(phase, 100).replace("_", " ")
    return words[:1].upper() + words[1:]


def level(phase: str, value: float) -> str:
    """A level in its phase's unit; empty where a number says nothing (a graph is used or it is not)."""
    match phase:
        case "tokens_per_cycle":
            return f"{value:.2f} tokens a cycle"
        case "speculation":
            return f"{value:.1f} tok/s"
        case "cuda_graph" | "samples":
            return ""
        case _:
            return f"{milliseconds(value)} a cycle"


def summary(incident: Incident) -> str:
    """What is wrong, without a value: the same sentence through the whole incident."""
    high = incident.direction == "high"
    sentence = SUMMARIES.get(
        incident.kind,
        "{phase}: " + clean(incident.kind, 100).translate({95: " ", 123: None, 125: None}) + ".",
    )
    return sentence.format(
        phase=phase_words(incident.phase),
        above="above" if high else "below",
        higher="higher" if high else "lower",
    )


def description(incident: Incident, ranks_count: int, *, resolved: bool) -> str:
    """The figures: level, onset, ratio, band, cost; once it is over, what it was and since when no more."""
    what, after = phase_words(incident.phase), level(incident.phase, incident.after)
    begun = _when(incident.onset)
    if resolved:
        was = f"{what} was at {after} since {begun}" if after else f"It began {begun}"
        over = (
            f"Over since {_when(incident.resolved)}."
            if incident.resolved
            else "Its log is gone, its end was not seen."
        )
        sentences = [over, f"{was}."]
    else:
        if after:
            sentences = [f"{what} is at {after} since {begun}, {_against(incident)}."]
        else:
            sentences = [f"{summary(incident).rstrip('.')}, since {begun}."]
        if incident.band is not None and after:
            low, high = (_short(incident.phase, x) for x in (incident.band.low, incident.band.high))
            sentences.append(f"Its band is {low} to {high}.")
        sentences.append(clean(incident.detail, 2 * LIMIT))
    if ranks_count > 1:
        sentences.append(f"{ranks_count} ranks see it; these are the figures of {clean(incident.rank, 100)}.")
    return " ".join(sentence for sentence in sentences if sentence)


def _short(phase: str, value: float) -> str:
    """A level beside another one of its unit."""
    return level(phase, value).removesuffix(" a cycle").removesuffix(" tokens")


def _against(incident: Incident) -> str:
    times = f"{incident.ratio:.2f} times"
    if incident.before is not None:
        return f"{times} the {_short(incident.phase, incident.before)} before"
    match incident.kind:
        case "slower_than_baseline":
            return f"{times} the baseline"
        case "one_rank_slow":
            return f"{times} the other ranks"
        case _:
            return f"{times} the centre of its band" if incident.band else f"{times} what is normal"


def _when(moment: Moment) -> str:
    """The log's own time, for it is what a person greps for."""
    return f"{moment.time.replace('T', ' ')} (line {moment.line})" if moment.time else f"line {moment.line}"


def best_causes(incidents: Iterable[Incident]) -> list[Cause]:
    """Causes of all ranks, each once with its best score, likeliest first."""
    best: dict[str, Cause] = {}
    for incident in incidents:
        for cause in incident.causes:
            if cause.cause not in best or cause.score > best[cause.cause].score:
                best[cause.cause] = cause
    found = sorted(best.values(), key=lambda cause: -cause.score)
    return [cause for cause in found if cause.cause != "unknown"] or found


def cause_sentence(causes: Sequence[Cause]) -> str:
    """The likeliest cause and what speaks for it."""
    if not causes:
        return "The log does not say why."
    if causes[0].cause == "unknown":
        return f"The cause is not known. {clean(causes[0].evidence)}"
    first = f"Most likely {clean(causes[0].cause, 100).replace('_', ' ')}: {clean(causes[0].evidence)}"
    others = ", ".join(clean(cause.cause, 100).replace("_", " ") for cause in causes[1:3])
    return first.rstrip(".") + "." + (f" Less likely: {others}." if others else "")


def advice(causes: Sequence[Cause], alert: str) -> str:
    """What to try first, and where to read on."""
    first = ADVICE.get(causes[0].cause if causes else "unknown", ADVICE["unknown"])
    return f"{first} More: `logwatch export runbooks {alert}`."


def ranks(names: Sequence[str]) -> str:
    """Ranks that see it, at most sixteen by name."""
    more = f" and {len(names) - 16} more" if len(names) > 16 else ""
    return ", ".join(clean(name, 100) for name in names[:16]) + more


def line_for_log(body: dict[str, object]) -> str:
    """The alert as one line for the daemon's own log."""
    labels, notes = body["labels"], body["annotations"]
    assert isinstance(labels, dict)
    assert isinstance(notes, dict)
    if body["change"] == "joined":
        return f"{labels['alertname']} ({labels['stream']}): seen by {notes.get('ranks', 'one more')} now."
    parts = [
        f"{labels['alertname']} {body['change']} ({labels['stream']}):",
        notes["description"],
        notes["cause"] if body["status"] == "firing" else "",
        f"Ranks: {notes['ranks']}." if "ranks" in notes else "",
    ]
    return " ".join(part for part in parts if part)
