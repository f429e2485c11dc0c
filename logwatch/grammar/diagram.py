"""Level 1: a grammar as railroad diagrams: one HTML page with inline SVG, drawn by pyparsing."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pyparsing as pp

from logwatch.grammar.elements import diagram_element

if TYPE_CHECKING:
    from logwatch.grammar.ast import Grammar


def page(grammar: Grammar) -> str:
    """The page's HTML; it loads nothing from elsewhere."""
    records = [pp.Group(diagram_element(rule.pattern)).set_name(rule.name) for rule in grammar.rules]
    whole = pp.MatchFirst(records).set_name(grammar.name)
    out = io.StringIO()
    whole.create_diagram(out, vertical=9)
    return out.getvalue()
