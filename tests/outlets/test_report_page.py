"""The picture report, opened in a real Chromium: complete, readable in both lights, and nothing is fetched."""

import json
import re
import struct
import subprocess
import zlib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from outlet_items import cycle, incident, judgement, malformed, place, read, run_started

from logwatch.model import Change, Moment, Record
from logwatch.outlets.report.page import page
from logwatch.outlets.report.scene import scene
from logwatch.outlets.report.summary import Collector
from logwatch.outlets.report.track import BINS, Span, Track, Tracker

QUIET = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-default-apps", "--disable-extensions"]  # fmt: skip
ITS_OWN = re.compile(r"(^|\.)(google|googleapis|gstatic)\.com$")


def browse(path, tmp_path, *options):
    """Open a file in Chromium, give what it printed and every address that it asked for."""
    log = tmp_path / "net.json"
    done = subprocess.run(
        ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", *QUIET, f"--user-data-dir={tmp_path}/profile",
         f"--log-net-log={log}", *options, path.as_uri()],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    events = json.loads(log.read_text())["events"]
    urls = {event["params"]["url"] for event in events if "url" in event.get("params", {})}
    return done.stdout, {url for url in urls if not ITS_OWN.search(urlsplit(url).hostname or "")}


def replayed(tmp_path, *, evil=""):
    """A page of a healthy hour, a regression, and its end, with all that a page can show."""
    sink, collector = Tracker(82.2), Collector(82.2)
    items = [run_started(tp_size="8", model=f"/m{evil}", num_steps="2")]
    for minute in range(60):
        of = cycle(
            0.01914 if minute < 30 else 0.02895, line=10 + minute, time=f"2026-02-11T09:{minute:02}:00", run=0
        )
        items += [of, judgement(of)]
    items += [
        malformed(found=f"nan{evil}"), read(),
        incident(onset=Moment(40, "2026-02-11T09:30:00"), noticed=Moment(42, "2026-02-11T09:32:00"), detail=evil, run=0),
    ]  # fmt: skip
    for item in items:
        sink.take(item)
        collector.take(item)
    sink.close()
    path = tmp_path / "r.html"
    path.write_text(page(collector.summary(), sink))
    return path


def test_chromium_fetches_nothing_and_shows_everything(tmp_path):
    """One file, no network: charts, incidents, settings and malformed lines are all in it."""
    path = replayed(tmp_path)
    shown, asked = browse(path, tmp_path, "--dump-dom")
    assert {url for url in asked if not url.startswith(("file:", "data:"))} == set()
    for words in ("Target verify, ms per cycle", "Where a cycle goes", "Tokens per cycle", "Batch size",
                  "Malformed lines", "cuda graph off", "Settings of run 1", "1.51 x the level before"):  # fmt: skip
        assert words in shown
    assert shown.count("<svg") == 8
    assert "<script" not in shown


def test_what_would_be_fetched_is_seen(tmp_path):
    """The test above means something: a page with an image elsewhere is found out."""
    path = tmp_path / "bad.html"
    path.write_text("<img src='http://elsewhere.invalid/x.png'>")
    _, asked = browse(path, tmp_path, "--dump-dom")
    assert "http://elsewhere.invalid/x.png" in asked


def pixels(png: Path):
    """Width, height and the colour of the first pixel (unfiltered rows begin with it)."""
    data = png.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    raw = zlib.decompress(b"".join(re.findall(rb"IDAT(.*?)....(?=....I(?:DAT|END))", data, re.DOTALL)))
    return width, height, tuple(raw[1:4])


@pytest.mark.parametrize(
    ("options", "width", "dark"),
    [
        pytest.param([], 1180, False, id="wide and light"),
        pytest.param(["--blink-settings=preferredColorScheme=0"], 1180, True, id="wide and dark"),
        pytest.param([], 500, False, id="narrow"),
    ],
)
def test_it_follows_light_and_width(options, width, dark, tmp_path):
    """A dark desktop gets a dark page; a narrow window gets the narrow drawings."""
    path, shot = replayed(tmp_path), tmp_path / "shot.png"
    browse(
        path, tmp_path, *options, "--hide-scrollbars", f"--window-size={width},800", f"--screenshot={shot}"
    )
    given, _, colour = pixels(shot)
    assert given == width
    assert (sum(colour) < 3 * 64) == dark


def test_text_from_a_log_is_only_text(tmp_path):
    """Markup in settings, labels and evidence is shown, not run."""
    path = replayed(
        tmp_path,
        evil="<script>fetch('http://elsewhere.invalid')</script><img src=x onerror=alert(1)>\x1b[31m",
    )
    text = path.read_text()
    assert "<script" not in text
    assert "<img" not in text
    assert "\x1b" not in text
    assert "&lt;script&gt;" in text


