"""The interface of the real registry, as far as this plugin uses it."""

import functools
import pkgutil
from enum import Enum
from typing import ClassVar


class HookType(Enum):
    AFTER = "after"
    AROUND = "around"


class HookRegistry:
    hooks: ClassVar = {}
    patched: ClassVar = set()

    @classmethod
    def register(cls, target, hook, hook_type=HookType.AFTER, *, source=None):
        cls.hooks.setdefault(target, []).append((hook_type, hook))

    @classmethod
    def apply_hooks(cls):
        for target, hooks in cls.hooks.items():
            if target in cls.patched:
                continue
            path, name = target.rsplit(".", 1)
            owner = pkgutil.resolve_name(path)
            function = getattr(owner, name)
            for kind, hook in hooks:
                function = _around(function, hook) if kind is HookType.AROUND else _after(function, hook)
            setattr(owner, name, function)
            cls.patched.add(target)


def _around(original, hook):
    @functools.wraps(original)
    def wrapper(*args, **kwargs):
        return hook(original, *args, **kwargs)

    return wrapper


def _after(original, hook):
    @functools.wraps(original)
    def wrapper(*args, **kwargs):
        result = original(*args, **kwargs)
        changed = hook(result, *args, **kwargs)
        return result if changed is None else changed

    return wrapper
