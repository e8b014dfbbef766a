"""What a cast needs of arrays, by torch, on the tensor's device. The bytes are those of _numpy.py."""

from __future__ import annotations

from typing import Any

import torch


def bits_of(tensor: Any) -> Any:
    return tensor.view(torch.int16)


def empty(shape: tuple[int, ...], kind: str, like: Any) -> Any:
    dtype = {"code": torch.uint8, "scale": torch.float32, "bits": torch.int16}[kind]
    return torch.empty(shape, dtype=dtype, device=like.device)


def table(values: Any, device: str) -> Any:
    return torch.from_numpy(values).to(device)


def look_up(values: Any, at: Any) -> Any:
    return values[at.long()]


def nonzero(mask: Any) -> Any:
    return mask.view(-1).nonzero().view(-1)


def unique(values: Any) -> Any:
    return torch.unique(values)


def raise_at(values: Any, at: Any, to: Any) -> None:
    values.copy_(values.int().scatter_reduce(0, at, to.int(), "amax"))


def repeat(values: Any, times: int, count: int) -> Any:
    return values.repeat_interleave(times)[:count]


def block_maxima(magnitudes: Any, width: int) -> Any:
    """Largest magnitude of each `width` columns."""
    columns = magnitudes.amax(0)
    padded = torch.nn.functional.pad(columns, (0, -len(columns) % width))
    return padded.view(-1, width).amax(1)


def floats(bits: Any) -> Any:
    return bits.view(torch.bfloat16).float()


def differ(one: Any, other: Any) -> Any:
    """Where two arrays of float32 have other bits."""
    return one.view(torch.int32) != other.view(torch.int32)


def codes(bits: Any, factor: Any, divides: bool) -> Any:
    """The e4m3 codes of bf16 elements: nearest, ties to even, at most 448; every NaN is 7f."""
    x = floats(bits)
    y = (x / factor).bfloat16().float() if divides else x * factor
    code = y.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
    return torch.where(y.isnan(), 0x7F, code)
