"""Single lines: which record they are, or where and why not."""

from __future__ import annotations

import pytest

from logwatch.grammar.load import load_grammars, parse_grammar
from logwatch.grammar.streaming import Failed, Parsed, Reader

READER = Reader(load_grammars())


def param(identity, *values):
    return pytest.param(*values, id=identity)


@pytest.mark.parametrize(
    ("text", "phase", "seconds", "share"),
    [
        param(
            "the field's line", "  Target verify:     28.96 ms/cyc  ( 97.0%)", "target_verify", 0.02896, 0.97
        ),
        param("no share", "  Total cycle:       20.15 ms/cyc", "total_cycle", 0.02015, None),
        param("no blanks in front", "Draft extend: 0.48 ms/cyc (2.4%)", "draft_extend", 0.00048, 0.024),
        param("no blank before the unit", "Target verify: 19.14ms/cyc", "target_verify", 0.01914, None),
        param("no blank after the colon", "Target verify:19 ms/cyc", "target_verify", 0.019, None),
        param("microseconds", "Target verify: 19140 us/cyc", "target_verify", 0.01914, None),
        param("micro sign", "Target verify: 19140 µs/cyc", "target_verify", 0.01914, None),
        param("Greek mu", "Target verify: 19140 μs/cyc", "target_verify", 0.01914, None),
        param("nanoseconds", "Target verify: 19140000 ns/cyc", "target_verify", 0.01914, None),
        param("seconds", "Target verify: 0.01914 s/cyc", "target_verify", 0.01914, None),
        param("another label", "NCCL all-reduce (layer 3): 1 ms/cyc", "nccl_all_reduce_layer_3", 0.001, None),
        param("a label of one word", "verify: 1 ms/cyc", "verify", 0.001, None),
        param("no ASCII label", "目标验证: 1 ms/cyc", "目标验证", 0.001, None),
        param("grep -n", "123:  Target verify: 1 ms/cyc", "target_verify", 0.001, None),
        param("grep -H", "server.log:  Target verify: 1 ms/cyc", "target_verify", 0.001, None),
        param("grep -Hn", "/var/log/server.log:123:  Target verify: 1 ms/cyc", "target_verify", 0.001, None),
        param("grep -n with context", "124-  Draft extend: 1 ms/cyc", "draft_extend", 0.001, None),
        param(
            "grep -Hn with context", "server.log-124-  Draft extend: 1 ms/cyc", "draft_extend", 0.001, None
        ),
        param("tabs and blanks at the ends", "\t Target verify:\t1 ms/cyc \t", "target_verify", 0.001, None),
        param("zero", "Draft forward: 0.00 ms/cyc (0.0%)", "draft_forward", 0.0, 0.0),
        param("blanks in the share", "Target verify: 19 ms/cyc( 97.0 % )", "target_verify", 0.019, 0.97),
        param(
            "another logger's prefix",
            "[EAGLE3 profile] Target verify: 19 ms/cyc",
            "target_verify",
            0.019,
            None,
        ),
        param(
            "behind a bar",
            "100%|██| 23/23 [00:03<00:00,  7.1it/s]  Target verify: 19 ms/cyc",
            "target_verify",
            0.019,
            None,
        ),
        param("blank before the colon", "Target verify : 19 ms/cyc", "target_verify", 0.019, None),
        param("written out", "Target verify: 19 ms/cycle", "target_verify", 0.019, None),
    ],
)
def test_phases(text, phase, seconds, share):
    """A phase is any label, a time with its unit, and perhaps its share."""
    fields = {"phase": phase, "seconds": seconds} | ({} if share is None else {"share": share})
    assert READER.read(text) == Parsed("phase", fields)


