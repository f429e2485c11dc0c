"""The HTTP interface as clients see it, over a real socket."""

import subprocess

import pytest
from outlet_items import cycle, incident, judgement, read, run_started
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from logwatch.model import Change
from logwatch.outlets.metrics import Metrics
from logwatch.outlets.web.board import Board
from logwatch.outlets.web.site import Site

OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2"


def feed(site, *items):
    for item in items:
        site.metrics.take(item)
        site.board.take(item)


@pytest.fixture
def busy(client):
    """A server whose machine was tuned, was restarted, and is out of band now."""
    good = [cycle(0.01914, line=10 + n, time=f"2026-02-11T08:59:{n:02}") for n in range(20)]
    bad = [cycle(0.02895, line=41 + n, run=1, time=f"2026-02-11T09:00:{n:02}") for n in range(5)]
    feed(client.site, run_started(tp_size="8", disable_cuda_graph="False"), read())
    for each in good:
        feed(client.site, each, judgement(each))
    feed(client.site, run_started(40, tp_size="8", disable_cuda_graph="True"))
    for each in bad:
        feed(client.site, each, judgement(each))
    feed(client.site, incident())
    return client


def test_metrics_are_openmetrics_to_those_who_accept_it(busy):
    """The strict parser reads what a scraper of OpenMetrics gets, exemplars included."""
    answer = busy.get("/metrics", accept=OPENMETRICS)
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    names = {family.name for family in text_string_to_metric_families(answer.text)}
    assert "logwatch_phase_seconds" in names
    assert "process_resident_memory_bytes" in names


@pytest.mark.needs("promtool")
def test_metrics_are_text_to_all_others(busy):
    """Without a wish the scraper gets the text format, and promtool has no complaint."""
    answer = busy.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=answer.body, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_metrics_are_compressed_for_those_who_can(busy):
    """Gzip where the client accepts it, with the same content."""
    plain, packed = busy.get("/metrics"), busy.get("/metrics", accept_encoding="gzip, deflate")
    assert packed.headers["content-encoding"] == "gzip"
    assert len(packed.body) < len(plain.body) / 4
    assert "logwatch_cycles_total{" in packed.text


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        pytest.param("gzip;q=0", False, id="refused"),
        pytest.param("gzip; q=0.000, identity", False, id="refused, with digits"),
        pytest.param("identity, GZIP;q=0.5", True, id="liked less, in capitals"),
        pytest.param("x-gzip", False, id="another one"),
    ],
)
def test_a_coding_that_is_refused_is_not_used(busy, accepted, packed):
    """A weight of 0 means: not this one."""
    answer = busy.get("/metrics", accept_encoding=accepted)
    assert ("content-encoding" in answer.headers) is packed


@pytest.mark.parametrize("version", ["2.0.0", "1.0.0"])
def test_openmetrics_is_never_called_what_it_is_not(busy, version):
    """The draft 2.0.0 writes counters and histograms otherwise: who asks for it gets 1.0.0, and is told so."""
    answer = busy.get("/metrics", accept=f"application/openmetrics-text;version={version}")
    assert "openmetrics-text; version=1.0.0;" in answer.headers["content-type"]


def test_metrics_can_be_filtered_by_name(busy):
    """`name[]` gives only the series asked for."""
    answer = busy.get("/metrics?name[]=logwatch_cycles_total&name[]=logwatch_lag_bytes")
    series = {line.partition("{")[0] for line in answer.text.splitlines() if not line.startswith("#")}
    assert series == {"logwatch_cycles_total", "logwatch_lag_bytes"}


@pytest.mark.parametrize(
    ("path", "changed", "status"),
    [
        pytest.param("/-/healthy", {}, 200, id="healthy"),
        pytest.param("/-/healthy", {"healthy": lambda: False}, 503, id="hanging"),
        pytest.param("/-/ready", {}, 200, id="ready"),
        pytest.param("/-/ready", {"ready": lambda: False}, 503, id="not ready yet"),
    ],
)
def test_health(serve, path, changed, status):
    """Health and readiness are what the daemon says of itself."""
    assert status == serve(Site(Metrics(), Board(), **changed)).get(path).status


@pytest.mark.parametrize(
    ("reload", "headers", "status", "says"),
    [
        pytest.param(None, {}, 403, "enable_reload", id="off by default"),
        pytest.param(lambda: "", {}, 200, "loaded again", id="allowed"),
        pytest.param(lambda: "logwatch.toml:3:1: no", {}, 500, "logwatch.toml:3:1: no", id="a bad file"),
        pytest.param(
            lambda: "", {"origin": "http://evil.example"}, 403, "other sites", id="another site's page"
        ),
    ],
)
def test_reload(serve, reload, headers, status, says):
    """Only POST reloads, only where it is allowed, and never for another site's page."""
    client = serve(Site(Metrics(), Board(), reload=reload))
    answer = client.get("/-/reload", "POST", **headers)
    assert (status, True) == (answer.status, says in answer.text)
    assert client.get("/-/reload").status == 405


