"""Scenarios 1 to 24: rotation and identity. Oracle: each serial once, in order, per stream."""

from __future__ import annotations

import os
import subprocess

import pytest

from logwatch.intake.identity import facts_of
from tests.following.harness import append, copytruncate, pack, serials, shift, text

CLOCKED = [f"[2026-02-11 08:{n // 60:02d}:{n % 60:02d} TP0] report {n:05d}" for n in range(600)]


@pytest.fixture
def path(tmp_path):
    directory = tmp_path / "logs"
    directory.mkdir()
    return directory / "a.log"


def test_01_writer_goes_on_in_the_renamed_file(path, follow, step):
    """After a rename everything that still goes into the old file comes before the new one."""
    append(path, serials(1, 10))
    follower = follow(path)
    step(follower)
    rotated = path.rename(f"{path}.1")
    step(follower)
    append(rotated, serials(11, 20))
    step(follower)
    append(rotated, serials(21, 25))
    append(path, serials(26, 30))
    step(follower)
    append(path, serials(31, 40))
    follower.read()
    assert follower.all == serials(1, 40)


def test_01_another_writer_goes_on_in_the_finished_file(path, follow, step):
    """Whole lines that a slow process still writes to a finished file are read, late, also after a restart."""
    append(path, serials(1, 10))
    follower = follow(path)
    rotated = path.rename(f"{path}.1")
    append(path, serials(11, 15))
    step(follower)
    append(rotated, serials(16, 20))
    with rotated.open("a") as file:
        file.write("half a li")
    step(follower)
    append(path, serials(21, 22))
    step(follower)
    follower.clock.now += 1
    follower.read()
    assert sorted(follower.all) == serials(1, 22)
    assert not follower.partial


def test_02_new_file_comes_seconds_after_the_rename(path, follow, step):
    """A gap between rename and creation is neither an error nor a loss."""
    append(path, serials(1, 10))
    follower = follow(path)
    path.rename(f"{path}.1")
    for _ in range(3):
        follower.clock.now += 2
        step(follower)
    append(path, serials(11, 20))
    step(follower)
    follower.read()
    assert follower.all == serials(1, 20)
    assert not follower.said("lost")


def test_03_new_file_is_renamed_over_the_old_one(path, follow):
    """What the old file still got before it was replaced is drained through its descriptor."""
    append(path, serials(1, 10))
    follower = follow(path)
    append(path, serials(11, 15))
    fresh = path.with_name("fresh")
    append(fresh, serials(16, 20))
    fresh.rename(path)
    follower.read()
    assert follower.all == serials(1, 20)


def test_04_three_rotations_between_two_looks(path, follow):
    """Files that came and went between two looks are found beside and read in between."""
    append(path, serials(1, 10))
    follower = follow(path)
    for first in (11, 21, 31):
        shift(path)
        path.rename(f"{path}.1")
        append(path, serials(first, first + 9))
    follower.read()
    assert follower.all == serials(1, 40)


def test_05_old_file_ends_without_newline(path, follow, step):
    """A last line that is never finished is given out once, as partial."""
    append(path, serials(1, 3))
    follower = follow(path)
    with path.open("a") as file:
        file.write("cut off he")
    step(follower)
    path.rename(f"{path}.1")
    step(follower)
    append(path, serials(4, 6))
    step(follower)
    follower.read()
    assert follower.all == serials(1, 6)
    assert follower.partial == {"a.log": ["cut off he"]}


def test_06_copytruncate_with_shorter_lines_after(path, follow, step):
    """A file shorter than what was read of it was truncated and is read from its start."""
    append(path, serials(1, 100))
    follower = follow(path)
    step(follower)
    copytruncate(path, path.with_name("a.log.1"))
    append(path, serials(101, 105))
    step(follower)
    append(path, serials(106, 110))
    step(follower)
    follower.read()
    assert follower.all == serials(1, 110)
    assert follower.said("truncated_by_size")


def test_07_copytruncate_longer_than_before(path, follow, step):
    """A truncated file that has outgrown the old offset is told by what stands before the offset."""
    append(path, serials(1, 20))
    follower = follow(path)
    step(follower)
    append(path, serials(21, 25))
    copytruncate(path, path.with_name("a.log.1"))
    append(path, serials(26, 99))
    step(follower)
    follower.read()
    assert follower.all == serials(1, 99)
    assert follower.said("truncated_by_content")


@pytest.mark.parametrize("copied", [True, False], ids=["with a copy", "without a copy"])
def test_08_copytruncate_with_the_same_first_4_kib(path, follow, step, copied):
    """The same banner at the head of both generations hides nothing."""
    banner = [f"server banner {n:04d} " + "x" * 60 for n in range(60)]
    assert len(text(banner)) > 4096
    append(path, banner + serials(1, 50))
    follower = follow(path)
    step(follower)
    if copied:
        copytruncate(path, path.with_name("a.log.1"))
    else:
        os.truncate(path, 0)
    append(path, banner + serials(51, 200))
    step(follower)
    follower.read()
    assert follower.all == banner + serials(1, 50) + banner + serials(51, 200)


