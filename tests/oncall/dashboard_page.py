"""Draws dashboards with the data of a real Prometheus as an HTML page, close to what Grafana shows, to look at.

    python tests/oncall/dashboard_page.py OUTPUT_FOLDER

Grafana itself is in no package registry that tests reach. This draws each panel where the dashboard's JSON puts it,
asks its queries, and honours what decides whether a picture is readable: units, legends, thresholds, bands, stacks.
"""

from __future__ import annotations

import html
import json
import math
import re
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from dashboard_kit import MINUTES, STEP_S, Prometheus, fill, openmetrics, start_prometheus
from test_dashboards import BOARDS, filled

PALETTE = ["#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0", "#508642"]
CELL_W, CELL_H = 56, 36


def shown(value, unit, decimals=None):
    """A value in its unit, as Grafana shortens it."""
    if value is None or math.isnan(value):
        return "-"
    if unit == "s":
        factor, name = next(
            (pair for pair in ((1, "s"), (1e3, "ms"), (1e6, "µs")) if abs(value) * pair[0] >= 1), (1, "s")
        )
        return f"{value * factor:.{2 if decimals is None else decimals}f} {name}"
    if unit == "percentunit":
        return f"{value * 100:.{1 if decimals is None else decimals}f}%"
    if unit == "bool_yes_no":
        return "Yes" if value else "No"
    if unit in {"bytes", "Bps"}:
        for name in ("B", "KiB", "MiB", "GiB"):
            if abs(value) < 1024:
                return f"{value:.1f} {name}{'/s' if unit == 'Bps' else ''}"
            value /= 1024
    return f"{value:.{decimals}f}" if decimals is not None else f"{value:.3g}"


def legend(target, labels):
    text = target.get("legendFormat", "__auto")
    if text == "__auto":
        return ", ".join(f"{k}={v}" for k, v in labels.items() if k != "__name__") or "value"
    for name in ("stream", "rank", "phase", "instance", "kind", "outcome", "receiver", "le"):
        text = text.replace("{{" + name + "}}", labels.get(name, ""))
    return text


def colour_at(defaults, value):
    steps = defaults.get("thresholds", {}).get("steps") or []
    found = "#ccc"
    for step in steps:
        if step.get("value") is None or value >= step["value"]:
            found = step["color"]
    return found


def overrides_of(panel, name):
    merged = {}
    for override in panel["fieldConfig"].get("overrides", []):
        matcher = override["matcher"]
        pattern = matcher["options"].strip("/") if matcher["id"] == "byRegexp" else None
        if (pattern and re.search(pattern, name)) or matcher["options"] == name:
            merged |= {p["id"]: p["value"] for p in override["properties"]}
    return merged


@dataclass
class Line:
    """One series of a panel; `bottom` where an area is filled down to."""

    name: str
    points: list
    look: dict
    bottom: list | None = None


class Plane:
    """Where times and values lie in a panel of this size."""

    def __init__(self, prometheus, lines, custom, width, height):
        values = [v for line in lines for _, v in line.points if math.isfinite(v)] or [0.0, 1.0]
        low, high = min(values), max(values)
        if custom.get("axisSoftMin") is not None or any(line.bottom for line in lines):
            low = min(low, custom.get("axisSoftMin") or 0)
        pad = (high - low or abs(high) or 1) * 0.08
        self.low, self.high = low - (0 if low == 0 else pad), high + pad
        self.begin_s, self.span_s = prometheus.begin_s, prometheus.end_s - prometheus.begin_s
        self.width, self.height = width, height

    def x(self, time_s):
        return 60 + (time_s - self.begin_s) / self.span_s * (self.width - 75)

    def y(self, value):
        return self.height - 45 - (value - self.low) / (self.high - self.low) * (self.height - 60)

    def path(self, points):
        return " ".join(f"{self.x(t):.1f},{self.y(v):.1f}" for t, v in points if math.isfinite(v))

    def level(self, value, shade):
        at = self.y(value)
        return f'<line x1="60" x2="{self.width - 15}" y1="{at}" y2="{at}" stroke="{shade}"/>'


