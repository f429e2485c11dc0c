"""Every kind of logger with every kind of rotator in every way of watching: each line once, in order."""

from __future__ import annotations

import logging
import logging.handlers
import os

import pytest

from tests.following.harness import copytruncate, pack, serials, shift


class HeldAppend:
    """Keeps the file open, in append mode: most servers; reopens after a rename."""

    mode = "ab"

    def __init__(self, path):
        self.path = path
        self.file = path.open(self.mode, buffering=0)

    def write(self, lines):
        for line in lines:
            self.file.write(f"{line}\n".encode())

    def reopen(self):
        self.file.close()
        self.file = self.path.open("ab", buffering=0)

    def close(self):
        self.file.close()


class HeldWithoutAppend(HeldAppend):
    """`server > log`: writes where it was, so a truncation leaves a hole of NULs."""

    mode = "wb"

    def reopen(self):
        self.file.close()
        self.file = self.path.open("wb", buffering=0)


class Blocks(HeldAppend):
    """Writes in blocks that cut lines, as a full pipe or stdio does; whole lines when it is flushed."""

    def write(self, lines):
        data = "".join(f"{line}\n" for line in lines).encode()
        for start in range(0, len(data), 70):
            self.file.write(data[start : start + 70])


class OpensEachTime(HeldAppend):
    """`echo >> log`: opens and closes for each line."""

    def __init__(self, path):
        self.path = path
        path.touch()

    def write(self, lines):
        for line in lines:
            with self.path.open("a") as file:
                file.write(f"{line}\n")

    def reopen(self):
        self.path.touch()

    def close(self):
        pass


class Watched(HeldAppend):
    """Python's WatchedFileHandler: reopens by itself when it sees another file."""

    def __init__(self, path):
        self.handler = logging.handlers.WatchedFileHandler(path)

    def write(self, lines):
        for line in lines:
            self.handler.emit(logging.makeLogRecord({"msg": line}))

    def reopen(self):
        self.handler.reopenIfNeeded()

    def close(self):
        self.handler.close()


def rename(path, logger, number):
    """Plain rename; the logger opens a new file."""
    shift(path, 60)
    path.rename(f"{path}.1")
    logger.reopen()


def rename_and_create(path, logger, number):
    """Logrotate `create`: the new file is there before the logger knows."""
    shift(path, 60)
    path.rename(f"{path}.1")
    path.touch()
    logger.reopen()


def rename_and_pack(path, logger, number):
    """Logrotate `compress`."""
    rename(path, logger, number)
    pack(path.with_name(f"{path.name}.1"))


def rename_by_date(path, logger, number):
    """`dateext`."""
    path.rename(f"{path}-202602{number + 1:02d}")
    logger.reopen()


def copy_and_truncate(path, logger, number):
    """Logrotate `copytruncate`."""
    shift(path, 60)
    copytruncate(path, path.with_name(f"{path.name}.1"))


def copy_over_and_truncate(path, logger, number):
    """A shell script: `cp a.1 a.2; cp a a.1; : > a` uses the copies' inodes again."""
    copies = [path.with_name(f"{path.name}.{each}") for each in range(number + 1, 0, -1)]
    for older, newer in zip(copies, [*copies[1:], path], strict=True):
        if newer.exists():
            older.write_bytes(newer.read_bytes())
    os.truncate(path, 0)


LOGGERS = [HeldAppend, HeldWithoutAppend, Blocks, OpensEachTime, Watched]
ROTATORS = [
    rename,
    rename_and_create,
    rename_and_pack,
    rename_by_date,
    copy_and_truncate,
    copy_over_and_truncate,
]


@pytest.mark.parametrize("looks", ["often", "seldom"])
@pytest.mark.parametrize("rotate", ROTATORS, ids=lambda rotator: rotator.__name__)
@pytest.mark.parametrize("logger", LOGGERS, ids=lambda logger: logger.__name__)
def test_logger_and_rotator(tmp_path, follow, logger, rotate, looks):
    """Whoever writes and whoever rotates, and however often anyone looks: each line once, in order."""
    path = tmp_path / "a.log"
    writer = logger(path)
    follower = follow(path)
    written = 0
    for number in range(9):
        for _ in range(3):
            count = 1 + (written * 7 + number) % 23
            writer.write(serials(written + 1, written + count))
            written += count
            if looks == "often":
                follower.read()
        if looks == "seldom" and number % 3 == 0:
            follower.read()
        if number % 4 == 3:
            follower.restart()
        rotate(path, writer, number)
    writer.write(serials(written + 1, written + 5))
    writer.close()
    follower.read()
    assert follower.all == serials(1, written + 5)
    assert not follower.said("lost")