def test_status_says_what_is_wrong_and_since_when(busy):
    """`logwatch.status/1`: the sentence, figures by stream, rank and phase, the run and what changed in it."""
    document = busy.get("/api/v1/status").json
    assert document["schema"] == "logwatch.status/1"
    assert document["state"] == "out_of_band"
    assert document["sentence"] == (
        "Target verify takes 28.95 ms a cycle since 2026-02-11 09:00:00, 1.51 times the 19.14 ms before and "
        "above the band of 17.00 to 21.00 ms; most likely CUDA graph off."
    )
    (stream,) = document["streams"]
    assert stream["lines"] == {"matched": 8, "ignored": 1, "malformed": 1}
    assert stream["run"]["changed"] == [{"name": "disable_cuda_graph", "before": "False", "after": "True"}]
    (rank,) = stream["ranks"]
    assert (rank["rank"], rank["tokens_per_cycle"]) == ("TP0", 1.92)
    verify = next(phase for phase in rank["phases"] if phase["phase"] == "target_verify")
    assert (verify["last_ms"], verify["median_ms"], verify["samples"]) == (28.95, 28.95, 5)
    assert verify["band"] == {"low_ms": 17.0, "high_ms": 21.0}
    assert verify["in_band"] is False
    assert [each["key"] for each in document["open_incidents"]] == [incident().key]


def test_the_interface_describes_itself(busy):
    """`logwatch.api/1` names every document with the parameters that it takes, each of them explained."""
    document = busy.get("/api/v1").json
    for path, endpoint in document["endpoints"].items():
        assert busy.get(path).status == 200
        for name in endpoint["parameters"]:
            assert document["parameters"][name]
            example = {"limit": "5", "state": "open", "since": "15m", "until": "2026-02-11T09:00:00"}.get(
                name, "x"
            )
            assert busy.get(f"{path}?{name}={example}").status == 200
        assert busy.get(f"{path}?unheard_of=1").status == 400


def test_samples_are_found_by_phase_rank_and_time(busy):
    """`logwatch.samples/1`: oldest first, filtered, the newest `limit`."""
    found = busy.get("/api/v1/samples?phase=target_verify&rank=TP0&since=2026-02-11T09:00:01&limit=3").json
    assert found["schema"] == "logwatch.samples/1"
    assert [(each["line"], each["ms"], each["in_band"]) for each in found["samples"]] == [
        (43, 28.95, False),
        (44, 28.95, False),
        (45, 28.95, False),
    ]
    assert found["limit_reached"] is True
    assert busy.get("/api/v1/samples?stream=other").json["samples"] == []


def test_incidents_are_found_by_state(busy):
    """`logwatch.incidents/1`: open and resolved ones, with causes and evidence."""
    resolved = incident(Change.RESOLVED)
    (found,) = busy.get("/api/v1/incidents?state=open").json["incidents"]
    assert found["causes"] == [
        {"cause": "cuda_graph_off", "evidence": resolved.causes[0].evidence, "score": 0.9}
    ]
    assert (found["before_ms"], found["after_ms"], found["open"], found["resolved"]) == (
        19.14,
        28.95,
        True,
        None,
    )
    feed(busy.site, resolved)
    assert busy.get("/api/v1/incidents?state=open").json["incidents"] == []
    (found,) = busy.get("/api/v1/incidents?since=2026-02-11T09:29:00").json["incidents"]
    assert found["resolved"] == {"line": 90, "time": "2026-02-11T09:30:00"}
    assert busy.get("/api/v1/incidents?since=2026-02-11T09:31:00").json["incidents"] == []


@pytest.mark.parametrize(
    ("path", "says"),
    [
        pytest.param("samples?fase=x", "known here: stream, rank, phase", id="unknown parameter"),
        pytest.param("samples?limit=0", "1 to 10000", id="limit too small"),
        pytest.param("samples?limit=99999999", "1 to 10000", id="limit too large"),
        pytest.param("samples?limit=1&limit=2", "given twice", id="given twice"),
        pytest.param("samples?since=yesterday", "ISO 8601", id="no time"),
        pytest.param("samples?since=1e400", "ISO 8601", id="a number beyond time"),
        pytest.param("samples?since=2026-02-11&until=2026-02-10", "later than", id="since after until"),
        pytest.param("samples?stream=" + "x" * 300, "longer than", id="a long value"),
        pytest.param("incidents?state=closed", "open or resolved", id="unknown state"),
        pytest.param("status?x=1", "unknown parameter", id="status takes none"),
    ],
)
def test_a_bad_question_is_told_what_is_wrong(client, path, says):
    """400 and one sentence in JSON; never a stack trace."""
    answer = client.get(f"/api/v1/{path}")
    assert answer.status == 400
    assert says in answer.json["error"]


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        pytest.param("/nowhere", "GET", 404, id="no such page"),
        pytest.param("/api/v1/nowhere", "GET", 404, id="no such document"),
        pytest.param("/metrics", "POST", 405, id="metrics are not posted"),
        pytest.param("/api/v1/status", "DELETE", 405, id="status is not deleted"),
    ],
)
def test_errors_are_short_and_plain(client, path, method, status):
    """What is not there says so in one line, in JSON under `/api/`."""
    answer = client.get(path, method)
    assert status == answer.status
    assert answer.json["error"] if path.startswith("/api/") else len(answer.text.splitlines()) == 1


@pytest.mark.parametrize("path", ["/metrics", "/api/v1/status", "/nowhere"])
def test_every_answer_carries_security_headers(client, path):
    """A strict policy, no sniffing, no framing, no server name."""
    headers = client.get(path).headers
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "deny"
    assert "server" not in headers
