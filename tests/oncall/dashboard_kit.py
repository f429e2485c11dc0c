"""A Prometheus that holds an hour of a watched server: what dashboards are tried on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass

from oncall_kit import await_line, free_port

from logwatch.config import Config
from logwatch.outlets.metrics import Metrics, build_registry
from logwatch.pipeline import Pipeline, Settings

STEP_S = 15
MINUTES = 60
WORSE_FROM_S, BETTER_FROM_S = 25 * 60, 45 * 60
EARLIER_S = 4 * 3600
INSTANCE = "node7:9877"
BASELINE = 82.2
RANKS = ("TP0", "TP1")


def report(at_s, verify_ms, accepted):
    """Lines that both ranks write within one step of time."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))
    total = verify_ms + 1.01
    texts = []
    for number, rank in enumerate(RANKS):
        verify = verify_ms + number / 100
        texts.append(
            f"[{stamp} {rank}] EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%\n"
            f"  Draft forward:      0.53 ms/cyc  (  2.6%)\n"
            f"  Target verify:     {verify:.2f} ms/cyc  ({100 * verify / total:5.1f}%)\n"
            f"  Draft extend:       0.48 ms/cyc  (  2.4%)\n"
            f"  Total cycle:       {total:.2f} ms/cyc\n"
            f"  Accept len:         {accepted:.2f}\n"
            f"[{stamp} {rank}] Decode batch, #running-req: 1, #token: 2048, token usage: 0.02, accept len:"
            f" {accepted + 1:.2f}, accept rate: 0.46, cuda graph: True, gen throughput (token/s):"
            f" {(accepted + 1) / total * 1000:.2f}, #queue-req: 0\n"
        )
    return "".join(texts)


def server_log(begin_s):
    """(time, text) of each step of an hour in which verify is slow for twenty minutes."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(begin_s))
    start = (
        f"[{stamp}] server_args=ServerArgs(model_path='model', tp_size=2, speculative_algorithm='EAGLE3',"
        " speculative_num_steps=2, speculative_eagle_topk=1, speculative_num_draft_tokens=3)\n"
    )
    for step in range(0, MINUTES * 60, STEP_S):
        worse = WORSE_FROM_S <= step < BETTER_FROM_S
        noise = (step // STEP_S * 7 % 5 - 2) / 100
        text = report(begin_s + step, (28.95 if worse else 19.15) + noise, 0.92 if not worse else 0.79)
        yield begin_s + step, (start if step == 0 else "") + text


def openmetrics(begin_s):
    """The hour as OpenMetrics text: what scrapes every fifteen seconds would have brought."""
    config = Config.model_validate({"speculation": {"baseline_tokens_per_second": BASELINE}})
    settings = Settings.of_config(config)
    now = [begin_s]
    metrics = Metrics(settings.bands, BASELINE, clock=lambda: now[0])
    metrics.add_stream("node7", "server.log")
    metrics.add_receiver("alertmanager:am:9093")
    registry = build_registry(metrics)
    pipeline = Pipeline(settings, "node7", "server.log")
    families = {}
    for at_s, text in server_log(begin_s):
        now[0] = at_s
        for item in pipeline.feed_bytes(text.encode()):
            metrics.take(item)
        metrics.observe_source("node7", 0, 0.0)
        metrics.observe_commit()
        if at_s == begin_s + WORSE_FROM_S:
            metrics.observe_alert("alertmanager:am:9093", "delivered")
        for family in registry.collect():
            kind, lines = families.setdefault(family.name, (family.type, []))
            lines += (line(sample, at_s) for sample in family.samples)
            assert kind == family.type
    for name, (kind, lines) in families.items():
        yield f"# TYPE {name} {kind}\n"
        yield from lines
    yield "# EOF\n"


def replayed(folder, begin_s):
    """An earlier hour of the same server, by `logwatch replay --openmetrics` from its log."""
    log, history = folder / "server.log", folder / "replayed.om"
    log.write_text("".join(text for _, text in server_log(begin_s)))
    command = [sys.executable, "-m", "logwatch", "replay", "--baseline", str(BASELINE), "--openmetrics"]
    result = subprocess.run([*command, history, log], capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stderr
    return [history.read_text()]


def line(sample, at_s):
    labels = {"job": "logwatch", "instance": INSTANCE} | sample.labels
    inside = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
    return f"{sample.name}{{{inside}}} {sample.value} {at_s}\n"


@dataclass
class Prometheus:
    """A running Prometheus and the hour that it holds."""

    url: str
    begin_s: float
    end_s: float

    def ask(self, path, **parameters):
        address = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
        try:
            with urllib.request.urlopen(address) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def range(self, expression, step_s=30):
        return self.ask("query_range", query=expression, start=self.begin_s, end=self.end_s, step=step_s)[
            "result"
        ]

    def instant(self, expression, at_s=None):
        return self.ask("query", query=expression, time=at_s or self.end_s)["result"]


def start_prometheus(folder, configuration="{}"):
    """Start Prometheus on `folder/data`; the process and its address."""
    (folder / "prometheus.yml").write_text(configuration)
    port = free_port()
    process = subprocess.Popen(
        [
            shutil.which("prometheus"),
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    await_line(process.stderr, "Server is ready to receive web requests")
    return process, f"http://127.0.0.1:{port}"


def fill(folder, text):
    """Turn OpenMetrics text into Prometheus' own blocks."""
    (folder / "history.om").write_text("".join(text))
    result = subprocess.run(
        [
            shutil.which("promtool"),
            "tsdb",
            "create-blocks-from",
            "openmetrics",
            f"{folder}/history.om",
            f"{folder}/data",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
