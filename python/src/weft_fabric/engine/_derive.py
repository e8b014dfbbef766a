"""What the engine's own code computes from weights: that code runs again after each commit, on scratch, and what it
makes is copied to where the engine has it.

Three kinds of steps, in the order of a framework's own load: loaders that compute, the processing of layers, and that of
attention. All of a step is computed before any of it is copied, so a step that fails leaves what was there.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .._layout import TensorSpec
from ..errors import TensorError
from ._boxes import Copy
from ._moves import Move, moved
from ._objects import copied, reached
from ._recorder import Recording, dtype_of, geometry, in_model_format, in_place_of, written
from ._trace import in_memory, is_same, like

FEW = 1 << 16  # bytes that nobody counts
LIMIT = 256 << 20  # bytes of weft's own copies in one process


class Remade(NamedTuple):
    """Elements of the engine, and those that its own code makes of the weights."""

    name: str
    live: torch.Tensor
    value: torch.Tensor

    def is_same(self) -> bool:
        return is_same(self.value.to(self.live.device), self.live)


Step = Callable[[], Iterable[Remade]]


def placed(copy: Copy, tensor: torch.Tensor, live: torch.Tensor) -> Remade:
    """What a copy takes of a tensor, and where it has that."""
    place = live.storage_offset() + (copy.data - live.data_ptr()) // copy.item
    value = tensor.as_strided(copy.sizes, copy.source, copy.first)
    return Remade(copy.parameter, live.detach().as_strided(copy.sizes, copy.target, place), value)


def owner(model: torch.nn.Module, name: str) -> tuple[dict[str, Any], str]:
    """Where a module has a parameter or buffer, by its path."""
    path, _, own = name.rpartition(".")
    layer = model.get_submodule(path)
    return (layer._parameters if own in layer._parameters else layer._buffers), own


class _Writes(TorchDispatchMode):  # type: ignore[no-untyped-call, misc, unused-ignore]
    """Takes down which elements of scratch are written, and lets nothing write to the model."""

    def __init__(self, model: torch.nn.Module, scratch: Mapping[str, torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.recording = Recording(model, torch.device("cpu"))
        self.names = {tensor.untyped_storage()._cdata: name for name, tensor in scratch.items()}
        self.found: dict[Copy, None] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        for target in written(func, args, kwargs):
            self._note(target)
        return func(*args, **kwargs)

    def _note(self, target: torch.Tensor) -> None:
        name = self.names.get(target.untyped_storage()._cdata)
        if name is not None:
            self.found[geometry(target, "", name)] = None
        elif self.recording.parameter(target):
            place = self.recording.parameter(target) or ""
            raise TensorError(place, "a loader writes to it that did not when it was recorded")


def reloaded(
    model: torch.nn.Module,
    device: torch.device,
    weights: Mapping[str, torch.Tensor],
    moves: Mapping[str, Move],
    places: Iterable[str],
) -> list[tuple[Copy, torch.Tensor]]:
    """Runs `model.load_weights` for a few tensors, on scratch for the parameters `places`. Returns what these get, as
    copies of scratch, in the model format. No weight is written."""
    own, scratch = [], {}
    with in_model_format(moves):
        for name in places:
            held, short = owner(model, name)
            scratch[name] = like(held[short], device)
            own.append((held, short, scratch[name]))
        writes = _Writes(model, scratch)
        with in_place_of(own), torch.no_grad(), writes:
            model.load_weights(iter([*weights.items()]))  # type: ignore[operator]
        return [(_into(model, moves, copy, scratch[copy.parameter]), scratch[copy.parameter]) for copy in writes.found]


def _into(model: torch.nn.Module, moves: Mapping[str, Move], copy: Copy, scratch: torch.Tensor) -> Copy:
    """A copy out of scratch: where that begins in the parameter that scratch stood for."""
    held, short = owner(model, copy.parameter)
    begin = 0 if held[short].is_meta else held[short].data_ptr()
    return copy._replace(data=begin + (copy.first - int(scratch.storage_offset())) * copy.item)


class Reloads:
    """Tensors that loaders compute with: weft's own copies of them, and the step that runs the loaders again."""

    limit: float = LIMIT

    def __init__(self, model: torch.nn.Module, device: torch.device, moves: Mapping[str, Move]) -> None:
        self.model, self.device, self.moves = model, device, moves
        self.weights: dict[str, Any] = {}  # in the order of the layout, as loaders get them
        self.places: tuple[str, ...] = ()
        self.fresh: set[str] = set()  # tensors that hold nothing yet

    def take(self, recording: Recording, specs: Mapping[str, TensorSpec]) -> list[Copy]:
        """Takes the tensors that a recording says loaders compute with. Returns the copies into weft's own."""
        self.weights = {name: self.weights.get(name) for name in specs if name in recording.computed}
        for name in self.weights:
            dtype, shape = dtype_of(specs[name]), specs[name].shape
            had = self.weights.get(name)
            if had is None or (had.dtype, tuple(had.shape)) != (dtype, shape):
                self.weights[name] = torch.zeros(shape, dtype=dtype, device=self.device)
                self.fresh.add(name)
        self.places = tuple(sorted(recording.remade))
        for copy, _ in reloaded(self.model, self.device, self.weights, self.moves, self.places):
            recording.landed.setdefault(copy.parameter, []).append(copy)
        return [geometry(tensor, name, f"weft's copy of {name}") for name, tensor in self.weights.items()]

    def fill(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Has the copies be what the engine was loaded with."""
        for name, tensor in weights if self.fresh else ():
            if name in self.fresh and tensor.shape == self.weights[name].shape:
                self.weights[name].copy_(tensor)
                self.fresh.discard(name)

    def step(self) -> Iterator[Remade]:
        for copy, scratch in (
            reloaded(self.model, self.device, self.weights, self.moves, self.places) if self.places else ()
        ):
            move = self.moves.get(copy.parameter)
            held, short = (move.layer._parameters, move.name) if move else owner(self.model, copy.parameter)
            live = move.model if move and move.kept else held[short]
            for part in moved([copy], self.moves):
                yield placed(part, scratch, live)


class Layer(NamedTuple):
    """A layer whose processing computes some of its tensors: it runs again on what the layer was loaded with. Scales are
    most often made of scales alone. So where `light` is set, parameters that only move and are not few have no elements
    then, on the device meta, and nothing is spent on moving these again."""

    path: str
    layer: torch.nn.Module
    moves: Mapping[str, Move]  # its parameters of the model format, by their own names
    rest: Sequence[str]  # parameters that processing takes as they are
    made: Sequence[str]  # paths of what is computed
    owned: tuple[str, ...]
    process: Callable[[Any], None]
    light: bool = False

    def step(self) -> Iterator[Remade]:
        scratch = copied(self.layer, self.owned, {})
        rest = {name: self.layer._parameters[name] for name in self.rest}
        scratch.__dict__["_parameters"] = {name: p.detach().clone() for name, p in rest.items() if p is not None}
        scratch._parameters.update({name: self.filled(move) for name, move in self.moves.items()})
        self.process(scratch)
        yield from _remade(self.path, self.made, scratch, self.layer, self.owned)

    def filled(self, move: Move) -> torch.Tensor:
        bulk = self.light and not move.kept and move.model.nbytes > FEW
        return like(move.model, torch.device("meta")) if bulk else model_of(move)


def _remade(path: str, made: Iterable[str], scratch: Any, layer: Any, owned: tuple[str, ...]) -> Iterator[Remade]:
    for one in made:
        value, live = reached(scratch, owned, one), reached(layer, owned, one)
        if value is None or live is None or value.shape != live.shape or value.dtype != live.dtype:
            raise RuntimeError(f"{path}{one} is not made again")
        if value.untyped_storage()._cdata == live.untyped_storage()._cdata:
            raise RuntimeError(f"{path}{one} is the engine's own still after it was made again")
        yield Remade(f"{path}{one}", live.detach(), value.detach())


def model_of(move: Move) -> torch.Tensor:
    """A parameter in the model format, from what the engine has."""
    live = move.layer._parameters[move.name]
    tensor = like(move.model, live.device if move.model.is_meta else move.model.device)
    if move.kept:
        tensor.data.copy_(move.model)
        return tensor
    digits = [*reversed(move.digits)]
    extents, strides = [digit.extent for digit in digits], [abs(digit.target) for digit in digits]
    back = [dim for dim, digit in enumerate(digits) if digit.target < 0]
    flat = in_memory(tensor.data)
    assert flat is not None
    flat.copy_(live.detach().as_strided(extents, strides, live.storage_offset()).flip(back).reshape(-1))
    return tensor


class Attention(NamedTuple):
    """A module that has tensors which are computed from other layers' weights."""

    path: str
    module: torch.nn.Module
    made: Sequence[str]
    owned: tuple[str, ...]
    process: Callable[[Any], None]  # computes them in a copy of the module

    def step(self) -> Iterator[Remade]:
        scratch = copied(self.module, self.owned, {})
        for one in self.made:
            _spoil(scratch, one.lstrip(".").split("."))
        self.process(scratch)
        yield from _remade(self.path, self.made, scratch, self.module, self.owned)


def _spoil(value: Any, path: list[str]) -> None:
    """Has scratch hold other bits, so that nothing is taken for computed that is only kept."""
    for name in path[:-1]:
        value = getattr(value, name)
    every = (getattr(value, "_parameters", {}), getattr(value, "_buffers", {}), vars(value))
    place = next(place for place in every if path[-1] in place)
    spoilt = torch.empty_like(place[path[-1]], memory_format=torch.contiguous_format).detach()
    spoilt.view(-1).view(torch.uint8).fill_(0xA5)
    place[path[-1]] = torch.nn.Parameter(spoilt, False) if isinstance(place[path[-1]], torch.nn.Parameter) else spoilt


class Derived:
    """All steps, in order."""

    def __init__(self, steps: Sequence[Step], context: Callable[[], Any] = contextlib.nullcontext) -> None:
        self.steps, self.context = list(steps), context

    def run(self) -> None:
        """Makes what is computed from weights again. Raises what the engine's code raises."""
        with self.context(), torch.no_grad():
            for step in self.steps:
                for one in list(step()):
                    one.live.copy_(one.value)

    def wrong(self) -> list[str]:
        """Tensors of which the engine has other bits than its own code makes now."""
        with self.context(), torch.no_grad():
            return [one.name for step in self.steps for one in step() if not one.is_same()]