@pytest.mark.parametrize(
    ("text", "column", "expected", "found"),
    [
        param("decimal comma", "  Target verify: 19,14 ms/cyc", 20, "a unit of time", ","),
        param("no ASCII digits", "Target verify: ١٩ ms/cyc", 16, "a time with its unit", "١٩"),
        param("nan", "Target verify: nan ms/cyc", 16, "a time with its unit", "nan"),
        param("inf", "Target verify: inf ms/cyc", 16, "a time with its unit", "inf"),
        param("negative", "Target verify: -19.14 ms/cyc", 16, "a time with its unit", "-19.14"),
        param("exponent", "Target verify: 1e3 ms/cyc", 17, "a unit of time", "e3"),
        param("hours", "Target verify: 19.14 h/cyc", 22, "a unit of time", "h/cyc"),
        param("a cycle of a day", "Target verify: 99999 s/cyc", 16, "at most 3600", "99999"),
        param("forty digits", f"Target verify: {'9' * 40} ms/cyc", 16, "a sane number", "9" * 24),
        param("share of 130 %", "Target verify: 1 ms/cyc (130%)", 26, "at most 1", "130%)"),
        param("cut in the share", "Target verify: 1 ms/cyc (95", 28, "`%`", "the end of the line"),
        param("no number", "Target verify: ms/cyc", 16, "a time with its unit", "ms/cyc"),
        param("text behind it", "Target verify: 1 ms/cyc (95%) x", 30, "the end of the line", "x"),
        param("behind grep", "server.log:12:  Target verify: x ms/cyc", 32, "a time with its unit", "x"),
    ],
)
def test_malformed_phases(text, column, expected, found):
    """A phase line that is none says where and what was expected."""
    outcome = READER.read(text)
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.column, outcome.found) == ("phase", column, found)
    assert expected in outcome.expected


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        param(
            "full header",
            "EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%",
            {"cycles": 100, "batch_size": 1.0, "graph_percent": 100.0},
        ),
        param("short header", "EAGLE3_PROFILE 100 cycles", {"cycles": 100}),
        param("header in brackets", "[EAGLE3 profile] 100 cycles", {"cycles": 100}),
        param("header with a colon", "EAGLE3 profile: (100 cycles):", {"cycles": 100}),
        param("words of its own", "[EAGLE3 profile] last 100 cycles (rank 0)", {"cycles": 100}),
        param("graph only", "EAGLE3_PROFILE 7 cycles, graph 0.0%", {"cycles": 7, "graph_percent": 0.0}),
    ],
)
def test_headers(text, fields):
    """The report's header, as field servers and the plugin write it."""
    assert READER.read(text) == Parsed("report", fields)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        param("accepted drafts", "  Accept len:         0.92", Parsed("accept", {"accepted_drafts": 0.92})),
        param("nan", "Accept len: nan", Failed("accept", 13, "a number", "nan")),
        param(
            "spread",
            "  Verify min/p99/max: 19.02 / 19.33 / 19.80 ms",
            Parsed(
                "spread",
                {
                    "phase": "target_verify",
                    "min_seconds": 0.01902,
                    "p99_seconds": 0.01933,
                    "max_seconds": 0.0198,
                },
            ),
        ),
        param(
            "launch",
            "  Launch: draft 0.10 ms, verify 0.30 ms, extend 0.10 ms",
            Parsed("launch", {"draft_seconds": 0.0001, "verify_seconds": 0.0003, "extend_seconds": 0.0001}),
        ),
        param(
            "launch without verify",
            "Launch: draft 0.10 ms, extend 0.20 ms",
            Parsed("launch", {"draft_seconds": 0.0001, "extend_seconds": 0.0002}),
        ),
        param(
            "launch of extend only", "Launch: extend 0.20 ms", Parsed("launch", {"extend_seconds": 0.0002})
        ),
        param(
            "launch that is cut",
            "Launch: draft 0.10",
            Failed("launch", 19, "a unit of time", "the end of the line"),
        ),
        param(
            "launch of verify only", "Launch: verify 0.30 ms", Parsed("launch", {"verify_seconds": 0.0003})
        ),
        param(
            "environment",
            "EAGLE3_PROFILE environment NCCL_PROTO=LL NCCL_ALGO=Ring A= B=x%20y",
            Parsed(
                "environment", {"variables": {"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring", "A": "", "B": "x y"}}
            ),
        ),
        param(
            "a header of fewer than no cycles",
            "EAGLE3_PROFILE -5 cycles",
            Failed("report", 16, "a whole number", "-5"),
        ),
        param(
            "a header with a negative batch",
            "EAGLE3_PROFILE 5 cycles, batch -1.0",
            Failed("report", 32, "a number", "-1.0"),
        ),
        param("a notice of the plugin", "EAGLE3_PROFILE is on; draft_extend was not found", None),
    ],
)
def test_other_lines_of_a_report(text, outcome):
    """Accepted drafts, spread, launch times and environment; what only mentions the profile is passed over."""
    assert READER.read(text) == outcome


