"""What weft knows of vLLM's two formats of a layer: the model format, which loaders fill, and the kernel format, which
process_weights_after_loading leaves and the engine computes with.

vLLM remembers the model format for its own reload, in a package that is private. _MEMORIES names that by version.
"""

from __future__ import annotations

import importlib
from typing import Any, Iterator

import torch

# Version of vLLM, and where it has LAYERWISE_INFO (what each layer was like before its weights were loaded).
_MEMORIES = {"0.32": "vllm.model_executor.model_loader.reload"}
# What weights are computed into, where no memory says that no loader fills it, or where no parameter has it.
_COMPUTED = ("W_UV", "W_UK_T", "_cpu_unpacked_conv_weight")


def _remembered() -> tuple[Any, frozenset[str]]:
    """What each layer was like, and names of tensors that vLLM leaves out there. ({}, ...): of another version."""
    import vllm

    place = _MEMORIES.get(".".join(vllm.__version__.split(".")[:2]))
    if place is None:
        return {}, frozenset()
    layers = importlib.import_module(f"{place}.layerwise").LAYERWISE_INFO
    return layers, frozenset(importlib.import_module(f"{place}.meta").SKIP_TENSORS)


def computed(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors that vLLM made of weights after the loaders had filled these."""
    layers, left_out = _remembered()
    for path, layer in model.named_modules():
        names = set(_COMPUTED) & {*vars(layer), *layer._parameters}
        if layer in layers:
            names |= layer._parameters.keys() - layers[layer].restore_metadata[0].keys() - left_out
        for name in sorted(names):
            tensor = getattr(layer, name)
            if isinstance(tensor, torch.Tensor) and tensor.numel():
                yield f"{path}.{name}" if path else name, tensor
