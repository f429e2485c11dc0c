"""The status page's HTML and its live updates, without a browser: what it says, and what it never lets through."""

import http.client
import json
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
import scenes
from outlet_items import BAND, incident

from logwatch.model import Cause, Moment
from logwatch.outlets.web import live
from logwatch.outlets.web.app import build_app
from logwatch.outlets.web.live import STATIC_FILES
from logwatch.outlets.web.markup import Html, el, join, prose
from logwatch.outlets.web.runbook import runbook_page
from logwatch.outlets.web.sentence import rank_order, summarize
from logwatch.outlets.web.server import Server, bind


@pytest.mark.parametrize(
    ("scene", "state", "sentence"),
    [
        pytest.param("empty", "no_data", "Nothing to read yet: no source has been found.", id="no source"),
        pytest.param("waiting", "no_data", "No samples yet from 1 source.", id="no sample"),
        pytest.param(
            "unbanded",
            "unjudged",
            "Inferred cycle takes 10.91 ms a cycle; no band says whether that is good.",
            id="no band",
        ),
        pytest.param(
            "tuned",
            "in_band",
            "Target verify takes 19.12 ms a cycle, inside its band of 17.00 to 21.00 ms, on all 8 ranks.",
            id="in band",
        ),
        pytest.param(
            "eight_ranks",
            "out_of_band",
            "Target verify takes 28.95 ms a cycle since 2026-02-11 08:13:40, 1.51 times the 19.14 ms before and "
            "above the band of 17.00 to 21.00 ms; most likely CUDA graph off (seen by 8 ranks).",
            id="out of band",
        ),
    ],
)
def test_the_state_is_one_sentence(scene, state, sentence):
    """What a person asks first, in words that hold without the rest of the page."""
    site = scenes.SCENES[scene]()
    summary = summarize(site.board.view(), len(site.metrics.sources()))
    assert (state, sentence) == (summary.state, summary.sentence)


def test_one_report_outside_is_not_yet_an_incident():
    """Between the first report outside and the incident the page says so, and that it may come to nothing."""
    site = scenes.tuned()
    each = scenes.report(900, 0.0251)
    scenes.feed(site, each, scenes.judgement(each))
    assert summarize(site.board.view(), 1).sentence == (
        "Target verify took 25.10 ms a cycle in the last report, outside its band of 17.00 to 21.00 ms; "
        "a few in a row make an incident."
    )


def test_a_warning_does_not_look_like_an_emergency(serve):
    """The page is as loud as the worst open incident: amber for warnings, red once one is critical."""
    site = scenes.tuned()
    client = serve(site)
    scenes.feed(site, incident(severity="warning", direction="low"))
    assert '<body class="warn"' in client.get("/").text
    scenes.feed(site, incident(key="b"))
    assert '<body class="bad"' in client.get("/").text


def test_other_open_incidents_are_counted_in_the_sentence():
    """The worst trouble is named; how many more there are is said."""
    site = scenes.regressed()
    scenes.feed(
        site, incident(phase="tokens_per_cycle", kind="acceptance_dropped", key="t", before=2.0, after=1.2)
    )
    assert summarize(site.board.view(), 1).sentence.endswith("; 1 more incident is open.")


def test_an_incident_of_tokens_is_not_told_in_milliseconds():
    """Tokens per cycle have no unit of time, in the sentence as on the card."""
    site = scenes.tuned()
    scenes.feed(
        site,
        incident(
            phase="tokens_per_cycle",
            kind="acceptance_dropped",
            direction="low",
            severity="warning",
            before=1.92,
            after=1.31,
            ratio=0.68,
            band=None,
            causes=(),
        ),
    )
    assert summarize(site.board.view(), 1).sentence == (
        "The draft's tokens are accepted less often than before, since 2026-02-11 09:00:00: 1.31 tokens a cycle, 0.68 times the 1.92 tokens a cycle before."
    )


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        pytest.param(
            {"kind": "graph_lost", "phase": "cuda_graph", "before": 1.0, "after": 0.0, "ratio": 0.0},
            "Target verify runs without CUDA graphs, since 2026-02-11 09:00:00; most likely CUDA graph off.",
            id="graphs",
        ),
        pytest.param(
            {
                "kind": "slower_than_baseline",
                "phase": "speculation",
                "before": None,
                "after": 60.4,
                "ratio": 0.73,
            },
            "Speculative decoding is slower than decoding without it, since 2026-02-11 09:00:00: 60.4 tok/s; "
            "most likely CUDA graph off.",
            id="speed-up",
        ),
        pytest.param(
            {"before": None, "causes": (Cause("unknown", "Ruled out: settings.", 0.0),), "onset": Moment(6)},
            "Target verify takes 28.95 ms a cycle since line 6, above the band of 17.00 to 21.00 ms.",
            id="no cause, no time, nothing before",
        ),
    ],
)
def test_every_kind_of_incident_has_its_sentence(serve, changed, sentence):
    """What is watched besides phases is told in its own unit, or without a number that would say nothing."""
    site = scenes.tuned()
    scenes.feed(site, incident(**({"band": BAND} | changed)))
    assert summarize(site.board.view(), 1).sentence == sentence
    text = serve(site).get("/").text
    assert "Runbook" in text
    assert "60400.00" not in text


