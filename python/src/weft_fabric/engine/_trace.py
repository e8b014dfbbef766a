"""Learning where a layer's process_weights_after_loading moves each element: it runs on a copy of the layer whose
parameters hold digits.

The number of an element takes as many passes as it has digits. Three more passes judge what was found: two with other
digits, and one with any bits. Processing may clamp NaN, zero or subnormals, and leave digits alone.
"""

from __future__ import annotations

from math import prod
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

import torch

from ._framework import Metas
from ._moves import Digit, digits_of
from ._objects import copied, foreign, number, tensors

# How many digits a dtype has: values or codes from 1 on, without NaN; 0 is padding. Every float of 16 bits or more has
# the values 1 to 256.
_BASES = {"float8_e4m3fn": 126, "float8_e4m3fnuz": 126, "float8_e5m2": 123, "float8_e5m2fnuz": 123,
          "float8_e8m0fnu": 254, "uint8": 255, "int8": 127, "bfloat16": 256, "float16": 256, "float32": 256,
          "float64": 256}  # fmt: skip
_INTS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_PART = 1000003  # elements of a filling that are random, and then repeat; a prime, because dimensions are none
# Numbers of experts that objects of a layer know.
_COUNTS = frozenset("num_experts num_local_experts local_num_experts global_num_experts num_logical_experts".split())


class Untold(Exception):
    """Why nobody can say where a layer's elements are moved."""


class Traced(NamedTuple):
    moved: dict[str, tuple[Digit, ...]]  # parameters whose elements are moved
    others: dict[str, str]  # the other parameters, and why
    made: list[str]  # paths of tensors that are computed from weights
    padding: dict[str, torch.Tensor] = {}  # of moved parameters: which elements of an expert lie nowhere


class _Scratch(NamedTuple):
    layer: torch.nn.Module
    made: dict[str, torch.Tensor]  # tensors that the layer has after, by path


def base_of(dtype: torch.dtype) -> int:
    """How many digits a dtype has. 0: no digits can be written in it."""
    return _BASES.get(str(dtype).rpartition(".")[2], 0)


