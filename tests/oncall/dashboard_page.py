"""Draws dashboards with the data of a real Prometheus as an HTML page, close to what Grafana shows, to look at.

    python tests/oncall/dashboard_page.py OUTPUT_FOLDER

Grafana itself is in no package registry that tests reach. This draws each panel where the dashboard's JSON puts it,
asks its queries, and honours what decides whether a picture is readable: units, legends, thresholds, bands, stacks.
"""

from __future__ import annotations

import html
import json
import math
import sys
import tempfile
import threading
import time
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
    import re

    merged = {}
    for override in panel["fieldConfig"].get("overrides", []):
        matcher = override["matcher"]
        pattern = matcher["options"].strip("/") if matcher["id"] == "byRegexp" else None
        if (pattern and re.search(pattern, name)) or matcher["options"] == name:
            merged |= {p["id"]: p["value"] for p in override["properties"]}
    return merged


def draw_lines(panel, prometheus, width, height):
    defaults = panel["fieldConfig"]["defaults"]
    custom = defaults.get("custom", {})
    unit, decimals = defaults.get("unit"), defaults.get("decimals")
    series = [
        (legend(target, found["metric"]), [(float(t), float(v)) for t, v in found["values"]])
        for target in panel["targets"]
        for found in prometheus.range(filled(target["expr"]), 15)
    ]
    stacked = custom.get("stacking", {}).get("mode") == "normal"
    base = {}
    if stacked:
        piled = []
        for name, points in series:
            low = [(t, base.get(t, 0.0)) for t, _ in points]
            for t, v in points:
                base[t] = base.get(t, 0.0) + v
            piled.append((name, [(t, base[t]) for t, _ in points], low))
        series = piled
    else:
        series = [(name, points, None) for name, points in series]
    values = [v for _, points, _ in series for _, v in points if math.isfinite(v)]
    if not values:
        return "<p>no data</p>"
    low, high = min(values), max(values)
    if stacked or custom.get("axisSoftMin") is not None:
        low = min(low, custom.get("axisSoftMin", 0) or 0)
    pad = (high - low or abs(high) or 1) * 0.08
    low, high = low - (0 if low == 0 else pad), high + pad
    x = lambda t: 60 + (t - prometheus.begin_s) / (prometheus.end_s - prometheus.begin_s) * (width - 75)
    y = lambda v: height - 45 - (v - low) / (high - low) * (height - 60)
    out = [f'<svg width="{width}" height="{height - 20}">']
    for i in range(5):
        v = low + (high - low) * i / 4
        out.append(
            f'<line x1="60" x2="{width - 15}" y1="{y(v)}" y2="{y(v)}" stroke="#333"/>'
            f'<text x="55" y="{y(v) + 4}" text-anchor="end">{shown(v, unit, decimals)}</text>'
        )
    names = {name: points for name, points, _ in series}
    keys = []
    for number, (name, points, bottom) in enumerate(series):
        special = overrides_of(panel, name)
        shade = special.get("color", {}).get("fixedColor", PALETTE[number % len(PALETTE)])
        line = " ".join(f"{x(t):.1f},{y(v):.1f}" for t, v in points if math.isfinite(v))
        below = special.get("custom.fillBelowTo")
        if below in names:
            bottom = names[below]
        if bottom:
            back = " ".join(f"{x(t):.1f},{y(v):.1f}" for t, v in reversed(bottom))
            opacity = special.get("custom.fillOpacity", custom.get("fillOpacity", 0)) / 100
            out.append(f'<polygon points="{line} {back}" fill="{shade}" fill-opacity="{opacity}"/>')
        stroke = special.get("custom.lineWidth", custom.get("lineWidth", 1))
        dash = "8 6" if "custom.lineStyle" in special else ""
        if custom.get("drawStyle") == "bars":
            for t, v in points:
                if v:
                    out.append(
                        f'<rect x="{x(t)}" width="4" y="{y(v)}" height="{max(0, y(0) - y(v))}" fill="{shade}"/>'
                    )
        else:
            out.append(
                f'<polyline points="{line}" fill="none" stroke="{shade}" stroke-width="{stroke}" stroke-dasharray="{dash}"/>'
            )
        keys.append(f'<span><i style="background:{shade}"></i>{html.escape(name)}</span>')
    if custom.get("thresholdsStyle", {}).get("mode") == "line":
        for step in defaults["thresholds"]["steps"]:
            if step.get("value") is not None and low < step["value"] < high:
                at = y(step["value"])
                out.append(f'<line x1="60" x2="{width - 15}" y1="{at}" y2="{at}" stroke="{step["color"]}"/>')
    return "".join(out) + f'</svg><div class="legend">{"".join(keys)}</div>'


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
            row[f"Value #{target['refId']}" if len(panel["targets"]) > 1 else "Value"] = float(found["value"][1])
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
                x = 60 + (float(t) - prometheus.begin_s) / (prometheus.end_s - prometheus.begin_s) * (width - 75)
                out.append(
                    f'<rect x="{x:.0f}" y="{height - 30 - (row + 1) * row_h:.1f}" width="8" height="{row_h:.1f}"'
                    f' fill="#4a90d9" fill-opacity="{min(1, count / 8):.2f}"/>'
                )
    return "".join(out) + "</svg>"


def page(board, prometheus):
    cells = []
    for panel in board["panels"]:
        at = panel["gridPos"]
        width, height = at["w"] * CELL_W - 26, at["h"] * CELL_H - 60
        draw = {
            "timeseries": lambda p: draw_lines(p, prometheus, width, height),
            "stat": lambda p: draw_stat(p, prometheus),
            "table": lambda p: draw_table(p, prometheus),
            "heatmap": lambda p: draw_heatmap(p, prometheus, width, height),
        }[panel["type"]]
        cells.append(
            f'<section style="left:{at["x"] * CELL_W}px;top:{at["y"] * CELL_H + 60}px;'
            f'width:{at["w"] * CELL_W - 8}px;height:{at["h"] * CELL_H - 8}px">'
            f"<h2>{html.escape(filled(panel['title']))}</h2>{draw(panel)}</section>"
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