def test_logwatch_says_when_it_is_in_trouble_itself(serve):
    """A full disk, a refused reload, alerts that wait and reading that lags are told on the page and in JSON."""
    client = serve(scenes.troubled())
    document = client.get("/api/v1/status").json
    assert document["troubles"] == [
        "The state file cannot be written: reading waits until it can, so that nothing is lost.",
        "The configuration could not be loaded again; the one before is in force.",
        "3 alerts wait for delivery.",
        "Reading is 95 s behind the writer of node7.log.",
    ]
    assert document["state"] == "in_band"
    text = client.get("/").text
    assert all(trouble in text for trouble in document["troubles"])
    assert [(each["kind"], each["level"], each["count"]) for each in document["events"]] == [
        ("sink_failed", "warning", 3),
        ("lost", "error", 1),
        ("rotated", "info", 1),
    ]
    assert "sink failed, 3 times" in text
    assert serve(scenes.tuned()).get("/api/v1/status").json["troubles"] == []


class Elements(HTMLParser):
    """Names of elements, attributes and ids of a document, and whether its tags are balanced."""

    def __init__(self, text):
        super().__init__()
        self.names, self.attributes, self.ids, self.stack = set(), set(), [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in {"meta", "link"}:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert tag == self.stack.pop()


@pytest.mark.parametrize("scene", scenes.SCENES)
def test_the_page_is_well_formed_and_self_contained(serve, scene):
    """Tags balance, ids are unique, nothing is inline that the policy forbids, nothing comes from elsewhere."""
    answer = serve(scenes.SCENES[scene]()).get("/")
    elements = Elements(answer.text)
    assert elements.stack == []
    assert len(elements.ids) == len(set(elements.ids))
    assert "style" not in elements.names | elements.attributes
    assert not [name for name in elements.attributes if name.startswith("on")]
    assert not re.search(r'(?:src|href)="(?:https?:)?//', answer.text)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


def test_a_log_cannot_become_markup(serve):
    """Whatever a log says, the page holds only the elements that we make."""
    expected = Elements(serve(scenes.regressed()).get("/").text).names
    client = serve(scenes.hostile())
    assert Elements(client.get("/").text).names <= expected
    assert "<script>window" not in client.get("/").text
    assert "<script>window" not in first_event(client).text


@pytest.mark.parametrize("name", sorted(STATIC_FILES))
def test_the_pages_files_are_served(client, name):
    """Style, script and icons come from us, with their types."""
    answer = client.get(f"/static/{name}")
    kinds = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    assert answer.status == 200
    assert answer.headers["content-type"].partition(";")[0] == kinds[name.rpartition(".")[2]]


@pytest.mark.parametrize(
    "path",
    ["/static/page.py", "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/runbooks/..%2f..%2fREADME.md"],
)
def test_no_other_files_are_served(client, path):
    """Nothing outside the fixed list can be asked for."""
    assert client.get(path).status == 404


class Event:
    """One server-sent event."""

    def __init__(self, text):
        self.text = text
        data = next(line for line in text.splitlines() if line.startswith("data: "))
        self.document = json.loads(data.removeprefix("data: "))


def read_event(answer):
    """The next event that carries data."""
    lines = []
    while line := (answer.readline() or b"the stream has ended\n").decode().rstrip("\n"):
        assert line != "the stream has ended"
        lines.append(line)
    return Event("\n".join(lines)) if any(line.startswith("data: ") for line in lines) else read_event(answer)


def watch(client, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=10)
    connection.request(method, "/events")
    return connection, connection.getresponse()


def first_event(client):
    connection, answer = watch(client)
    try:
        return read_event(answer)
    finally:
        connection.close()


def test_updates_carry_only_what_changed(serve):
    """The first event brings every part; after a new report only the parts that show it."""
    client = serve(scenes.tuned())
    connection, answer = watch(client)
    try:
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        first = read_event(answer)
        assert {"sentence", "strip", "phases", "run", "sources"} <= set(first.document["parts"])
        each = scenes.report(900, 0.0193)
        scenes.feed(client.site, each, scenes.judgement(each))
        second = read_event(answer)
        assert "strip" in second.document["parts"]
        assert not {"run", "past", "open"} & set(second.document["parts"])
        assert "19.30 ms" in second.document["title"]
    finally:
        connection.close()


def test_pages_that_are_open_are_bounded(serve, monkeypatch):
    """More watchers than allowed are told to come back later."""
    monkeypatch.setattr(live, "MAX_WATCHERS", 2)
    client = serve(scenes.tuned())
    watching = [watch(client) for _ in range(2)]
    try:
        for _, answer in watching:
            read_event(answer)
        refused = client.get("/events")
        assert (refused.status, refused.headers["retry-after"]) == (503, "30")
    finally:
        for connection, _ in watching:
            connection.close()


def test_asking_for_the_headers_watches_nothing(serve, monkeypatch):
    """HEAD is answered at once, and takes nobody's place."""
    monkeypatch.setattr(live, "MAX_WATCHERS", 1)
    client = serve(scenes.tuned())
    asking = [watch(client, "HEAD") for _ in range(3)]
    for _, answer in asking:
        assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert answer.read() == b""
    assert "sentence" in first_event(client).document["parts"]
    for connection, _ in asking:
        connection.close()


def test_an_open_page_does_not_hold_up_the_end(site):
    """`stop` ends event streams first; the browser sees the stream end."""
    server = Server(build_app(site), bind("127.0.0.1:0"))
    server.start()
    connection, answer = watch(SimpleNamespace(port=int(server.address.rpartition(":")[2])))
    read_event(answer)
    server.stop()
    assert answer.read() == b""
    connection.close()


def test_markup_escapes_all_that_is_text():
    """Text and attribute values never become markup, numbers and flags are written plainly."""
    made = el(
        "a", "<b>&", Html("<i></i>"), None, [el("br"), "x"], href='"><script>', hidden=True, id=None, r=2.0
    )
    assert made == '<a href="&quot;&gt;&lt;script&gt;" hidden r="2">&lt;b&gt;&amp;<i></i><br/>x</a>'
    assert join(["<", ["&"]]) == "&lt;&amp;"
    assert prose("19.14 ms of `a<b`") == "19.14\u00a0ms of <code>a&lt;b</code>"


def test_ranks_are_ordered_as_people_count():
    """TP2 comes before TP10, and data parallel ranks before tensor parallel ones within."""
    assert sorted(["DP0 TP10", "DP0 TP2", "DP1 TP0"], key=rank_order) == ["DP0 TP2", "DP0 TP10", "DP1 TP0"]
    assert rank_order("TP" + "9" * 5000)


def test_a_runbook_is_readable_as_a_page():
    """Headings, lists, code, emphasis and links of the runbooks' Markdown; all else stays text."""
    text = "# Title\n\nOne **two**\n*three* `x<y`, see `SpecGraphLost`.\n\n```console\n$ a < b\n```\n- first\n  more\n- [see](Other.md)\n\n1. [no](javascript:x)\n"
    shown = runbook_page(text)
    assert Elements(shown).stack == []
    for part in (
        "<h1>Title</h1>",
        "<p>One <strong>two</strong> <em>three</em> <code>x&lt;y</code>, see <a",
        '<a href="SpecGraphLost.md"><code>SpecGraphLost</code></a>.</p>',
        "<pre><code>$ a &lt; b</code></pre>",
        '<ul><li>first more</li><li><a href="Other.md">see</a></li></ul>',
        "<ol><li>[no](javascript:x)</li></ol>",
    ):
        assert part in shown


def test_every_packaged_runbook_is_a_page(client):
    """All that the package brings are listed, and every link of theirs leads to a page."""
    listed = re.findall(r'href="(runbooks/\w+\.md)"', client.get("/runbooks").text)
    assert listed
    for path in listed:
        answer = client.get(f"/{path}")
        assert answer.status == 200
        assert Elements(answer.text).stack == []
        for other in re.findall(r'href="(\w+\.md)"', answer.text):
            assert client.get(f"/runbooks/{other}").status == 200, f"{path} links {other}"


def test_runbooks_are_linked_and_served(serve, tmp_path, monkeypatch):
    """Without a `runbook_url` the packaged runbooks are shown by us, and an incident's card links its own."""
    (tmp_path / "runbooks").mkdir()
    (tmp_path / "runbooks" / "SpecVerifyOutOfBand.md").write_text(
        "# SpecVerifyOutOfBand\n\n## Meaning\n\nIt is.\n"
    )
    monkeypatch.setattr(live.resources, "folder", lambda name: tmp_path if name == "dashboards" else None)
    client = serve(scenes.regressed())
    assert 'href="runbooks/SpecVerifyOutOfBand.md"' in client.get("/").text
    assert "runbooks/SpecVerifyOutOfBand.md" in client.get("/runbooks").text
    assert "<h2>Meaning</h2>" in client.get("/runbooks/SpecVerifyOutOfBand.md").text
    assert client.get("/runbooks/Nothing.md").status == 404
