"""A log is written by prompts: nothing in it may act on a terminal, a browser, Prometheus or a person on call."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from spite import (
    BACKWARDS,
    COLOUR,
    ELEMENT,
    FILE_NAME,
    MARKDOWN,
    SECRET,
    bad,
    everything,
    good,
    on_a_terminal,
    steering,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three hostile logs, one of them with a hostile name."""
    folder = tmp_path_factory.mktemp("spite")
    (folder / "good.log").write_text(good(), encoding="utf-8")
    (folder / "bad.log").write_text(bad(), encoding="utf-8")
    (folder / FILE_NAME).write_text(everything(), encoding="utf-8")
    return folder


COMMANDS = [
    pytest.param(["replay", FILE_NAME], id="replay"),
    pytest.param(["replay", "--format", "json", FILE_NAME], id="replay as JSON"),
    pytest.param(["replay", "--format", "markdown", FILE_NAME], id="replay as Markdown"),
    pytest.param(["compare", "good.log", "bad.log"], id="compare"),
    pytest.param(["compare", "--format", "json", "good.log", "bad.log"], id="compare as JSON"),
    pytest.param(["compare", "--format", "markdown", "good.log", "bad.log"], id="compare as Markdown"),
    pytest.param(["tune", "good.log"], id="tune"),
    pytest.param(["grammar", "test", FILE_NAME], id="grammar test"),
    pytest.param(["grammar", "test", "--format", "jsonl", FILE_NAME], id="grammar test as JSON lines"),
    pytest.param(
        ["grammar", "explain", f"Decode batch, #running-req: {COLOUR}\x9b1m{BACKWARDS}"], id="explain"
    ),
    pytest.param(
        ["grammar", "explain", f"server_args=A(a='{COLOUR}\x9b1m{BACKWARDS}')"], id="explain a record"
    ),
    pytest.param(["replay", f"no{COLOUR}.log"], id="an error with a file's name"),
]


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_terminal_shows_and_does_not_obey(folder, arguments):
    """No escape sequence, control or direction character of a log reaches the terminal; no secret either."""
    shown = on_a_terminal(*arguments, cwd=folder)
    assert len(shown) > 20
    assert steering(shown) == []
    assert SECRET not in shown
    assert "internal error" not in shown


class Tags(HTMLParser):
    """Elements and attributes that a browser would see."""

    def __init__(self, document):
        super().__init__()
        self.tags, self.attributes = set(), set()
        self.feed(document)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_a_report_is_a_document_and_no_program(folder):
    """The picture report holds no element, attribute, script or secret of the log's."""
    on_a_terminal("replay", "--html", "report.html", FILE_NAME, cwd=folder)
    document = (folder / "report.html").read_text(encoding="utf-8")
    seen = Tags(document)
    assert "table" in seen.tags
    assert not seen.tags & {"lw-evil", "script", "iframe", "img", "object", "form"}
    assert not [name for name in seen.attributes if name.startswith("on")]
    assert SECRET not in document
    assert steering(document) == []


def test_markdown_stays_in_its_cells(folder):
    """A table's rows have as many cells as its head, and no link or element is the log's."""
    shown = on_a_terminal("compare", "--format", "markdown", "good.log", "bad.log", cwd=folder)
    rows = [line for line in shown.replace("\r", "").split("\n") if line.startswith("|")]
    bars = [row.replace("\\|", "").count("|") for row in rows]
    assert sorted(set(bars)) == [4, 8]
    assert ELEMENT not in shown
    assert MARKDOWN not in shown


def test_openmetrics_of_a_replay_parses(folder):
    """Label values cannot end a label, a line or the document; families are ours alone."""
    on_a_terminal("replay", "--openmetrics", "out.om", FILE_NAME, cwd=folder)
    text = (folder / "out.om").read_text(encoding="utf-8")
    families = list(parse_openmetrics(text))
    assert families
    assert all(family.name.startswith("logwatch_") for family in families)
    assert steering(text) == []
    assert SECRET not in text


def test_nothing_is_written_elsewhere(folder, tmp_path):
    """Names of files and streams never decide where something is written."""
    for name in ("..log", "-rf.log", "--config=x.log", "a.log.1"):
        (tmp_path / name).write_text(good(), encoding="utf-8")
    before = {path.name for path in tmp_path.iterdir()}
    outside = {path.name for path in tmp_path.parent.iterdir()}
    on_a_terminal(
        "replay", "--openmetrics", "o.om", "--parquet", "o.parquet", "--html", "o.html", "--",
        *sorted(before), cwd=tmp_path,
    )  # fmt: skip
    assert {path.name for path in tmp_path.iterdir()} - before == {"o.om", "o.parquet", "o.html"}
    assert {path.name for path in tmp_path.parent.iterdir()} == outside
