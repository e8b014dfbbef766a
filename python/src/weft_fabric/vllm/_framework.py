"""vLLM as one of the frameworks of engines. It remembers the model format of each layer for its own reload, in a package
that is private; _MEMORIES names that by version."""

from __future__ import annotations

import functools
import importlib
from contextlib import contextmanager
from typing import Any, Callable, Iterator

import torch

from ..engine._framework import Framework, Metas, Weights
from ..engine._trace import Untold
from ._refusals import advice, of_module, packer

# Version of vLLM, and where it has LAYERWISE_INFO (what each layer was like before its weights were loaded).
_MEMORIES = dict.fromkeys(("0.32", "0.33"), "vllm.model_executor.model_loader.reload")
_COMPUTED = frozenset(
    ("W_UV", "W_UK", "W_UK_T", "W_UK_T_dcp_qrep", "W_K", "W_V", "_cpu_unpacked_conv_weight", "_bf16x3_weight",
     "_norm_weight_fp32", "hc_attn_fn_broadcast")
)  # fmt: skip
_OWNED = ("vllm.model_executor", "vllm.models", "vllm.v1.attention")


def _memory() -> str | None:
    """The package that remembers, of this version of vLLM."""
    import vllm

    return _MEMORIES.get(".".join(vllm.__version__.split(".")[:2]))


def _remembered(place: str, layer: torch.nn.Module) -> Metas | None:
    """Parameters on the device meta, whose loaders are the layer's again."""
    layers = importlib.import_module(f"{place}.layerwise").LAYERWISE_INFO
    if layer not in layers:
        return None
    to_meta = importlib.import_module(f"{place}.meta").to_meta_tensor
    own = importlib.import_module(f"{place}.sanitize").restore_layer_refs
    return {name: own(to_meta(tensor), layer) for name, tensor in layers[layer].restore_metadata[0].items()}


@contextmanager
def as_at_load(config: Any) -> Iterator[None]:
    """What vLLM's processing of weights finds set."""
    from vllm.config import set_current_vllm_config
    from vllm.utils.torch_utils import set_default_torch_dtype

    with set_current_vllm_config(config), set_default_torch_dtype(config.model_config.dtype):
        yield


def _checkpoint(model: torch.nn.Module, config: Any) -> Weights:
    from vllm.model_executor.model_loader import get_model_loader

    read = getattr(get_model_loader(config.load_config), "get_all_weights", None)
    if read is None:
        raise Untold(f"load_format {config.load_config.load_format} gives nothing to judge that by")
    found: Weights = read(config.model_config, model)
    return found


def _dummy(config: Any) -> Callable[[torch.Tensor], None] | None:
    if config.load_config.load_format != "dummy":
        return None
    from vllm.model_executor.model_loader.weight_utils import initialize_single_dummy_weight

    fill: Callable[[torch.Tensor], None] = initialize_single_dummy_weight
    return fill


def framework(model: torch.nn.Module, config: Any) -> Framework:
    """Of an engine with this VllmConfig."""
    memory = _memory()
    known = Framework(_OWNED, _COMPUTED, packer=packer, refused=of_module, advice=advice)
    if memory:
        skipped = frozenset(importlib.import_module(f"{memory}.meta").SKIP_TENSORS)
        known = known._replace(left_out=skipped, remembered=functools.partial(_remembered, memory))
    return known._replace(
        context=lambda: as_at_load(config),
        checkpoint=lambda: _checkpoint(model, config),
        dummy=_dummy(config),
        dtype=config.model_config.dtype,
    )
