"""Hand-made cycles for the tests of judging."""

from logwatch.model import Conditions, Cycle, Place


def cycle(
    value_s=None,
    line=1,
    *,
    phases=None,
    rank="TP0",
    stream="node7",
    run=0,
    time=None,
    tokens=None,
    shares=None,
    warm_up=False,
    cycles=100,
    **conditions,
):
    """One report; `value_s` is target verify."""
    return Cycle(
        place=Place("server.log", -1, line),
        stream=stream,
        rank=rank,
        run=run,
        time=time,
        cycles=cycles,
        tokens_per_cycle=tokens,
        phases_s=phases or {"target_verify": value_s},
        shares=shares or {},
        conditions=Conditions(**conditions),
        warm_up=warm_up,
    )


def through(item_stream, *stages):
    """Feed items through stages in order, as the pipeline does."""
    stages = list(stages)

    def push(item, rest):
        if not rest:
            yield item
            return
        for out in rest[0].feed(item):
            yield from push(out, rest[1:])

    for item in item_stream:
        yield from push(item, stages)
    for number, stage in enumerate(stages):
        for out in stage.finish():
            yield from push(out, stages[number + 1 :])
