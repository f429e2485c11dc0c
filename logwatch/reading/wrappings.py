"""Level 2: the wrappings that stand before a program's message, one expression each (used by `framing.py`).

A wrapping is peeled off at a position of the text, by `peel`; `find_prefix` finds SGLang's own prefix further
on in a line. Every expression is tried at one position, and what it may run over is bounded, so that no line
takes more than linear time.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

RANK_TAGS = ("DP", "PP", "ATTN_CP", "MOE_DP", "TP", "EP")
"""The contract's order; SGLang's own changed over its versions."""

_DATE = r"\d{4}-\d\d-\d\d"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_ZONE = r"(?:Z|[+-]\d\d:?\d\d)"
_TAGS = rf"(?:{'|'.join(RANK_TAGS)})\d+"
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL|ALERT|EMERGENCY)"
_PROGRAM = r"[\w.-]{1,80}\ [\w./@:-]{1,80}"

COLOURS = re.compile(r"\x1b(?:\[[0-9;:?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Terminal escapes: colours, cursor movements, titles."""

TRACEBACK = "Traceback (most recent call last):"
"""Behind SGLang's prefix, up to 0.3.6, a process' end; behind nothing any request's error. So the prefix leaves its
bracket, from `]` on, before this message alone: the grammar knows the one from the other by it."""

REPEATED = re.compile(r" \[repeated \d+x across cluster\]")
"""What Ray adds to a line that stands for several; its own hint may follow."""

# [2025-10-16 10:13:56 TP0] , [03:51:54] , [2026-02-11 08:15:02.123 DP1 TP0 EP0] , [2023-01-31 22:46:07,635]
_SGLANG = re.compile(
    rf"\[(?:({_DATE})[ T])?({_CLOCK})(?: ?({_ZONE}))?"
    r"((?: [^\s\[\]]{1,40}(?:\[\d{1,6}\])?){0,10})\](?: |$)"
)
# The same with its `[` lost in a torn write: 2026-05-21 03:51:35 TP0]
_SGLANG_WITHOUT_BRACKET = re.compile(rf"({_DATE})[ T]({_CLOCK})()((?: {_TAGS}){{0,6}})\] ")
_ANY_PREFIX = re.compile(rf"{_SGLANG.pattern}|{_SGLANG_WITHOUT_BRACKET.pattern}")
# What a hosting service left of it: TP0]
_RANK_ALONE = re.compile(rf"({_TAGS}(?: {_TAGS}){{0,5}})\] ")

_STAMP = re.compile(rf"({_DATE})[ T]({_CLOCK})({_ZONE})?")
_AFTER_STAMP = re.compile(
    rf"""
      \ -\ (?:[\w.-]{{1,80}}\ -\ )?{_LEVEL}\ -\ (?:[\w.-]{{1,80}}:\ )?   # - INFO - flashinfer.jit:
    | \ {_LEVEL}\ \d+\ \[(?P<brackets>[^\]]{{0,120}})\]\                # INFO 31223 [DP3 TP3 EP3 file.py:222]
    | \ \|\ (?:{_LEVEL}\ *\|\ [^|\s]{{1,160}}\ -\ )?                      # | INFO     | module:function:123 -
    | \ {_LEVEL}\ [\w.]{{1,80}}\ -\                                       # INFO sglang.srt -
    | [ :]{_LEVEL}:\ ?                                                # INFO:
    | \ (?P<task>[\w.-]{{1,80}}(?:/[\w.-]{{1,80}}){{2,6}})\                # sglang/server/0123abcd
    | (?:\ (?P<worker>[\w.-]{{1,80}}))?\ \[?{_LEVEL}\]?\ +(?!\d\d-\d\d\ )            # abcdefgh-12345 INFO
    | \ (?P<program>{_PROGRAM}\[\d+\]):\                                              # host sglang[123]:
    | \ (?!{_LEVEL}\ )
    | \ (?={_LEVEL}\ \d\d-\d\d\ )
    | $
    """,
    re.VERBOSE,
)
CRI = re.compile(rf"({_DATE})T({_CLOCK})({_ZONE}) (stdout|stderr) ([FP])(?::\S{{0,20}})?(?: |$)")
"""containerd and CRI-O: date, clock, zone, stream, whether the message is Full or Partial."""

