"""Learning where a layer's process_weights_after_loading moves each element: it runs on a copy of the layer whose
parameters hold digits.

A digit is one of the values 1 to 256, which every float of 16 bits or more holds exactly; 0 is padding. The number of an
element takes as many passes as it has digits. One more pass, with other values, judges what was found.
"""

from __future__ import annotations

import enum
import types
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple

import numpy as np
import torch

from ._moves import Digit, digits_of

BASE = 256
_SMALL = 1 << 20  # bytes of a tensor that is copied with the object that holds it; larger ones are shared
# What a layer's method makes at load. With these set it takes another way, which packs nothing.
_FIRST = frozenset(("moe_kernel", "moe_quant_config"))
_DONE = "_already_called_process_weights_after_loading"

Metas = Mapping[str, torch.Tensor]


class Untold(Exception):
    """Why nobody can say where a layer's elements are moved."""


class _Scratch(NamedTuple):
    layer: torch.nn.Module
    made: dict[str, torch.Tensor]  # tensors that the layer has after, by path


def _is_owned(value: Any, owned: tuple[str, ...]) -> bool:
    kind = type(value)
    mine = isinstance(value, torch.nn.Module) or kind.__module__.startswith(owned)
    return mine and hasattr(value, "__dict__") and not isinstance(value, (enum.Enum, torch.Tensor, tuple, type))


def _copied(value: Any, owned: tuple[str, ...], memo: dict[int, Any]) -> Any:
    """A copy of what processing may write to: modules, methods, kernels, configurations, small tensors."""
    if isinstance(value, types.MethodType):
        return value.__func__.__get__(_copied(value.__self__, owned, memo))
    if type(value) is set:
        return set(value)
    if type(value) in (list, tuple):
        return type(value)(_copied(one, owned, memo) for one in value)
    if type(value) is dict:
        return {key: _copied(one, owned, memo) for key, one in value.items()}
    if id(value) in memo:
        return memo[id(value)][0]
    if type(value) is torch.Tensor and value.nbytes <= _SMALL:
        return memo.setdefault(id(value), (value.clone(), value))[0]
    if not _is_owned(value, owned):
        return value
    kind: Any = type(value)
    new = kind.__new__(kind)
    memo[id(value)] = (new, value)  # with the original, whose id must not go to another
    new.__dict__.update({k: _copied(v, owned, memo) for k, v in vars(value).items() if k != _DONE})
    new.__dict__.update(dict.fromkeys(_FIRST & new.__dict__.keys()))
    return new


def _tensors(value: Any, owned: tuple[str, ...], path: str, seen: set[int]) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that are reached from a layer, by path."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, (list, tuple, dict)):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _tensors(one, owned, f"{path}.{key}", seen)
    elif _is_owned(value, owned) and id(value) not in seen:
        seen.add(id(value))
        for key, one in vars(value).items():
            inside = key in ("_parameters", "_buffers", "_modules")
            yield from _tensors(one, owned, path if inside else f"{path}.{key}", seen)