DECODE = "#running-req: 1, #token: 108, token usage: 0.10, gen throughput (token/s): 9.5, #queue-req: 0"
PLAIN = {
    "running_requests": 1,
    "tokens": 108,
    "token_usage": 0.1,
    "generation_tokens_per_second": 9.5,
    "queued_requests": 0,
}


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        param("up to 0.5.3", f"Decode batch. {DECODE}", PLAIN),
        param("from 0.5.4.post1", f"Decode batch, {DECODE}", PLAIN),
        param("0.5.4", f"Decode batch [40], {DECODE}", PLAIN | {"iteration": 40}),
        param("trailing comma and blank", f"Decode batch, {DECODE}, ", PLAIN),
        param("trailing comma", f"Decode batch, {DECODE},", PLAIN),
        param("end of line in the middle of blanks", f"Decode batch,   {DECODE}   ", PLAIN),
        param(
            "0.4.9 time at the end", f"Decode batch. {DECODE}, timestamp: 2025-07-18T15:32:54.159394", PLAIN
        ),
        param(
            "0.4.9 hybrid pool",
            "Decode batch. #running-req: 1, #token: full=108, swa=7, token usage: full=0.10, swa=0.02, #queue-req: 0",
            {k: v for k, v in PLAIN.items() if k != "generation_tokens_per_second"},
        ),
        param(
            "hybrid sliding window",
            "Decode batch, #full token: 108, full token usage: 0.10, #swa token: 5, swa token usage: 0.99",
            {"tokens": 108, "token_usage": 0.1},
        ),
        param(
            "hybrid SSM",
            "Decode batch, #full token: 108, full token usage: 0.10, mamba num: 20, mamba usage: 1.00",
            {"tokens": 108, "token_usage": 0.1},
        ),
        param(
            "HiSparse",
            "Decode batch, #running-req: 1, #gpu token: 5, gpu token usage: 0.1, #cpu token: 7, cpu token usage: 0.2",
            {"running_requests": 1},
        ),
        param(
            "DSpark",
            "Decode batch, #running-req: 1, accept len: 3.55, cap len: 4.00, block accept len: 2.0, est uncap acc len: 3.70 [3.60, 3.80], #queue-req: 0",
            {"running_requests": 1, "tokens_per_cycle": 3.55, "queued_requests": 0},
        ),
        param(
            "npu graph",
            "Decode batch, #running-req: 1, npu graph: False",
            {"running_requests": 1, "graph": False},
        ),
        param(
            "cpu graph",
            "Decode batch, #running-req: 1, cpu graph: True",
            {"running_requests": 1, "graph": True},
        ),
        param(
            "musa graph",
            "Decode batch, #running-req: 1, musa graph: True",
            {"running_requests": 1, "graph": True},
        ),
        param(
            "occupancy that is not a number",
            f"Decode batch, {DECODE}, fwd occupancy: nan%, fwd+idle occupancy: 1.00%",
            PLAIN,
        ),
        param(
            "prefill-decode disaggregation",
            "Decode batch, #running-req: 1, pre-allocated usage: 0.00, #prealloc-req: 0, #transfer-req: 0, #retracted-req: 2",
            {"running_requests": 1, "retracted_requests": 2},
        ),
        param(
            "queue of two numbers",
            "Decode batch, #running-req: 1, #queue-req p+d: 3+4",
            {"running_requests": 1},
        ),
        param(
            "a fork's fields",
            f"Decode batch. {DECODE}, #cache_miss: 0, iter latency (ms): 12, acceptance rate: 0.9",
            PLAIN,
        ),
        param(
            "any order",
            "Decode batch, #queue-req: 3, accept rate: 0.5, #running-req: 2",
            {"queued_requests": 3, "accept_rate": 0.5, "running_requests": 2},
        ),
        param(
            "glued to a bar",
            f"Capturing batches: 100%|██| 23/23 [00:03<00:00,  7.1it/s]Decode batch. {DECODE}",
            PLAIN,
        ),
        param(
            "behind a bar of which the end is lost",
            f"Capturing batches:  98%|████ | Decode batch. {DECODE}",
            PLAIN,
        ),
        param("behind a broken prefix", f"TP0] Decode batch, {DECODE}", PLAIN),
        param(
            "0.1",
            "#running-req: 3, #token: 1448, token usage: 0.18, #queue-req: 0",
            {"running_requests": 3, "tokens": 1448, "token_usage": 0.18, "queued_requests": 0},
        ),
        param(
            "0.1 with its throughput",
            "#running-req: 3, #token: 1448, token usage: 0.18, gen throughput (token/s): 3.00, #queue-req: 0",
            {
                "running_requests": 3,
                "tokens": 1448,
                "token_usage": 0.18,
                "generation_tokens_per_second": 3.0,
                "queued_requests": 0,
            },
        ),
        param(
            "cut between fields",
            "Decode batch. #running-req: 1, #token: 206, ",
            {"running_requests": 1, "tokens": 206},
        ),
    ],
)
def test_decode(text, fields):
    """A decode line of any version: known fields, whatever else is in it."""
    assert READER.read(text) == Parsed("decode", fields)


