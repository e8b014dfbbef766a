"""weft in SGLang: versions come into each process's own memory, in place.

    engine = sglang.Engine(model, custom_weight_loader=[weft.sglang.LOADER])
    follower = weft.sglang.follow(engine, "site.ini", "a")      # "a-{rank}" for tensor-parallel engines
    follower.update()                                           # the trainer's newest version

In place of the engine follow() takes the URL of a server of SGLang. docs/ADAPTERS.md has whole programs, what was run,
and what is refused by name.
"""

from __future__ import annotations

from typing import Any

from .._library import lib
from ..errors import CallError
from ._follow import Follower, follow
from ._message import LOADER, message

__all__ = ["LOADER", "Follower", "follow", "load", "message", "register"]

_registered = False


def register() -> None:
    """Hooks weft into SGLang. SGLang calls this in each of its processes, by the entry point sglang.srt.plugins."""
    global _registered
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    from ._process import HOOKS

    for target, hook in () if _registered else HOOKS.items():
        HookRegistry.register(target, hook, HookType.AROUND)
    _registered = True


def load(model: Any, named_tensors: Any) -> None:
    """What LOADER names. SGLang calls it only where the plug-in is missing."""
    text = "SGLang did not load the plug-in weft: name it in SGLANG_PLUGINS"
    raise CallError(text, lib.WEFT_E_STATE, "state")
