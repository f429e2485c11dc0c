"""What is wrong with a grammar is said with file, line, column, a caret and what to try: all of it at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from logwatch.commands.grammar import command
from logwatch.errors import GrammarError
from logwatch.grammar.load import load_grammars, parse_grammar, read_grammar

ROOT = Path(__file__).parents[2]
BAD = sorted((ROOT / "fixtures/grammars").glob("bad-*.toml"))


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_message(path, golden):
    """A bad grammar's message is exactly that of its golden file."""
    with pytest.raises(GrammarError) as raised:
        parse_grammar(path.read_text(encoding="utf-8"), path.name)
    golden(ROOT / "fixtures/golden/grammars" / f"{path.stem}.txt", f"{raised.value}\n")


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_every_problem_has_a_place(path):
    """Each problem names the file, and where it can the line and column."""
    with pytest.raises(GrammarError) as raised:
        read_grammar(path)
    assert raised.value.problems
    assert all(problem.where.startswith(str(path)) for problem in raised.value.problems)


def test_the_caret_stands_under_the_place():
    """The example of the house rules: the caret points at the character that would be swallowed."""
    text = '[record.spread]\nanchor = "draft="\npattern = "draft={min_seconds:ms} verify={max_seconds:ms}."\n'
    with pytest.raises(GrammarError) as raised:
        parse_grammar(text, "mine.toml")
    first, pattern, caret = str(raised.value).splitlines()
    assert first == "mine.toml:3:58: Field `max_seconds` (ms) could swallow the `.` after it."
    assert pattern[caret.index("^")] == "."
    assert text.splitlines()[2][58 - 1] == "."


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda folder: None, "No such directory", id="no directory"),
        pytest.param(
            lambda folder: (folder.mkdir(), (folder / "x.toml").write_bytes(b"\xff")), "UTF-8", id="no text"
        ),
        pytest.param(
            lambda folder: (folder.mkdir(), (folder / "x.toml").mkdir()), "Cannot be read", id="a directory"
        ),
    ],
)
def test_directories_that_cannot_be_read(tmp_path, make, message):
    """Trouble with the files themselves is a problem like the others."""
    make(tmp_path / "grammars")
    with pytest.raises(GrammarError, match=message):
        load_grammars([tmp_path / "grammars"])


def test_a_grammar_of_the_same_name_takes_the_place_of_the_packaged_one(tmp_path):
    """Configured directories come first, and win."""
    (tmp_path / "mine.toml").write_text(
        'name = "vllm"\n[record.accept]\nanchor = "acc="\npattern = "acc={accepted_drafts:real}"\n'
    )
    names = [(grammar.name, len(grammar.rules)) for grammar in load_grammars([tmp_path])]
    assert names[0] == ("vllm", 1)
    assert [name for name, _ in names].count("vllm") == 1


def test_two_grammars_of_one_name_in_a_directory(tmp_path):
    """One of two files with the same name would be passed over without a word: it is a mistake."""
    text = 'name = "mine"\n[record.accept]\nanchor = "acc="\npattern = "acc={accepted_drafts:real}"\n'
    (tmp_path / "a.toml").write_text(text)
    (tmp_path / "b.toml").write_text(text)
    with pytest.raises(GrammarError, match=r"b\.toml: `a\.toml` beside it has the name `mine` too"):
        load_grammars([tmp_path])


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    """Editors write one in front of UTF-8 text."""
    path = tmp_path / "mine.toml"
    path.write_bytes(
        b'\xef\xbb\xbf[record.accept]\nanchor = "acc="\npattern = "acc={accepted_drafts:real}"\n'
    )
    assert read_grammar(path).name == "mine"


@pytest.mark.parametrize("key", ["pattern", "anchor", "claim"])
def test_a_listed_key_may_be_called_as_a_key_of_the_file(key):
    """What is wrong with a pair's value is said where the value stands."""
    text = f'[record.decode]\nanchor = "batch"\npattern = "batch {{pairs}}"\n[record.decode.pairs]\n"{key}" = "{{x:int}}"\n'
    with pytest.raises(GrammarError, match=r"mine\.toml:5:") as raised:
        parse_grammar(text, "mine.toml")
    assert "{x:int}" in str(raised.value)


def test_the_command_line_prints_all_problems(tmp_path):
    """A configured directory with a bad grammar stops `logwatch grammar list`."""
    (tmp_path / "bad.toml").write_text((ROOT / "fixtures/grammars/bad-unknown-kind.toml").read_text())
    result = CliRunner().invoke(command, ["list", "--directory", str(tmp_path)])
    assert isinstance(result.exception, GrammarError)
