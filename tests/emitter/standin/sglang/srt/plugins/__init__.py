"""Plugins are found by entry point, executed without arguments, then the hooks are applied."""

from importlib.metadata import entry_points

from sglang.srt.plugins.hook_registry import HookRegistry


def load_plugins():
    for entry in entry_points(group="sglang.srt.plugins"):
        entry.load()()
    HookRegistry.apply_hooks()
