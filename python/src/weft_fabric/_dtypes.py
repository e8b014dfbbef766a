"""Element types: the names of safetensors, their numbers in weft.h, and what others call them."""

from __future__ import annotations

from typing import Any

from ._library import ffi

NUMBERS: dict[str, int] = {name[len("WEFT_") :]: number for number, name in ffi.typeof("weft_dtype").elements.items()}
NAMES = {number: name for name, number in NUMBERS.items()}

BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip

# Names of torch ("torch.bfloat16" without "torch.") and of numpy with ml_dtypes.
_OTHERS = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "uint16": "U16", "int32": "I32", "uint32": "U32",
    "int64": "I64", "uint64": "U64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
    "complex64": "C64", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ",
}  # fmt: skip

# DLPack's type codes with their bits.
_DLPACK = {
    (0, 8): "I8", (0, 16): "I16", (0, 32): "I32", (0, 64): "I64", (1, 8): "U8", (1, 16): "U16", (1, 32): "U32",
    (1, 64): "U64", (2, 16): "F16", (2, 32): "F32", (2, 64): "F64", (4, 16): "BF16", (5, 64): "C64", (6, 8): "BOOL",
    (10, 8): "F8_E4M3", (11, 8): "F8_E4M3FNUZ", (12, 8): "F8_E5M2", (13, 8): "F8_E5M2FNUZ", (14, 8): "F8_E8M0",
}  # fmt: skip


CASTS = {"BF16": "bf16", "F16": "fp16"}  # what a trainer reads F32 as, and the options' words for it


def name_of(dtype: Any) -> str | None:
    """The name in safetensors of a dtype of torch or numpy, or of such a name; None: weft has no such type."""
    text = str(getattr(dtype, "name", dtype)).replace("torch.", "")
    return text if text in NUMBERS else _OTHERS.get(text)


def required(dtype: Any) -> str:
    """As name_of, for what a caller wrote."""
    name = name_of(dtype)
    if name is None:
        raise ValueError(f"{dtype!r} is no dtype: choose one of {', '.join(NUMBERS)}")
    return name


def of_cast(cast: Any) -> str | None:
    """The dtype that F32 is read as, for what a caller wrote; None: there is no cast."""
    if cast is None:
        return None
    for name, word in CASTS.items():
        if cast == word or name_of(cast) == name:
            return name
    raise ValueError(f"cast={cast!r}: float32 can be read as bf16 or fp16 alone")


def torch_name(dtype: str) -> str:
    """What torch calls a dtype of weft: `getattr(torch, torch_name("BF16"))`. KeyError: torch has no such dtype."""
    return {name: other for other, name in _OTHERS.items()}[dtype]


def of_dlpack(code: int, bits: int, lanes: int) -> str | None:
    return _DLPACK.get((code, bits)) if lanes == 1 else None


def bytes_of(dtype: str, elements: int) -> int:
    """Bytes of so many elements; packed elements must fill whole bytes, which the layout checks."""
    return (elements * BITS[dtype] + 7) // 8