def like(meta: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor of zeros as a parameter was before its weights came, with its class and its attributes."""
    tensor = torch.empty_strided(meta.size(), meta.stride(), dtype=meta.dtype, device=device).zero_()
    tensor.__class__ = meta.__class__
    tensor.__dict__ = meta.__dict__.copy()
    return tensor


def _few(metas: Metas) -> Metas:
    """Two experts stand for all of a layer, because each lies like the others."""
    experts = {meta.shape[0] for meta in metas.values() if meta.dim() > 2}
    if len(experts) != 1 or min(experts) <= 2:
        return metas
    return {
        name: _sliced(meta) if meta.dim() > 1 and meta.shape[0] in experts else meta for name, meta in metas.items()
    }


def _sliced(meta: torch.Tensor) -> torch.Tensor:
    part = meta.data[:2]
    part.__class__, part.__dict__ = meta.__class__, meta.__dict__.copy()
    return part


class Trace:
    """Plays a layer's processing on scratch parameters."""

    def __init__(
        self,
        layer: torch.nn.Module,
        metas: Metas,
        kept: Iterable[str],
        owned: tuple[str, ...],
        process: Callable[[Any], None],
    ) -> None:
        """metas    parameters of the model format, on the device meta
        kept     parameters that processing takes as they are
        owned    packages whose objects processing may write to
        process  process_weights_after_loading of a layer
        """
        for name, meta in metas.items():
            if not (meta.is_floating_point() and meta.element_size() > 1 and meta.is_contiguous()):
                raise Untold(f"{name} is {meta.dtype} with strides {meta.stride()}")
        self.layer, self.metas, self.owned, self.process = layer, _few(metas), owned, process
        self.kept = {name: layer._parameters[name] for name in kept}
        self.device = next(tensor.device for tensor in layer.parameters())
        ends = np.cumsum([meta.numel() for meta in self.metas.values()])
        self.begin = {n: int(e) - self.metas[n].numel() for n, e in zip(self.metas, ends)}
        self.count = int(ends[-1])

    def play(self, value_of: Callable[[torch.Tensor], torch.Tensor]) -> _Scratch:
        """The layer after processing, where element number n of the model format was value_of(n)."""
        scratch = _copied(self.layer, self.owned, {})
        scratch.__dict__["_parameters"] = {n: p.detach().clone() for n, p in self.kept.items() if p is not None}
        for name, meta in self.metas.items():
            tensor = like(meta, self.device)
            numbers = torch.arange(self.begin[name], self.begin[name] + meta.numel(), device=self.device)
            tensor.data.copy_(value_of(numbers).view(meta.shape).to(meta.dtype))
            scratch._parameters[name] = tensor
        self.process(scratch)
        return _Scratch(scratch, dict(_tensors(scratch, self.owned, "", set())))

    def maps(self) -> dict[str, tuple[Digit, ...]]:
        """The digits of each parameter. Raises Untold."""
        index: dict[str, torch.Tensor] = {}
        passes = next(n for n in range(1, 9) if BASE**n >= self.count)
        for at in range(passes):
            after = self.play(lambda numbers: numbers // BASE**at % BASE + 1)
            for name in self.metas:
                digits = self.values(after.layer, name).to(torch.int64) - 1
                if bool(((digits < 0) | (digits >= BASE)).any()):
                    raise Untold(f"{name} has padding, or elements that were computed")
                index[name] = index.get(name, 0) + digits * BASE**at
        self.judge(index, after)
        return {name: self.digits(name, index[name] - self.begin[name]) for name in self.metas}

    def values(self, layer: torch.nn.Module, name: str) -> torch.Tensor:
        """What a parameter holds after processing, in the order of memory."""
        live, got = self.layer._parameters.get(name), layer._parameters.get(name)
        if live is None or got is None:
            raise Untold(f"{name} has gone")
        if not (live.is_contiguous() and got.is_contiguous()) or live.dtype != got.dtype:
            raise Untold(f"{name} does not lie in one go")
        if live.shape[1:] != got.shape[1:] or got.numel() != self.metas[name].numel():
            raise Untold(f"{name} is of shape {tuple(live.shape)} in the engine, and another when processed again")
        return got.detach().reshape(-1).cpu()

    def judge(self, index: Metas, other: _Scratch) -> None:
        """Another filling must give the same map, and nothing beside the parameters may depend on the weights."""
        noise = torch.randint(1, BASE + 1, (self.count,), generator=torch.Generator().manual_seed(0))
        after = self.play(lambda numbers: noise.to(numbers.device)[numbers])
        for name, numbers in index.items():
            if int(numbers.max()) >= self.count:
                raise Untold(f"{name} has elements that were computed")
            values = self.values(after.layer, name)
            if not torch.equal(noise[numbers].to(values.dtype), values):
                raise Untold(f"{name} is moved to other places with other weights")
        own = {getattr(after.layer, name).untyped_storage()._cdata for name in index}
        for path, tensor in after.made.items():
            before = other.made.get(path)
            same = before is not None and before.shape == tensor.shape and torch.equal(before, tensor)
            if not same and tensor.untyped_storage()._cdata not in own:
                raise Untold(f"{path.lstrip('.')} was computed from weights")

    def digits(self, name: str, index: torch.Tensor) -> tuple[Digit, ...]:
        """The digits of one parameter; the experts are the outermost."""
        meta, live = self.metas[name], self.layer._parameters[name]
        assert live is not None
        each = {one.shape[0] for one in self.metas.values() if one.dim() > 2}
        experts = meta.shape[0] if meta.dim() > 1 and {meta.shape[0]} == each else 1
        one = len(index) // experts
        rows = index.view(experts, one)
        alike = torch.equal(rows, rows[:1] + one * torch.arange(experts)[:, None])
        digits = digits_of(rows[0].numpy()) if alike else None
        if digits is None:
            raise Untold(f"{name} is packed in no regular way")
        count = live.numel() // one
        return (*digits, Digit(count, one, one)) if count > 1 else digits
