"""Causes from whole logs: a good run, what then happens to the server, and who is blamed for it, or must not be."""

import random

import pytest

from logwatch.config import Config
from logwatch.model import Incident
from logwatch.pipeline import Pipeline, Settings

GOOD = {"verify": 19.14, "draft": 0.53, "extend": 0.48}
SLOW = {**GOOD, "verify": 28.95}
ALL_SLOW = {name: 1.4 * value for name, value in GOOD.items()}
TUNED = "NCCL_ALGO=Ring NCCL_PROTO=LL"
CONFIG = Config.model_validate({"band": [{"phase": "target_verify", "low": "17ms", "high": "21ms"}]})


class Server:
    """Writes the log of a server of a few ranks, as SGLang and the plugin write it."""

    def __init__(self):
        self.text = ""
        self.seconds = 0
        self.noise = random.Random(5)

    def say(self, text, rank="TP0"):
        self.text += f"[2026-02-11 08:{self.seconds // 60:02}:{self.seconds % 60:02} {rank}] {text}\n"

    def start(self, variables=TUNED, rank="TP0", graph=True, **settings):
        known = {"model_path": "'/models/moe-1t'", "tp_size": 8, "disable_cuda_graph": not graph, **settings}
        self.say(f"server_args=ServerArgs({', '.join(f'{name}={value}' for name, value in known.items())})")
        for each in rank.split():
            self.say(f"EAGLE3_PROFILE environment {variables}", each)
        return self

    def serve(self, times, reports=12, rank="TP0", graph=True, batch=1, slow_rank=""):
        for _ in range(reports):
            self.seconds += 3
            for each in rank.split():
                factor = self.noise.gauss(1, 0.0005) * (1.4 if each == slow_rank else 1)
                share = "100.0" if graph else "0.0"
                self.say(
                    f"Decode batch, #running-req: {batch}, #token: 900, token usage: 0.10, accept len: 1.92, "
                    f"accept rate: 0.46, cuda graph: {graph}, gen throughput (token/s): 94.0, #queue-req: 0",
                    each,
                )
                self.say(f"EAGLE3_PROFILE 100 cycles, batch {batch:.1f}, graph {share}%", each)
                self.text += (
                    f"  Draft forward: {times['draft'] * factor:.2f} ms/cyc\n"
                    f"  Target verify: {times['verify'] * factor:.2f} ms/cyc\n"
                    f"  Draft extend: {times['extend'] * factor:.2f} ms/cyc\n"
                    f"  Accept len: 0.92\n"
                )
        return self

    def retract(self):
        for _ in range(3):
            self.say("KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_tokens_gained: 900")
        return self


def blamed(server):
    """Causes of the first incident of verify, as known at the end."""
    pipeline = Pipeline(Settings.of_config(CONFIG), "server.log", "server.log")
    items = [*pipeline.feed_bytes(server.text.encode()), *pipeline.finish()]
    incidents = [each for each in items if isinstance(each, Incident) and each.phase == "target_verify"]
    assert incidents, "the change was not seen"
    told = [each for each in incidents if each.key == incidents[0].key and each.causes]
    return [cause.cause for cause in told[-1].causes]


def after_a_good_run():
    return Server().start().serve(GOOD)


@pytest.mark.parametrize(
    ("server", "causes"),
    [
        pytest.param(
            after_a_good_run().start(graph=False).serve(SLOW, graph=False),
            ["cuda_graph_off"],
            id="started without graphs",
        ),
        pytest.param(
            after_a_good_run().start("NCCL_ALGO=Ring").serve(SLOW),
            ["nccl_environment"],
            id="a variable did not reach the workers",
        ),
        pytest.param(
            after_a_good_run().start(f"{TUNED} NCCL_DEBUG=INFO").serve(SLOW),
            ["unknown"],
            id="restarted with NCCL's messages on, and slow",
        ),
        pytest.param(
            after_a_good_run().start(f"{TUNED} NCCL_DEBUG=INFO", attention_backend="'triton'").serve(SLOW),
            ["settings_changed"],
            id="another backend, and NCCL's messages on",
        ),
        pytest.param(
            after_a_good_run().serve(ALL_SLOW), ["neighbour"], id="everything slower, nothing changed"
        ),
        pytest.param(after_a_good_run().serve(SLOW), ["unknown"], id="verify slower, nothing changed"),
        pytest.param(
            after_a_good_run().serve({**GOOD, "verify": 24.0}, batch=4), ["load"], id="four requests at once"
        ),
        pytest.param(
            after_a_good_run().serve(SLOW, 1).retract().serve(SLOW), ["kv_pressure"], id="requests retracted"
        ),
        pytest.param(
            Server().start().serve(GOOD, 6).retract().serve(GOOD, 6).serve(SLOW),
            ["unknown"],
            id="requests were retracted long before",
        ),
        pytest.param(
            Server()
            .start(rank="TP0 TP1")
            .serve(GOOD, rank="TP0 TP1")
            .serve(GOOD, rank="TP0 TP1", slow_rank="TP1"),
            ["one_rank_slow"],
            id="one rank slower",
        ),
        pytest.param(
            after_a_good_run().serve({**GOOD, "verify": 12.0}).retract(),
            ["unknown"],
            id="faster, and nothing harmful is blamed",
        ),
    ],
)
def test_who_is_blamed(server, causes):
    """What the log proves is the cause, and what cannot have done it is not."""
    assert blamed(server) == causes
