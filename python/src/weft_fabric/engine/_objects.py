"""The objects that a layer's processing may write to, and what is reached from them."""

from __future__ import annotations

import copy
import enum
import functools
import types
from typing import Any, Iterator

import torch

_SMALL = 1 << 20  # bytes of a tensor that is copied with the object that holds it; larger ones are shared
# What a layer's method makes at load. With these set it takes another way, which packs nothing.
_FIRST = frozenset(("moe_kernel", "moe_quant_config"))
# What holds no weights by itself.
_SIMPLE = (bool, int, float, str, bytes, type(None), type, set, frozenset, enum.Enum, torch.Tensor, torch.dtype,
           torch.device, torch.Size, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)  # fmt: skip
_DONE = "_already_called_process_weights_after_loading"


def _is_owned(value: Any, owned: tuple[str, ...]) -> bool:
    kind = type(value)
    mine = isinstance(value, torch.nn.Module) or kind.__module__.startswith(owned)
    return mine and hasattr(value, "__dict__") and not isinstance(value, (enum.Enum, torch.Tensor, tuple, type))


def copied(value: Any, owned: tuple[str, ...], memo: dict[int, Any]) -> Any:
    """A copy of what processing may write to: modules, methods, kernels, configurations, small tensors."""
    if isinstance(value, types.MethodType):
        return value.__func__.__get__(copied(value.__self__, owned, memo))
    if type(value) is set:
        return set(value)
    if type(value) in (list, tuple):
        return type(value)(copied(one, owned, memo) for one in value)
    if id(value) in memo:
        return memo[id(value)][0]
    if isinstance(value, dict):
        other = memo.setdefault(id(value), (copy.copy(value), value))[0]
        other.update({key: copied(one, owned, memo) for key, one in value.items()})
        return other
    if isinstance(value, list):
        other = memo.setdefault(id(value), (copy.copy(value), value))[0]
        other[:] = [copied(one, owned, memo) for one in value]
        return other
    if type(value) is torch.Tensor and value.nbytes <= _SMALL:
        return memo.setdefault(id(value), (value.clone(), value))[0]
    if not _is_owned(value, owned):
        return value
    kind: Any = type(value)
    new = kind.__new__(kind)
    memo[id(value)] = (new, value)  # with the original, whose id must not go to another
    new.__dict__.update({k: copied(v, owned, memo) for k, v in vars(value).items() if k != _DONE})
    new.__dict__.update(dict.fromkeys(_FIRST & new.__dict__.keys()))
    return new


def _parts(value: Any, owned: tuple[str, ...]) -> Iterator[tuple[Any, Any]] | None:
    """Names and values that a value is made of. None: it is one."""
    if isinstance(value, (list, tuple)):
        return iter(enumerate(value))
    if isinstance(value, dict):
        return iter(value.items())
    if isinstance(value, types.MethodType):
        return iter([("self", value.__self__)])
    if isinstance(value, types.BuiltinMethodType) and isinstance(value.__self__, torch.Tensor):
        return iter([("self", value.__self__)])
    if isinstance(value, functools.partial):
        return iter([("func", value.func), *enumerate(value.args), *value.keywords.items()])
    if isinstance(value, types.FunctionType) and value.__closure__:
        return iter(zip(value.__code__.co_freevars, (cell.cell_contents for cell in value.__closure__)))
    return iter(vars(value).items()) if _is_owned(value, owned) else None


def _reached(value: Any, owned: tuple[str, ...], path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """What is reached from a layer, by path."""
    parts = _parts(value, owned)
    if parts is None:
        yield path, value
    elif id(value) not in seen:
        seen.add(id(value))
        for key, one in parts:
            inside = key in ("_parameters", "_buffers", "_modules")
            yield from _reached(one, owned, path if inside else f"{path}.{key}", seen)


def tensors(value: Any, owned: tuple[str, ...], path: str, seen: set[int]) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that are reached from a layer, by path."""
    return ((at, one) for at, one in _reached(value, owned, path, seen) if isinstance(one, torch.Tensor))


def reached(value: Any, owned: tuple[str, ...], path: str) -> torch.Tensor | None:
    """The tensor at a path."""
    for name in path.split(".")[1:]:
        if not hasattr(value, name):
            value = {str(key): one for key, one in _parts(value, owned) or ()}.get(name)
        else:
            value = getattr(value, name)
    return value if isinstance(value, torch.Tensor) else None


def flags(value: Any, owned: tuple[str, ...]) -> list[tuple[str, Any]]:
    """What is set and what is not, and numbers with a point, by path: two layers that differ in these may be processed
    in two ways. Whole numbers are left out, because layers are counted by them."""
    return [(at, one) for at, one in _reached(value, owned, "", set()) if type(one) in (bool, float, type(None))]


def foreign(value: Any, owned: tuple[str, ...], before: Any) -> str | None:
    """The path of an object that processing made, and that nobody can look into."""
    known = {id(one) for _, one in _reached(before, owned, "", set())}
    for path, one in _reached(value, owned, "", set()):
        if not isinstance(one, _SIMPLE) and id(one) not in known:
            return f"{path.lstrip('.')}, a {type(one).__name__},"
    return None


def number(one: Any, other: Any, owned: tuple[str, ...]) -> str | None:
    """The path of a number that is not the same in both."""
    numbers = (bool, int, float)
    before = {path: value for path, value in _reached(other, owned, "", set()) if type(value) in numbers}
    for path, value in _reached(one, owned, "", set()):
        if type(value) in numbers and path in before and before[path] != value:
            return path.lstrip(".")
    return None
