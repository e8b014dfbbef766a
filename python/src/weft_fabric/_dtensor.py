"""DTensors of torch as boxes: which elements of a model this process has, and which of them it contributes."""

from __future__ import annotations

from functools import partial
from itertools import product
from math import prod
from typing import Any, Iterator, Mapping

import torch

from . import _dtypes
from ._binding import Blocks, Watched, check_dtype
from ._layout import Layout
from ._tensors import given_away
from .errors import TensorError


def is_dtensor(tensor: Any) -> bool:
    return hasattr(tensor, "to_local") and hasattr(tensor, "placements")


def local_of(tensor: Any) -> torch.Tensor:
    """The memory that this process has of a tensor."""
    with torch.no_grad():
        local: torch.Tensor = tensor.to_local() if is_dtensor(tensor) else tensor
    return local.detach()


def _address(tensor: Any) -> int:
    return local_of(tensor).data_ptr()


def are_sharded(named: Mapping[str, Any]) -> bool:
    return any(is_dtensor(tensor) for tensor in named.values())


def rank() -> int:
    """This process's, and 0 where it is alone."""
    distributed = torch.distributed
    return int(distributed.get_rank()) if distributed.is_available() and distributed.is_initialized() else 0


def _contributes(tensor: Any) -> bool:
    """Of replicas the first contributes: rank 0 of what is no DTensor, the first of each mesh dimension, and of meshes
    that are parts of a larger one (data-parallel within tensor-parallel) that with rank 0."""
    if not is_dtensor(tensor):
        return rank() == 0
    here = tensor.device_mesh.get_coordinate()
    if here is None or int(tensor.device_mesh.mesh.min()) != 0:
        return False
    return all(at == 0 for at, placement in zip(here, tensor.placements) if placement.is_replicate())


def _extent(name: str, tensor: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes of the local part, and where it begins in the whole tensor."""
    if not is_dtensor(tensor):
        return tuple(tensor.shape), (0,) * tensor.dim()
    if any(placement.is_partial() for placement in tensor.placements):
        raise TensorError(name, "it is a partial sum: redistribute it, because no process has its elements")
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    sizes, begin = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return tuple(sizes), tuple(begin)


def _boxes(
    shape: tuple[int, ...], sizes: tuple[int, ...], begin: tuple[int, ...]
) -> Iterator[tuple[int, int, int, int, int]]:
    """Boxes (row, rows, column, columns) of a part, and the element of the local memory at which each begins. The last
    dimension is the columns. Rows that follow each other in the whole tensor are one box."""
    if not shape:
        yield 0, 1, 0, 1, 0
        return
    column, columns, outer = begin[-1], sizes[-1], shape[:-1]
    cut = max((d for d in range(len(outer)) if sizes[d] != shape[d]), default=0)
    inner = prod(outer[cut + 1 :])
    rows = prod(sizes[cut:-1])
    for number, index in enumerate(product(*(range(size) for size in sizes[:cut]))):
        row = 0
        for d in range(cut):
            row = row * outer[d] + begin[d] + index[d]
        if outer:
            row = (row * outer[cut] + begin[cut]) * inner
        yield row, rows, column, columns, number * rows * columns


def _layout_of(named: Mapping[str, Any], cast: Any) -> Layout:
    of_f32 = _dtypes.of_cast(cast) or "F32"
    dtypes = [_dtypes.required(tensor.dtype) for tensor in named.values()]
    return Layout.of(
        (name, of_f32 if dtype == "F32" else dtype, tuple(tensor.shape))
        for dtype, (name, tensor) in zip(dtypes, named.items())
    )


def _number_of(layout: Layout, name: str, tensor: Any, cast: Any, contributed: bool) -> int:
    """The tensor's number in the layout, which it fits."""
    if name not in layout.index:
        raise TensorError(name, "the layout does not have it")
    spec = layout.tensors[layout.index[name]]
    check_dtype(spec, _dtypes.required(tensor.dtype), cast, not contributed)
    if tuple(tensor.shape) != spec.shape:
        raise TensorError(name, f"its shape is {tuple(tensor.shape)}, the layout has {spec.shape}")
    return layout.index[name]


def part(
    named: Mapping[str, Any], contributed: bool, cast: Any = None, layout: Layout | None = None
) -> tuple[Layout, Blocks]:
    """The layout of the whole model, and the boxes that this process has; or of these what it contributes. `cast` is
    that of Trainer."""
    layout = layout or _layout_of(named, cast)
    rows: list[tuple[int, ...]] = []
    keep: list[torch.Tensor] = []
    devices: set[str] = set()
    watched: Watched = []
    memory: list[str | None] = []
    for name, tensor in named.items():
        number = _number_of(layout, name, tensor, cast, contributed)
        local = local_of(tensor)
        sizes, begin = _extent(name, tensor)
        if local.numel() == 0 or (contributed and not _contributes(tensor)):
            continue
        if tuple(local.shape) != sizes:
            raise TensorError(name, f"its local part is {tuple(local.shape)}, and its placements say {sizes}")
        if not local.is_contiguous():
            raise TensorError(name, "its local part is not contiguous")
        gone = given_away(local)
        if gone:
            raise TensorError(name, gone)
        if not contributed:  # a trainer holds no memory, so that the tensors can give it away
            keep.append(local)
        devices.add(str(local.device))
        watched.append((name, partial(_address, tensor), local.data_ptr()))
        for *box, first in _boxes(tuple(tensor.shape), sizes, begin):
            rows.append((number, *box, local.data_ptr() + first * local.element_size()))
            memory.append(_dtypes.required(local.dtype) if layout.tensors[number].dtype in _dtypes.CASTS else None)
    if len(devices) > 1:
        raise TensorError(next(iter(named)), f"the tensors are on {' and '.join(sorted(devices))}: bind one device's")
    columns = list(zip(*rows)) if rows else [()] * 6
    blocks = Blocks(*columns, memory=memory, keep=keep, device=min(devices, default="cpu"))
    blocks._watched = watched
    return layout, blocks
