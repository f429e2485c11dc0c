"""The whole way from files to incidents, as the daemon goes it, without its threads: killed and restarted at will."""

from __future__ import annotations

from collections import defaultdict

from pydantic import TypeAdapter

from logwatch.config import Config
from logwatch.intake.tail import Source, Tail
from logwatch.intake.wake import HandWaker
from logwatch.model import Cycle, Incident, Malformed, Notice, Read, Record
from logwatch.pipeline import Pipeline, PipelineMemory, Settings

SETTINGS = Settings.of_config(Config())
MEMORY = TypeAdapter(PipelineMemory)


class Watching:
    """A tail and its pipelines.

    Attributes:
        items: All that came out, in order, less what a kill took back.
        notices: All that was said.
    """

    def __init__(self, *paths, start="beginning", settings=SETTINGS):
        self.sources = [Source(str(path), None, start) for path in paths]
        self.settings = settings
        self.items = []
        self.notices: list[Notice] = []
        self._saved: dict[str, str] = {}
        self._memories: dict[str, bytes] = {}
        self._kept = 0
        self._start()

    def _start(self):
        self.pipelines: dict[str, Pipeline] = {}
        self._reading = defaultdict(lambda: None)
        self.tail = Tail(self.sources, self._saved, self.notices.append, waker=HandWaker(), clock=lambda: 0.0)

    def read(self, budget=1 << 20):
        """Everything that is there now, in turns of a budget."""
        while True:
            for chunk in self.tail.read(budget):
                self._take(chunk)
            if not self.tail.behind:
                return

    def _take(self, chunk):
        pipeline = self.pipelines.get(chunk.stream)
        if pipeline is None:
            pipeline = Pipeline(self.settings, chunk.stream, chunk.path, self.notices.append)
            if chunk.stream in self._memories:
                pipeline.memory = MEMORY.validate_json(self._memories[chunk.stream])
            self.pipelines[chunk.stream] = pipeline
        if chunk.ends:
            self.items += pipeline.finish_file()
            return
        if self._reading[chunk.stream] != (chunk.path, chunk.offset):
            pipeline.start_file(chunk.path, chunk.first_line, chunk.offset)
        self._reading[chunk.stream] = (chunk.path, chunk.offset + len(chunk.data))
        self.items += pipeline.feed_bytes(chunk.data)

    def commit(self):
        pending = {stream: pipeline.pending_bytes for stream, pipeline in self.pipelines.items()}
        self._saved |= self.tail.positions(lambda stream: pending.get(stream, 0))
        self._memories |= {stream: MEMORY.dump_json(each.memory) for stream, each in self.pipelines.items()}
        self._kept = len(self.items)

    def kill(self):
        self.tail.close()
        del self.items[self._kept :]
        self._start()

    def finish(self):
        """The input ends here."""
        self.read()
        for pipeline in self.pipelines.values():
            self.items += pipeline.finish()
        self.tail.close()

    def of(self, kind):
        return [item for item in self.items if isinstance(item, kind)]

    @property
    def phases_ms(self):
        """Milliseconds of `target_verify`, in order."""
        return [
            round(each.fields["seconds"] * 1000, 3)
            for each in self.of(Record)
            if each.fields.get("phase") == "target_verify"
        ]

    @property
    def cycles(self):
        return self.of(Cycle)

    @property
    def incidents(self):
        return self.of(Incident)

    @property
    def malformed(self):
        return self.of(Malformed)

    @property
    def lines(self):
        return sum(each.lines for each in self.of(Read))