# In these expressions a group is the name of the process that wrote.
_RAY = re.compile(r"\(((?:[^()]|\([^()]{0,80}\)){0,200}?pid=\d+(?:, ip=[^\s)]{1,80})?)\)(?: |$)")
_RAY_WITHOUT_PARENTHESIS = re.compile(r"([A-Za-z]\w{0,80} pid=\d+(?:, ip=[^\s)]{1,80})?)\) ")
_IN_BRACKETS = re.compile(
    rf"""
      \[(\d{{1,6}}(?:,\d{{1,6}})?|(?:default|[Rr]ank)\d{{1,6}})\]     # mpirun: [0], [1,0]<stdout>:
      (?:<std(?:out|err)>:?\ ?|:\ ?|\ )                           # torchrun: [default0]:, [rank4]:
    | \[gpu_id=\d+\]\                                            # SGLang up to 0.2.0
    | \[{_LEVEL}\]\ +
    | \[[A-Z]\d{{3,4}}\ {_CLOCK}\ [^\]]{{0,120}}\]\             # PyTorch: [E304 12:54:52.12 file.cpp:6]
    | \[\d{{1,3}}(?:;\d{{1,3}}){{0,5}}m\ ?                        # a colour whose escape was lost
    """,
    re.VERBOSE,
)
_COMPOSE = re.compile(r"([A-Za-z0-9][\w.@-]{0,100}) +\|(?: |$)")
_PYTHON = re.compile(rf"{_LEVEL}:[A-Za-z_][\w.]{{0,80}}:")
_HYDRA = re.compile(rf"\[({_DATE}) ({_CLOCK})\]()\[[\w.]{{1,80}}\]\[{_LEVEL}\] - ")
# TensorRT-LLM: [02/11/2026-08:15:01] [TRT-LLM] [I] [_torch][RANK 0]
_TENSORRT_LLM = re.compile(
    rf"\[(\d\d)/(\d\d)/(\d{{4}})-({_CLOCK})\] (?:\[TRT-LLM\] \[[A-Z]\] )?(?:(?:\[_torch\])?\[RANK (\d{{1,6}})\] )?"
)
_LOKI = re.compile(r'\{([A-Za-z_]\w{0,60}="[^"]{0,200}"(?:, ?[A-Za-z_]\w{0,60}="[^"]{0,200}"){0,40})\} +')
# llama.cpp: minutes, seconds, milliseconds and microseconds since its start, level
_LLAMA_CPP = re.compile(r"\d{1,6}\.\d\d\.\d{3}\.\d{3} [A-Z] ")
_GLOG = re.compile(rf"[IWEF]\d{{4}} {_CLOCK} [^\]]{{0,200}}\](?: |$)")
_VLLM = re.compile(rf"{_LEVEL} \d\d-\d\d {_CLOCK} (?:\[[^\]]{{1,120}}\]|[\w./-]{{1,120}}:\d+\]) ")
_SEVERITY = re.compile(rf"(?:DEFAULT|{_LEVEL}) +(?={_DATE}T)")
# Behind a time without host and program, as `ts` writes it, stands the message: `Target verify: 19.14 ms/cyc`.
_SYSLOG = re.compile(rf"[A-Z][a-z]{{2}} [ \d]?\d {_CLOCK} (?:({_PROGRAM}(?:\[\d+\]|(?=: (?! *\d)))): )?")
_SYSLOG_FULL = re.compile(rf"[A-Z][a-z]{{2}} ({_DATE}) ({_CLOCK})(?: [A-Z]{{1,5}})? {_PROGRAM}(?:\[\d+\])?: ")
_SYSLOG_5424 = re.compile(
    rf"<\d{{1,3}}>1 ({_DATE})T({_CLOCK})({_ZONE})? [\w.-]{{1,80}} \S{{1,80}} \S{{1,80}} \S{{1,80}} "
    r"(?:-|\[[^\]]{0,200}\]) "
)
_PRIORITY = re.compile(r"<\d{1,3}>")
# grep -H and -n, also with context (`-`): server.log:12: , /var/log/a.log- , 12:
_GREP_FILE = re.compile(
    r"([^\s:\"'(\[{]{1,300}\.(?:log|txt|out|err)(?:\.\d{1,4}|-\d{6,8})?)[:-](?:\d{1,9}[:-])?"
)
_GREP_LINE = re.compile(r"\d{1,9}[:-] ?(?=[\[ ({A-Za-z])")
_ENCLOSED = {"(": _RAY, "{": _LOKI}
_BEGINNING_WITH_A_LETTER = (
    _VLLM,
    _GLOG,
    _SEVERITY,
    _SYSLOG,
    _COMPOSE,
    _PYTHON,
    _GREP_FILE,
    _RAY_WITHOUT_PARENTHESIS,
)

