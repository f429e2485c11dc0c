"""Archives: any form, several members, every kind of damage."""

import bz2
import gzip
import io
import lzma
import os
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from logwatch.errors import SourceError
from logwatch.intake.archive import CHUNK, Archive, expand, form_of, open_archive

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXT = b"".join(
    b"[2026-02-11 08:%02d:%02d TP0] %s\n" % (i // 60 % 60, i % 60, sha256(b"%d" % i).hexdigest().encode())
    for i in range(20000)
)
PACK = {
    "gz": lambda data: gzip.compress(data, 3),
    "zst": lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}),
    "xz": lambda data: lzma.compress(data, preset=1),
    "bz2": lambda data: bz2.compress(data, 1),
}
FORMS = sorted(PACK)


class Pipe(io.RawIOBase):
    """A source that cannot seek and gives little at a time."""

    def __init__(self, data: bytes, step: int = 7000):
        self.rest, self.step = data, step

    def read(self, size=-1):
        step = min(self.step, size)
        given, self.rest = self.rest[:step], self.rest[step:]
        return given

    def seekable(self):
        return False


def read(data: bytes, *, pipe=False):
    with Archive("x", Pipe(data) if pipe else io.BytesIO(data)) as archive:
        return archive.read(-1), archive.damage


@pytest.mark.parametrize("pipe", [False, True], ids=["file", "pipe"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "members",
    [
        pytest.param([TEXT], id="one member"),
        pytest.param([TEXT[:5000], b"", TEXT[5000:]], id="three members, one empty"),
        pytest.param([b""], id="nothing packed"),
    ],
)
def test_each_form_gives_its_bytes(form, members, pipe):
    """What was packed comes back, member after member."""
    assert read(b"".join(map(PACK[form], members)), pipe=pipe) == (b"".join(members), None)


@pytest.mark.parametrize(
    "data",
    [b"", b"a", b"BZh, said the log\n", b"\x1f\x8b", b"(\xb5/", TEXT],
    ids=lambda data: f"{data[:6]!r}",
)
def test_plain_bytes_stay_as_they_are(data):
    """What no archive begins with is read as it is, even where it is short."""
    assert read(data) == (data, None)
    assert read(data, pipe=True) == (data, None)


@pytest.mark.parametrize("form", FORMS)
def test_the_form_is_told_by_content_not_by_name(form, tmp_path):
    """A packed file with a plain name, and a plain file with a packed name, are both understood."""
    packed, plain = tmp_path / "server.log", tmp_path / f"server.log.{form}"
    packed.write_bytes(PACK[form](TEXT))
    plain.write_bytes(TEXT)
    with open_archive(packed) as one, open_archive(plain) as other:
        assert (one.form, other.form) == (form, "plain")
        assert one.read(-1) == other.read(-1) == TEXT


def test_zero_padding_between_members_is_no_damage():
    """Tapes and block devices pad with zeros; a second member may follow them."""
    assert read(PACK["gz"](b"a\n") + bytes(100_000) + PACK["gz"](b"b\n") + bytes(512)) == (b"a\nb\n", None)


def test_a_skippable_zstd_frame_is_passed_over():
    """Parallel compressors put frames of their own before the data."""
    skippable = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
    assert read(skippable + PACK["zst"](TEXT)) == (TEXT, None)


@pytest.mark.parametrize("form", FORMS)
def test_a_cut_archive_gives_what_is_before_the_cut(form):
    """Everything that the remaining bytes hold is given, and the cut is named."""
    packed = PACK[form](TEXT)
    text, damage = read(packed[: len(packed) * 2 // 3])
    assert TEXT.startswith(text)
    assert len(text) > len(TEXT) // 3
    assert damage is not None
    assert damage.startswith("cut short")


@pytest.mark.parametrize("pipe", [False, True], ids=["file", "pipe"])
@pytest.mark.parametrize("form", FORMS)
def test_a_flipped_byte_costs_what_follows_it_only(form, pipe):
    """What lies before the damage is given, and the damage is named."""
    packed = bytearray(PACK[form](TEXT))
    packed[len(packed) * 3 // 4] ^= 0xFF
    text, damage = read(bytes(packed), pipe=pipe)
    assert damage is not None
    assert len(text) > len(TEXT) * (0.4 if form == "bz2" else 0.65)
    assert text[: len(TEXT) * 4 // 10] == TEXT[: len(TEXT) * 4 // 10]


def test_a_wrong_checksum_loses_nothing():
    """The data is all there; only its CRC says that something is wrong."""
    packed = bytearray(PACK["gz"](TEXT))
    packed[-6] ^= 1
    text, damage = read(bytes(packed))
    assert text == TEXT
    assert "incorrect data check" in str(damage)


@pytest.mark.parametrize("form", FORMS)
def test_rubbish_after_the_end_is_named(form):
    """All of the archive is given, and what follows it is reported, with its place."""
    packed = PACK[form](TEXT)
    assert read(packed + b"trailing rubbish") == (
        TEXT,
        f"damaged {form} data near byte {len(packed)}: what follows is not {form}",
    )


def test_a_disk_error_is_damage():
    """A source that fails half-way has given what it could."""

    class Failing(Pipe):
        def read(self, size=-1):
            if not self.rest:
                raise OSError(5, "Input/output error")
            return super().read(size)

    with Archive("x", Failing(TEXT[:10_000])) as archive:
        assert archive.read(-1) == TEXT[:10_000]
        assert archive.damage == "cannot be read beyond byte 10000: Input/output error"


def test_a_bomb_is_given_in_small_pieces():
    """A gigabyte of zeros in a megabyte never stands in memory whole."""
    with Archive("x", io.BytesIO(gzip.compress(bytes(64 << 20), 1))) as archive:
        sizes = [len(piece) for piece in iter(lambda: archive.read(1 << 30), b"")]
    assert sum(sizes) == 64 << 20
    assert max(sizes) <= CHUNK


@given(st.sampled_from(FORMS), st.binary(max_size=300), st.data())
@settings(max_examples=150, deadline=None)
@example("gz", b"", None)
def test_no_bytes_make_it_fail(form, text, data):
    """Whatever stands in an archive's place, reading ends, raises nothing, and gives a prefix or names a damage."""
    packed = bytearray(PACK[form](text))
    if data is not None:
        for _ in range(data.draw(st.integers(0, 3))):
            packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
        packed = packed[: data.draw(st.integers(0, len(packed)))]
    got, damage = read(bytes(packed))
    if form_of(bytes(packed)) == form and damage is None:
        assert bytes(packed).rstrip(b"\0") == b"" or got is not None


def test_arguments_become_files(tmp_path, monkeypatch):
    """Directories give their logs, globs their files, each once and in natural order."""
    monkeypatch.chdir(tmp_path)
    names = [
        "logs/rank10.log", "logs/rank2.log", "logs/old/server.log.1.gz", "logs/old/server.log-20260211.zst",
        "logs/.hidden/a.log", "logs/model.safetensors", "logs/slurm-77.out", "other[1].log",
    ]  # fmt: skip
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(b"x\n")
    assert expand(["logs"]) == (
        "logs/old/server.log-20260211.zst", "logs/old/server.log.1.gz", "logs/rank2.log", "logs/rank10.log",
        "logs/slurm-77.out",
    )  # fmt: skip
    assert expand(["logs/**/*.log", "logs/rank2.log", "-"]) == ("logs/rank2.log", "logs/rank10.log", "-")
    assert expand(["other[1].log"]) == ("other[1].log",)


def test_every_wrong_argument_is_named_at_once(tmp_path, monkeypatch):
    """A missing file, an empty directory and a glob without files: one line each, with what to do."""
    monkeypatch.chdir(tmp_path)
    Path("server.log").touch()
    Path("empty").mkdir()
    with pytest.raises(SourceError) as caught:
        expand(["servr.log", "empty", "x/*.log", "server.log"])
    lines = str(caught.value).splitlines()
    assert lines[0] == "servr.log: no such file; did you mean server.log?"
    assert lines[1].startswith("empty: no logs in this directory; looked for *.log")
    assert lines[2].startswith("x/*.log: no file matches")
    assert len(lines) == 3


def test_a_file_without_permission_is_named(tmp_path):
    """A file that this user may not read is an error before anything is read."""
    secret = tmp_path / "secret.log"
    secret.write_bytes(b"x")
    secret.chmod(0)
    user = os.geteuid()
    if user == 0:  # who may read everything: ask as somebody else
        os.seteuid(65534)
    try:
        with pytest.raises(SourceError, match="no permission to read it"):
            expand([str(secret)])
    finally:
        os.seteuid(user)
