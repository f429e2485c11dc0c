"""A log written by somebody who means harm: every place that reaches people holds something hostile."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": "160"}

TITLE = "\x1b]0;owned\x07"
COLOUR = "\x1b[35;46m"
C1 = "\x9b35m"
BACKWARDS = "\u202e"
ELEMENT = "<lw-evil onx=1>"
TAG = f"{ELEMENT}</td></script><script>alert(1)</script>"
MARKDOWN = "|`x`|[click](javascript:alert(1))"
SPITE = f"{TAG}{TITLE}{COLOUR}{C1}{BACKWARDS}{MARKDOWN}"
SECRET = "HUSHHUSH"
FILE_NAME = f'evil{COLOUR}{ELEMENT}"}} up 1\n# x.log'.replace("/", "")

RANKS = ["TP0", ELEMENT, f"TP1{COLOUR}", 'x"y\\', f"DP1{BACKWARDS}"]


def settings(steps: int, more: str = "") -> str:
    return (
        f"server_args=ServerArgs(model_path='/m/{SPITE}{more}', api_key='sk-{SECRET}{steps}', tp_size=8, "
        f"admin_api_key=\"adm-{SECRET}\", served_model_name='{SPITE}', speculative_num_steps={steps}, "
        f"ssl_keyfile_password='{SECRET}', json_model_override_args='{{\"hf_token\": \"hf_{SECRET}\"}}', "
        f"file_storage='s3://me:{SECRET}@host/x', version='0.5.17{ELEMENT}', attention_backend='{more}')\n"
    )


def environment(more: str = "") -> str:
    return (
        f"[2026-02-11 08:14:30 TP0] EAGLE3_PROFILE environment NCCL_PROTO=LL{more} HF_TOKEN=hf_{SECRET}{more} "
        f"AWS_SECRET_ACCESS_KEY={SECRET} NCCL_X={ELEMENT}%1b[35;46m{more} HTTPS_PROXY=http://u:{SECRET}@p:1/\n"
        f"h:1:2 [0] NCCL INFO NCCL_PROTO set by environment to LL{ELEMENT}{COLOUR}{more}.\n"
    )


def report(ms: float, rank: str = "TP0") -> str:
    return (
        f"[2026-02-11 08:15:02 {rank}] EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%\n"
        f"  Target verify:     {ms:.2f} ms/cyc  ( 95.0%)\n"
        f'  {ELEMENT}:     1.00 ms/cyc  ( 1.0%)\n  a{BACKWARDS}b"\\:     1.00 ms/cyc\n'
        f"  [red]a{C1}`|b:  {ms / 10:.2f} ms/cyc\n  Total cycle:       {ms / 0.95:.2f} ms/cyc\n"
        "  Accept len:         0.92\n"
    )


NONSENSE = (
    f"[2026-02-11 08:15:02 TP0] Decode batch, #running-req: {SPITE}, #token: 1, token usage: x\n"
    f"[2026-02-11 08:15:02 TP0] Scheduler hit an exception: Traceback {SPITE}\n"
    f"  Target verify:     {SPITE} ms/cyc\n"
)


def good() -> str:
    return settings(2) + environment() + "".join(report(19.14 + i % 3 * 0.01) for i in range(30)) + NONSENSE


def bad() -> str:
    reports = "".join(report(28.95 + i % 3 * 0.01) for i in range(30))
    return settings(3, f"2{COLOUR}") + environment("2") + reports + NONSENSE


def everything() -> str:
    """Good, then bad, from several ranks with names of the writer's choosing."""
    many = "".join(report(ms, rank) for ms in (19.1, 28.9) for rank in RANKS for _ in range(6))
    return good() + many + bad()


def on_a_terminal(*arguments: str, cwd: Path) -> str:
    """What `logwatch ...` writes to a terminal, byte for byte."""
    master, slave = os.openpty()
    with closing(os.fdopen(master, "rb", buffering=0)) as terminal:
        command = [sys.executable, "-m", "logwatch", *arguments]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, cwd=cwd, env=ENVIRONMENT
        )
        os.close(slave)
        written = b""
        try:
            while piece := terminal.read(65536):
                written += piece
        except OSError:
            pass  # Linux says so when the last writer is gone
        process.wait()
    return written.decode("utf-8", "replace")


OUR_STYLES = re.compile(
    r"\x1b\[(?:0|1|2|3|4|22|3[0-7]|9[0-7]|38;5;\d+|;)*m|\x1b\[\?25[lh]|\x1b\[\d*[AGKJ]|\x1b\[2K"
)


def steering(text: str) -> list[str]:
    """What in a text could steer a terminal or turn its reader's eyes, besides our own styles and line ends."""
    rest = OUR_STYLES.sub("", text)
    return sorted(set(re.findall("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", rest)))