def test_a_log_without_times_is_drawn_over_lines():
    """`grep` output has no time; the axis is the line number, and the page says so."""
    sink, collector = Tracker(), Collector()
    for line in range(5):
        of = cycle(line=line + 1, time=None)
        for item in (of, judgement(of)):
            sink.take(item)
            collector.take(item)
    sink.close()
    text = page(collector.summary(), sink)
    assert "The axis is the line number" in text
    assert ">line</text>" in text


def test_resolved_incidents_are_told_apart():
    """What is over is drawn to its end and marked as over."""
    collector = Collector()
    of = cycle()
    for item in (of, judgement(of), incident(), incident(Change.RESOLVED)):
        collector.take(item)
    sink = Tracker()
    assert 'class="card incident over"' in page(collector.summary(), sink)


def test_crashes_are_listed():
    """A crash stands on the page with its place, and its words are only text."""
    words = "Scheduler hit an exception: <b>"
    crash = Record(place(7), "event", {"event": "crash", "text": words}, time="2026-02-11T08:15:09")
    assert "crashed at line 7 (2026-02-11 08:15:09): Scheduler hit an exception: &lt;b&gt;" in paged(
        cycle(), crash
    )


def paged(*items):
    """The page of these items, as text."""
    sink, collector = Tracker(82.2), Collector(82.2)
    for item in items:
        sink.take(item)
        collector.take(item)
    sink.close()
    return page(collector.summary(), sink)


def figures(text):
    """The large figures of the page, with their colours."""
    return re.findall(r'<div class="tile ([a-z]*)"><b>([^<]*)</b>', text)


def test_the_large_figures_are_of_the_rank_in_trouble():
    """Seven ranks are well and one has an open incident: the first figure is that one's, and is not green."""
    items = []
    for rank in range(8):
        for line in range(9):
            slow = rank == 3 and line > 6
            of = cycle(0.0289 if slow else 0.0191, line=10 * line + rank + 1, rank=f"TP{rank}")
            items += [of, judgement(of)]
    text = paged(*items, incident(rank="TP3", run=0, key="k"))
    assert "<h3>TP3</h3><div class=tiles>" in text
    assert figures(text)[0] == ("bad", "28.90 ms")
    assert "Since line 41 (2026-02-11 09:00:00); still so at the end of the log." in text
    over = incident(Change.RESOLVED, rank="TP3", run=0, key="k")
    assert figures(paged(*items, incident(rank="TP3", run=0, key="k"), over))[0] == ("good", "19.10 ms")


def test_the_throughput_shown_is_that_of_the_open_incident():
    """A run that was fast for long is not called fast while an incident says that it is slow now."""
    slow = incident(kind="slower_than_baseline", phase="speculation", after=64.9, run=0, key="k")
    assert ("bad", "64.9") in figures(paged(*(cycle(line=line) for line in range(1, 9)), slow))


def test_a_page_without_bands_does_not_say_in_band():
    """Nothing was judged by a band: there is no incident, and no more is said."""
    text = paged(cycle(line=1), cycle(line=2))
    assert '<span class="badge good">no incident</span>' in text


def test_reports_of_one_second_lie_beside_each_other():
    """A log that writes whole seconds is not drawn as a comb; one that writes more is drawn as it says."""
    times = ["2026-02-11T08:15:02"] * 4 + [
        "2026-02-11T08:15:03",
        "2026-02-11T08:15:04.5",
        "2026-02-11T08:15:04.5",
    ]
    track = Track("s", None, spans=[Span(line, time, 0, 1, {}) for line, time in enumerate(times)])
    on = scene([track], [], [], [])
    assert [str(on.place(span))[17:] for span in track.spans] == [
        "02.000", "02.250", "02.500", "02.750", "03.000", "04.5", "04.5",
    ]  # fmt: skip
    assert on.at(3, None) == "2026-02-11T08:15:02.750"
    assert on.at(0, "2026-02-11T08:15:04") == "2026-02-11T08:15:04"


def test_of_many_ranks_only_those_in_trouble_have_a_colour():
    """Sixteen lines in eight colours tell nothing; one coloured line among grey ones does."""
    tracks = [Track("s", f"TP{rank}", spans=[Span(1, None, 0, 1, {})]) for rank in range(16)]
    assert set(scene(tracks[:8], [], [], []).colours) == {f"TP{rank}" for rank in range(8)}
    assert set(scene(tracks, [incident(rank="TP11")], [], []).colours) == {"TP11"}


def test_a_track_is_bounded_and_keeps_runs_apart():
    """A million reports are at most `BINS` spans, and none of them mixes two runs."""
    track = Track("s", None)
    for line in range(20_000):
        track.add(Span(line, None, line // 7000, 1, {}))
    assert len(track.spans) <= BINS
    assert sum(span.reports for span in track.spans) == 20_000
    assert [span.line for span in track.spans] == sorted(span.line for span in track.spans)
    assert {span.run for span in track.spans} == {0, 1, 2}
    hostile = Track("s", None)
    for line in range(5000):
        hostile.add(Span(line, None, line, 1, {}))
    assert len(hostile.spans) <= BINS