@pytest.mark.parametrize(
    ("text", "column", "expected", "found"),
    [
        param("nothing in it", "Decode batch", 13, "blank", "the end of the line"),
        param("no known key", "Decode batch, hello: 5", 15, "one of its keys", "hello:"),
        param(
            "cut in a key",
            "Decode batch. #running-req: 1, #token: 66, token",
            49,
            "`:` and a value",
            "the end of the line",
        ),
        param(
            "cut before a value", "Decode batch. #running-req:", 28, "a whole number", "the end of the line"
        ),
        param("a word for a number", "Decode batch, #running-req: one", 29, "a whole number", "one"),
        param(
            "a torn value",
            "Decode batch, #running-req: 1, gen throughput (token/s): usaccept len: 1.9",
            58,
            "a number",
            "usaccept",
        ),
        param(
            "two lines torn together",
            "Decode batch. #running-req: 1, #tokDecode batch. #running-req: 2",
            32,
            "one of its keys",
            "#tokDecode",
        ),
        param(
            "a key torn into another",
            "Decode batch. #running-req: 1, token usaccept len: 1.93",
            32,
            "one of its keys",
            "token",
        ),
        param("not a number", "Decode batch, accept len: nan", 27, "a number", "nan"),
        param("infinite", "Decode batch, gen throughput (token/s): inf", 41, "a number", "inf"),
        param("negative", "Decode batch, #running-req: -1", 29, "a whole number", "-1"),
        param("decimal comma", "Decode batch, accept len: 1,92, #queue-req: 0", 31, "`:` and a value", ","),
        param("no ASCII digits", "Decode batch, #running-req: ١٩", 29, "a whole number", "١٩"),
        param(
            "a fraction of a request",
            "Decode batch, #running-req: 1.5",
            30,
            "`,` or the end of the line",
            ".5",
        ),
        param("overflow", "Decode batch, gen throughput (token/s): 1e999", 41, "a sane number", "1e999"),
        param("absurd", "Decode batch, #running-req: 99999999999", 29, "at most 1e+07", "99999999999"),
        param(
            "key twice",
            "Decode batch, #running-req: 1, #running-req: 2",
            32,
            "each key once",
            "#running-req:",
        ),
        param(
            "two spellings of one", "Decode batch, #token: 1, #full token: 2", 26, "each key once", "#full"
        ),
        param("neither true nor false", "Decode batch, cuda graph: maybe", 27, "True or False", "maybe"),
        param(
            "bracket that never closes",
            "Decode batch, #running-req: 1, est: [1, 2",
            42,
            "a closing `]`",
            "the end of the line",
        ),
    ],
)
def test_malformed_decode(text, column, expected, found):
    """A decode line with a known value that is none, or into which another line was torn."""
    outcome = READER.read(text)
    assert isinstance(outcome, Failed), outcome
    assert (outcome.kind, outcome.column, outcome.found) == ("decode", column, found)
    assert expected in outcome.expected


