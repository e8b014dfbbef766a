"""What weft refuses by name in SGLang, and which layers pack weights."""

from __future__ import annotations

import sys
from typing import Any, Iterable, Iterator, Mapping

from ..engine import _refusals
from ..engine._refusals import is_of

# Methods that leave weights as the loader put them, where they do not pack them for AMX.
_PLAIN_METHODS = frozenset(("UnquantizedLinearMethod", "UnquantizedEmbeddingMethod", "PackWeightMethod"))
# Methods that hold no weights of a trainer: scales of what attention caches.
_NO_METHODS = frozenset(("BaseKVCacheMethod",))
# What of UnquantizedFusedMoEMethod, and of the module that has it, says that experts are moved.
_MOVES = ("use_flashinfer_trtllm_moe", "w13_swiglu_interleaved")
_MOVES_OF_MODULE = ("_use_aiter", "_is_npu")
# Options of a server that updates in place do not go with.
_OPTIONS = {
    "speculative_algorithm": "has a draft model, which no version reaches",
    "enable_lora": "renames the layers that load_weights fills",
    "lora_paths": "renames the layers that load_weights fills",
    "enable_eplb": "moves experts while the engine runs",
    "cpu_offload_gb": "has weights on the host while the engine runs",
    "offload_group_size": "has weights on the host while the engine runs",
    "weight_cache_mode": "shares the weights with other engines, which an update in place would change",
}
_FINE = {"speculative_algorithm": ("NGRAM", "UNO")}  # which have no draft model
_UNSET: tuple[Any, ...] = (None, False, 0, -1, "off", [], {})


def _moves_experts(method: Any) -> bool:
    own = sys.modules[type(method).__module__]
    return any(getattr(method, name, False) for name in _MOVES) or any(
        getattr(own, name, False) for name in _MOVES_OF_MODULE
    )


def packer(module: Any) -> Any:
    """The method of a layer that packs weights after loaders had filled these, or None."""
    method = getattr(module, "quant_method", None)
    if not hasattr(method, "process_weights_after_loading") or is_of(method, _NO_METHODS):
        return None
    if getattr(module, "use_intel_amx_backend", False):
        return method
    if type(method).__name__ == "UnquantizedFusedMoEMethod":
        return method if _moves_experts(method) else None
    return None if type(method).__name__ in _PLAIN_METHODS else method


def advice(module: Any) -> str:
    """What to do about a layer whose packing nobody can tell."""
    if getattr(module, "use_intel_amx_backend", False):
        return ": start SGLang without the AMX backend"
    return ": choose another backend for it, or load the model without quantization"


def of_module(module: Any) -> str | None:
    """Why a module cannot be updated in place, or None."""
    if packer(module) is not None:
        return f"{type(module.quant_method).__name__} holds weights in a form derived at load"
    if getattr(module, "use_intel_amx_backend", False):
        return "its weights are packed for AMX: start SGLang without the AMX backend"
    return None


def _of_server(args: Any) -> Iterator[str]:
    for name, why in _OPTIONS.items():
        if getattr(args, name, None) not in (*_UNSET, *_FINE.get(name, ())):
            yield f"{name} {why}"
    if getattr(args, "pp_size", 1) > 1:
        yield "pp_size is more than one: the stages of a pipeline do not agree on a version"


def _of_sglang(model: Any) -> Iterator[str]:
    """What SGLang itself refuses updates for: models with copies of weights that nothing makes again."""
    from sglang.srt.model_executor.model_runner_components import weight_updater

    why = weight_updater._unsupported_derived_weight_cache_error(model)
    if why:
        yield why


def refuse(model: Any, args: Any, known: Mapping[str, str | None] = {}, unknown: Iterable[str] = ()) -> None:
    """engine._refusals.refuse() for an engine of these ServerArgs. `unknown` are reasons that the model has."""
    _refusals.refuse(model, (*_of_server(args), *_of_sglang(model), *unknown), known, of_module)
