"""Level 3: the bodies of `/metrics`, in either format, compressed or not.

What streams put into it is by far the most, and is written (and compressed) once for all scrapes between two
commits; what logwatch and its process say of themselves is written by `prometheus_client` each time.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

from logwatch.outlets.metrics import Metrics, build_registry
from logwatch.outlets.metrics_families import OF_LOGWATCH, Facts, empty_families
from logwatch.outlets.metrics_process import OwnProcess
from logwatch.outlets.metrics_samples import families_of_logwatch
from logwatch.outlets.metrics_text import Pages

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from logwatch.outlets.metrics_memory import MetricsMemory

    Encoder = Callable[[Collector], bytes]

_EOF = b"# EOF\n"
_AS_THEY_ARE = ("underscores", "allow-utf-8")
"""Ways to escape names that leave all of ours as they are."""
_LEVEL = 1
"""zlib's: 3 MB in 15 ms to a twentieth; the highest level takes five times as long for a third less."""
_GZIP_FROM_BYTES = 1024
_GZIP = 31
"""zlib's `wbits` for a gzip header and trailer."""


class Answer(NamedTuple):
    """A body of `/metrics`."""

    body: bytes
    content_type: str
    gzipped: bool


class Exposition:
    """Answers scrapes; from any thread.

    Args:
        metrics: What is shown, beside the process's own figures.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._registry = build_registry(metrics)
        self._one_at_a_time = threading.Lock()
        self._process = OwnProcess(registry=None)
        self._formats = {
            is_openmetrics: _Format(is_openmetrics=is_openmetrics) for is_openmetrics in (False, True)
        }

    def slow(self, accept: str, names: Collection[str] = (), *, gzip: bool = False) -> Answer:
        """What `answer` gives, from the library alone; for a thread that may take its time."""
        encode, content_type = _chosen(accept)
        with self._one_at_a_time:
            body = encode(self._registry.restricted_registry(list(names)) if names else self._registry)
        return _answer(body, content_type, gzip=gzip)

    def answer(self, accept: str, names: Collection[str] = (), *, gzip: bool = False) -> Answer | None:
        """The body that a scraper accepts; of these series only, if any are named.

        None: it wants names escaped in a way that only the library knows; ask `slow`.
        """
        encode, content_type = _chosen(accept)
        escaping = encode.keywords.get("escaping") if isinstance(encode, partial) else _AS_THEY_ARE[0]
        if escaping not in _AS_THEY_ARE:
            return None
        form = self._formats[content_type.startswith("application/openmetrics-text")]
        with form.lock:
            # The pipeline waits for these milliseconds. If both went on, each would get the interpreter only every
            # other millisecond, and be woken each time by a machine that may have better to do.
            with self._metrics.still() as (memory, facts):
                form.renew(memory)
            if not names:
                rest = encode(_Collected(self._rest(memory, facts)))
                return Answer(form.whole(rest, gzip=gzip), content_type, gzip)
            chosen = form.chosen(names)
        return _answer(chosen + encode(_Collected(self._rest(memory, facts, names))), content_type, gzip=gzip)

    def _rest(
        self, memory: MetricsMemory, facts: Facts, names: Collection[str] | None = None
    ) -> Sequence[Metric]:
        families = [*families_of_logwatch(memory, facts), *self._process.collect()]
        if names is None:
            return families
        chosen = [Metric(family.name, family.documentation, family.type) for family in families]
        for restricted, family in zip(chosen, families, strict=True):
            restricted.samples = [sample for sample in family.samples if sample.name in names]
        return [family for family in chosen if family.samples]


def _chosen(accept: str) -> tuple[Encoder, str]:
    """How a scraper wants it, and what that is called."""
    encode, content_type = choose_encoder(accept)
    # What the library calls 2.0.0, which is a draft, is 1.0.0 with native histograms; we have none.
    return encode, content_type.replace("version=2.0.0", "version=1.0.0")


def _answer(body: bytes, content_type: str, *, gzip: bool) -> Answer:
    if gzip and len(body) >= _GZIP_FROM_BYTES:
        return Answer(zlib.compress(body, _LEVEL, _GZIP), content_type, gzipped=True)
    return Answer(body, content_type, gzipped=False)


class _Format:
    """What streams put into one format, kept until they change. The caller holds `lock`."""

    def __init__(self, *, is_openmetrics: bool) -> None:
        encode, _ = choose_encoder("application/openmetrics-text" if is_openmetrics else "")
        self._heads = {
            name: encode(_Collected([family])).removesuffix(_EOF)
            for name, family in empty_families().items()
            if name not in OF_LOGWATCH
        }
        self._pages = Pages(exemplars=is_openmetrics)
        self.lock = threading.Lock()
        self._memory: MetricsMemory | None = None
        self._text = b""
        self._spans: dict[str, tuple[int, int]] = {}
        self._packed: tuple[bytes, zlib._Compress] | None = None

    def renew(self, memory: MetricsMemory) -> None:
        """Write anew what is not this memory's."""
        if memory is not self._memory:
            texts, pieces, end = self._pages.write(memory), [], 0
            for name, head in self._heads.items():
                lines = texts.get(name, "").encode()
                pieces += [head, lines]
                end += len(head) + len(lines)
                self._spans[name] = end - len(lines), end
            self._text = b"".join(pieces)
            self._memory, self._packed = memory, None

    def whole(self, rest: bytes, *, gzip: bool) -> bytes:
        """All families, and the rest behind them."""
        if not gzip:
            return self._text + rest
        if self._packed is None:
            first = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
            self._packed = first.compress(self._text), first
        packed, packer = self._packed[0], self._packed[1].copy()
        return packed + packer.compress(rest) + packer.flush()

    def chosen(self, names: Collection[str]) -> bytes:
        """The lines of these series, under the heads of their families."""
        # As the library does, without the line of the unit.
        starts = tuple(f"{name}{{".encode() for name in names)
        found = []
        for name, head in self._heads.items():
            own = f"logwatch_{name}".encode()
            if any(start.startswith(own) for start in starts):
                every = self._text[slice(*self._spans[name])].splitlines(keepends=True)
                lines = [line for line in every if line.startswith(starts)]
                found += [head.partition(b"# UNIT ")[0], *lines] if lines else []
        return b"".join(found)


class _Collected:
    """Families as a collector."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """The families."""
        return self._families
