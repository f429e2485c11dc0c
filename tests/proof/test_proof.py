"""The proof itself: what it writes, when a part fails, hangs or is cut short."""

from __future__ import annotations

import sys

import proof
import proof_kit as kit
import pytest

MARKS = "# Measured\n<!-- proof-quick -->\nold\n<!-- end of proof-quick -->\nthe end\n"


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Programs in place of the parts: a folder `benchmarks` whose README has the markers."""
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "README.md").write_text(MARKS)
    (folder / "good.py").write_text("print('### Good\\n\\n| a |\\n|---|\\n| 1 |\\n')")
    (folder / "lost.py").write_text(
        "print('### Lost\\n\\n| b |\\n|---|\\n| 2 |\\nFAILED: 3 lines lost'); exit(1)"
    )
    (folder / "dies.py").write_text("print('### Dies', flush=True); raise SystemExit('no')")
    (folder / "hangs.py").write_text("import time; time.sleep(1000)")
    monkeypatch.setattr(proof, "ROOT", tmp_path)
    monkeypatch.setattr(proof, "README", folder / "README.md")
    return folder / "README.md"


def test_a_failure_is_told_and_the_rest_is_run(programs):
    """Every part's table stands under its command; what failed is named above and below; text around it stays."""
    parts = [
        proof.Part("lost", "lost.py", 60),
        proof.Part("dies", "dies.py", 60, alone=False),
        proof.Part("hangs", "hangs.py", 1, alone=False),
        proof.Part("good", "good.py", 60, alone=False),
    ]
    run = proof.Proof("quick", parts)
    run.run(write=True)
    assert sorted(run.wrong) == ["dies: exit status 1", "hangs: stopped after 1 s", "lost: 3 lines lost"]
    block = kit.block(programs, "proof-quick")
    assert "**Failed**: 3 goals" in block
    assert "**Not finished**" not in block
    assert "#### Lost\n\n`python benchmarks/lost.py`" in block
    assert "| 2 |\n\n- **FAILED**: 3 lines lost" in block
    assert "| 1 |" in block
    assert programs.read_text().startswith("# Measured\n<!-- proof-quick -->\n### `make proof-quick`")
    assert programs.read_text().endswith("<!-- end of proof-quick -->\nthe end\n")


def test_what_was_done_is_kept(programs):
    """A proof that is cut short has written the parts that were done, and says which are missing."""
    (programs.parent / "cut.py").write_text(
        f"import os, signal; os.kill({proof.os.getpid()}, signal.SIGINT); import time; time.sleep(1000)"
    )
    run = proof.Proof("quick", [proof.Part("good", "good.py", 60), proof.Part("cut", "cut.py", 60)])
    with pytest.raises(KeyboardInterrupt):
        run.run(write=True)
    block = kit.block(programs, "proof-quick")
    assert "| 1 |" in block
    assert "**Not finished**: cut." in block


def test_the_long_run_renews_the_peers_of_the_front_page(programs, tmp_path):
    """The table alone goes into README.md."""
    programs.write_text(MARKS.replace("proof-quick", "proof"))
    (tmp_path / "README.md").write_text("a\n<!-- peers -->\nold\n<!-- end of peers -->\nb\n")
    (programs.parent / "peers.py").write_text(
        "print('### Peers\\n\\n| s | t |\\n|---|---|\\n| x | 1 of 1 |\\n')"
    )
    proof.Proof("long", [proof.Part("peers", "peers.py", 60)]).run(write=True)
    assert kit.block(tmp_path / "README.md", "peers") == "\n| s | t |\n|---|---|\n| x | 1 of 1 |\n"


@pytest.mark.parametrize("size", sorted(proof.PARTS))
def test_every_part_is_a_program_that_knows_its_options(size):
    """No part of the hour fails at its end for a misspelt option."""
    import subprocess

    for part in proof.PARTS[size]:
        program, *options = part.command.split()
        done = subprocess.run(
            [sys.executable, str(proof.ROOT / "benchmarks" / program), *options, "--help"],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert all(option in done.stdout for option in options if option.startswith("--"))
