"""Level 3: the status page's run: settings that bear on verify time, what changed in them, all of them."""

from __future__ import annotations

from logwatch.outlets.deliver_text import clean
from logwatch.outlets.web.board import Run, View
from logwatch.outlets.web.markup import Html, el, join
from logwatch.outlets.web.sections import UNKNOWN, table
from logwatch.outlets.web.sentence import Summary, clock_of

KEY_SETTINGS = {
    "model_path": "Model",
    "speculative_algorithm": "Algorithm",
    "speculative_num_steps": "Draft steps",
    "speculative_eagle_topk": "Top-k",
    "speculative_num_draft_tokens": "Draft tokens",
    "tp_size": "Tensor parallel",
    "dp_size": "Data parallel",
    "disable_cuda_graph": "CUDA graphs off",
    "cuda_graph_max_bs": "Largest graph batch",
    "attention_backend": "Attention",
    "disable_custom_all_reduce": "Custom all-reduce off",
    "version": "Version",
}
"""Settings that bear on verify time, as people call them."""


def runs(view: View, summary: Summary) -> Html:
    """Settings of the run that the sentence speaks of, and what changed in it."""
    stream = summary.key[0] if summary.key and summary.key[0] in view.runs else next(iter(view.runs), "")
    run = view.runs.get(stream)
    title = el("h2", "Settings of the run", el("span", stream, class_="where"))
    if run is None or not run.settings:
        text = "The log has shown no server_args line yet."
        return join([title, el("p", text, class_="empty")])
    started = f"Run {run.number + 1}" + (f", started {clock_of(run.started)}" if run.started else "")
    shown = [
        el("div", el("dt", name), el("dd", _setting(run.settings[key])))
        for key, name in KEY_SETTINGS.items()
        if run.settings.get(key) not in {None, "", "None"}
    ]
    return join(
        [
            title,
            el("p", started, class_="quiet"),
            _changes(run),
            el("dl", shown, class_="settings") if shown else None,
            _all_settings(run),
        ]
    )


def _changes(run: Run) -> Html | None:
    if not run.changed:
        return None
    rows = [
        el(
            "tr",
            el("th", name, scope="row"),
            el("td", _setting(old) if old is not None else UNKNOWN),
            el("td", _setting(new) if new is not None else UNKNOWN),
        )
        for name, old, new in run.changed[:30]
    ]
    head = [el("th", name, scope="col") for name in ("Setting", "Before", "Now")]
    return join([el("h3", "Changed since the run before"), table("Changed settings", head, rows)])


def _all_settings(run: Run) -> Html:
    rows = [
        el("tr", el("th", name, scope="row"), el("td", _setting(value)))
        for name, value in sorted(run.settings.items())
    ]
    head = [el("th", "Setting", scope="col"), el("th", "Value", scope="col")]
    return el(
        "details",
        el("summary", f"All {len(rows)} settings"),
        table("All settings", head, rows),
        id="all-settings",
    )


def _setting(value: str) -> str:
    return clean(value, 200)
