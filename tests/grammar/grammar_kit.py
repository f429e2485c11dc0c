"""Random grammars, and lines that fit them, nearly fit them, or do not."""

from __future__ import annotations

from hypothesis import strategies as st

from logwatch.errors import GrammarError
from logwatch.grammar.ast import Blank, Choice, Field, Gap, Grammar, Literal, Option, Pairs, Pattern
from logwatch.grammar.load import parse_grammar
from logwatch.grammar.vocabulary import NEEDED

FIELDS = {
    "iteration": ["int"],
    "running_requests": ["int"],
    "tokens": ["int"],
    "token_usage": ["real"],
    "tokens_per_cycle": ["real"],
    "accept_rate": ["percent", "real"],
    "graph": ["bool"],
    "generation_tokens_per_second": ["real"],
}
SPREAD = {
    "min_seconds": ["ms", "duration"],
    "p99_seconds": ["duration", "us"],
    "phase": ["label", "word", "text"],
}
TEXTS = {"variable": ["name", "word"], "value": ["text", "sentence", "word", "timestamp"], "pid": ["int"]}
KINDS = {"decode": FIELDS, "spread": SPREAD, "nccl_setting": TEXTS}

WORDS = [
    "a",
    "abc",
    ":",
    "=",
    ", ",
    " ",
    "é",
    "x y",
    "(",
    ")",
    "[",
    "]",
    "-",
    " -> ",
    "/",
    "|",
    "#k",
    "µ",
    ".",
    "; ",
]
words = st.sampled_from(WORDS).map(lambda word: word if word != "|" else "{'|'}")


@st.composite
def pattern_texts(draw, slots, anchor="ANCHOR"):
    """The text of a pattern with the anchor in it; the checker may still refuse it."""
    names = draw(st.lists(st.sampled_from(sorted(slots)), min_size=1, max_size=4, unique=True))
    parts = []
    for name in names:
        field = f"{{{name}:{draw(st.sampled_from(slots[name]))}}}"
        before, behind = draw(words), draw(st.sampled_from(["", *WORDS[:8]]))
        form = draw(st.sampled_from(["plain", "plain", "option", "choice", "anonymous"]))
        if form == "plain":
            parts.append(before + field + behind)
        elif form == "option":
            parts.append(f"{{?{before}{field}{behind}?}}")
        elif form == "choice":
            parts.append(f"{{|{before.replace('|', '')}{field}|none|}}")
        else:
            parts.append(
                before + field + " {:" + draw(st.sampled_from(["int", "word", "real", "duration"])) + "}"
            )
    parts.insert(
        draw(st.integers(0, len(parts))), draw(st.sampled_from([anchor, f"{anchor}:", f"{anchor} "]))
    )
    return "".join(parts).strip()