@pytest.mark.parametrize("same", [32, 1024], ids=["32 bytes", "1 KiB"])
def test_09_equal_bytes_before_the_offset_too(path, follow, step, same):
    """Fixed-width lines whose last bytes are equal in both generations are told apart further back."""
    line = "  Target verify:     19.14 ms/cyc  ( 95.0%)"
    block = [line] * (same // len(line) + 1)
    old = CLOCKED[:150] + block
    new = CLOCKED[200:350] + block
    assert text(old)[-same:] == text(new)[-same:]
    assert len(text(old)) == len(text(new))
    append(path, old)
    follower = follow(path)
    step(follower)
    copytruncate(path, path.with_name("a.log.1"))
    append(path, [*new, "end"])
    step(follower)
    follower.read()
    assert follower.all == [*old, *new, "end"]


def test_10_writer_without_append_leaves_nuls(path, follow):
    """A sparse hole of NULs after a truncation is passed over without reading it."""
    append(path, serials(1, 10))
    follower = follow(path)
    copytruncate(path, path.with_name("a.log.1"))
    follower.read()
    with path.open("r+b") as file:
        file.seek(20 << 30)
        file.write(text(serials(11, 20)).encode())
    follower.read()
    assert follower.all == serials(1, 20)
    assert sum(notice.bytes for notice in follower.said("skipped")) == 20 << 30


def test_11_truncated_while_stopped(path, follow):
    """A file truncated while nobody looked, and longer than the old offset by now, is read from its start."""
    append(path, serials(1, 10))
    follower = follow(path)
    follower.commit()
    os.truncate(path, 0)
    append(path, serials(11, 100))
    follower.kill()
    follower.read()
    assert follower.all == serials(1, 100)


@pytest.mark.parametrize("seen", [True, False], ids=["seen when cut", "seen when longer again"])
def test_12_truncated_to_the_middle_of_a_line(path, follow, seen):
    """What stays after a truncation does not count again, and no record is half old, half new."""
    append(path, CLOCKED[:100])
    follower = follow(path)
    cut = len(text(CLOCKED[:50])) + 7
    os.truncate(path, cut)
    if seen:
        follower.read()
    append(path, CLOCKED[100:400])
    follower.read()
    assert follower.all == CLOCKED[:400]


def test_13_rewritten_in_place(path, follow):
    """A file edited into a new inode is read anew; one overwritten in place is noticed by what it held."""
    append(path, serials(1, 10))
    follower = follow(path)
    edited = path.with_name("sedAbC")
    edited.write_text(path.read_text().replace("line", "LINE"))
    edited.rename(path)
    follower.read()
    again = [line.replace("line", "LINE") for line in serials(1, 10)]
    assert follower.all == serials(1, 10) + again
    with path.open("r+") as file:
        file.write(text(serials(11, 20)))
    follower.read()
    assert follower.all == serials(1, 10) + again + serials(11, 20)
    assert follower.said("truncated_by_content")


def test_14_inode_is_used_again(path, follow):
    """A new file that got the old inode number is another file: it was born later."""
    append(path, serials(1, 10))
    other = path.with_name("b.log")
    follower = follow(path.with_name("*.log"), start="beginning")
    old = facts_of(str(path)).identity
    follower.restart()
    follower.close()
    path.unlink()
    append(other, serials(1, 10) + serials(11, 20))
    if (
        facts_of(str(other)).identity.inode != old.inode
    ):  # this file system did not hand it out again: pretend so
        follower._saved = {
            stream: saved.replace(f'"inode": {old.inode}', f'"inode": {facts_of(str(other)).identity.inode}')
            for stream, saved in follower._saved.items()
        }
    follower.kill()
    follower.read()
    assert follower.lines["b.log"] == serials(1, 20)


def test_15_two_files_with_the_same_beginning(path, follow):
    """Equal heads do not make two live files one."""
    banner = ["x" * 80] * 30
    for name in ("a.log", "b.log"):
        append(path.with_name(name), banner)
    follower = follow(path.with_name("*.log"))
    append(path, serials(1, 5))
    append(path.with_name("b.log"), serials(6, 9))
    follower.read()
    assert follower.lines == {"a.log": banner + serials(1, 5), "b.log": banner + serials(6, 9)}


def test_16_hard_link_inside_the_glob(path, follow):
    """Two names of one file are read once."""
    append(path, serials(1, 5))
    os.link(path, path.with_name("b.log"))
    follower = follow(path.with_name("*.log"))
    append(path.with_name("b.log"), serials(6, 9))
    follower.read()
    assert follower.all == serials(1, 9)


def test_17_symlink_is_switched(path, follow, step):
    """The rest of the old target comes first, then the new target from its start."""
    runs = [path.with_name(f"run{number}.log") for number in (1, 2)]
    append(runs[0], serials(1, 5))
    path.symlink_to(runs[0])
    follower = follow(path)
    step(follower)
    append(runs[0], serials(6, 10))
    append(runs[1], serials(11, 15))
    swap = path.with_name("swap")
    swap.symlink_to(runs[1])
    swap.rename(path)
    step(follower)
    append(runs[1], serials(16, 20))
    follower.read()
    assert follower.all == serials(1, 20)


def test_18_chain_of_symlinks_dangles_for_a_while(path, follow):
    """A chain of two links that points nowhere for a second and then to another file loses nothing."""
    runs = [path.with_name(f"run{number}.log") for number in (1, 2)]
    middle = path.with_name("middle")
    append(runs[0], serials(1, 5))
    middle.symlink_to(runs[0].name)
    path.symlink_to(middle.name)
    follower = follow(path)
    append(runs[0], serials(6, 10))
    middle.unlink()
    follower.clock.now += 1
    follower.read()
    append(runs[1], serials(11, 15))
    middle.symlink_to(runs[1].name)
    follower.clock.now += 1
    follower.read()
    assert follower.all == serials(1, 15)


def test_19_rotated_file_is_compressed_and_matches(path, follow, step):
    """A rotated copy that the glob matches is not read again when it is compressed."""
    append(path, serials(1, 50))
    follower = follow(f"{path}*")
    step(follower)
    rotated = path.rename(f"{path}.1")
    append(path, serials(51, 60))
    step(follower)
    pack(rotated)
    step(follower)
    append(path, serials(61, 70))
    step(follower)
    follower.read()
    assert follower.lines == {"a.log": serials(1, 70)}


@pytest.mark.parametrize("pattern", ["a.log", "a.log*"], ids=["one name", "glob that matches the copy"])
@pytest.mark.parametrize(
    "packer", [pytest.param(each, marks=pytest.mark.needs(each)) for each in ("gzip", "zstd", "xz", "bzip2")]
)
def test_20_compressed_before_its_last_lines_were_read(path, follow, packer, pattern):
    """What is missing is read from the compressed copy, only that, whatever it is packed with."""
    append(path, serials(1, 100))
    follower = follow(path.with_name(pattern))
    follower.commit()
    append(path, serials(101, 200))
    path.rename(f"{path}.1")
    subprocess.run([packer, "-q", *(["--rm"] if packer == "zstd" else []), f"{path}.1"], check=True)
    append(path, serials(201, 210))
    follower.kill()
    follower.read()
    assert follower.lines == {"a.log": serials(1, 210)}
    follower.kill()
    follower.read()
    assert follower.lines == {"a.log": serials(1, 210)}


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "stopped meanwhile"])
def test_21_names_are_exchanged_in_a_circle(path, follow, restarts):
    """Files that swap their names go on, each where it was, each in its own stream."""
    names = {each: path.with_name(each) for each in ("a", "b", "c")}
    for number, each in enumerate(names.values()):
        append(each, serials(100 * number, 100 * number + 9))
    follower = follow(*names.values())
    follower.commit()
    names["c"].rename(path.with_name("t"))
    names["b"].rename(names["c"])
    names["a"].rename(names["b"])
    path.with_name("t").rename(names["a"])
    for number, each in enumerate((names["b"], names["c"], names["a"])):
        append(each, serials(100 * number + 10, 100 * number + 19))
    if restarts:
        follower.kill()
    follower.read()
    for number, stream in enumerate("abc"):
        assert follower.lines[stream] == serials(100 * number, 100 * number + 19)


