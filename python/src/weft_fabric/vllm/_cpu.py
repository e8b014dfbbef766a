"""vLLM's CPU build packs linear weights at load and drops the originals. With WEFT_VLLM_CPU=keep it computes with the
weights as loaded, so that they can be updated in place."""

from __future__ import annotations

from typing import Any


def keep_loaded_weights() -> None:
    """Has layers that are loaded from now on compute with their own weight."""
    import torch
    import vllm.model_executor.layers.utils as utils

    def linear(x: Any, weight: Any, bias: Any = None) -> Any:
        return torch.nn.functional.linear(x, weight, bias)

    linear._weft_keeps = True  # type: ignore[attr-defined]

    def keep(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = linear

    utils.dispatch_cpu_unquantized_gemm = keep
