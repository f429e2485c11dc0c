"""`lines.py` (pure): phases to log text.

The texts are the contract with `grammars/eagle3_profile.toml`. One report is one string, so that it is one
write.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

PREFIXES: Final = ("CUDA_", "NCCL_", "SGLANG_", "TORCH_NCCL_")
"""Variables whose names are told."""

_NCCL: Final = """
    ALGO ALLOC_P2P_NET_LL_BUFFERS ASYNC_ERROR_HANDLING BLOCKING_WAIT BUFFSIZE CHECKS_DISABLE
    COLLNET_ENABLE CROSS_NIC CTA_POLICY CUMEM_ENABLE CUMEM_HOST_ENABLE DEBUG DEBUG_SUBSYS
    DMABUF_ENABLE GRAPH_HELPER_DISABLE GRAPH_MIXING_SUPPORT GRAPH_REGISTER IB_ADAPTIVE_ROUTING
    IB_AR_THRESHOLD IB_CUDA_SUPPORT IB_DISABLE IB_GID_INDEX IB_HCA IB_MERGE_NICS
    IB_PCI_RELAXED_ORDERING IB_QPS_PER_CONNECTION IB_RETRY_CNT IB_SL IB_SPLIT_DATA_ON_QPS IB_TC
    IB_TIMEOUT IGNORE_CPU_AFFINITY IGNORE_DISABLED_P2P LAUNCH_MODE LAUNCH_ORDER_IMPLICIT
    LL128_BUFFSIZE LL128_NTHREADS LL_BUFFSIZE LL_THRESHOLD MAX_CTAS MAX_NCHANNELS MAX_P2P_NCHANNELS
    MIN_CTAS MIN_NCHANNELS MIN_P2P_NCHANNELS MNNVL_ENABLE NCHANNELS_PER_NET_PEER NET NETDEVS_POLICY
    NET_FORCE_FLUSH NET_GDR_C2C NET_GDR_LEVEL NET_GDR_READ NET_PLUGIN NET_SHARED_BUFFERS
    NSOCKS_PERTHREAD NTHREADS NVB_DISABLE NVLSTREE_MAX_CHUNKSIZE NVLS_CHUNKSIZE NVLS_ENABLE
    NVLS_NCHANNELS P2P_DIRECT_DISABLE P2P_DISABLE P2P_LEVEL P2P_LL_THRESHOLD P2P_NET_CHUNKSIZE
    P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE P2P_PXN_LEVEL P2P_USE_CUDA_MEMCPY PROTO PXN_DISABLE
    RUNTIME_CONNECT SET_THREAD_NAME SHM_DISABLE SHM_LOCALITY SHM_USE_CUDA_MEMCPY
    SINGLE_RING_THRESHOLD SOCKET_FAMILY SOCKET_IFNAME SOCKET_NTHREADS SOCKET_RETRY_CNT
    SOCKET_RETRY_SLEEP_MSEC TOPO_FILE TREE_THRESHOLD TUNER_PLUGIN VERSION WIN_ENABLE WORK_FIFO_BYTES
"""
_CUDA: Final = """
    AUTO_BOOST CACHE_DISABLE CACHE_MAXSIZE DEVICE_MAX_CONNECTIONS DEVICE_MAX_COPY_CONNECTIONS
    DEVICE_ORDER DEVICE_WAITS_ON_EXCEPTION DISABLE_PERF_BOOST DISABLE_PTX_JIT
    ENABLE_COREDUMP_ON_EXCEPTION ENABLE_USER_TRIGGERED_COREDUMP FORCE_JIT FORCE_PTX_JIT
    GRAPHS_USE_NODE_PRIORITY HOME LAUNCH_BLOCKING MODULE_DATA_LOADING MODULE_LOADING
    MPS_ACTIVE_THREAD_PERCENTAGE MPS_CLIENT_PRIORITY SCALE_LAUNCH_QUEUES VERSION VISIBLE_DEVICES
"""
_TORCH_NCCL: Final = """
    ASYNC_ERROR_HANDLING AVOID_RECORD_STREAMS BLOCKING_WAIT COORD_CHECK_MILSEC CUDA_EVENT_CACHE
    DESYNC_DEBUG DUMP_ON_TIMEOUT ENABLE_MONITORING ENABLE_TIMING HEARTBEAT_TIMEOUT_SEC HIGH_PRIORITY
    LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN NAN_CHECK NCCL_COMM_INIT_TIMEOUT PROPAGATE_ERROR
    RANKS_PER_ROOT RETHROW_CUDA_ERRORS SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING TRACE_BUFFER_SIZE
    USE_COMM_NONBLOCKING USE_TENSOR_REGISTER_ALLOCATOR_HOOK WAIT_TIMEOUT_DUMP_MILSEC
"""
_SGLANG: Final = """
    ALLOW_OVERWRITE_LONGER_CONTEXT_LEN CUSTOM_ALL_REDUCE_V2_MAX_SIZE_KB DEBUG_SYMM_MEM
    DETERMINISTIC_NCCL_NCHANNELS DISABLE_CONSECUTIVE_PREFILL_OVERLAP DISABLE_OUTLINES_DISK_CACHE
    ENABLE_DETERMINISTIC_INFERENCE ENABLE_DP_SPEC_PREFILL_COORDINATION ENABLE_JIT_DEEPGEMM
    ENABLE_OVERLAP_PLAN_STREAM ENABLE_PCIE_IPC_ALLREDUCE ENABLE_PP_SPEC ENABLE_SPEC_V2
    ENABLE_TORCH_COMPILE LOG_MS MOE_PADDING NCCL_ALL_GATHER_IN_OVERLAP_SCHEDULER_SYNC_BATCH
    NUMA_BIND_V2 OPT_FP8_WO_A_GEMM OPT_USE_CUSTOM_ALL_REDUCE_V2 OPT_USE_MULTI_STREAM_OVERLAP
    PLATFORM PLUGINS PP_COMM_OVERLAP RETURN_ORIGINAL_LOGPROB SET_CPU_AFFINITY SIMULATE_ACC_LEN
    SIMULATE_ACC_METHOD SIMULATE_ACC_TOKEN_MODE SPEC_EXPANSION_SAFETY_FACTOR
    SPEC_SKIP_ZERO_STEP_DRAFT_EXTEND SPEC_TP_SYNC USE_1STAGE_ALLREDUCE USE_AITER
    USE_CUDA_IPC_TRANSPORT USE_MODELSCOPE
