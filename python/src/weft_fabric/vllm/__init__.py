"""weft in vLLM: a weight-transfer engine that vLLM finds by itself, and follow() for who drives an LLM.

    llm = LLM(model, weight_transfer_config={"backend": "weft"})
    follower = weft.vllm.follow(llm, "site.ini", "a", caches="reset")
    follower.update()                                   # the trainer's newest version, in the engine's own memory
    answers = follower.generate(prompts, sampling)      # each bears the versions it began and ended with

docs/VLLM.md has whole programs, what was run, and what is refused by name.
"""

from __future__ import annotations

import os

from ..engine._core import Init, Update
from ._follow import Answer, AsyncFollower, Follower, follow, follow_async
from ..engine._group import label

__all__ = ["Answer", "AsyncFollower", "Follower", "Init", "Update", "follow", "follow_async", "label", "register"]


def register() -> None:
    """Makes the engine known to vLLM as the backend "weft", and has its cores label what that brings. vLLM calls this
    in each of its processes, by the entry point vllm.general_plugins."""
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory

    if "weft" not in WeightTransferEngineFactory._registry:
        WeightTransferEngineFactory.register_engine("weft", "weft_fabric.vllm._engine", "Engine")
    from vllm.v1.engine.core import EngineCore

    from ._worker import attach_core

    attach_core(EngineCore)
    kept = os.environ.get("WEFT_VLLM_CPU", "")
    if kept not in ("", "keep"):
        raise ValueError(f"WEFT_VLLM_CPU={kept}: the value is keep, or none")
    if kept:
        from ._cpu import keep_loaded_weights

        keep_loaded_weights()