@st.composite
def grammars(draw):
    """A grammar of one rule that the checker accepts, or None."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    pattern = draw(pattern_texts(KINDS[kind]))
    claim = draw(st.sampled_from(["", "claim = 'ANCHOR'\n"]))
    needed = {name: "said" for name in NEEDED.get(kind, ()) if f"{{{name}:" not in pattern}
    said = "".join(f"set.{name} = '{value}'\n" for name, value in needed.items())
    text = f"[record.r]\nkind = '{kind}'\nanchor = 'ANCHOR'\n{claim}{said}pattern = \"{pattern}\"\n"
    try:
        return parse_grammar(text, "random.toml")
    except GrammarError:
        return None


KEYS = ["#a", "b c", "gen (x/s)", "d", "e: not", "#running"]


@st.composite
def list_grammars(draw):
    """A grammar of one rule with a list of pairs."""
    names = draw(st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=5, unique=True))
    keys = draw(st.permutations(["#a", "b c", "gen (x/s)", "d", "usage"]))
    lines = ["[record.r]", "kind = 'decode'", "anchor = 'ANCHOR'"]
    lines.append("pattern = 'ANCHOR{?.?}{? [{:int}]?}{?,?} {pairs}'")
    lines.append("[record.r.pairs]")
    for name, key in zip(names, keys, strict=False):
        kind = draw(st.sampled_from(FIELDS[name]))
        suffix = draw(st.sampled_from(["", " x", "%"]))
        alias = f" | full {key}" if draw(st.booleans()) else ""
        lines.append(f"'{key}{alias}' = '{{{name}:{kind}}}{suffix}'")
    return parse_grammar("\n".join(lines), "random.toml")


numbers = st.one_of(
    st.integers(0, 10**6).map(str),
    st.decimals(0, 1000, places=2).map(str),
    st.sampled_from(
        [
            "0",
            "007",
            "1e3",
            "1E-2",
            "nan",
            "inf",
            "-1",
            "19,14",
            "١٩",
            "9" * 16,
            "9" * 40,
            "1.",
            ".5",
            "1e999",
        ]
    ),
)
VALUES = {
    "bool": st.sampled_from(["True", "False", "true", "TRUE"]),
    "label": st.sampled_from(
        ["Target verify", "x", "Ünïcode phase", "İ", "a" * 70, "draft-extend (2)", "bad\ufffd"]
    ),
    "name": st.sampled_from(["NCCL_X", "a1", "_", "9x"]),
    "timestamp": st.sampled_from(["2026-02-11T08:15:02", "2026-02-11 08:15:02,123Z", "2026-02-11"]),
    "duration": st.tuples(
        numbers, st.sampled_from(["", " ", "\t"]), st.sampled_from(["ms", "s", "us", "µs", "μs", "ns", "h"])
    ).map("".join),
}
anything = st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), max_size=8) | st.sampled_from(
    ["", "a.", "x y", "[1, 2]", "\t"]
)


@st.composite
def fitting(draw, pattern: Pattern):
    """A text that the pattern may well match."""
    parts = []
    for node in pattern:
        match node:
            case Literal(text=text):
                parts.append(text)
            case Blank():
                parts.append(draw(st.sampled_from([" ", "  ", "\t", " \t "])))
            case Field(kind=kind):
                padding = draw(st.sampled_from(["", "", " "]))
                parts.append(
                    padding
                    + draw(VALUES.get(kind, anything if kind in {"text", "word", "sentence"} else numbers))
                )
            case Option(body=body):
                parts.append(draw(fitting(body)) if draw(st.booleans()) else "")
            case Choice(branches=branches):
                parts.append(draw(fitting(draw(st.sampled_from(branches)))))
            case Gap():
                parts.append(draw(anything))
            case Pairs():
                parts.append(draw(lists(node)))
    return "".join(parts)


@st.composite
def lists(draw, node: Pairs):
    """A list of pairs, in any order, with unknown keys and blemishes."""
    items = []
    for _ in range(draw(st.integers(0, 6))):
        pair = draw(st.sampled_from(node.pairs))
        form = draw(st.integers(0, 9))
        if form < 6:
            items.append(f"{draw(st.sampled_from(pair.keys))}: {draw(fitting(pair.value))}")
        elif form == 6:
            items.append(
                draw(
                    st.sampled_from(
                        ["new key: 5", "swa=7", "lo: 1 [2, 3]", "list: 0.1, 0.2, 0.3", "", "fwd: nan%"]
                    )
                )
            )
        elif form == 7:
            items.append(draw(st.sampled_from(["torn", "tor" + pair.keys[0] + ": 1", "open: [1", "]", "12"])))
        else:
            items.append(f"{draw(anything)}: {draw(anything)}")
    return draw(st.sampled_from([", ", ", ", ",", " ,  "])).join(items) + draw(
        st.sampled_from(["", ", ", ","])
    )


@st.composite
def lines_for(draw, grammar: Grammar):
    """Lines that fit, lines with one blemish, and lines of noise, most with the anchor in them."""
    texts = []
    for _ in range(draw(st.integers(1, 5))):
        text = draw(fitting(draw(st.sampled_from(grammar.rules)).pattern))
        form = draw(st.integers(0, 7))
        if form == 0 and text:
            at = draw(st.integers(0, len(text) - 1))
            text = text[:at] + draw(anything) + text[at + draw(st.integers(0, 2)) :]
        elif form == 1:
            text = draw(anything) + "ANCHOR" + draw(anything)
        elif form == 2:
            text = (
                draw(
                    st.sampled_from(
                        ["  ", "server.log:12:", "12-", "100%|█| [00:01<00:02, 3it/s]", 'say "x"] ']
                    )
                )
                + text
            )
        elif form == 3:
            text += draw(st.sampled_from([" ", "\t", " trailing", ","]))
        texts.append(text)
    return texts