def test_tokens_of_accept_len_differ():
    """`Accept len` counts accepted drafts only; SGLang's `accept len` counts the bonus token too."""
    assert READER.read("Accept len: 0.92") == Parsed("accept", {"accepted_drafts": 0.92})
    assert READER.read("Decode batch, accept len: 1.92") == Parsed("decode", {"tokens_per_cycle": 1.92})


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        param(
            "0.2 mixed",
            "Prefill batch(mixed #running-req: 3). #new-seq: 1, #new-token: 5, #cached-token: 0, #running-req: 3",
            {"new_sequences": 1, "new_tokens": 5, "cached_tokens": 0, "running_requests": 3},
        ),
        param(
            "0.3 with hit rate",
            "Prefill batch. #new-seq: 1, #new-token: 5, #cached-token: 0, cache hit rate: 26.67%, token usage: 0.00, #running-req: 0, #queue-req: 0",
            {
                "new_sequences": 1,
                "new_tokens": 5,
                "cached_tokens": 0,
                "token_usage": 0.0,
                "running_requests": 0,
                "queued_requests": 0,
            },
        ),
        param(
            "0.4.7 disaggregated",
            "Prefill batch. #new-seq: 1, #new-token: 5, #cached-token: 0, #unbootstrapped-req: 0, #transferring-req: 0, time: 0.05 ",
            {"new_sequences": 1, "new_tokens": 5, "cached_tokens": 0},
        ),
        param(
            "0.5.4",
            "Prefill batch [7], #new-seq: 1, input throughput (token/s): 3.5, ",
            {"new_sequences": 1, "input_tokens_per_second": 3.5},
        ),
        param(
            "0.5.17",
            "Prefill batch, #new-seq: 1, #new-token: 3, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, #pending-token: 0, cuda graph: False, input throughput (token/s): 0.73",
            {
                "new_sequences": 1,
                "new_tokens": 3,
                "cached_tokens": 0,
                "token_usage": 0.0,
                "running_requests": 0,
                "queued_requests": 0,
                "graph": False,
                "input_tokens_per_second": 0.73,
            },
        ),
    ],
)
def test_prefill(text, fields):
    """A prefill line of any version."""
    assert READER.read(text) == Parsed("prefill", fields)


EVENTS = {
    "ready": ["The server is fired up and ready to roll!"],
    "graph_capture": [
        "Capture cuda graph begin. This can take up to several minutes. avail mem=8.50 GB",
        "Capture draft extend cuda graph end. Time elapsed: 1.2 s. mem usage=0.1 GB. avail mem=8.4 GB.",
        "Capture piecewise CUDA graph begin. avail mem=8.50 GB",
        "Capture target verify CUDA graph end. elapsed=2.07 s, mem usage=0.10 GB, avail mem=70.33 GB.",
    ],
    "graph_lost": [
        "Cuda graph is disabled because of using torch native attention backend",
        "can't use cuda graph for draft extend! may have correctness issue!",
        "Disable DFLASH draft cuda graph because the draft model has no embedding",
        "Draft worker kept eager (reason=unsupported backend)",
        "num_tokens=77 exceeds the captured sizes, falling back to eager path",
        "Capture failed; running the draft loop eagerly",
    ],
    "retract": [
        "Decode out of memory happened. #retracted_reqs: 1, #new_token_ratio: 0.0980 -> 0.9446",
        "KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_tokens_gained: 500",
        "Testing retraction. #retracted_reqs: 1",
        "Retraction host KV pool exhausted. Aborting the request.",
    ],
    "watchdog": [
        "Watchdog timeout (self.watchdog_timeout=300)",
        "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
        "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start time: x",
        "[rank4]:[E304 12:54:52.1 ProcessGroupNCCL.cpp:616] [Rank 4] Watchdog caught collective operation timeout: WorkNCCL(",
    ],
    "crash": [
        "Scheduler hit an exception: Traceback (most recent call last):",
        "TpModelWorkerClient hit an exception: Traceback (most recent call last):",
        "Exception in ModelTpServer:",
        "Received sigquit from a child proces. It usually means the child failed.",
        "Received sigquit from a child process. It usually means the child failed.",
        "Child process unexpectedly failed with an exit code 131. pid=4",
        "Child process unexpectedly failed with exitcode=131. pid=4",
        "Rank 3 scheduler is dead. Please check if there are relevant logs.",
        "Subprocess scheduler_0 (pid=969) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
        "Dumping requests before crash. self.crash_dump_folder=None",
        "token_to_kv_pool_allocator memory leak detected! available_size=5",
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        "  what():  [PG ID 2 PG GUID 3 Rank 1] Process group watchdog thread terminated with exception: CUDA error: an",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 138.00 MiB.",
        "Killed",
        "./entrypoint.sh: line 28:     7 Killed                  python -m sglang.launch_server",
    ],
    "abort": [
        "Abort queued request. req.rid='5'",
        "Abort running request. req.rid=5",
        "Request is disconnected from the client side (type 1). Abort request obj.rid='5'",
    ],
    "exit": [
        "SIGTERM received. signum=None frame=None. Draining requests and shutting down...",
        "Subprocess detokenizer (pid=969) crashed with exit code -15. Triggering SIGQUIT for cleanup...",
        "scalellm exited with code 137",
        "Gracefully exiting... Remaining number of requests 3.",
        "SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
    ],
}


