"""The front door: help that fits, one line an error, and the contract's exit statuses."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from logwatch.cli import COMMANDS


def _logwatch(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "logwatch", *arguments], capture_output=True, text=True, timeout=60, **options
    )


def test_help_fits_one_screen():
    """24 lines of 80 columns, every command with one whole line."""
    shown = _logwatch("--help").stdout.splitlines()
    assert len(shown) <= 24
    assert max(map(len, shown)) <= 80
    assert [name for name in COMMANDS if not any(line.split()[:1] == [name] for line in shown)] == []
    assert not any(line.endswith("...") for line in shown[1:])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name):
    """An example says more than a list of options."""
    shown = _logwatch(name, "--help").stdout
    assert f"logwatch {name}" in shown.partition("Usage:")[2].partition("\n")[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["replay", "/absent.log"], "/absent.log: ", id="no such file"),
        pytest.param(
            ["replay", "--config", "/absent.toml", "x"],
            "/absent.toml: no such configuration file",
            id="no such configuration",
        ),
        pytest.param(["no-such-command"], "No such command 'no-such-command'; see", id="no such command"),
        pytest.param(["replay", "--no-such-option"], "No such option", id="no such option"),
        pytest.param(
            ["compare", "a.log"],
            "logwatch: compare: Missing argument 'BAD'; see `logwatch compare --help`",
            id="an argument is missing",
        ),
        pytest.param(["demo", "a\x1b[2Jb"], "(a\\x1b[2Jb)", id="an argument that steers the terminal"),
        pytest.param(
            ["breakeven", "--cycle-ms", "nan"], "'--cycle-ms': nan is not a finite number", id="not a number"
        ),
        pytest.param(
            ["replay", "--baseline", "1e400", "x"],
            "'--baseline': 1e400 is not a finite number",
            id="infinite",
        ),
        pytest.param(["watch", ""], "SOURCE: an empty name is no file", id="a variable that was empty"),
        pytest.param(["demo", "--seconds", "inf"], "'--seconds'", id="a tour without end"),
        pytest.param(
            ["export", "runbooks", "--output", "/proc/absent"],
            "/proc/absent: No such file or directory; check path",
            id="nowhere to write to",
        ),
        pytest.param(
            ["replay", "--band", "target_verify=21ms..17ms", "fixtures/logs/field_verify_19ms.log"],
            "above",
            id="a band upside down",
        ),
    ],
)
def test_trouble_is_one_clear_line_and_status_2(arguments, said):
    """What, where, what to do; no traceback."""
    done = _logwatch(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert [line.startswith("logwatch: ") for line in done.stderr.splitlines()] == [True]
    assert done.stdout == ""


def test_debug_shows_the_traceback():
    """For the report of a bug."""
    done = _logwatch("--debug", "replay", "/absent.log")
    assert done.returncode == 2
    assert "Traceback" in done.stderr


GOOD, BAD = "fixtures/logs/field_verify_19ms.log", "fixtures/logs/field_verify_29ms.log"


@pytest.mark.parametrize(
    ("redirection", "status"),
    [
        pytest.param(f"replay {BAD} >&-", 1, id="no standard output"),
        pytest.param(f"compare {GOOD} {BAD} >&- 2>&-", 1, id="nor standard error"),
        pytest.param(f"replay {GOOD} >&-", 0, id="and nothing to tell"),
        pytest.param("replay absent.log 2>&-", 2, id="trouble without standard error"),
        pytest.param("replay - <&-", 2, id="nothing to read from"),
    ],
)
def test_closed_streams_leave_the_exit_status(redirection, status):
    """A job that looks at nothing else gets what it asks for."""
    command = f"{sys.executable} -m logwatch {redirection}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, "rror" in done.stderr) == (status, False)


def test_a_full_disk_is_said_to_be_full():
    """It is no bug to be reported."""
    command = f"{sys.executable} -m logwatch replay {GOOD} > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == (
        "logwatch: standard output: No space left on device; check path, permissions and disk\n"
    )


@pytest.mark.parametrize(
    ("encoding", "signs"),
    [("utf-8:strict", "\ufffd"), ("latin-1:strict", "?"), ("ascii:surrogateescape", "?\ufffd")],
)
def test_every_encoding_can_be_written_to(encoding, signs, tmp_path):
    """A name that is no UTF-8, and a diagram, in a terminal that has no signs for them."""
    path = tmp_path / os.fsdecode(b"b\xffd.log")
    path.write_bytes(Path(BAD).read_bytes())
    for arguments in (["replay", path], ["grammar", "test", path, "--format", "jsonl"]):
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        done = subprocess.run(
            [sys.executable, "-m", "logwatch", *arguments], capture_output=True, env=environment, timeout=60
        )
        assert done.stderr == b""
        assert any(f"b{sign}d.log".encode() in done.stdout for sign in signs)


def test_a_reader_that_leaves_is_no_error():
    """`logwatch ... | head -1` says nothing on standard error."""
    command = (
        f"{sys.executable} -m logwatch grammar test fixtures/logs/sglang_h200/*.log --format jsonl | head -1"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith('{"path"')
    assert done.stderr == ""


@pytest.mark.parametrize("arguments", [["replay", BAD], ["compare", GOOD, BAD], ["grammar", "test", BAD]])
def test_a_reader_that_left_is_no_incident(arguments):
    """Whoever asks for the exit status in a pipeline is not told 1 because `head` had enough."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "logwatch", *arguments], stdout=writer, stderr=subprocess.PIPE, timeout=60
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("no_color", "coloured"),
    [pytest.param("", True, id="empty is unset"), pytest.param("1", False, id="set")],
)
def test_no_color_is_honoured_on_a_terminal(no_color, coloured):
    """By the commands that colour words themselves, as by those that draw tables."""
    terminal, inner = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "logwatch", "grammar", "show", "vllm"],
        env={**os.environ, "NO_COLOR": no_color, "TERM": "xterm"},
        stdout=inner,
        timeout=60,
    )
    os.close(inner)
    shown = os.read(terminal, 4096)
    os.close(terminal)
    assert done.returncode == 0
    assert (b"\x1b[" in shown) == coloured
