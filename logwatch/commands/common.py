"""Level 6: options that several commands share, each written once."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])

config_option = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="Configuration file; else $LOGWATCH_CONFIG, ./logwatch.toml, /etc/logwatch/logwatch.toml.",
)


class Number(click.FloatRange):
    """A finite number in a range: `nan` and `inf` are numbers to Python and nonsense to everyone else."""

    name = "number"

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; fails where it is none, or not finite."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


POSITIVE = Number(min=0, min_open=True)


def format_option(*formats: str) -> Callable[[F], F]:
    """`--format`, the first one being the default."""
    return click.option(
        "--format",
        "output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How to print the result.",
    )


def printable(text: str) -> str:
    r"""Text from a log or a file's name with what could steer a terminal spelled out.

    >>> printable("a\x1b]0;b\x07")
    'a\\x1b]0;b\\x07'
    """
    from logwatch.outlets.report.wording import safe

    return safe(text, len(text))


_STEERING = {
    code: f"\\u{code:04x}"
    for code in (
        *range(0x7F, 0xA0),
        0x61C,
        *range(0x200B, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2060, 0x206A),
        0xFEFF,
    )
}


def printable_json(text: str) -> str:
    """A JSON document with what could steer a terminal escaped as JSON escapes it."""
    return text.translate(_STEERING)