# The end of a progress bar: `37%|███`, `98%|###  | 3/8 [00:05<00:00, 1.59it/s]`, `12it [00:01, 3.7it/s]`
_BAR = re.compile(
    r"\d{1,3}%\|[ #\u2580-\u259f]{0,400}(?:\d? {0,400}\| {0,8}[^\s|]{1,24} \[[^\]]{0,120}\])?"
    r"|\[\d[\d:]{1,10}(?:<[^\],]{1,20})?, {0,8}[^\]]{0,20}(?:it/s|s/it)[^\]]{0,80}\]"
)
_BLANKS = re.compile(r"[ \t]{1,200}(?=[\[(\d])")
_AFTER_BAR = re.compile(r"[ |]*")
_ACCESS = re.compile(r'- "[A-Z]+ \S*(?: HTTP/[\d.]*"?)?|- "[A-Z]*$')
_TAG = re.compile(r"([A-Z][A-Z_]*?)(\d+)")


class Peeled(NamedTuple):
    """What a wrapping told.

    Attributes:
        end: Where in the text it ends.
        time: ISO 8601, or None.
        rank: Rank tags in the contract's order, or None.
        writer: The process that wrote, or None.
    """

    end: int
    time: str | None = None
    rank: str | None = None
    writer: str | None = None


@lru_cache(maxsize=1024)
def rank_of(tags: str) -> str | None:
    """Rank tags (`" TP0 DP1"`) in the contract's order (`"DP1 TP0"`); other words are passed over.

    Tags that the contract does not know follow in alphabetical order: they tell ranks apart all the same.
    """
    found = {match[1]: match[2] for word in tags.split() if (match := _TAG.fullmatch(word))}
    known = [tag for tag in RANK_TAGS if tag in found]
    unknown = sorted(found.keys() - set(RANK_TAGS))
    return " ".join(f"{tag}{found[tag]}" for tag in known + unknown) or None


def iso(date: str | None, clock: str, zone: str | None = None) -> str:
    """ISO 8601 of what the log wrote; a clock without a date stays one."""
    clock = clock.replace(",", ".")
    return f"{date}T{clock}{zone or ''}" if date else clock


def peel(text: str, position: int) -> Peeled | None:
    """Take off the wrapping that begins at `position`, or None if none does."""
    first = text[position : position + 1]
    if first == "[":
        return (
            sglang_prefix(text, position)
            or _first(text, position, _IN_BRACKETS)
            or _stamped(text, position, _HYDRA)
            or _tensorrt_llm(text, position)
        )
    if first in _ENCLOSED:
        return _first(text, position, _ENCLOSED[first])
    if first == "<":
        return _stamped(text, position, _SYSLOG_5424) or _first(text, position, _PRIORITY)
    if first.isdigit():
        return _stamp(text, position) or _first(text, position, _LLAMA_CPP, _GREP_LINE, _GREP_FILE, _COMPOSE)
    if first.isalpha() or first in "/._":
        return (
            _rank_alone(text, position)
            or _stamped(text, position, _SYSLOG_FULL)
            or _first(text, position, *_BEGINNING_WITH_A_LETTER)
        )
    return None


