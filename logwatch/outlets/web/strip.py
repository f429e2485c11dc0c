"""Level 3: the strip: a phase's newest samples against its band, as inline SVG.

Colours come from the style sheet by class. A sample outside its band is also another shape, so that the
picture does not depend on colour. Two sizes are drawn, for wide and narrow screens; the style sheet shows
one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from logwatch.outlets.deliver_text import phase_words
from logwatch.outlets.web.board import Sample
from logwatch.outlets.web.markup import Html, el, join
from logwatch.outlets.web.sentence import band_of

WIDE = (960.0, 250.0, 240)
NARROW = (400.0, 230.0, 80)
"""Width, height and number of samples."""

LEFT, RIGHT, TOP, BOTTOM = 46.0, 66.0, 16.0, 26.0
SPARK = (96.0, 22.0, 48)


@dataclass(frozen=True, slots=True)
class _Scale:
    """From samples' numbers and milliseconds to the picture's x and y."""

    width: float
    height: float
    count: int
    low: float
    high: float

    def x(self, index: int) -> float:
        span = self.width - LEFT - RIGHT
        return LEFT + span * (index / (self.count - 1) if self.count > 1 else 1.0)

    def y(self, value_ms: float) -> float:
        """Values beyond the scale lie on its edge."""
        inside = min(max(value_ms, self.low), self.high)
        span = self.height - TOP - BOTTOM
        return TOP + span * (1 - (inside - self.low) / (self.high - self.low))


def strip(ring: Sequence[Sample]) -> Html:
    """Both sizes of the strip of one series."""
    return join([_strip(ring, *WIDE, "wide"), _strip(ring, *NARROW, "narrow")])


def spark(ring: Sequence[Sample]) -> Html:
    """A small trend for a table's cell; says nothing that the cells beside it do not say, so it is hidden."""
    width, height, count = SPARK
    values = [sample.value_s for sample in ring[-count:]]
    low, high = min(values), max(values)
    # A steady phase is a flat line, not magnified noise.
    reach = max(high - low, 0.1 * high, 1e-9)
    middle = (low + high) / 2
    step = (width - 6) / max(1, len(values) - 1)
    points = " ".join(
        f"{3 + step * n:.1f},{height / 2 - (value - middle) / reach * (height - 8):.1f}"
        for n, value in enumerate(values)
    )
    last_y = height / 2 - (values[-1] - middle) / reach * (height - 8)
    return el(
        "svg",
        el("polyline", points=points, class_="trend"),
        el("circle", cx=3 + step * (len(values) - 1), cy=last_y, r=2.4, class_=_class(ring[-1])),
        viewBox=f"0 0 {width:g} {height:g}",
        class_="spark",
        aria_hidden="true",
    )


def describe(ring: Sequence[Sample]) -> str:
    """The picture in words."""
    last = ring[-1]
    text = f"{phase_words(last.phase)} over the last {len(ring)} reports, last {last.value_s * 1000:.2f} ms"
    outside = sum(sample.in_band is False for sample in ring)
    if last.band is not None:
        text += f", band {band_of(last.band)}, {outside} outside"
    return f"{text}."


