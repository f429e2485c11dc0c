"""Level 3: the terminal that summaries are printed to."""

from __future__ import annotations

import errno
import os

from rich.console import Console


class Output(Console):
    """A console on which a reader that left is an error as anywhere else.

    Rich's own ends the process with status 1, which says that there is an incident.
    """

    def on_broken_pipe(self) -> None:
        """Nobody reads any more."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
