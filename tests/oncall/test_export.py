"""`logwatch export`: what is written, and that each form is one that its reader takes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from logwatch.cli import COMMANDS, cli
from logwatch.commands.export import command
from logwatch.errors import LogwatchError
from logwatch.model import Cycle, Place
from logwatch.outlets.state import State


def export(*arguments):
    result = CliRunner().invoke(cli, ["export", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def test_unit_names_the_program_and_the_configuration(tmp_path):
    """The exported unit starts this logwatch with this configuration, and follows what it says."""
    config = tmp_path / "logwatch.toml"
    config.write_text(
        '[[source]]\npath = "/home/me/server.log"\n[[alert]]\nwebhook_file = "/run/credentials/logwatch.service/slack"\n'
    )
    text = export("unit", "--config", config)
    assert f" watch --config {config}\n" in text
    assert "ProtectHome=read-only" in text
    assert "LoadCredential=slack:/etc/logwatch/slack" in text
    assert "SupplementaryGroups=adm\n" in text
    assert "Type=notify\n" in export("unit", "--config", config, "--systemd", 252)


def test_runbooks_are_listed_shown_and_copied(tmp_path):
    """Without an argument a list, with one the text, with a folder all of them."""
    names = export("runbooks").split()
    assert "SpecVerifyOutOfBand" in names
    text = export("runbooks", "SpecVerifyOutOfBand")
    for heading in ("# SpecVerifyOutOfBand", "## Meaning", "## Impact", "## Diagnosis", "## Mitigation"):
        assert heading in text
    export("runbooks", "-o", tmp_path / "out")
    assert sorted(path.stem for path in (tmp_path / "out").iterdir()) == sorted(names)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ["runbooks", "Nonsense"], "Nonsense: no such runbook; there are: Logwatch", id="runbook"
        ),
        pytest.param(
            ["dashboard", "nonsense"],
            "nonsense: no such dashboard; there are: logwatch-server",
            id="dashboard",
        ),
        pytest.param(["dashboard", "--all"], "--all: needs a folder to write to", id="no folder"),
        pytest.param(
            ["rules", "-o", "/no/such/folder/x"], "/no/such/folder/x: cannot be written", id="unwritable"
        ),
        pytest.param(
            ["history", "--parquet", "x", "--since", "soon"], "--since: 'soon' is not a time", id="time"
        ),
        pytest.param(
            ["history", "--parquet", "x", "--state", "/no/state"], "no history here", id="no history"
        ),
    ],
)
def test_errors_say_what_to_do(arguments, message):
    """Each is one sentence that names the thing and the way out."""
    result = CliRunner().invoke(command, arguments)
    assert isinstance(result.exception, LogwatchError)
    assert message in str(result.exception)


def test_history_as_parquet(tmp_path):
    """Samples that the daemon kept come out as Parquet, the window respected."""
    state = State(tmp_path / "state", lambda _: None)
    for number, time in enumerate(("2026-02-11T08:15:02", "2026-02-12T08:15:02")):
        place = Place("server.log", 0, number + 1)
        state.take(Cycle(place, "server.log", "TP0", 0, time, 100, 1.92, {"target_verify": 0.01914}))
    assert state.commit()
    state.close()
    out = tmp_path / "out"
    written = export("history", "--parquet", out, "--state", tmp_path / "state").split()
    assert [Path(path).parts[-3] for path in written] == ["day=2026-02-11", "day=2026-02-12"]
    frame = pl.read_parquet(written[0])
    assert frame["seconds"].to_list() == [0.01914]
    one = export("history", "--parquet", out, "--state", tmp_path / "state", "--since", "2026-02-12T00:00:00")
    assert len(one.split()) == 1


@pytest.mark.needs("groff")
def test_man_page_is_what_man_understands(tmp_path):
    """Every command is in it, and groff has nothing to complain about."""
    page = tmp_path / "logwatch.1"
    export("man", "-o", page)
    result = subprocess.run(
        [shutil.which("groff"), "-man", "-Tutf8", "-ww", page], capture_output=True, text=True, check=False
    )
    assert result.stderr == ""
    text = page.read_text()
    for name in COMMANDS:
        assert f".SS logwatch {name} " in text
    assert ".SS logwatch export rules " in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_for_this_program(shell):
    """Each shell's script asks the program itself."""
    assert "_LOGWATCH_COMPLETE" in export("completion", shell)


@pytest.mark.parametrize(
    ("words", "position", "expected"),
    [
        pytest.param("logwatch ex", 1, "export", id="commands"),
        pytest.param("logwatch export run", 2, "runbooks", id="commands of a group"),
        pytest.param("logwatch replay --form", 2, "--format", id="options"),
    ],
)
def test_completion_completes(words, position, expected):
    """What the shell's script asks for is answered by the real program."""
    result = subprocess.run(
        [sys.executable, "-m", "logwatch"],
        env={
            **os.environ,
            "COMP_WORDS": words,
            "COMP_CWORD": str(position),
            "_LOGWATCH_COMPLETE": "bash_complete",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"plain,{expected}" in result.stdout


def test_help_of_every_export_has_an_example():
    """Each subcommand's help shows how it is called."""
    context = command.make_context(
        "export", [], parent=cli.make_context("logwatch", ["export"]), resilient_parsing=True
    )
    for name in command.list_commands(context):
        assert "Example:" in (command.get_command(context, name).help or "")
