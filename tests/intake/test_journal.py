"""The journal source: a child that is restarted, and a cursor that moves with what was read."""

from __future__ import annotations

import json
import os
import stat
import time

import pytest
from clock_kit import Clock

from logwatch.intake.tail import Source, Tail

FAKE = """#!{python}
import json, pathlib, sys, time
place = pathlib.Path({place!r})
with (place / "calls").open("a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
after = next((a.partition("=")[2] for a in sys.argv if a.startswith("--after-cursor=")), None)
begun = "--lines=0" not in sys.argv
number = 0 if begun else len((place / "entries").read_text().splitlines())
if after is not None:
    number = int(after[1:]) + 1
while True:
    entries = (place / "entries").read_text().splitlines()
    for text in entries[number:]:
        entry = json.dumps({{"__CURSOR": f"c{{number}}", "MESSAGE": text}})
        sys.stdout.write(entry + "\\n")
        sys.stdout.flush()
        number += 1
        if text == "die":
            sys.stdout.write('{{"__CURSOR": "half')
            sys.exit(3)
    time.sleep(0.005)
"""


@pytest.fixture
def journal(tmp_path, monkeypatch):
    """A fake `journalctl` on PATH, which follows lines of a file."""
    import sys

    tools = tmp_path / "bin"
    tools.mkdir()
    program = tools / "journalctl"
    program.write_text(FAKE.format(python=sys.executable, place=str(tmp_path)))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    (tmp_path / "entries").write_text("old\n")
    return tmp_path


class Reading:
    def __init__(self, start="beginning", saved=None):
        self.clock, self.notices, self.messages = Clock(0.0), [], []
        self.tail = Tail(
            [Source("sglang.service", None, start, journal=True)],
            saved or {},
            self.notices.append,
            clock=self.clock,
        )

    def until(self, count):
        deadline = time.monotonic() + 10
        while len(self.messages) < count:
            assert time.monotonic() < deadline, self.messages
            for chunk in self.tail.read():
                assert chunk.stream == "sglang.service"
                assert chunk.data.endswith(b"\n")
                self.messages += [json.loads(line)["MESSAGE"] for line in chunk.data.splitlines()]

    def positions(self):
        return {stream: text for stream, text in self.tail.positions(lambda _: 0).items() if text}


def write(place, *texts):
    with (place / "entries").open("a") as file:
        file.writelines(f"{text}\n" for text in texts)


def calls(place):
    return [json.loads(line) for line in (place / "calls").read_text().splitlines()]


def test_entries_are_followed_and_the_cursor_goes_on(journal):
    """A restart goes on after the cursor that was committed with what was read."""
    reading = Reading()
    reading.until(1)
    write(journal, "one", "two")
    reading.until(3)
    saved = reading.positions()
    write(journal, "three")
    reading.until(4)
    reading.tail.close()  # killed before the commit: `three` comes again
    again = Reading(saved=saved)
    again.until(1)
    assert again.messages == ["three"]
    again.tail.close()
    assert "--after-cursor=c2" in calls(journal)[-1]
    assert "--unit=sglang.service" in calls(journal)[0]


def test_start_at_the_end_passes_over_old_entries(journal):
    """With `start = "end"` and no cursor only new entries count."""
    reading = Reading("end")
    list(reading.tail.read())
    deadline = time.monotonic() + 10
    while not (journal / "calls").exists():
        assert time.monotonic() < deadline
    while "--lines=0" not in (journal / "calls").read_text():
        assert time.monotonic() < deadline
    # The fake counts what is there only after it wrote down its call: entries come until one is seen.
    while not reading.messages:
        write(journal, "new")
        for chunk in reading.tail.read():
            reading.messages += [json.loads(line)["MESSAGE"] for line in chunk.data.splitlines()]
        assert time.monotonic() < deadline
    assert set(reading.messages) == {"new"}
    reading.tail.close()


def test_child_that_dies_is_started_again(journal):
    """A dead child is said, and started again after a pause; a half-written entry is not given out."""
    reading = Reading()
    write(journal, "die", "after")
    reading.until(2)
    deadline = time.monotonic() + 10
    while not reading.notices:
        assert list(reading.tail.read()) == []
        assert time.monotonic() < deadline
    list(reading.tail.read())
    assert len(calls(journal)) == 1
    reading.clock.now += 1
    reading.until(3)
    assert reading.messages == ["old", "die", "after"]
    assert [notice.kind for notice in reading.notices] == ["journal_restarted"]
    reading.tail.close()


def test_no_journalctl_at_all(tmp_path, monkeypatch):
    """Where there is no `journalctl` it is said, and tried again ever more seldom."""
    monkeypatch.setenv("PATH", str(tmp_path))
    reading = Reading()
    for _ in range(100):
        list(reading.tail.read())
        reading.clock.now += 1
    assert 3 <= len(reading.notices) <= 8
    reading.tail.close()


@pytest.mark.needs("journalctl")
def test_real_journalctl_accepts_the_options(tmp_path):
    """The real program understands what it is asked, whatever its journal holds."""
    reading = Reading("end")
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        list(reading.tail.read())
    assert not [
        notice
        for notice in reading.notices
        if "status" in notice.message and "status 1" not in notice.message
    ]
    reading.tail.close()
