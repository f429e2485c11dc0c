"""Level 3: what makes a file the same file: device, inode and birth time, and what stands in it.

An inode number comes back the moment its file is deleted, and two servers print the same banner, so neither decides
alone. `Identity` is what the file system says; `Mark` is what the content says: a hash of the head, which grows until
it covers `HEAD_BYTES`, and a hash of up to `WINDOW_BYTES` before an offset.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

HEAD_BYTES = 4096
WINDOW_BYTES = 4096
ENOUGH_BYTES = 1024
"""Fewer bytes than this before an offset say too little to take a file for a copy of another, moved one."""

ReadAt = Callable[[int, int], bytes]
"""`read_at(offset, count)`: up to `count` bytes from `offset`; fewer only at the end."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which file this is on this host.

    Attributes:
        born_ns: Birth time, nanoseconds; 0 where the file system keeps none.
    """

    device: int
    inode: int
    born_ns: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What `statx` says of a file: who it is, bytes it holds, when it was last written, how many names it has."""

    identity: Identity
    size: int
    modified_ns: int
    links: int
    mode: int


@dataclass(frozen=True, slots=True)
class Mark:
    """What stood in a file up to `offset`.

    Attributes:
        head_bytes: How much of the head the hash covers: all up to `offset`, at most `HEAD_BYTES`.
        window_bytes: How many bytes before `offset` its hash covers, at most `WINDOW_BYTES`.
    """

    offset: int = 0
    head_bytes: int = 0
    head: str = ""
    window_bytes: int = 0
    window: str = ""

    def fits(self, read_at: ReadAt) -> bool:
        """Whether a file holds what this mark saw; an empty mark fits everything."""
        if self.head_bytes and digest(read_at(0, self.head_bytes)) != self.head:
            return False
        if not self.window_bytes:
            return True
        return digest(read_at(self.offset - self.window_bytes, self.window_bytes)) == self.window


def digest(data: bytes) -> str:
    """Short hash of bytes, for equality only."""
    return blake2b(data, digest_size=16).hexdigest()


def mark_of(read_at: ReadAt, offset: int) -> Mark:
    """Mark of a file read up to `offset`."""
    head = read_at(0, min(offset, HEAD_BYTES))
    size = min(offset, WINDOW_BYTES)
    window = read_at(offset - size, size)
    return Mark(offset, len(head), digest(head), len(window), digest(window))


_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_BASIC_AND_BIRTH = 0x07FF | 0x0800
_HAS_BIRTH = 0x0800
_STATX_BYTES = 256


def _find_statx() -> Callable[..., int] | None:
    try:
        function = ctypes.CDLL(None, use_errno=True).statx
    except (AttributeError, OSError):
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p)
    function.restype = ctypes.c_int
    found: Callable[..., int] = function
    return found


_statx = _find_statx()


def facts_of(target: str | int) -> Facts:
    """Facts of the file at a path (symlinks followed) or behind a descriptor.

    `os.stat` has no birth time on Linux, so this asks `statx`; without it the birth time is 0.

    Raises:
        OSError: As `os.stat`.
    """
    if _statx is None:
        return _plain_facts(target)
    buffer = ctypes.create_string_buffer(_STATX_BYTES)
    if isinstance(target, int):
        failed = _statx(target, b"", _AT_EMPTY_PATH, _BASIC_AND_BIRTH, buffer)
    else:
        failed = _statx(_AT_FDCWD, os.fsencode(target), 0, _BASIC_AND_BIRTH, buffer)
    if failed:
        number = ctypes.get_errno()
        if number in {errno.ENOSYS, errno.EPERM}:  # an old kernel, or a sandbox that filters the call
            return _plain_facts(target)
        raise OSError(number, os.strerror(number), target)
    mask, links, mode = (
        struct.unpack_from("<I", buffer, 0)[0],
        struct.unpack_from("<I", buffer, 16)[0],
        struct.unpack_from("<H", buffer, 28)[0],
    )
    inode, size = struct.unpack_from("<QQ", buffer, 32)
    born_s, born_ns = struct.unpack_from("<qI", buffer, 80)
    modified_s, modified_ns = struct.unpack_from("<qI", buffer, 112)
    major, minor = struct.unpack_from("<II", buffer, 136)
    born = born_s * 1_000_000_000 + born_ns if mask & _HAS_BIRTH else 0
    identity = Identity(os.makedev(major, minor), inode, born)
    return Facts(identity, size, modified_s * 1_000_000_000 + modified_ns, links, mode)


def _plain_facts(target: str | int) -> Facts:
    status = os.stat(target)
    return Facts(
        Identity(status.st_dev, status.st_ino, 0),
        status.st_size,
        status.st_mtime_ns,
        status.st_nlink,
        status.st_mode,
    )
