"""Recording where a model's own loaders put each checkpoint tensor: load_weights runs on stand-ins without elements.

A stand-in is a tensor on the device meta whose storage offset and strides say which elements of the checkpoint tensor
it shows. Views of a stand-in are stand-ins. A copy of one into a parameter is what is recorded; nothing is written.
"""

from __future__ import annotations

import functools
import re
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, Container, Iterable, Iterator, Mapping, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .. import _dtypes
from .._layout import TensorSpec
from ..errors import Error, TensorError
from ._boxes import Copy
from ._moves import Move, moved
from ._stand_in import StandIn

_DTYPES = {name: getattr(torch, other) for other, name in _dtypes._OTHERS.items() if hasattr(torch, other)}


def _address(tensor: torch.Tensor) -> int:
    """Of the first element; without memory, in bytes from the begin of the storage."""
    begin = 0 if tensor.is_meta else tensor.untyped_storage().data_ptr()
    return begin + int(tensor.storage_offset()) * tensor.element_size()


def geometry(tensor: torch.Tensor, name: str, place: str) -> Copy:
    """The copy that fills a tensor, which is shown in its own storage, from one that lies alike."""
    return Copy(name, int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride(), _address(tensor),
                tensor.stride(), tensor.element_size(), place)  # fmt: skip