def read_lines(panel, prometheus, custom):
    lines = []
    for target in panel["targets"]:
        for found in prometheus.range(filled(target["expr"]), 15):
            name = legend(target, found["metric"])
            points = [(float(t), float(v)) for t, v in found["values"]]
            look = {"colour": PALETTE[len(lines) % len(PALETTE)], **overrides_of(panel, name)}
            lines.append(Line(name, points, look))
    if custom.get("stacking", {}).get("mode") == "normal":
        base = {}
        for line in lines:
            line.bottom = [(t, base.get(t, 0.0)) for t, _ in line.points]
            base |= {t: base.get(t, 0.0) + v for t, v in line.points}
            line.points = [(t, base[t]) for t, _ in line.points]
    named = {line.name: line for line in lines}
    for line in lines:
        below = named.get(line.look.get("custom.fillBelowTo"))
        line.bottom = below.points if below else line.bottom
    return lines


def draw_line(line, plane, custom):
    shade = line.look.get("color", {}).get("fixedColor", line.look["colour"])
    key = f'<span><i style="background:{shade}"></i>{html.escape(line.name)}</span>'
    if custom.get("drawStyle") == "bars":
        bars = (
            f'<rect x="{plane.x(t)}" width="4" y="{plane.y(v)}" height="{plane.y(0) - plane.y(v)}" fill="{shade}"/>'
            for t, v in line.points
            if v > 0
        )
        return "".join(bars), key
    drawn = ""
    if line.bottom:
        opacity = line.look.get("custom.fillOpacity", custom.get("fillOpacity", 0)) / 100
        area = f"{plane.path(line.points)} {plane.path(reversed(line.bottom))}"
        drawn = f'<polygon points="{area}" fill="{shade}" fill-opacity="{opacity}"/>'
    stroke = line.look.get("custom.lineWidth", custom.get("lineWidth", 1))
    dash = "8 6" if "custom.lineStyle" in line.look else ""
    drawn += (
        f'<polyline points="{plane.path(line.points)}" fill="none" stroke="{shade}"'
        f' stroke-width="{stroke}" stroke-dasharray="{dash}"/>'
    )
    return drawn, key


def draw_lines(panel, prometheus, width, height, marks):
    defaults = panel["fieldConfig"]["defaults"]
    custom = defaults.get("custom", {})
    lines = read_lines(panel, prometheus, custom)
    plane = Plane(prometheus, lines, custom, width, height)
    out = [f'<svg width="{width}" height="{height - 20}">']
    for begin_s, end_s in marks:
        x = plane.x(begin_s)
        out.append(
            f'<rect x="{x}" y="10" width="{plane.x(end_s) - x}" height="{height - 55}" fill="#c0392b" opacity=".12"/>'
        )
    for step in range(5):
        value = plane.low + (plane.high - plane.low) * step / 4
        label = shown(value, defaults.get("unit"), defaults.get("decimals"))
        out.append(plane.level(value, "#333"))
        out.append(f'<text x="55" y="{plane.y(value) + 4}" text-anchor="end">{label}</text>')
    drawn = [draw_line(line, plane, custom) for line in lines]
    out += [picture for picture, _ in drawn]
    if custom.get("thresholdsStyle", {}).get("mode") == "line":
        steps = (step for step in defaults["thresholds"]["steps"] if step.get("value") is not None)
        out += [plane.level(step["value"], step["color"]) for step in steps]
    return "".join(out) + f'</svg><div class="legend">{"".join(key for _, key in drawn)}</div>'


def draw_stat(panel, prometheus):
    defaults = panel["fieldConfig"]["defaults"]
    (found,) = prometheus.instant(filled(panel["targets"][0]["expr"]), prometheus.begin_s + 40 * 60)
    value = float(found["value"][1])
    text = shown(value, defaults.get("unit"), defaults.get("decimals"))
    return f'<div class="stat" style="color:{colour_at(defaults, value)}">{text}</div>'