def _written(digits: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return (digits.int() + 1).to(dtype) if base_of(dtype) == 256 else (digits + 1).to(torch.uint8).view(dtype)


def _read(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The digits that values are, -1 for what is none."""
    base = base_of(dtype)
    numbers = values.to(torch.int64) if base == 256 else values.view(torch.uint8).to(torch.int64)
    digits = (numbers >= 1) & (numbers <= base)
    if base == 256:
        digits &= numbers.to(dtype) == values
    return torch.where(digits, numbers - 1, -1)


def _has_others(values: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether some values are no digits."""
    return any(bool((_read(part, dtype) < 0).any()) for part in values.split(_PART))


def _filled(part: torch.Tensor, count: int) -> torch.Tensor:
    """So many elements, by repeating a part."""
    return _bits(part).repeat(-(-count // len(part)))[:count].view(part.dtype)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(_INTS[tensor.element_size()])


def is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(_bits(one), _bits(other))


def in_memory(tensor: torch.Tensor) -> torch.Tensor | None:
    """The elements in the order of memory. None: they do not lie in one go."""
    order = sorted(range(tensor.dim()), key=lambda dim: -tensor.stride(dim))
    lies = tensor.permute(order)
    return lies.view(-1) if lies.is_contiguous() else None


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
    return {name: _sliced(meta) if meta.dim() and meta.shape[0] in experts else meta for name, meta in metas.items()}


def _sliced(meta: torch.Tensor) -> torch.Tensor:
    part = meta.data[:2]
    part.__class__, part.__dict__ = meta.__class__, meta.__dict__.copy()
    return part


def _lies(
    values: torch.Tensor, filling: torch.Tensor, digits: Sequence[Digit], padding: torch.Tensor | None = None
) -> bool:
    """Whether memory holds what the model format was filled with, by digits; and zeros in places that are padding."""
    order = sorted(digits, key=lambda digit: -abs(digit.target))
    if prod(digit.extent for digit in order) != len(values) or len(values) > len(filling):
        return False
    wanted = _bits(filling).as_strided([digit.extent for digit in order], [digit.unit for digit in order])
    back = [dim for dim, digit in enumerate(order) if digit.target < 0]
    wanted = wanted.flip(back) if back else wanted
    if padding is not None:
        wanted = wanted.masked_fill(padding.view(wanted.shape), 0)
    return torch.equal(wanted, _bits(values).view(wanted.shape))


def _range(tensor: Any) -> tuple[int, int, int]:
    """A tensor's storage, and the bytes of it from the tensor's first element to its last."""
    begin = int(tensor.storage_offset())
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())) if tensor.numel() else -1
    item = tensor.element_size()
    return tensor.untyped_storage()._cdata, begin * item, (begin + reach + 1) * item


def _padding(places: torch.Tensor, digits: Sequence[Digit], one: int) -> torch.Tensor | None:
    """Which elements of an expert lie in the places of padding. None: not the same of each."""
    order = sorted(digits, key=lambda digit: -digit.unit)
    every = places.as_strided([digit.extent for digit in order], [abs(digit.target) for digit in order])
    experts = every.flip([dim for dim, digit in enumerate(order) if digit.target < 0]).reshape(-1, one)
    return experts[0].cpu() if bool((experts == experts[0]).all()) else None


def _count(memo: dict[int, Any], metas: Metas, few: Metas) -> None:
    """Has copied objects know as many experts as scratch parameters have."""
    for name, meta in metas.items():
        if meta.shape != few[name].shape:
            for new, _ in memo.values():
                own = getattr(new, "__dict__", {})
                own.update({key: few[name].shape[0] for key in _COUNTS & own.keys() if own[key] == meta.shape[0]})


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
            if not (base_of(meta.dtype) and meta.is_contiguous()):
                raise Untold(f"{name} is {meta.dtype} with strides {meta.stride()}")
        self.layer, self.metas, self.owned, self.process = layer, _few(metas), owned, process
        self.every = metas
        self.kept = {name: layer._parameters[name] for name in kept}
        self.device = next(tensor.device for tensor in layer.parameters())
        self.others: dict[str, str] = {}
        self.places: dict[str, torch.Tensor] = {}  # of padding, in memory
        self.padding: dict[str, torch.Tensor] = {}  # the same, of one expert in the model format

    def play(self, filling: Callable[[str, torch.Tensor], torch.Tensor], other: bool = False) -> _Scratch:
        """The layer after processing, where each parameter of the model format was filling(name, parameter).

        other  whether parameters that processing takes as they are have other values than the engine's
        """
        memo: dict[int, Any] = {}
        scratch = copied(self.layer, self.owned, memo)
        _count(memo, self.every, self.metas)
        kept = {n: p.detach().clone() for n, p in self.kept.items() if p is not None}
        for tensor in kept.values() if other else ():
            if tensor.is_floating_point():
                tensor.add_(1)
        scratch.__dict__["_parameters"] = {name: tensor.clone() for name, tensor in kept.items()}
        for name, meta in self.metas.items():
            tensor = like(meta, self.device)
            tensor.data.copy_(filling(name, meta).view(meta.shape))
            scratch._parameters[name] = tensor
        self.process(scratch)
        for name in kept:
            after = scratch._parameters.get(name)
            if after is None or not is_same(after.detach(), kept[name]):
                raise Untold(f"{name} is another after processing, though nothing tells what it was before")
        return _Scratch(scratch, dict(tensors(scratch, self.owned, "", set())))

    def trace(self) -> Traced:
        """Where each parameter is moved, and what is computed. Raises Untold."""
        seen: dict[str, list[torch.Tensor]] = {name: [] for name in self.metas}
        for at in range(max(self.passes(meta) for meta in self.metas.values())):
            after = self.play(lambda _, meta, at=at: self.digit(meta, at))  # type: ignore[misc]
            for name, meta in self.metas.items():
                values = self.values(after.layer, name)
                if values is not None and at < self.passes(meta):
                    seen[name].append(values)
        moved = {name: self.digits(name, seen[name]) for name in self.metas if name not in self.others}
        del seen
        halves = [{name: self.noise(meta, half) for name, meta in self.metas.items()} for half in (1, 0)]
        first, second = self.play(lambda n, _: halves[0][n]), self.play(lambda n, _: halves[1][n], True)
        self.judge(moved, first, halves[0], "is moved to other places with other weights")
        bits = {name: self.any_bits(meta) for name, meta in self.metas.items()}
        self.judge(moved, self.play(lambda name, _: bits[name]), bits, "is another where its bits are no digits")
        hidden = foreign(first.layer, self.owned, self.layer)
        if hidden:
            raise Untold(f"{hidden} was made at load, and may hold weights")
        of_weights = number(first.layer, second.layer, self.owned)
        if of_weights:
            raise Untold(f"{of_weights} is a number that was computed from weights")
        made = self.made(first, second)
        made += [f".{n}" for n in self.others if f".{n}" not in made and self.layer._parameters.get(n) is not None]
        whole = {n: self.whole(n, found) for n, found in moved.items() if n not in self.others}
        return Traced(whole, self.others, made, {n: mask for n, mask in self.padding.items() if n in whole})

    def passes(self, meta: torch.Tensor) -> int:
        return next(n for n in range(1, 10) if base_of(meta.dtype) ** n >= meta.numel())

    def digit(self, meta: torch.Tensor, at: int) -> torch.Tensor:
        """Of each element's number the digit `at`."""
        unit, base = base_of(meta.dtype) ** at, base_of(meta.dtype)
        each = torch.arange(min(base, -(-meta.numel() // unit)), device=self.device)
        cycle = _bits(_written(each, meta.dtype))[:, None].expand(-1, min(unit, meta.numel()))
        return _filled(cycle.reshape(-1).view(meta.dtype), meta.numel())

    def noise(self, meta: torch.Tensor, half: int) -> torch.Tensor:
        """Other digits: of the lower or upper half, so that the largest and the least differ too."""
        generator, middle = torch.Generator().manual_seed(half), base_of(meta.dtype) // 2
        digits = torch.randint(0, middle, (min(meta.numel(), _PART),), generator=generator)
        return _filled(_written(half * middle + digits, meta.dtype).to(self.device), meta.numel())

    def any_bits(self, meta: torch.Tensor) -> torch.Tensor:
        """Random bits, and what processing may make something else of: of 16 elements four are NaN, two are zero or next to
        it, two are minus zero, and one is infinite."""
        generator, size = torch.Generator().manual_seed(3), meta.element_size()
        codes = torch.randint(0, 256, (min(meta.numel(), _PART), size), generator=generator, dtype=torch.uint8)
        codes[0::4, -2:] = torch.tensor([255, 127], dtype=torch.uint8)[-size:]
        codes[1::8] = 0
        codes[5::8, 1:] = 0
        codes[2::8] = torch.tensor([0] * (size - 1) + [128], dtype=torch.uint8)
        if meta.dtype.is_floating_point:
            codes[6::16] = torch.tensor([float("inf")]).to(meta.dtype).view(torch.uint8)
        return _filled(codes.view(meta.dtype).view(-1).to(self.device), meta.numel())

    def values(self, layer: torch.nn.Module, name: str) -> torch.Tensor | None:
        """What a parameter holds after processing, in the order of memory. None: it is no parameter that was moved."""
        meta, live, got = self.metas[name], self.layer._parameters.get(name), layer._parameters.get(name)
        why, values = "", None
        if live is None or got is None:
            why = f"{name} has gone"
        elif live.dtype != meta.dtype or got.dtype != meta.dtype:
            why = f"{name} is {got.dtype}, and loaders fill {meta.dtype}"
        elif live.shape[1:] != got.shape[1:] or got.numel() != meta.numel():
            why = f"{name} is of shape {tuple(live.shape)} in the engine, and another when processed again"
        else:
            values = in_memory(got.detach())
            same = [one.stride() for one in (live, got)]
            if values is None or in_memory(live.detach()) is None or (len(set(same)) > 1 and live.shape == got.shape):
                why, values = f"{name} does not lie in one go", None
        if why:
            self.others.setdefault(name, why)
        return values

    def judge(self, moved: Mapping[str, Sequence[Digit]], after: _Scratch, filling: Metas, why: str) -> None:
        """Whether another filling lies by the same digits."""
        for name, digits in moved.items():
            values = self.values(after.layer, name)
            if values is None or not _lies(values, filling[name], digits, self.places.get(name)):
                self.others.setdefault(name, f"{name} {why}")

    def made(self, one: _Scratch, other: _Scratch) -> list[str]:
        """Paths of tensors that depend on the weights, but for those that share memory with what is moved."""
        own = [_range(one.layer._parameters[name]) for name in self.metas if name not in self.others]
        found = []
        for path, tensor in one.made.items():
            before = other.made.get(path)
            if before is not None and is_same(before.detach(), tensor.detach()):
                continue
            storage, begin, end = _range(tensor)
            shown = any(storage == place and first <= begin and end <= last for place, first, last in own)
            if not shown and path.lstrip(".") not in self.kept:
                found.append(path)
        return found

    def experts(self, name: str) -> int:
        """How many of a parameter lie each like the others."""
        meta, each = self.metas[name], {one.shape[0] for one in self.metas.values() if one.dim() > 2}
        return meta.shape[0] if meta.dim() and {meta.shape[0]} == each else 1

    def digits(self, name: str, seen: Sequence[torch.Tensor]) -> tuple[Digit, ...]:
        """The digits of one parameter; the experts are the outermost. (): its elements are computed."""
        meta, experts = self.metas[name], self.experts(name)
        base, one = base_of(meta.dtype), meta.numel() // experts
        zeros = _bits(seen[0]) == 0 if seen else None
        places = zeros if zeros is not None and bool(zeros.any()) else None

        def index(place: int) -> int:
            if places is not None and bool(places[place]):
                return -1
            return sum(int(_read(values[place : place + 1], meta.dtype)) * base**at for at, values in enumerate(seen))

        digits = digits_of(index, one)
        if digits is not None:
            digits = (*digits, Digit(experts, one, one)) if experts > 1 or not digits else digits
            right = all(_lies(values, self.digit(meta, at), digits, places) for at, values in enumerate(seen))
            padding = _padding(places, digits, one) if right and places is not None else None
            if padding is not None and places is not None:
                self.places[name], self.padding[name] = places, padding
            if right and (places is None or padding is not None):
                return digits
        others = any(_has_others(values, meta.dtype) for values in seen)
        why = (
            "has padding other than zeros, or elements that were computed" if others else "is packed in no regular way"
        )
        self.others.setdefault(name, f"{name} {why}")
        return ()

    def whole(self, name: str, digits: tuple[Digit, ...]) -> tuple[Digit, ...]:
        """The digits of all experts, of which a few were traced."""
        live, experts = self.layer._parameters[name], self.experts(name)
        assert live is not None
        return digits if experts == 1 else (*digits[:-1], digits[-1]._replace(extent=live.numel() // digits[-1].unit))