def _strip(ring: Sequence[Sample], width: float, height: float, count: int, size: str) -> Html:
    shown = ring[-count:]
    scale = _Scale(width, height, len(shown), *_range(shown))
    return el(
        "svg",
        el("title", describe(shown)),
        _band(shown, scale),
        _grid(scale),
        _restarts(shown, scale),
        el("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in _points(shown, scale)), class_="trend"),
        [_dot(sample, *point) for sample, point in zip(shown, _points(shown, scale), strict=True)],
        _last(shown, scale),
        _times(shown, scale),
        viewBox=f"0 0 {width:g} {height:g}",
        class_=f"strip {size}",
        role="img",
    )


def _range(shown: Sequence[Sample]) -> tuple[float, float]:
    """Milliseconds at the bottom and top: all of the band, and what is not far beyond all the others."""
    values = sorted(sample.value_s * 1000 for sample in shown)
    typical = values[math.floor(0.95 * (len(values) - 1))]
    edges = [edge * 1000 for sample in shown if sample.band for edge in (sample.band.low, sample.band.high)]
    low = min([values[0], *edges])
    high = max([min(values[-1], 1.5 * typical), *edges])
    margin = max(0.12 * (high - low), 0.02 * high, 1e-6)
    return max(0.0, low - margin), high + margin


def _points(shown: Sequence[Sample], scale: _Scale) -> Iterator[tuple[float, float]]:
    for index, sample in enumerate(shown):
        yield scale.x(index), scale.y(sample.value_s * 1000)


def _class(sample: Sample) -> str:
    return {True: "good", False: "bad", None: "plain"}[sample.in_band]


def _dot(sample: Sample, x: float, y: float) -> Html:
    if sample.in_band is False:
        path = f"M{x:.1f} {y - 3.6:.1f}l3.6 3.6l-3.6 3.6l-3.6 -3.6z"
        return el("path", d=path, class_="bad")
    return el("circle", cx=round(x, 1), cy=round(y, 1), r=2.2, class_=_class(sample))


def _band(shown: Sequence[Sample], scale: _Scale) -> list[Html]:
    """The newest band as a shaded stretch over the whole width."""
    band = next((sample.band for sample in reversed(shown) if sample.band), None)
    if band is None:
        return []
    top, bottom = scale.y(band.high * 1000), scale.y(band.low * 1000)
    right = scale.width - RIGHT
    # Above the band, where samples seldom are; inside it they always are.
    label = el("text", f"band {band_of(band)}", x=LEFT + 4, y=top - 6, class_="band-label")
    return [
        el("rect", x=LEFT, y=top, width=right - LEFT, height=max(1.0, bottom - top), class_="band"),
        *(el("line", x1=LEFT, x2=right, y1=y, y2=y, class_="edge") for y in (top, bottom)),
        label,
    ]


def _grid(scale: _Scale) -> list[Html]:
    found = []
    for value in _ticks(scale.low, scale.high):
        y = scale.y(value)
        found.append(el("line", x1=LEFT, x2=scale.width - RIGHT, y1=y, y2=y, class_="grid"))
        found.append(el("text", f"{value:g}", x=LEFT - 8, y=y + 4, class_="tick", text_anchor="end"))
    found.append(el("text", "ms", x=LEFT - 8, y=TOP - 4, class_="tick", text_anchor="end"))
    return found


def _ticks(low: float, high: float) -> Iterator[float]:
    """Three to six round values within the range."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)
    number = math.ceil(low / step)
    while number * step <= high:
        yield round(number * step, 9)
        number += 1


def _restarts(shown: Sequence[Sample], scale: _Scale) -> list[Html]:
    """A line where one run ends and the next begins."""
    found = []
    for index in range(1, len(shown)):
        if shown[index].run != shown[index - 1].run:
            x = (scale.x(index) + scale.x(index - 1)) / 2
            end = x > scale.width - RIGHT - 60
            found.append(
                el("line", x1=x, x2=x, y1=TOP, y2=scale.height - BOTTOM, class_="restart"),
            )
            found.append(
                el(
                    "text",
                    "restart",
                    x=x - 5 if end else x + 5,
                    y=scale.height - BOTTOM - 6,
                    class_="tick",
                    text_anchor="end" if end else "start",
                )
            )
    return found


def _last(shown: Sequence[Sample], scale: _Scale) -> Html:
    last = shown[-1]
    y = scale.y(last.value_s * 1000)
    return el(
        "text",
        f"{last.value_s * 1000:.2f}",
        x=scale.width - RIGHT + 10,
        y=y + 5,
        class_=f"last {_class(last)}",
    )


def _times(shown: Sequence[Sample], scale: _Scale) -> list[Html]:
    """The log's time of the first and the last sample, where it has any."""
    y = scale.height - 6
    begin, end = (_clock(sample) for sample in (shown[0], shown[-1]))
    found = [el("text", begin, x=LEFT, y=y, class_="tick")]
    if len(shown) > 1:
        found.append(el("text", end, x=scale.width - RIGHT, y=y, class_="tick", text_anchor="end"))
    return found


def _clock(sample: Sample) -> str:
    return sample.time[11:19] if sample.time and len(sample.time) >= 19 else f"line {sample.line}"
