"""Level 3: object stores: `s3://`, `gs://` (extras of these names) and whatever else fsspec knows (for `archive.py`).

Credentials and endpoints are those of the store's own tools (`AWS_PROFILE`, `AWS_ENDPOINT_URL`, ...): nothing
of them is configured here.
"""

from __future__ import annotations

import glob
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from logwatch.errors import Problem, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs"}
"""By scheme the extra of ours that brings the store's library."""

BLOCK = 8 << 20
"""Bytes asked for at once: round trips cost more than bytes."""


def open_address(address: str) -> BinaryIO:
    """Open one object for reading.

    Raises:
        SourceError: The store's library is missing, or it does not give the object.
    """
    with _problems(address):
        system, path = _system(address)
        return cast("BinaryIO", system.open(path, "rb", block_size=BLOCK, cache_type="readahead"))


def expand_address(address: str, wanted: re.Pattern[str]) -> list[str]:
    """Addresses that one address means: of a pattern its objects, of a folder those with a wanted name.

    Raises:
        SourceError: Nothing is there, or the store does not say.
    """
    with _problems(address):
        system, path = _system(address)
        if glob.has_magic(path):
            found = [name for name in system.glob(path) if not name.endswith("/")]
            hint = "put the pattern in quotes; `**` crosses folders"
        elif system.isfile(path):
            return [address]
        elif system.isdir(path):
            found = [name for name in system.find(path) if wanted.search(name.rpartition("/")[2])]
            hint = "name other objects, or a pattern"
        else:
            raise SourceError(Problem(address, "no such object", "check bucket and key"))
        if not found:
            raise SourceError(Problem(address, "no logs there", hint))
        return sorted(str(system.unstrip_protocol(name)) for name in found)


def _system(address: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - an extra
    except ImportError:
        raise _missing(address, "needs fsspec") from None
    system, path = url_to_fs(address)
    return system, str(path)


def _missing(address: str, what: str) -> SourceError:
    extra = EXTRAS.get(address.partition("://")[0])
    hint = f"pip install 'sglang-logwatch[{extra}]'" if extra else "pip install what it names"
    return SourceError(Problem(address, what, hint))


@contextmanager
def _problems(address: str) -> Iterator[None]:
    """A store's errors as one line; every store has its own exceptions."""
    try:
        yield
    except SourceError:
        raise
    except ImportError as error:
        # fsspec's own sentence names the library; Python's error has a name.
        what = f"needs {error.name}" if error.name else f"needs a library: {_line(error)}"
        raise _missing(address, what) from None
    except FileNotFoundError:
        raise SourceError(Problem(address, "no such object", "check bucket and key")) from None
    except PermissionError as error:
        raise SourceError(
            Problem(address, f"may not be read: {_line(error)}", "check the credentials")
        ) from None
    except Exception as error:  # noqa: BLE001 - see the docstring
        what = f"cannot be read: {_line(error)}"
        raise SourceError(Problem(address, what, "check the address and the credentials")) from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