def peel_indented(text: str, position: int) -> Peeled | None:
    """Take off a wrapping behind blanks or a TAB, as Ray and pasted text have them."""
    if text[position : position + 1] not in {" ", "\t"}:
        return None
    blanks = _BLANKS.match(text, position)
    return peel(text, blanks.end()) if blanks else None


def sglang_prefix(text: str, position: int) -> Peeled | None:
    """Take off SGLang's `[time ranks] ` at `position`."""
    match = _SGLANG.match(text, position)
    if not match:
        return None
    date, clock, zone, tags = match.groups()
    end = match.end()
    if text.startswith(TRACEBACK, end):
        end -= 2  # its `] ` stays
    return Peeled(end, iso(date, clock, zone), rank_of(tags) if tags else None)


def find_prefix(text: str, position: int) -> int:
    """Where SGLang's prefix next begins from `position` on, its `[` lost or not; -1 if nowhere."""
    if text.find("] ", position) < 0:
        return -1
    match = _ANY_PREFIX.search(text, position)
    return match.start() if match else -1


def find_whole_prefix(text: str, position: int) -> int:
    """As `find_prefix`, for a prefix with date and bracket; much faster."""
    while (position := text.find("[20", position)) >= 0:
        if _SGLANG.match(text, position):
            return position
        position += 1
    return -1


def progress_bars(text: str, position: int) -> tuple[int, int] | None:
    """Where the progress bars from `position` on begin, and where they end; None if nothing follows."""
    if "%|" not in text and "it/s" not in text and "s/it" not in text:
        return None
    start = end = -1
    for match in _BAR.finditer(text, position):
        start = start if start >= 0 else match.start()
        end = match.end()
    if start < 0 or may_hold_user_text(text[position:start]):
        return None
    blanks = _AFTER_BAR.match(text, end)
    end = blanks.end() if blanks else end
    return (start, end) if end < len(text) else None


def may_hold_user_text(text: str) -> bool:
    """Whether a message may quote what users sent, which may look like anything, also like a log line."""
    if "obj=" in text:
        return True
    if '"' not in text and "'" not in text:
        return False
    text = _ACCESS.sub("", text)
    return '"' in text or "'" in text


def _first(text: str, position: int, *expressions: re.Pattern[str]) -> Peeled | None:
    for expression in expressions:
        if match := expression.match(text, position):
            return Peeled(match.end(), writer=match[1] if expression.groups else None)
    return None


def _rank_alone(text: str, position: int) -> Peeled | None:
    match = _RANK_ALONE.match(text, position)
    return Peeled(match.end(), None, rank_of(match[1])) if match else None


def _stamped(text: str, position: int, expression: re.Pattern[str]) -> Peeled | None:
    match = expression.match(text, position)
    return Peeled(match.end(), iso(*match.groups())) if match else None


def _tensorrt_llm(text: str, position: int) -> Peeled | None:
    match = _TENSORRT_LLM.match(text, position)
    if not match:
        return None
    month, day, year, clock, rank = match.groups()
    return Peeled(match.end(), iso(f"{year}-{month}-{day}", clock), f"RANK{rank}" if rank else None)


def _stamp(text: str, position: int) -> Peeled | None:
    """A time without brackets, and what logging formats put behind it."""
    if match := _SGLANG_WITHOUT_BRACKET.match(text, position):
        date, clock, _, tags = match.groups()
        return Peeled(match.end(), iso(date, clock), rank_of(tags))
    stamp = _STAMP.match(text, position)
    if not stamp:
        return None
    after = _AFTER_STAMP.match(text, stamp.end())
    if not after:
        return None
    brackets = after["brackets"]
    rank = rank_of(brackets) if brackets else None
    writer = after["worker"] or after["program"] or after["task"]
    return Peeled(after.end(), iso(*stamp.groups()), rank, writer)
