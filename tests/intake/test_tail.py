"""Sources that cannot be read twice, and what a tail tells about itself. Files: `tests/following`."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from logwatch.intake.header import last_header
from logwatch.intake.identity import HEAD_BYTES, WINDOW_BYTES, Mark, facts_of, mark_of
from logwatch.intake.names import bases_of, covers, directories_of, expand
from logwatch.intake.tail import Source, Tail
from logwatch.intake.wake import Waker


class Reading:
    def __init__(self, *sources, waker=None):
        self.notices, self.data, self.ends = [], b"", 0
        self.tail = Tail(sources, {}, self.notices.append, waker=waker, clock=lambda: 0.0)

    def read(self):
        for chunk in self.tail.read():
            self.data += chunk.data
            self.ends += chunk.ends


def test_fifo_is_opened_again_when_its_writer_leaves(tmp_path):
    """Writers of a FIFO come and go; what one left unfinished ends with it."""
    path = tmp_path / "log.fifo"
    os.mkfifo(path)
    reading = Reading(Source(str(path)))
    reading.read()
    for text in (b"one\ntw", b"three\n"):
        with path.open("wb") as file:
            file.write(text)
            file.flush()
            reading.read()
        reading.read()
    reading.read()
    assert reading.data == b"one\ntwthree\n"
    assert reading.ends == 2
    reading.tail.close()


def test_fifo_wakes_the_waker(tmp_path):
    """A line written into a FIFO ends the sleep, a left FIFO does not keep it from sleeping."""
    path = tmp_path / "log.fifo"
    os.mkfifo(path)
    waker = Waker(lambda _: None)
    reading = Reading(Source(str(path)), waker=waker)
    reading.read()
    for _ in range(2):
        while waker.wait(0.02):
            reading.read()
        with path.open("wb") as file:
            file.write(b"x\n")
        deadline = time.monotonic() + 5
        before = reading.ends
        while reading.ends == before:
            assert waker.wait(5)
            reading.read()
            assert time.monotonic() < deadline
    assert reading.data == b"x\nx\n"
    while waker.wait(0.02):
        reading.read()
    reading.tail.close()
    waker.close()


def test_fifo_that_appears_later(tmp_path):
    """A name that was waited for as a file may turn out to be a FIFO."""
    path = tmp_path / "log.fifo"
    reading = Reading(Source(str(path)))
    reading.read()
    os.mkfifo(path)
    reading.read()
    with path.open("wb") as file:
        file.write(b"x\n")
        file.flush()
        reading.read()
    assert reading.data == b"x\n"
    reading.tail.close()


def test_standard_input(tmp_path):
    """Standard input is a stream of its own, and ends once."""
    reader, writer = os.pipe()
    kept = os.dup(0)
    os.dup2(reader, 0)
    try:
        reading = Reading(Source("-"))
        os.write(writer, b"one\n")
        reading.read()
        assert reading.tail.streams == ("stdin",)
        os.close(writer)
        reading.read()
        reading.read()
        assert reading.data == b"one\n"
        assert reading.ends == 1
        reading.tail.close()
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(reader)


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("/a/b.log", "/a/b.log", True),
        ("/a/*.log", "/a/b.log", True),
        ("/a/*.log", "/a/c/b.log", False),
        ("/a/**/*.log", "/a/c/d/b.log", True),
        ("/a/**/*.log", "/a/b.log", True),
        ("/a/**", "/a/c/d/b.log", True),
        ("/a/[bc].log", "/a/b.log", True),
        ("/a/[!bc].log", "/a/b.log", False),
        ("/a/?.log", "/a/bb.log", False),
        ("/a", "/a/b.log", True),
        ("/a/b.log", "/a/b.log.1", False),
    ],
)
def test_what_a_pattern_covers(pattern, path, covered):
    """A path belongs to a source whether or not it exists."""
    assert covers(pattern, path) is covered


def test_expand_and_directories(tmp_path):
    """A pattern means files that exist, and the directories in which more may come."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "x.log").touch()
    (tmp_path / "a" / "b" / "y.log").touch()
    assert list(expand(str(tmp_path / "*" / "*.log"))) == [str(tmp_path / "a" / "x.log")]
    assert list(expand(str(tmp_path / "**" / "*.log"))) == [
        str(tmp_path / "a" / "b" / "y.log"),
        str(tmp_path / "a" / "x.log"),
    ]
    assert list(expand(str(tmp_path / "none.log"))) == []
    assert directories_of(str(tmp_path / "no" / "such" / "x.log")) == [str(tmp_path)]
    assert directories_of(str(tmp_path / "*" / "*.log")) == [str(tmp_path), str(tmp_path / "a")]


@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
def test_links_that_lead_upwards(tmp_path, monkeypatch, relative):
    """`**` enters each directory once, hidden ones never, whatever links lead to it."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b", ".git"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.log").touch()
        for link in range(8):
            (tmp_path / name / f"up{link}").symlink_to(tmp_path)
    pattern = "**/*.log" if relative else str(tmp_path / "**" / "*.log")
    (tmp_path / ".hidden.log").touch()
    root = Path() if relative else tmp_path
    assert list(expand(pattern)) == [str(root / "a" / "x.log"), str(root / "b" / "x.log")]
    assert directories_of(pattern) == [str(tmp_path), f"{tmp_path}/a", f"{tmp_path}/b"]


def test_bases_of_a_rotated_name():
    """Names of which another may be a rotated copy, nearest first."""
    assert list(bases_of("a.log.2.gz")) == ["a.log.2", "a.log"]
    assert list(bases_of("a-20260211.log")) == ["a.log"]
    assert list(bases_of("rank10.log")) == []


@pytest.mark.parametrize("size", [0, 1, 100, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 1, 3 * WINDOW_BYTES])
def test_mark_fits_its_file_and_what_grows_from_it(size):
    """A mark fits what it was taken from, however that grows, and nothing that differs before its offset."""
    data = os.urandom(size)

    def reader(content):
        return lambda offset, count: content[offset : offset + count]

    mark = mark_of(reader(data), size)
    assert mark.fits(reader(data))
    assert mark.fits(reader(data + b"more"))
    for position in {0, size - 1} if size else ():
        changed = bytearray(data)
        changed[position] ^= 1
        assert not mark.fits(reader(bytes(changed)))
    if size:
        assert not mark.fits(reader(data[:-1]))
    assert Mark().fits(reader(b""))


def test_birth_time_is_known(tmp_path):
    """The file system's birth time tells a file from a later one of the same inode."""
    (tmp_path / "a").touch()
    by_name = facts_of(str(tmp_path / "a"))
    assert by_name.identity.born_ns > 0
    assert by_name.identity.inode == (tmp_path / "a").stat().st_ino
    assert by_name.identity.device == (tmp_path / "a").stat().st_dev
    descriptor = os.open(tmp_path / "a", os.O_RDONLY)
    assert facts_of(descriptor) == by_name
    os.close(descriptor)
    with pytest.raises(FileNotFoundError):
        facts_of(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", None),
        (b"nothing here\n", None),
        (b"x\nserver_args=one\ny\nserver_args=two\nz\n", (20, b"server_args=two\n")),
        (b"x\nserver_args=cut off", None),
        (b"server_args=first\n" + b"y" * 3_000_000 + b"\n", (0, b"server_args=first\n")),
    ],
    ids=["empty", "none", "last of two", "unfinished", "far back"],
)
def test_header_is_looked_up_from_behind(data, found):
    """The last whole line that names the server's settings."""
    assert last_header(lambda offset, count: data[offset : offset + count], len(data)) == found