def test_22_directory_is_removed_and_made_again(path, follow, step):
    """A log directory that goes and comes, or gets another name, costs nothing."""
    append(path, serials(1, 5))
    follower = follow(path)
    step(follower)
    path.unlink()
    path.parent.rmdir()
    step(follower)
    path.parent.mkdir()
    append(path, serials(6, 10))
    step(follower)
    follower.read()
    assert follower.all == serials(1, 10)
    path.parent.rename(path.parent.with_name("elsewhere"))
    path.parent.mkdir()
    append(path, serials(11, 15))
    follower.read()
    assert follower.all == serials(1, 15)


@pytest.mark.needs("root")
def test_23_single_file_bind_mount_keeps_the_old_file(path, follow, tmp_path):
    """A name that is a mount of one file keeps the old file after a rotation outside: said before it matters."""
    mounted = tmp_path / "mounted.log"
    append(path, serials(1, 5))
    mounted.touch()
    subprocess.run(["mount", "--bind", path, mounted], check=True)
    try:
        follower = follow(mounted)
        (notice,) = follower.said("bind_mounted")
        assert "mount its directory" in notice.message
        path.rename(f"{path}.1")
        append(path, serials(6, 9))
        path.with_name("a.log.1").unlink()
        follower.clock.now += 20
        follower.read()
        assert follower.said("stopped_growing")
    finally:
        subprocess.run(["umount", "--lazy", mounted], check=True)


def test_24_deleted_and_made_again_at_once(path, follow):
    """The same name and size a moment later is another file."""
    append(path, serials(1, 5))
    follower = follow(path)
    for first in (6, 11, 16):
        path.unlink()
        append(path, serials(first, first + 4))
        follower.read()
    assert follower.all == serials(1, 20)
