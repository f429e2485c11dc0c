"""Values of `logwatch.model` that the outlets' tests feed: the field's machine, tuned and not."""

from logwatch.model import (
    Cause,
    Change,
    Conditions,
    Cycle,
    Incident,
    Judgement,
    Limits,
    Malformed,
    Moment,
    Place,
    Read,
    Record,
    RunStarted,
    Signal,
)

BAND = Limits(0.017, 0.019, 0.021)


def place(line=1, path="/logs/node7.log"):
    return Place(path, line * 100, line)


def cycle(verify_s=0.01914, *, line=1, stream="node7.log", rank="TP0", time="2026-02-11T08:15:02", **changed):
    given = {
        "place": place(line, f"/logs/{stream}"),
        "stream": stream,
        "rank": rank,
        "run": 0,
        "time": time,
        "cycles": 100,
        "tokens_per_cycle": 1.92,
        "phases_s": {"draft_forward": 0.00053, "target_verify": verify_s, "total_cycle": verify_s + 0.00101},
        "shares": {"target_verify": 0.95},
        "conditions": Conditions(batch_size=1.0, num_steps=2, graph=True),
    }
    return Cycle(**(given | changed))


def judgement(of, limits=BAND):
    value = of.phases_s["target_verify"]
    signal = Signal.ABOVE if value > limits.high else Signal.BELOW if value < limits.low else Signal.IN_BAND
    return Judgement(of, "target_verify", value, "band", value, limits, signal)


def decode(line=1, path="/logs/node7.log", rank="TP0", **fields):
    return Record(place(line, path), "decode", fields, "2026-02-11T08:15:02", rank)


def malformed(expected="a number", found="nan", line=1, path="/logs/node7.log"):
    return Malformed(place(line, path), "decode", 87, expected, found)


def read(lines=10, matched=8, ignored=1, malformed=1, size=1000, stream="node7.log"):
    return Read(stream, f"/logs/{stream}", size, lines, matched, ignored, malformed)


def run_started(line=1, stream="node7.log", **settings):
    return RunStarted(place(line, f"/logs/{stream}"), stream, 0, "2026-02-11T08:00:00", settings)


def incident(change=Change.OPENED, *, phase="target_verify", stream="node7.log", **changed):
    given = {
        "key": f"{stream}/TP0/{phase}/out_of_band/41@2026-02-11T09:00:00",
        "change": change,
        "kind": "out_of_band",
        "phase": phase,
        "direction": "high",
        "stream": stream,
        "rank": "TP0",
        "run": 1,
        "severity": "critical",
        "onset": Moment(41, "2026-02-11T09:00:00"),
        "noticed": Moment(43, "2026-02-11T09:00:04"),
        "resolved": Moment(90, "2026-02-11T09:30:00") if change is Change.RESOLVED else None,
        "before": 0.01914,
        "after": 0.02895,
        "ratio": 1.513,
        "samples": 3,
        "band": BAND,
        "causes": (Cause("cuda_graph_off", "The report says `graph 0.0%`; before it was 100.0%.", 0.9),),
        "detail": "It is steady, not noise (coefficient of variation 0.03%).",
    }
    return Incident(**(given | changed))


def one_of_each():
    """One of each kind, of two ranks."""
    return (
        run_started(tp_size="8", speculative_num_steps="2"),
        cycle(),
        judgement(cycle()),
        cycle(0.02895, line=2, rank='TP1 "quoted\\'),
        decode(running_requests=1, generation_tokens_per_second=94.0),
        incident(),
        malformed(),
        read(),
    )
