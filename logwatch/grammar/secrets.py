r"""Level 1: values that must not be read in a report: keys, tokens, passwords (used by `maps.py`).

A setting or variable is secret by its name; a secret inside another value by its key, or by standing in an
address. What says nothing (`None`, an empty text, a number) stays: whether it is set can still be told.

>>> masked("api_key", "sk-1"), masked("api_key", "None"), masked("HTTPS_PROXY", "http://me:pw@proxy:1")
('***', 'None', 'http://***@proxy:1')
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

MASK: Final = "***"
ALWAYS: Final = frozenset(
    (
        "apikey",
        "auth",
        "credential",
        "credentials",
        "passphrase",
        "passwd",
        "password",
        "pwd",
        "secret",
        "secrets",
    )
)
"""Words of a name that make it secret wherever they stand."""
AT_THE_END: Final = frozenset(("authorization", "cookie", "key", "keys", "pass", "token"))
PLACES: Final = frozenset(("dir", "file", "path", "sock", "socket"))
"""Last words of names whose values say where a secret lies, not what it is."""
NOTHING: Final = frozenset(("", "none", "null", "true", "false", "(set)"))
"""Values that tell no secret; `(set)` is how the plugin hides one itself."""
WORD: Final = re.compile(r"[A-Z]{1,100}(?![a-z])|[A-Z]?[a-z]{1,100}")
IN_ADDRESS: Final = re.compile(r"(?<=://)[^\s/@'\"]{1,300}@")
INSIDE: Final = re.compile(
    r"""((?:api_?key|access_?key|authorization|credentials?|passphrase|passwd|password|secret|token)["']?"""
    r"""[ \t]{0,4}[:=][ \t]{0,4}["']?(?:bearer )?)([^\s"',;&})\]]{1,1000})""",
    re.IGNORECASE,
)


@lru_cache(maxsize=1024)
def is_secret(name: str) -> bool:
    """Whether a setting or an environment variable holds a secret, by its name."""
    words = [word.lower() for word in WORD.findall(name)]
    if not words or words[-1] in PLACES:
        return False
    return words[-1] in AT_THE_END or not ALWAYS.isdisjoint(words)


def masked(name: str, value: str) -> str:
    """The value as it may be shown and kept."""
    if is_secret(name):
        return value if _says_nothing(value) else MASK
    if "://" in value:
        value = IN_ADDRESS.sub(f"{MASK}@", value)
    if ":" in value or "=" in value:
        value = INSIDE.sub(lambda found: found[0] if _says_nothing(found[2]) else found[1] + MASK, value)
    return value


def _says_nothing(value: str) -> bool:
    return value.lower() in NOTHING or value.isdigit()