@pytest.mark.parametrize(
    ("event", "text"), [(event, text) for event, texts in EVENTS.items() for text in texts]
)
def test_events(event, text):
    """Each text of SHAPES.md, section 4, is its event, with the text as it stands."""
    assert READER.read(text) == Parsed("event", {"event": event, "text": text.strip()})


def test_the_oldest_crash():
    """A traceback behind SGLang's prefix, whose bracket the framing leaves there: the text is without it."""
    text = "Traceback (most recent call last):"
    assert READER.read(f"] {text}") == Parsed("event", {"event": "crash", "text": text})


@pytest.mark.parametrize(
    "text",
    [
        param("traceback of a request", "Traceback (most recent call last):"),
        param("settings with a time-out", "watchdog_timeout=300, crash_dump_folder=None"),
        param(
            "graph of the prefill",
            "Disable prefill CUDA graph because cuda_graph_config resolved prefill.backend='disabled'",
        ),
        param("heartbeat monitor", "HeartbeatMonitor environments: TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC : 480"),
        param("plug-in notice", "TUNER/Plugin: Failed to find ncclTunerPlugin_v4 symbol."),
        param("sizes of graphs", "Capture cuda graph num tokens [4, 8, 12]"),
        param("bar", "Capturing batches (bs=1 avail_mem=23.02 GB): 100%|██| 23/23 [00:03<00:00,  7.1it/s]"),
        param(
            "logged request",
            "Receive: obj=GenerateReqInput(text='Decode batch, #running-req: 1, #queue-req: 0', rid='1')",
        ),
        param(
            "logged answer",
            "Finish: obj=X, out={'text': '] Decode batch, #running-req: 1 CUDA error: x  Target verify: x ms/cyc'}",
        ),
        param("user text elsewhere", "prompt 'see [1] Decode batch, #running-req: 1'"),
        param(
            "user text behind a bracket", "Request text: [INST] Decode batch, #running-req: 1, #queue-req: 0"
        ),
        param(
            "user text behind a colon", "answer: Target verify: 5 ms/cyc and Decode batch, #running-req: 1"
        ),
        param("user text in quotes behind a bar", "100%|█| 'x'] Decode batch, #running-req: 1"),
        param("prose", "we saw 20 ms/cyc in target verify yesterday"),
        param("continued line", "token usage: 0.00, cuda graph: True, gen throughput (token/s): 656.75"),
        param(
            "oldest prefill", "new fill batch. #seq: 1. #cached_token: 478. #new_token: 254. #running_req: 4."
        ),
        param("access line", 'INFO:     127.0.0.1:56988 - "POST /generate HTTP/1.1" 200 OK'),
        param(
            "table of NCCL",
            "node-a:5637:5670 [0] NCCL INFO Latency/AlgBw |    Tree/    LL |    Tree/ LL128 |",
        ),
        param("NCCL line cut", "node19:2361:2361 [0] NCCL INFO Channel"),
        param("empty", ""),
        param("NUL and controls", "\x00\x01\x7f"),
    ],
)
def test_passed_over(text):
    """What no grammar claims, and what only looks like a record."""
    assert READER.read(text) is None