class Recording:
    """What loaders did: copies, elements that they set to a constant such as padding, and what they computed."""

    def __init__(
        self, model: torch.nn.Module, device: torch.device, moves: Container[str] = (), limit: float = 0
    ) -> None:
        """limit  bytes of the tensors that loaders may compute with, all together"""
        self.device = device
        self.limit = limit
        self.sizes: dict[str, int] = {}  # bytes of each tensor of the checkpoint
        self.computed: set[str] = set()  # tensors of which loaders make other bits
        self.claims: dict[str, list[Copy]] = {}  # what these fill of each parameter
        self.size = 0  # bytes of all of them
        self.remade: dict[str, set[str]] = {}  # parameters that have such bits, and of which tensors
        self.filled: dict[str, set[str]] = {}  # tensors that were copied into each parameter
        self.copies: list[Copy] = []
        self.landed: dict[str, list[Copy]] = {}  # the copies of each parameter
        self.taken: dict[str, list[Copy]] = {}  # the copies of each tensor
        self.constants: list[torch.Tensor] = []
        self.padding: dict[str, torch.Tensor] = {}  # of packed parameters: elements that processing sets to zero
        self.places: dict[int, tuple[str, torch.Tensor]] = {}  # by the storage
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if tensor.numel() and (name in moves or not tensor.is_meta):
                self.places.setdefault(tensor.untyped_storage()._cdata, (name, tensor))

    def watch(self, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Counts other tensors as the model's too."""
        for name, tensor in tensors:
            if tensor.numel() and not tensor.is_meta:
                self.places.setdefault(tensor.untyped_storage()._cdata, (name, tensor))

    def parameter(self, tensor: torch.Tensor) -> str | None:
        """The parameter that has the tensor's memory."""
        found = self.places.get(tensor.untyped_storage()._cdata)
        return found[0] if found else None

    def compute(self, names: Iterable[str], why: TensorError) -> None:
        """Takes down that loaders make other bits of tensors. Raises `why` where these are too large for that."""
        new = set(names) - self.computed
        self.computed |= new
        self.size += sum(self.sizes.get(name, 0) for name in new)
        if self.size > self.limit:
            raise why

    def end(self) -> None:
        """Leaves out the copies of tensors that were computed with, because the loaders run again for these."""
        for place, names in self.filled.items():
            if names & self.computed:
                self.remade.setdefault(place, set()).update(names & self.computed)
        for name in self.computed.difference(*self.remade.values()):
            raise TensorError(name, "its loader computes with it, and no parameter has what comes of that")
        self.copies = [copy for copy in self.copies if copy.tensor not in self.computed]
        for place, copies in self.landed.items():
            self.claims[place] = self.claims.get(place, []) + [one for one in copies if one.tensor in self.computed]
            self.landed[place] = [copy for copy in copies if copy.tensor not in self.computed]

    def accept(self, target: torch.Tensor, source: StandIn) -> None:
        """Takes down one copy. Raises TensorError where no copy of bits can stand for that."""
        name, elements = source.tensor_name, source.elements
        if isinstance(target, StandIn):
            raise TensorError(name, f"its loader writes over the checkpoint tensor '{target.tensor_name}'")
        place = self.parameter(target)
        if place is None:
            raise TensorError(name, "its loader copies it to memory that is no parameter of the model")
        try:
            elements = elements.expand(target.shape)
        except RuntimeError:
            raise TensorError(
                name, f"its loader copies {tuple(elements.shape)} to {tuple(target.shape)} of {place}"
            ) from None
        self.filled.setdefault(place, set()).update(source.names)
        if target.dtype != elements.dtype or not source.exact or 0 in elements.stride():
            self.claims.setdefault(place, []).append(geometry(target, name, place))
        if target.dtype != elements.dtype:
            why = TensorError(name, f"the trainer has it as {elements.dtype}, and {place} is {target.dtype}: publish "
                                    f"what the engine holds")  # fmt: skip
            return self.compute(source.names, why)
        if any(stride == 0 and size > 1 for stride, size in zip(elements.stride(), elements.shape)):
            why = TensorError(name, f"its elements are repeated in {place}, where each may lie once")
            return self.compute(source.names, why)
        if not source.exact:
            return
        copy = Copy(name, int(elements.storage_offset()), tuple(elements.shape), tuple(elements.stride()),
                    _address(target), tuple(target.stride()), target.element_size(), place)  # fmt: skip
        if any(one[:4] == copy[:4] for one in self.taken.setdefault(name, [])):
            self.compute(source.names, TensorError(name, f"it lands in {place} and elsewhere, where it may lie once"))
        self.taken[name].append(copy)
        self.copies.append(copy)
        self.landed.setdefault(place, []).append(copy)


@functools.lru_cache(maxsize=None)
def _targets(func: Any) -> tuple[tuple[int, str], ...]:
    """The arguments that an operation of torch writes to."""
    every = enumerate(func._schema.arguments)
    return tuple((at, one.name) for at, one in every if one.alias_info is not None and one.alias_info.is_write)


@functools.lru_cache(maxsize=None)
def _waits(func: Any) -> bool:
    """Whether an operation waits for other processes."""
    named = re.search("all_?(reduce|gather)", func._schema.name) is not None
    return named or func.namespace in ("c10d", "_c10d_functional")


def written(func: Any, args: Any, kwargs: Any) -> Iterator[torch.Tensor]:
    """Tensors that an operation of torch writes to."""
    for at, name in _targets(func):
        value = args[at] if at < len(args) else kwargs.get(name)
        if isinstance(value, torch.Tensor):
            yield value


class _Guard(TorchDispatchMode):  # type: ignore[no-untyped-call, misc, unused-ignore]
    """Lets no loader write to the model while it is recorded: a constant is taken down, all else is refused."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.recording = recording

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _waits(func):
            raise TensorError("", f"{func._schema.name} is called, which waits for other processes")
        for target in written(func, args, kwargs):
            if self.recording.parameter(target) is not None:
                return self._write(func, target)
        return func(*args, **kwargs)

    def _write(self, func: Any, target: torch.Tensor) -> torch.Tensor:
        name = func.overloadpacket.__name__
        if name not in ("fill_", "zero_"):
            place = self.recording.parameter(target) or ""
            why = TensorError(place, f"a loader does '{name}' with this parameter while no weights are loaded")
            if place not in self.recording.filled:
                raise why
            self.recording.compute(self.recording.filled[place], why)  # from what it had copied there
            return target
        self.recording.constants.append(target.detach())
        return target


@contextmanager
def guarded(recording: Recording) -> Iterator[None]:
    """Lets nothing write to the model. Raises TensorError where something tried."""
    with _Guard(recording):
        yield
    for constant in recording.constants:
        raise TensorError(recording.parameter(constant) or "", "its elements would have been set to a constant")


def dtype_of(spec: TensorSpec) -> torch.dtype:
    dtype = _DTYPES.get(spec.dtype)
    if dtype is None:
        raise TensorError(spec.name, f"torch has no dtype for {spec.dtype}")
    return dtype


def _stand_ins(layout: Iterable[TensorSpec], recording: Recording) -> Iterator[tuple[str, StandIn]]:
    for spec in layout:
        whole = torch.empty(spec.shape, dtype=dtype_of(spec), device="meta")
        recording.sizes[spec.name] = whole.nbytes
        yield spec.name, StandIn.of(spec.name, whole, recording)


def check_claims(recording: Recording) -> None:
    """Two tensors that loaders compute with land in no place together. Raises TensorError."""
    tensors = dict(recording.places.values())
    for place, claims in recording.claims.items():
        if claims:
            _mask(recording, tensors[place], claims)


def _mask(recording: Recording, tensor: torch.Tensor, copies: list[Copy]) -> torch.Tensor:
    """Which elements of a parameter's storage loaders fill. TensorError: two tensors land in one place."""
    storage = tensor.untyped_storage()
    mask = torch.zeros(storage.nbytes() // tensor.element_size(), dtype=torch.bool)
    for copy in copies:
        begin = 0 if tensor.is_meta else storage.data_ptr()
        place = mask.as_strided(copy.sizes, copy.target, (copy.data - begin) // copy.item)
        if bool(place.any()):
            raise TensorError(copy.tensor, f"it lands in {copy.parameter} where another tensor lands: of tied tensors "
                                           f"leave all but one out of the layout")  # fmt: skip
        place.fill_(True)
    padding = recording.padding.get(recording.places[storage._cdata][0])
    if padding is not None:
        experts = mask.view(-1, len(padding))
        if bool(experts[:, padding].any()):
            raise TensorError(copies[0].parameter, "a tensor lands where the engine has padding")
        experts[:, padding] = True
    for constant in recording.constants:
        if constant.untyped_storage()._cdata == storage._cdata:
            mask.as_strided(constant.shape, constant.stride(), constant.storage_offset()).fill_(True)
    return mask


def _missing(recording: Recording, tensor: torch.Tensor) -> int:
    """How many elements of a tensor are in no place that versions write, and in none that keeps what it has."""
    place = recording.places.get(tensor.untyped_storage()._cdata)
    if place is None or place[1].dtype != tensor.dtype:
        return tensor.numel()
    mask = _mask(recording, tensor, recording.landed.get(place[0], []))
    filled = mask.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return 0 if bool(filled.all()) else tensor.numel() - int(filled.sum())  # a sum of bools takes six times as long


def _check_parameters(
    model: torch.nn.Module, recording: Recording, ignore: Iterable[str], computed: Mapping[str, torch.Tensor]
) -> None:
    """Each element of each parameter is filled by one tensor, or by a constant. What was computed shows only these."""
    for name, tensor in model.named_parameters():
        if not tensor.numel() or name in computed:
            continue
        if any(fnmatchcase(name, pattern) for pattern in ignore):
            recording.constants.append(tensor.detach())
            continue
        missing = _missing(recording, tensor)
        if missing:
            raise TensorError(name, f"no tensor of the trainer's layout fills {missing} of its {tensor.numel()} "
                                    f"elements: publish them, or name the parameter in `ignore`")  # fmt: skip
    for name, made in computed.items():
        missing = _missing(recording, made)
        if missing:
            raise TensorError(name, f"it was computed from weights at load, and {missing} of its {made.numel()} "
                                    f"elements lie where no version writes: this engine cannot be updated in "
                                    f"place")  # fmt: skip


@contextmanager
def in_place_of(own: Iterable[tuple[dict[str, Any], str, torch.Tensor]]) -> Iterator[None]:
    """Has layers have other tensors, by the dictionary and the name of each; their own come back after."""
    others = list(own)
    before = [tensors[name] for tensors, name, _ in others]
    try:
        for tensors, name, other in others:
            tensors[name] = other
        yield
    finally:
        for (tensors, name, _), tensor in zip(others, before):
            tensors[name] = tensor


def in_model_format(moves: Mapping[str, Move]) -> Any:
    """Has packed parameters be what loaders fill."""
    return in_place_of((move.layer._parameters, move.name, move.model) for move in moves.values())


class Reloads(Protocol):
    """Tensors that loaders compute with, which weft has copies of, so that loaders can run again for each version."""

    limit: float

    def take(self, recording: Recording, specs: Mapping[str, TensorSpec]) -> list[Copy]:
        """The copies of weft's own. What loaders make of these is added to what `recording` has as landed."""


def recorded(
    model: torch.nn.Module,
    layout: Iterable[TensorSpec],
    device: torch.device,
    moves: Container[str],
    limit: float,
) -> Recording:
    """What `model.load_weights` does with all tensors of a layout; packed parameters are in the model format."""
    recording = Recording(model, device, moves, limit)
    try:
        with torch.no_grad(), _Guard(recording):
            model.load_weights(_stand_ins(layout, recording))  # type: ignore[operator]
    except Error:
        raise
    except Exception as error:
        raise TensorError("load_weights", f"the model's loader fails on the trainer's names or shapes: "
                                          f"{type(error).__name__}: {error}") from error  # fmt: skip
    recording.end()
    return recording


def record(
    model: torch.nn.Module,
    layout: Iterable[TensorSpec],
    device: torch.device,
    ignore: Iterable[str] = (),
    computed: Mapping[str, torch.Tensor] = {},
    moves: Mapping[str, Move] = {},
    reloads: Reloads | None = None,
) -> list[Copy]:
    """Runs `model.load_weights` for all tensors of a layout, and returns the copies that it makes.

    ignore    patterns of parameters that keep what they have
    computed  tensors that were made of weights, by name, which no loader fills
    moves     packed parameters, by name
    reloads   takes the tensors that loaders compute with; None: such a tensor is refused
    Raises TensorError, which names the tensor or parameter.
    """
    specs = {spec.name: spec for spec in layout}
    with in_model_format(moves):
        recording = recorded(model, specs.values(), device, moves, reloads.limit if reloads else 0)
        recording.padding = {name: move.padding for name, move in moves.items() if move.padding is not None}
        copies = list(recording.copies)
        if reloads and recording.computed:
            check_claims(recording)
            copies += reloads.take(recording, specs)
        _check_parameters(model, recording, ignore, computed)
    return list(moved(copies, moves))
