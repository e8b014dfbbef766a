"""What the engine refuses by name: models that hold weights in another form than the checkpoint, or elsewhere.

An update in place would leave such copies old without a word.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from ..engine import _refusals
from ..engine._refusals import is_of

# Methods of vLLM that leave weights as the loader put them, by class, with those that derive from them.
_PLAIN_METHODS = frozenset(("UnquantizedLinearMethod", "UnquantizedEmbeddingMethod", "UnquantizedFusedMoEMethod"))
# Backends of UnquantizedFusedMoEMethod that leave w13 and w2 as loaded. The others swap, shuffle, pad or pack.
_PLAIN_MOE = frozenset(("TRITON", "BATCHED_TRITON"))


# Modules that process weights by themselves, and of which _formats knows what they make. MMEncoderAttention makes
# nothing of weights: its scales come from a file.
_HOOKS = frozenset(("Attention", "MLAAttention", "MMEncoderAttention"))
# Methods that hold no weights of a trainer: scales of what attention caches.
_NO_METHODS = frozenset(("BaseKVCacheMethod",))


def _methods(module: Any) -> Iterator[Any]:
    """The method of a layer, and those that it wraps."""
    method = getattr(module, "quant_method", None)
    while method is not None:
        yield method
        method = getattr(method, "old_quant_method", None)


def _is_packing(method: Any) -> bool:
    """Whether a method leaves weights in another form than loaders do, as far as its class tells."""
    if is_of(method, _PLAIN_METHODS):
        return bool(_packing(method))
    return type(method).__name__ != "FusedMoEModularMethod" and not is_of(method, _NO_METHODS)


def _of_method(method: Any) -> str | None:
    name = type(method).__name__
    if name == "FusedMoEModularMethod":
        return None  # a wrapper, whose inner method is asked too
    if not is_of(method, _PLAIN_METHODS | _NO_METHODS):
        return f"{name} holds weights in a form derived at load"
    backend = _packing(method)
    return (
        f"the MoE backend {backend} reorders or packs expert weights: choose moe_backend='triton'" if backend else None
    )


def _packing(method: Any) -> str | None:
    backend = getattr(getattr(method, "unquantized_backend", None), "name", None)
    return None if backend in _PLAIN_MOE else backend


def packer(module: Any) -> Any:
    """The method of a layer that packs weights after loaders had filled these, or None."""
    return next((one for one in _methods(module) if _is_packing(one)), None)


def advice(module: Any) -> str:
    """What to do about a layer whose packing nobody can tell."""
    if hasattr(packer(module), "unquantized_backend"):
        return ": choose another moe_backend, such as 'triton', which packs nothing"
    return ": choose another backend for it, or load the model without quantization"


def _of_cpu(module: Any) -> str | None:
    """The CPU build packs linear weights at load, and computes with the packed copy."""
    linear = vars(module).get("cpu_linear")
    if linear is None or getattr(linear, "__module__", "").startswith("torch") or getattr(linear, "_weft_keeps", False):
        return None
    return "the CPU build computes with a packed copy of the weight: set WEFT_VLLM_CPU=keep in the engine's environment"


def _of_hook(module: Any) -> str | None:
    """A module that processes weights by itself may make tensors of them that nobody knows."""
    known = is_of(module, _HOOKS)
    is_method = hasattr(module, "create_weights")  # of a layer, which is asked by that
    if known or is_method or not hasattr(module, "process_weights_after_loading"):
        return None
    return f"{type(module).__name__} makes tensors of weights after the load, which weft does not know"


def of_module(module: Any) -> str | None:
    """Why a module cannot be updated in place, or None."""
    found = [_of_hook(module), *(_of_method(method) for method in _methods(module))]
    found.append(_of_cpu(module) if "cpu_linear" in vars(module) else None)
    return next((why for why in found if why), None)


def of_config(config: Any) -> Iterator[str]:
    """Why an engine of this VllmConfig cannot be updated in place."""
    speculative = config.speculative_config
    method = getattr(speculative, "method", None)
    if speculative is not None and method not in ("ngram", "suffix"):
        yield f"speculative decoding by '{method}' has a draft model, which no version reaches"
    if getattr(config.load_config, "load_format", None) == "ipc_cache":
        yield "load_format 'ipc_cache' shares the weights with other engines, which an update in place would change"
    if config.lora_config is not None:
        yield "enable_lora renames the layers that load_weights fills"
    if getattr(config.parallel_config, "enable_eplb", False):
        yield "enable_eplb moves experts while the engine runs"
    offload = getattr(config, "offload_config", None)
    if offload is not None and (offload.uva.cpu_offload_gb or offload.prefetch.offload_group_size):
        yield "weights are offloaded to the host while the engine runs"


def refuse(model: Any, config: Any, known: Mapping[str, str | None] = {}) -> None:
    """engine._refusals.refuse() for an engine of this VllmConfig."""
    _refusals.refuse(model, of_config(config), known, of_module)