@pytest.mark.parametrize(
    ("text", "kind", "fields"),
    [
        param(
            "value with a full stop",
            "node17:581:581 [0] NCCL INFO NCCL_NTHREADS set by environment to 256.",
            "nccl_setting",
            {"pid": 581, "variable": "NCCL_NTHREADS", "value": "256"},
        ),
        param(
            "value without",
            "n:1:2 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to ^lo,docker,veth",
            "nccl_setting",
            {"pid": 1, "variable": "NCCL_SOCKET_IFNAME", "value": "^lo,docker,veth"},
        ),
        param(
            "no value",
            "n:1:2 [0] NCCL INFO NCCL_ALGO set by environment to",
            "nccl_setting",
            {"pid": 1, "variable": "NCCL_ALGO"},
        ),
        param(
            "channel",
            "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
            "nccl_transport",
            {"pid": 1, "transport": "P2P/CUMEM"},
        ),
        param(
            "channel with more",
            "n:1:2 [0] NCCL INFO Channel 00/0 : 16[17000] -> 18[21000] via P2P/IPC comm 0x5 nRanks 32",
            "nccl_transport",
            {"pid": 1, "transport": "P2P/IPC"},
        ),
        param(
            "network channel",
            "n:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA",
            "nccl_transport",
            {"pid": 1, "transport": "NET/IB/0/GDRDMA"},
        ),
        param(
            "old channel",
            "n:1:2 [0] NCCL INFO Channel 00 : 0[41000] -> 1[61000] via direct shared memory",
            "nccl_transport",
            {"pid": 1, "transport": "direct"},
        ),
        param(
            "network",
            "n:1:2 [0] NCCL INFO Using network Socket",
            "nccl_transport",
            {"pid": 1, "transport": "Socket"},
        ),
        param(
            "vLLM, newest",
            "SpecDecoding metrics: Mean acceptance length: 2.37, Accepted throughput: 8.90 tokens/s, Drafted throughput: 97.50 tokens/s, "
            "Accepted: 89 tokens, Drafted: 975 tokens, Per-position acceptance rate: 0.600, 0.385, Avg Draft acceptance rate: 9.1%",
            "spec_metrics",
            {
                "tokens_per_cycle": 2.37,
                "accepted_tokens_per_second": 8.9,
                "drafted_tokens_per_second": 97.5,
                "accept_rate": 0.091,
            },
        ),
        param(
            "vLLM, V1",
            "SpecDecoding metrics: Draft acceptance rate: 88.8%, Mean acceptance length: 2.78, Accepted: 6 tokens, Drafted: 7 tokens, "
            "Per-position acceptance rate: 0.9, 0.8",
            "spec_metrics",
            {"accept_rate": 0.888, "tokens_per_cycle": 2.78},
        ),
        param(
            "vLLM, oldest",
            "Speculative metrics: Draft acceptance rate: 0.750, Number of accepted tokens: 66, ",
            "spec_metrics",
            {"accept_rate": 0.75},
        ),
        param(
            "llama.cpp",
            "draft acceptance rate = 0.23026 (   70 accepted /   304 generated)",
            "spec_metrics",
            {"accept_rate": 0.23026},
        ),
    ],
)
def test_other_engines_and_nccl(text, kind, fields):
    """NCCL's settings and transports, and other engines' speculation."""
    assert READER.read(text) == Parsed(kind, fields)


def test_text_of_an_event_is_bounded():
    """A line of a megabyte leaves no megabyte in memory."""
    outcome = READER.read("SIGTERM received. " + "x" * 10**6)
    assert isinstance(outcome, Parsed)
    assert len(str(outcome.fields["text"])) == 500


def test_reading_does_not_depend_on_what_was_read_before():
    """Shapes learnt from one line change nothing for the next."""
    lines = [
        f"Decode batch, {DECODE}",
        "Decode batch, #running-req: x",
        f"Decode batch, {DECODE}, new: [1, 2]",
    ]
    reader = Reader(load_grammars())
    once = [reader.read(line) for line in lines]
    assert [reader.read(line) for line in lines * 3] == once * 3
    assert [Reader(load_grammars()).read(line) for line in lines] == once


def test_near_misses_of_a_pattern_that_begins_with_a_brace():
    """How a pattern writes the characters of its anchor does not matter: what begins with them is claimed."""
    text = """[record.phase]
set = { phase = "target_verify" }
anchor = '{"verify_ms":'
pattern = '''{'{'}"verify_ms": {seconds:ms}{'}'}'''
"""
    reader = Reader([parse_grammar(text, "mine.toml")])
    assert reader.read('{"verify_ms": 19.14}') == Parsed(
        "phase", {"phase": "target_verify", "seconds": 0.01914}
    )
    assert reader.read('{"verify_ms": null}') == Failed("phase", 15, "a number of milliseconds", "null}")
