"""Rules: how bf16 weights become fp8 codes and scales. A rule's bytes never change; another cast is another name.

A scale depends on the largest magnitude of its block alone, and that is one of 32,768 bf16 magnitudes. So a rule is a
table of scales, made once by IEEE arithmetic, and hosts and devices look the same floats up.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

MOST = np.float32(448)  # largest finite e4m3
MAGNITUDES = 1 << 15


class Rule(NamedTuple):
    """One cast from bf16 to e4m3."""

    name: str
    block: int  # rows and columns that have one scale; 0: all of a matrix
    floor: float  # a scale is never made for a smaller magnitude than this
    power: bool  # scales are rounded up to powers of two (ue8m0)
    divides: bool  # x / scale, rounded to bf16 first; else x * (1 / scale)
    of: str  # whose function gives the same bytes


_VLLM = "vLLM 0.33.0"
_SLIME = "slime 624b824a"
RULES = {
    rule.name: rule
    for rule in (
        Rule("fp8-block128-f32/1", 128, 1e-4, False, False, f"{_VLLM} per_block_cast_to_fp8"),
        Rule("fp8-block128-ue8m0/1", 128, 1e-4, True, False, f"{_VLLM} per_block_cast_to_fp8, use_ue8m0"),
        Rule("fp8-tensor-f32/1", 0, 0.0, False, False, f"{_VLLM} weight_amax, _fp8_scale, QuantFP8.forward_native"),
        Rule("fp8-block128-slime/1", 128, 1e-10, False, False, f"{_SLIME} blockwise_cast_to_fp8_triton"),
        Rule("fp8-tensor-slime/1", 0, 1.000088900582341e-12, False, True, f"{_SLIME} _quantize_param"),
    )
}


def required(name: str) -> Rule:
    if name not in RULES:
        raise ValueError(f"{name!r} is no rule: choose one of {', '.join(RULES)}")
    return RULES[name]


def _power_above(scale: Any) -> Any:
    """The least power of two that is not below."""
    mantissa, exponent = np.frexp(scale)
    power = np.ldexp(np.float32(1), exponent - (mantissa == 0.5))
    return np.where(np.isfinite(scale), power, scale).astype(np.float32)


class Tables(NamedTuple):
    """By the bits of a block's largest magnitude: the scale, and what elements are multiplied with or divided by."""

    scale: Any
    factor: Any


def tables_of(rule: Rule) -> Tables:
    magnitude = (np.arange(MAGNITUDES, dtype=np.uint32) << 16).view(np.float32)
    with np.errstate(all="ignore"):
        scale = np.maximum(magnitude, np.float32(rule.floor)) / MOST
        if rule.power:
            scale = _power_above(scale)
        scale[np.isnan(scale)] = np.nan
        if rule.divides:
            return Tables(scale, scale)
        factor = np.float32(1) / scale
        factor[0] = 0 if scale[0] == 0 else factor[0]  # zeros stay zeros, even without a floor
        return Tables(scale, factor)
