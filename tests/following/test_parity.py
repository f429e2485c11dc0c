"""Scenarios 65 and 66: what is followed live and what is replayed from files are the same."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.registry import CollectorRegistry

from benchmarks import crash
from logwatch.intake.archive import open_archive, zstd
from logwatch.intake.tail import Source
from logwatch.model import Cycle, Incident, Judgement, Malformed, Read, Record
from logwatch.outlets.metrics import Metrics
from tests.following.harness import Follower, append, serials
from tests.following.watching import Watching

LINES = [crash.line(number, 2000) for number in range(2000)]
TEXT = "".join(LINES).encode()
KINDS = (Record, Malformed, Cycle, Judgement, Incident)
PACKERS = {
    "plain": bytes,
    "gz": gzip.compress,
    "zst": zstd.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
}


def _essence(items):
    """Items without the places of records, which differ in a rotated set."""
    found = []
    for item in items:
        if isinstance(item, Cycle):
            found.append(
                (item.time, item.rank, tuple(item.phases_s.items()), item.tokens_per_cycle, item.complete)
            )
        elif isinstance(item, Incident):
            found.append(
                (item.change, item.kind, item.phase, item.onset.time, item.before, item.after, item.samples)
            )
        elif isinstance(item, Record | Malformed):
            found.append((item.kind, item.time, item.rank, tuple(getattr(item, "fields", {}).items())))
        elif not isinstance(item, Read):
            found.append((type(item).__name__, getattr(item, "signal", None)))
    return found


def _histogram(items):
    metrics = Metrics(clock=lambda: 0.0)
    for item in items:
        metrics.take(item)
    registry = CollectorRegistry()
    registry.register(metrics)
    return sorted(
        line for line in generate_latest(registry).decode().splitlines() if "phase_duration_seconds_" in line
    )


def live(directory, how):
    """Followed while it is written, in random pieces, rotated in the given way."""
    path = directory / "server.log"
    path.touch()
    watching = Watching(path)
    chance = random.Random(7)
    watching.read()
    position, rotations = 0, 0
    with path.open("ab", buffering=0):
        while position < len(TEXT):
            piece = TEXT[position : position + chance.randint(1, 3000)]
            with path.open("ab", buffering=0) as file:
                file.write(piece)
            position += len(piece)
            if chance.random() < 0.7:
                watching.read(chance.choice((100, 1000, 1 << 20)))
            if how != "never" and chance.random() < 0.1:
                cut = TEXT[position:].partition(b"\n")[0] + b"\n"
                with path.open("ab", buffering=0) as file:
                    file.write(cut)
                position += len(cut)
                rotations += 1
                path.rename(directory / f"server.log.{1000 - rotations}")
                path.touch()
    watching.finish()
    return watching.items


def replayed(path_or_paths):
    """Read through the archive, in one stream."""
    paths = [path_or_paths] if isinstance(path_or_paths, Path) else path_or_paths
    watching = Watching()
    from logwatch.pipeline import Pipeline

    pipeline = Pipeline(watching.settings, "server.log", "server.log")
    items = []
    for path in paths:
        with open_archive(path) as archive:
            while data := archive.read(5000):
                items += pipeline.feed_bytes(data)
        items += pipeline.finish_file()
        pipeline.start_file("server.log")
    return items + list(pipeline.finish())


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    return live(tmp_path_factory.mktemp("live"), "never")


@pytest.mark.parametrize("form", PACKERS)
def test_65_followed_live_or_replayed_packed(tmp_path, followed, form):
    """Live in random chunks, or from a file packed in any way: the same records, incidents and histograms."""
    path = tmp_path / "server.log"
    path.write_bytes(PACKERS[form](TEXT))
    again = replayed(path)
    assert _essence(again) == _essence(followed)
    assert [each.place.line for each in again if isinstance(each, Cycle)] == [
        each.place.line for each in followed if isinstance(each, Cycle)
    ]
    assert _histogram(again) == _histogram(followed)


def test_65_followed_over_rotations_or_replayed_as_a_set(tmp_path, followed):
    """The rotated set, oldest first, gives what was followed over its rotations, and what one file gives."""
    rotated = live(tmp_path, "rename")
    parts = sorted(tmp_path.glob("server.log.*"), key=lambda path: -int(path.suffix[1:]))
    assert len(parts) > 3
    again = replayed([*parts, tmp_path / "server.log"])
    assert _essence(again) == _essence(rotated) == _essence(followed)
    assert _histogram(again) == _histogram(rotated)


def cut(data):
    return gzip.compress(data)[:-2000]


def bad_sum(data):
    packed = bytearray(gzip.compress(data))
    packed[-8] ^= 0xFF
    return bytes(packed)


def trailing_rubbish(data):
    return gzip.compress(data) + b"rubbish, not a member"


def two_members(data):
    half = data.index(b"\n", len(data) // 2) + 1
    return gzip.compress(data[:half]) + gzip.compress(data[half:])


@pytest.mark.parametrize(
    ("harm", "lines", "damaged", "status"),
    [
        (cut, 300, True, 2),
        (bad_sum, 2000, True, 2),
        (trailing_rubbish, 2000, True, 2),
        (two_members, 2000, False, 0),
    ],
    ids=["cut", "wrong check sum", "trailing rubbish", "two members"],
)
def test_66_damaged_archive(tmp_path, harm, lines, damaged, status):
    """What can be read of a damaged archive is used and the damage said, following and replaying; replay exits with 2."""
    calm = "".join(crash.line(number, 1_000_000) for number in range(2000)).encode()
    path = tmp_path / "server.log.gz"
    path.write_bytes(harm(calm))
    follower = Follower(Source(str(path), start="beginning"))
    follower.read()
    assert len(follower.all) >= lines
    assert follower.all == calm.decode().splitlines()[: len(follower.all)]
    follower.close()
    run = subprocess.run(
        [sys.executable, "-m", "logwatch", "replay", "--format", "json", str(path)],
        capture_output=True,
        check=False,
    )
    assert run.returncode == status
    report = json.load(io.BytesIO(run.stdout))
    assert report["inputs"][0]["lines"] >= lines
    assert (b"server.log.gz" in run.stderr) is damaged


def test_66_damaged_copy_while_following(tmp_path, follow):
    """A rotated copy whose packing was cut short gives what it has, and says what is missing."""
    path = tmp_path / "a.log"
    append(path, serials(1, 2000))
    follower = follow(path)
    follower.commit()
    append(path, serials(2001, 4000))
    data = path.read_bytes()
    stat = path.stat()
    path.unlink()
    packed = tmp_path / "a.log.1.gz"
    packed.write_bytes(gzip.compress(data)[:-500])
    import os

    os.utime(packed, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    append(path, serials(4001, 4010))
    follower.kill()
    follower.read()
    assert follower.all[:3500] == serials(1, 3500)
    assert follower.all[-10:] == serials(4001, 4010)
    assert follower.said("damaged")
