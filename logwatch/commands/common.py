"""Level 6: options that several commands share, each written once."""

from __future__ import annotations

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
