"""Level 3: what all files that are followed share: who reads which, and who may hold a descriptor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from logwatch.intake.identity import Identity
from logwatch.intake.names import Listings
from logwatch.intake.parts import Part
from logwatch.model import Notify

if TYPE_CHECKING:
    from logwatch.intake.succession import Succession


@dataclass(slots=True)
class Shop:
    """What all lineages of a `Tail` share.

    Attributes:
        clock: Monotonic seconds.
        bulk_bytes: A backlog of this many bytes is given for the bulk path; None: never.
        known: Succession that reads or has read a file, by identity.
        lineages: All of them, by absolute path of the name that they follow.
        renamed: Lineages whose live file was found under another followed name in this turn.
        mounts: Absolute paths on which something is mounted.
        open_parts: Parts that hold a descriptor, the one read longest ago first.
        most_open: So many may hold one.
    """

    notify: Notify
    clock: Callable[[], float]
    bulk_bytes: int | None = None
    most_open: int = 64
    known: dict[Identity, Succession] = field(default_factory=dict)
    lineages: dict[str, Succession] = field(default_factory=dict)
    renamed: dict[Succession, str] = field(default_factory=dict)
    mounts: frozenset[str] = frozenset()
    listings: Listings = field(default_factory=Listings)
    open_parts: dict[int, Part] = field(default_factory=dict)

    def opened(self, part: Part) -> None:
        """A part is read: the one read longest ago may have to give its descriptor back."""
        self.open_parts.pop(id(part), None)
        if part.file is None:
            return
        self.open_parts[id(part)] = part
        if len(self.open_parts) > self.most_open:
            spare = [each for each in self.open_parts.values() if each is not part and each.may_close]
            for each in spare[: len(self.open_parts) - self.most_open]:
                self.close(each)

    def close(self, part: Part) -> None:
        """Give a part's descriptor back."""
        self.open_parts.pop(id(part), None)
        part.close()
