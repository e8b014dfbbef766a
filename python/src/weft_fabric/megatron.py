"""weft for Megatron: which elements of the checkpoint a process has, found by Megatron-Bridge's own export.

    layout, blocks = weft.megatron.holding(bridge, model)      # in each process, once
    trainer = weft.Trainer(site, blocks, layout=layout, holding=True, run=run, source=rank)

The export runs twice, on numbers of elements in place of weights. Where a number comes out, the element is. So every
map that moves elements is known without a table: query groups of qkv, gate and up in one matrix, a padded vocabulary,
experts.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Iterator, NamedTuple, Sequence

import numpy as np
import torch

from . import _dtypes, _numbers
from ._binding import Blocks
from ._layout import Layout
from .errors import TensorError

__all__ = ["holding"]

_RANK = 40  # a number is rank << _RANK | element + 1, in 52 bits, which floats hold, too
_MASK = (1 << 52) - 1
_ODD = 0x9E3779B97F4A7  # for the second pass: a product by an odd number, modulo 2^52, which sums do not commute with


class _Here(NamedTuple):
    """Elements of one exported tensor, as they came out in this process."""

    shape: tuple[int, ...]
    owner: int  # the lowest rank that has elements of it
    dtype: str  # "" where this process has none of its elements
    table: np.ndarray  # boxes of those that this process has: row, rows, column, columns, address, bytes between rows
    parameter: torch.Tensor | None


def _rank() -> tuple[int, int]:
    distributed = torch.distributed
    ready = distributed.is_available() and distributed.is_initialized()
    return (distributed.get_rank(), distributed.get_world_size()) if ready else (0, 1)


def _numbered(parameter: torch.Tensor, rank: int) -> torch.Tensor:
    if parameter.numel() >= 1 << _RANK or rank >= 1 << (52 - _RANK):
        raise ValueError(
            f"{parameter.numel()} elements of rank {rank}: at most 2^{_RANK} of 2^{52 - _RANK} ranks have numbers"
        )
    numbers = torch.arange(1, parameter.numel() + 1, dtype=torch.int64, device=parameter.device)
    return (numbers + (rank << _RANK)).view(parameter.shape)


def _mixed(numbers: torch.Tensor) -> torch.Tensor:
    return (numbers * _ODD) & _MASK


def _exported(bridge: Any, model: Any, task: Any, probe: torch.Tensor | None) -> list[tuple[str, torch.Tensor]]:
    """What the bridge makes of one parameter, with a probe in its place."""
    if probe is not None:
        for attribute in ("tensor_model_parallel", "partition_dim", "partition_stride", "allreduce"):
            if hasattr(task.param_weight, attribute):
                setattr(probe, attribute, getattr(task.param_weight, attribute))
    tasks = [dataclasses.replace(task, param_weight=probe)]
    pairs = bridge.export_hf_weights(
        model, cpu=True, show_progress=False, conversion_tasks=tasks, merge_adapter_weights=False
    )
    return [(str(name), tensor) for name, tensor in pairs]


def _checked(name: str, tensor: torch.Tensor, again: torch.Tensor, world: int) -> np.ndarray:
    """The numbers that came out, flat. Raises where the export computes with elements in place of moving them."""
    if tensor.dtype != torch.int64 or again.dtype != torch.int64:
        raise TensorError(
            name, f"the export casts its elements to {tensor.dtype}: publish what it makes, not the parameter"
        )
    flat = tensor.reshape(-1)
    wrong = (
        (flat & ((1 << _RANK) - 1) == 0) | (flat < 0) | (flat >> _RANK >= world) | (_mixed(flat) != again.reshape(-1))
    )
    if bool(wrong.any()):
        raise TensorError(name, f"the export computes {int(wrong.sum())} of its {flat.numel()} elements in place of "
                                "moving them: publish what it makes, not the parameter")  # fmt: skip
    return flat.numpy()


def _of_task(bridge: Any, model: Any, task: Any, rank: int, world: int) -> Iterator[tuple[str, _Here]]:
    """What comes of one parameter, in this process. Every process calls it, because the export is collective."""
    parameter: torch.Tensor | None = task.param_weight
    probe = None if parameter is None else _numbered(parameter, rank)
    first = _exported(bridge, model, task, probe)
    second = _exported(bridge, model, task, None if probe is None else _mixed(probe))
    seen: list[np.ndarray] = []
    for (name, tensor), (_, again) in zip(first, second):
        numbers = _checked(name, tensor, again, world)
        if any(np.array_equal(numbers, one) for one in seen):
            continue  # tied: the first name stands
        seen.append(numbers)
        owners = numbers >> _RANK
        own = np.flatnonzero(owners == rank)
        lowest = int(owners.min()) if len(owners) else 0
        if parameter is None or not len(own):
            yield name, _Here(tuple(tensor.shape), lowest, "", np.zeros((6, 0), np.uint64), None)
            continue
        dtype = _dtype_of(name, parameter)
        table = _table(name, tuple(tensor.shape), own, (numbers[own] & ((1 << _RANK) - 1)) - 1, parameter)
        yield name, _Here(tuple(tensor.shape), lowest, dtype, table, parameter)


def _dtype_of(name: str, parameter: torch.Tensor) -> str:
    dtype = _dtypes.name_of(parameter.dtype)
    if dtype is None or _dtypes.BITS[dtype] < 8:
        raise TensorError(name, f"weft takes no elements of {parameter.dtype} one by one")
    if not parameter.is_contiguous():
        raise TensorError(name, f"its parameter is not contiguous: strides {parameter.stride()}")
    return dtype


def _every(own: Any, world: int) -> list[Any]:
    """What each process has, in the order of ranks."""
    every = [own] * world
    if world > 1:
        torch.distributed.all_gather_object(every, own)
    return every


class _Known(NamedTuple):
    """What all processes agree about one exported tensor."""

    shape: tuple[int, ...]
    owner: int
    dtype: str


def _agreed(here: dict[str, _Here], world: int) -> dict[str, _Known]:
    every = _every({name: _Known(*one[:3]) for name, one in here.items()}, world)
    known: dict[str, _Known] = {}
    for name, one in (pair for own in every for pair in own.items()):
        known[name] = _merged(name, known.get(name, one), one)
    return known


def _merged(name: str, one: _Known, other: _Known) -> _Known:
    if one.shape != other.shape or (one.dtype and other.dtype and one.dtype != other.dtype):
        raise TensorError(name, f"processes export it as {one.dtype} of {one.shape} and {other.dtype} of {other.shape}")
    return _Known(one.shape, min(one.owner, other.owner), one.dtype or other.dtype)


def _raise_any(fault: TensorError | None, world: int) -> None:
    """The fault of one process is raised in all: its own where it has one."""
    faults = [one for one in [fault, *_every(fault, world)] if one is not None]
    if faults:
        raise faults[0]


def holding(bridge: Any, model: Any) -> tuple[Layout, Blocks]:
    """The layout of the checkpoint that the bridge exports, and what this process contributes of it as one of several
    sources. Of replicas, the processes that the lowest rank is among contribute.

    bridge  a megatron.bridge.AutoBridge, or what has its get_conversion_tasks() and export_hf_weights()
    model   the Megatron model of this process, or the list of its virtual stages
    Every process calls it, and none trains meanwhile. It takes some 100 bytes for each element of the largest tensor.
    Raises TensorError with the name in the checkpoint, where the export does more than to move elements.
    """
    rank, world = _rank()
    models = model if isinstance(model, list) else [model]
    here: dict[str, _Here] = {}
    fault: TensorError | None = None
    with torch.no_grad():
        for task in bridge.get_conversion_tasks(models):
            try:
                here.update(_of_task(bridge, models, task, rank, world))
            except TensorError as error:  # raised when all are through, because the export waits for every process
                fault = fault or error
    _raise_any(fault, world)
    known = _agreed(here, world)
    layout = Layout.of((name, one.dtype, one.shape) for name, one in known.items())
    own = [(layout.index[name], one) for name, one in here.items() if one.dtype and one.owner == known[name].owner]
    return layout, _blocks(layout, own)


def _blocks(layout: Layout, own: Sequence[tuple[int, _Here]]) -> Blocks:
    """The boxes of all tensors that this process contributes, with the numbers of the tensors."""
    parameters = {layout.tensors[number].name: one.parameter for number, one in own if one.parameter is not None}
    devices = sorted({str(parameter.device) for parameter in parameters.values()})
    if len(devices) > 1:
        raise ValueError(f"the parameters are on {' and '.join(devices)}: bind one device's")
    number = np.repeat([number for number, _ in own], [one.table.shape[1] for _, one in own]).astype(np.uint64)
    table = np.concatenate([np.zeros((6, 0), np.uint64), *(one.table for _, one in own)], axis=1)
    row, rows, column, columns, data, pitch = table
    strides = np.stack((np.where(pitch > 0, rows, 0), pitch), -1)[:, None, :]
    blocks = Blocks(number, row, rows, column, columns, data, row_strides=strides,
                    device=devices[0] if devices else "cpu")  # fmt: skip
    blocks._watched = [(name, one.data_ptr, one.data_ptr()) for name, one in parameters.items()]  # holds no memory
    return blocks


def _table(
    name: str, shape: tuple[int, ...], element: np.ndarray, memory: np.ndarray, parameter: torch.Tensor
) -> np.ndarray:
    found = _numbers.boxes(name, shape, element, memory, parameter.device.type == "cpu")
    item = parameter.element_size()
    data = found.first * item + parameter.data_ptr()
    pitch = np.where(found.pitch == found.columns, 0, found.pitch * item)  # 0: rows follow each other
    return np.stack([*found[:4], data, pitch]).astype(np.uint64)
