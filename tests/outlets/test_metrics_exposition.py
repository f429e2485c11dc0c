"""What scrapers read: both formats parse strictly, promtool has no complaint, `name[]` and exemplars work."""

import subprocess

import pytest
from outlet_items import cycle, one_of_each
from prometheus_client import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from logwatch.outlets.metrics import Metrics, build_registry
from logwatch.outlets.metrics_families import HELP

CONTRACT = {
    "phase_seconds": "gauge",
    "band_low_seconds": "gauge",
    "band_high_seconds": "gauge",
    "phase_in_band": "gauge",
    "cycle_phase_seconds_total": "counter",
    "cycles_total": "counter",
    "phase_duration_seconds": "histogram",
    "tokens_per_cycle": "gauge",
    "estimated_tokens_per_second": "gauge",
    "breakeven_tokens_per_cycle": "gauge",
    "speculation_speedup_ratio": "gauge",
    "running_requests": "gauge",
    "generation_tokens_per_second": "gauge",
    "incident_open": "gauge",
    "incidents_total": "counter",
    "run_info": "gauge",
    "lines_total": "counter",
    "read_bytes_total": "counter",
    "lag_bytes": "gauge",
    "lag_seconds": "gauge",
    "rotations_total": "counter",
    "truncations_total": "counter",
    "lost_bytes_total": "counter",
    "last_sample_timestamp_seconds": "gauge",
    "alerts_total": "counter",
    "alerts_pending": "gauge",
    "config_last_reload_successful": "gauge",
    "build_info": "gauge",
}
"""Section 8 of the contract, with the types that the text format shows."""


@pytest.fixture
def registry():
    metrics = Metrics(baseline_tokens_per_second=82.2)
    metrics.add_receiver("pager")
    for item in one_of_each():
        metrics.take(item)
    return build_registry(metrics)


def test_every_metric_of_the_contract_has_its_type_and_samples(registry):
    """Names and types are those of the contract, in the text format that promtool reads."""
    text = generate_latest(registry).decode()
    for name, kind in CONTRACT.items():
        assert f"# TYPE logwatch_{name} {kind}\n" in text
        series = f"logwatch_{name}_count" if kind == "histogram" else f"logwatch_{name}"
        assert any(line.startswith((f"{series}{{", f"{series} ")) for line in text.splitlines()), name


@pytest.mark.needs("promtool")
def test_promtool_has_no_complaint(registry):
    """[64] `promtool check metrics` is clean."""
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=generate_latest(registry), capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout.decode(), checked.stderr.decode()) == (0, "", "")


def test_openmetrics_parses_strictly(registry):
    """[64] The strict parser reads the whole exposition and finds what was put in."""
    families = {
        family.name: family
        for family in text_string_to_metric_families(generate_openmetrics(registry).decode())
    }
    assert {f"logwatch_{name}" for name in HELP} <= set(families)
    assert families["logwatch_phase_seconds"].unit == "seconds"
    assert not [name for name in families if name.endswith("_created")]
    verify = [sample for sample in families["logwatch_phase_seconds"].samples if sample.value == 0.02895]
    assert [s.labels for s in verify] == [
        {"phase": "target_verify", "rank": 'TP1 "quoted\\', "stream": "node7.log"}
    ]
    assert all(s.timestamp is None for family in families.values() for s in family.samples)


def test_an_exemplar_says_where_in_the_log_the_sample_stands(registry):
    """[64] File, line and offset of a bucket's newest sample, in at most 128 characters."""
    text = generate_openmetrics(registry).decode()
    exemplars = [
        sample.exemplar
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.exemplar
    ]
    assert {"file": "node7.log", "line": "2", "offset": "200"} in [each.labels for each in exemplars]
    assert all(sum(map(len, (*each.labels, *each.labels.values()))) <= 128 for each in exemplars)


def test_exemplars_of_long_file_names_are_short():
    """A path of any length gives an exemplar that parses."""
    metrics = Metrics()
    metrics.take(cycle(stream="x" * 4000))
    text = generate_openmetrics(build_registry(metrics)).decode()
    assert list(text_string_to_metric_families(text))


def test_name_filter_gives_only_what_was_asked(registry):
    """`name[]` restricts a scrape to the series named."""
    text = generate_latest(registry.restricted_registry(["logwatch_cycles_total"])).decode()
    assert {line.split("{")[0] for line in text.splitlines() if line[0] != "#"} == {"logwatch_cycles_total"}
