"""What a cast needs of arrays, by numpy. bf16 are their bits as int16, codes are uint8."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._rules import MOST

_BIAS = (127 - 7) << 3  # of a code: float32's exponent bias less e4m3's, above three bits of mantissa


def empty(shape: tuple[int, ...], kind: str, like: Any) -> Any:
    return np.empty(shape, {"code": np.uint8, "scale": np.float32, "bits": np.int16}[kind])


def table(values: Any, device: str) -> Any:
    return values


def look_up(values: Any, at: Any) -> Any:
    return values[at]


def nonzero(mask: Any) -> Any:
    return np.flatnonzero(mask)


def unique(values: Any) -> Any:
    return np.unique(values)


def raise_at(values: Any, at: Any, to: Any) -> None:
    np.maximum.at(values, at, to)


def repeat(values: Any, times: int, count: int) -> Any:
    return np.repeat(values, times)[:count]


def block_maxima(magnitudes: Any, width: int) -> Any:
    """Largest magnitude of each `width` columns."""
    return np.maximum.reduceat(magnitudes.max(axis=0), np.arange(0, magnitudes.shape[1], width))


def floats(bits: Any) -> Any:
    return (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def differ(one: Any, other: Any) -> Any:
    """Where two arrays of float32 have other bits."""
    return one.view(np.int32) != other.view(np.int32)


def _rounded(x: Any) -> Any:
    """float32 of the nearest bf16, ties to even."""
    bits = x.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def codes(bits: Any, factor: Any, divides: bool) -> Any:
    """The e4m3 codes of bf16 elements: nearest, ties to even, at most 448; every NaN is 7f."""
    x = floats(bits)
    with np.errstate(all="ignore"):
        y = _rounded(x / factor) if divides else x * factor
        magnitude = np.minimum(np.abs(y), MOST)  # keeps NaN
        tiny = magnitude < np.float32(2**-6)  # below the least normal code: multiples of 2^-9
        small = np.rint(magnitude[tiny] * np.float32(512)).astype(np.uint8)
    whole = magnitude.view(np.uint32)
    code = (((whole + np.uint32(0x7FFFF) + ((whole >> 20) & 1)) >> 20) - np.uint32(_BIAS)).astype(np.uint8)
    code[tiny] = small
    code |= (y.view(np.uint32) >> 24).astype(np.uint8) & 0x80
    code[np.isnan(y)] = 0x7F
    return code
