"""Layout: the ordered list of tensors that trainer and rollouts share."""

from __future__ import annotations

from math import prod
from typing import Any, Iterable, Mapping, NamedTuple, Union

import numpy as np

from . import _dtypes, _tensors, _wait
from ._library import check, ffi, lib, text_of
from ._records import hex_of
from ._site import Site
from .errors import CallError, TensorError

Named = Union[Mapping[str, Any], Iterable["tuple[str, Any]"]]


class TensorSpec(NamedTuple):
    """One tensor of a layout: name, dtype as safetensors names it, shape in elements."""

    name: str
    dtype: str
    shape: tuple[int, ...]


def mapping_of(named: Named) -> dict[str, Any]:
    """Names with tensors, of a mapping or of pairs such as `model.named_parameters()`."""
    if isinstance(named, Mapping):
        return dict(named)
    if isinstance(named, str) or hasattr(named, "named_parameters") or not isinstance(named, Iterable):
        raise CallError(
            f"a {type(named).__name__} is neither a mapping from name to tensor nor pairs of both, such as "
            "model.named_parameters(); weft.torch takes models",
            lib.WEFT_E_ARGUMENT,
            "argument",
        )
    tensors: dict[str, Any] = {}
    for name, tensor in named:
        if name in tensors:
            raise TensorError(name, "given twice")
        tensors[name] = tensor
    return tensors


def _create(specs: list[TensorSpec]) -> Any:
    names = [ffi.new("char[]", spec.name.encode()) for spec in specs]
    shapes = [ffi.new("uint64_t[]", spec.shape or (0,)) for spec in specs]
    tensors = ffi.new("weft_tensor[]", len(specs))
    for c, spec, name, shape in zip(tensors, specs, names, shapes):
        c.name, c.dtype, c.rank, c.shape = name, _dtypes.NUMBERS[spec.dtype], len(spec.shape), shape
    out = ffi.new("weft_layout **")
    check(lib.weft_layout_create(tensors, len(specs), out))
    return out[0]


def _spec(layout: Any, index: int) -> TensorSpec:
    c = ffi.new("weft_tensor *")
    check(lib.weft_layout_tensor(layout, index, c))
    return TensorSpec(text_of(c.name), _dtypes.NAMES[c.dtype], tuple(c.shape[i] for i in range(c.rank)))


class Layout:
    """The ordered list of tensors. Two ends meet if they have the same names, dtypes and shapes, in whatever order.

    `Layout(named)` is the layout of tensors: a mapping from name to tensor, or pairs. With `cast="bf16"` it has BF16 for
    each tensor of float32, which a Trainer with that option reads so, and F16 with "fp16". `Layout.of(specs)` is the
    layout of (name, dtype, shape). `Layout.fetch(site, peer)` asks the trainer. `a.match(b)` tells how two layouts
    differ.
    """

    def __init__(self, named: Named, cast: Any = None) -> None:
        views = [(name, _tensors.read(name, tensor)) for name, tensor in mapping_of(named).items()]
        if not views:
            raise CallError("there are no tensors: a generator, such as model.named_parameters(), gives its pairs once",
                            lib.WEFT_E_ARGUMENT, "argument")  # fmt: skip
        of_f32 = _dtypes.of_cast(cast) or "F32"
        self._take([TensorSpec(name, of_f32 if v.dtype == "F32" else v.dtype, v.shape) for name, v in views])

    def _take(self, specs: list[TensorSpec]) -> None:
        self._hold(ffi.gc(_create(specs), lib.weft_layout_free))

    def _hold(self, pointer: Any, owner: Any = None) -> None:
        self._pointer = pointer
        self._owner = owner  # what the layout lives in, where it is not its own
        self.tensors: tuple[TensorSpec, ...] = tuple(_spec(pointer, i) for i in range(lib.weft_layout_count(pointer)))
        self.index: dict[str, int] = {spec.name: i for i, spec in enumerate(self.tensors)}

    @classmethod
    def _of_pointer(cls, pointer: Any, owner: Any = None) -> Layout:
        layout = cls.__new__(cls)
        layout._hold(pointer, owner)
        return layout

    @classmethod
    def of(cls, specs: Iterable[tuple[str, Any, Iterable[int]]]) -> Layout:
        """The layout of (name, dtype, shape); dtypes as safetensors, torch or numpy name them."""
        layout = cls.__new__(cls)
        layout._take([TensorSpec(name, _dtypes.required(dtype), tuple(shape)) for name, dtype, shape in specs])
        return layout

    @classmethod
    def fetch(cls, site: Any, peer: str, timeout: float | None = None) -> Layout:
        """Asks the site's trainer for its layout, for a rollout that starts with nothing. Ctrl-C ends the wait.

        `timeout` is in seconds; None takes the site's connect_deadline.
        """
        held, name, out = Site.of(site), peer.encode(), ffi.new("weft_layout **")
        ms = 0 if timeout is None else max(1, _wait.ms_of(timeout))

        def fetch() -> Any:
            with held.told():
                check(lib.weft_layout_fetch(held._pointer, name, ms, out))
            return ffi.gc(out[0], lib.weft_layout_free)

        return cls._of_pointer(_wait.interruptible(fetch))

    @property
    def bytes(self) -> int:
        """Dense bytes of all tensors."""
        return int(lib.weft_layout_bytes(self._pointer))

    @property
    def hash(self) -> str:
        """The layout's 128-bit hash, as 32 hexadecimal digits."""
        words = ffi.new("uint64_t[2]")
        lib.weft_layout_hash(self._pointer, words)
        return hex_of(words)

    def match(self, other: Layout) -> tuple[int, ...]:
        """The number in `other` of each tensor. CallError names the first tensors that differ, and what would mend it."""
        numbers = ffi.new("uint64_t[]", len(self) + 1)
        check(lib.weft_layout_match(self._pointer, other._pointer, numbers))
        return tuple(numbers[i] for i in range(len(self)))

    def empty(self) -> dict[str, _tensors.Typed]:
        """Memory for all tensors: numpy arrays of zeros, each with its dtype. `[name].array` is the array."""
        return {spec.name: _tensors.Typed(_zeros(spec), spec.dtype, spec.shape) for spec in self.tensors}

    def __len__(self) -> int:
        return len(self.tensors)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def __reduce__(self) -> Any:
        if Layout.of(self.tensors).hash != self.hash:
            raise TypeError(
                "a layout of cells cannot be pickled: Layout.fetch() or Layout() in the other process makes it"
            )
        return Layout.of, (self.tensors,)

    def __repr__(self) -> str:
        return f"<Layout of {len(self)} tensors, {self.bytes} bytes>"


def _zeros(spec: TensorSpec) -> np.ndarray:
    bits = _dtypes.BITS[spec.dtype]
    if bits < 8:
        return np.zeros(_dtypes.bytes_of(spec.dtype, prod(spec.shape)), np.uint8)
    return np.zeros(spec.shape, f"u{bits // 8}")