"""
TOLD: Final = frozenset(
    prefix + name
    for prefix, names in (
        ("NCCL_", _NCCL),
        ("CUDA_", _CUDA),
        ("TORCH_NCCL_", _TORCH_NCCL),
        ("SGLANG_", _SGLANG),
    )
    for name in names.split()
)
"""The allow-list: variables whose values are told too. Whatever is not here may hold a secret."""

HIDDEN: Final = "(set)"
"""Stands for the value of a variable that is not on the allow-list."""

LONGEST_VALUE: Final = 200
LABELS: Final = {"draft": "Draft forward", "verify": "Target verify", "extend": "Draft extend"}


@dataclass(frozen=True, slots=True)
class Report:
    """What one report says; times are float seconds.

    Args:
        cycles: Cycles covered, at least 1.
        batch_size: Mean number of requests a cycle.
        graph_share: Share of cycles whose verify replayed a CUDA graph, 0-1; None where SGLang does not say.
        phases_s: Mean seconds a cycle on the device, per phase of `LABELS`; what is not measured is absent.
        launches_s: Mean seconds a cycle that the CPU spent inside each phase.
        verifies_s: Every verify of these cycles, in seconds, in any order.
        accepted_drafts: Mean accepted drafts per request and cycle, without the bonus token, or None.
        whole: Whether all three phases are measured; without it there is no total and no share.
    """

    cycles: int
    batch_size: float
    graph_share: float | None
    phases_s: Mapping[str, float]
    launches_s: Mapping[str, float]
    verifies_s: Sequence[float] = field(default=())
    accepted_drafts: float | None = None
    whole: bool = True


def report_text(report: Report) -> str:
    """The report block, without a newline at its end.

    >>> phases = {"draft": 0.00053, "verify": 0.01914, "extend": 0.00048}
    >>> print(report_text(Report(100, 1.0, 1.0, phases, {}, (), 0.92)))
    EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%
      Draft forward:      0.53 ms/cyc  (  2.6%)
      Target verify:     19.14 ms/cyc  ( 95.0%)
      Draft extend:       0.48 ms/cyc  (  2.4%)
      Total cycle:       20.15 ms/cyc
      Accept len:         0.92
    """
    graph = "" if report.graph_share is None else f", graph {report.graph_share * 100:.1f}%"
    lines = [f"EAGLE3_PROFILE {report.cycles} cycles, batch {report.batch_size:.1f}{graph}"]
    total_s = sum(report.phases_s.values())
    for phase, label in LABELS.items():
        seconds = report.phases_s.get(phase)
        if seconds is None:
            continue
        share = f"  ({seconds / total_s * 100:5.1f}%)" if report.whole and total_s > 0 else ""
        lines.append(_row(label, f"{seconds * 1e3:.2f}") + f" ms/cyc{share}")
    if report.whole:
        lines.append(_row("Total cycle", f"{total_s * 1e3:.2f}") + " ms/cyc")
    if report.accepted_drafts is not None:
        lines.append(_row("Accept len", f"{report.accepted_drafts:.2f}"))
    if report.verifies_s:
        ordered = sorted(report.verifies_s)
        shown = (ordered[0], percentile(ordered, 0.99), ordered[-1])
        lines.append(f"  Verify min/p99/max: {' / '.join(f'{seconds * 1e3:.2f}' for seconds in shown)} ms")
    if report.launches_s:
        launches = (f"{p} {report.launches_s[p] * 1e3:.2f} ms" for p in LABELS if p in report.launches_s)
        lines.append(f"  Launch: {', '.join(launches)}")
    return "\n".join(lines)


def environment_text(environ: Mapping[str, str]) -> str | None:
    """The environment line of one process: names with the right prefix, values of the allow-list only.

    Values are one word: blanks, `%` and what is not printable ASCII are percent-encoded. None where nothing
    is set.

    >>> environment_text({"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring", "SGLANG_API_KEY": "s3cret", "HOME": "/"})
    'EAGLE3_PROFILE environment NCCL_ALGO=Ring NCCL_PROTO=LL SGLANG_API_KEY=(set)'
    """
    pairs = [
        f"{name}={_word(value) if name in TOLD else HIDDEN}"
        for name, value in sorted(environ.items())
        if name.startswith(PREFIXES) and name.replace("_", "").isalnum() and name.isascii()
    ]
    return f"EAGLE3_PROFILE environment {' '.join(pairs)}" if pairs else None


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values do not exceed (nearest rank).

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5)
    2.0
    """
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]


def _row(label: str, value: str) -> str:
    return f"  {label + ':':<14}{value:>10}"


def _word(value: str) -> str:
    return "".join(c if "!" <= c <= "~" and c != "%" else _encoded(c) for c in value)[:LONGEST_VALUE]


def _encoded(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode(errors="replace"))