def draw_table(panel, prometheus):
    organise = panel["transformations"][-1]["options"]
    rows = {}
    for target in panel["targets"]:
        for found in prometheus.instant(filled(target["expr"]), prometheus.begin_s + 40 * 60):
            labels = {k: v for k, v in found["metric"].items() if k != "__name__"}
            row = rows.setdefault(json.dumps(labels), dict(labels))
            row[f"Value #{target['refId']}" if len(panel["targets"]) > 1 else "Value"] = float(
                found["value"][1]
            )
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    columns = [name for name in columns if not organise["excludeByName"].get(name)]
    head = "".join(f"<th>{organise['renameByName'].get(name, name)}</th>" for name in columns)
    body = ""
    for row in rows.values():
        body += "<tr>"
        for name in columns:
            title = organise["renameByName"].get(name, name)
            special, value = overrides_of(panel, title), row.get(name, "")
            style = ""
            if isinstance(value, float):
                style = f"color:{colour_at(special, value)}" if "thresholds" in special else ""
                value = shown(value, special.get("unit"), special.get("decimals"))
            body += f'<td style="{style}">{html.escape(str(value))}</td>'
        body += "</tr>"
    return f"<table><tr>{head}</tr>{body}</table>"


def draw_heatmap(panel, prometheus, width, height):
    found = prometheus.range(filled(panel["targets"][0]["expr"]), 60)
    found = sorted(found, key=lambda s: float(s["metric"]["le"].replace("+Inf", "inf")))
    out, previous = [f'<svg width="{width}" height="{height}">'], {}
    row_h = (height - 40) / len(found)
    for row, series in enumerate(found):
        for t, v in series["values"]:
            count = float(v) - previous.get(t, 0.0)
            previous[t] = float(v)
            if count > 0.01:
                x = 60 + (float(t) - prometheus.begin_s) / (prometheus.end_s - prometheus.begin_s) * (
                    width - 75
                )
                out.append(
                    f'<rect x="{x:.0f}" y="{height - 30 - (row + 1) * row_h:.1f}" width="8" height="{row_h:.1f}"'
                    f' fill="#4a90d9" fill-opacity="{min(1, count / 8):.2f}"/>'
                )
    return "".join(out) + "</svg>"


def draw(panel, prometheus, marks):
    at = panel["gridPos"]
    width, height = at["w"] * CELL_W - 26, at["h"] * CELL_H - 60
    match panel["type"]:
        case "stat":
            return draw_stat(panel, prometheus)
        case "table":
            return draw_table(panel, prometheus)
        case "heatmap":
            return draw_heatmap(panel, prometheus, width, height)
        case _:
            return draw_lines(panel, prometheus, width, height, marks)


def page(board, prometheus):
    marks = [
        (float(found["values"][0][0]), float(found["values"][-1][0]))
        for annotation in board.get("annotations", {}).get("list", [])
        for found in prometheus.range(filled(annotation["expr"]), 15)
    ]
    cells = []
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells.append(
            f'<section style="left:{at["x"] * CELL_W}px;top:{at["y"] * CELL_H + 60}px;'
            f'width:{at["w"] * CELL_W - 8}px;height:{at["h"] * CELL_H - 8}px">'
            f"<h2>{html.escape(filled(panel['title']))}</h2>{draw(panel, prometheus, marks)}</section>"
        )
    return f"""<!doctype html><meta charset="utf-8"><title>{board["title"]}</title><style>
body{{background:#111217;color:#ccc;font:13px sans-serif;margin:8px;position:relative}}
section{{position:absolute;background:#181b1f;border:1px solid #2a2d33;border-radius:3px;overflow:hidden}}
h2{{font-size:14px;margin:6px 10px}}text{{fill:#aaa;font-size:11px}}.stat{{font-size:36px;text-align:center}}
.legend span{{margin:0 10px;white-space:nowrap}}.legend i{{display:inline-block;width:14px;height:4px;margin-right:5px}}
table{{width:100%;border-collapse:collapse}}td,th{{text-align:left;padding:5px 10px;border-bottom:1px solid #2a2d33}}
</style><h1 style="font-size:18px">{board["title"]}</h1>{"".join(cells)}"""


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        begin_s = int(time.time()) - MINUTES * 60
        fill(Path(scratch), openmetrics(begin_s))
        process, url = start_prometheus(Path(scratch))
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            prometheus = Prometheus(url, begin_s, begin_s + MINUTES * 60 - STEP_S)
            for name, board in BOARDS.items():
                (folder / f"{name}.html").write_text(page(board, prometheus))
        finally:
            process.kill()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
