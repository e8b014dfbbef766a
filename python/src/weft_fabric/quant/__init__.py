"""fp8 variants of a trainer's bf16 weights, for rollouts that hold fp8.

cast = weft.quant.Cast(named, "fp8-block128-f32/1", "model.layers.*_proj.weight")
trainer = weft.Trainer(site, cast.named)
optimizer.step()
cast.update()                      # casts what changed
trainer.publish(version)

The layout has the bf16 tensors, and for each that is cast `fp8/NAME` and `fp8/NAME.scale`. A rollout takes one set:

layout = weft.Layout.fetch(site, "b")
weights = weft.quant.part(layout, "fp8").empty()
rollout = weft.Rollout(site, "b", weft.quant.view(layout, weights), layout=layout, view=True, empty=True)

docs/FP8.md has whole programs, and says which engine's function each rule is.
"""

from __future__ import annotations

import ctypes
import sys
from fnmatch import fnmatchcase
from functools import cache
from math import prod
from typing import Any

import numpy as np

from .. import _binding, _tensors
from .._binding import Blocks
from .._layout import Layout, Named, mapping_of
from ..errors import TensorError
from . import _numpy, _rules
from ._rules import RULES, Rule
from ._tensor import CastTensor, Recast

__all__ = ["RULES", "Cast", "Recast", "Rule", "cast", "part", "rule_of", "view"]

SET = "fp8/"
SCALE = ".scale"
RULE = SET + "rule"  # the tensor that has the rule's name


def _kit(view: _tensors.View, tensor: Any) -> Any:
    """numpy for what lies in host memory, which is as fast there, and torch for its tensors on a device."""
    if view.device == "cpu":
        return _numpy
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(tensor, torch.Tensor) or not hasattr(torch, "float8_e4m3fn"):
        return None
    from . import _torch

    return _torch


def _bits(name: str, view: _tensors.View, kit: Any) -> Any:
    """The bf16 bits as int16, in the trainer's own memory."""
    if view.dtype != "BF16":
        raise TensorError(name, f"its elements are {view.dtype}, and a rule casts BF16")
    if len(view.shape) < 2:
        raise TensorError(name, f"its shape is {view.shape}, and a rule casts matrices: leave it out of the patterns")
    if not prod(view.shape):
        raise TensorError(name, "it has no elements: leave it out of the patterns")
    if kit is None:
        raise TensorError(name, f"on {view.device}: on a device only tensors of a torch with float8_e4m3fn are cast")
    if kit is not _numpy:
        return kit.bits_of(view.keep)
    return np.ctypeslib.as_array((ctypes.c_int16 * prod(view.shape)).from_address(view.address)).reshape(view.shape)


@cache
def _tables(rule: Rule, kit: Any, device: str) -> _rules.Tables:
    return _rules.Tables(*(kit.table(values, device) for values in _rules.tables_of(rule)))


class _Source:
    """A tensor that is cast, and where its memory was."""

    def __init__(self, name: str, tensor: Any, rule: Rule) -> None:
        self.name = name
        self._view = _tensors.read(name, tensor)
        kit = _kit(self._view, tensor)
        bits = _bits(name, self._view, kit)
        self.cast = CastTensor(kit, rule, _tables(rule, kit, self._view.device), bits)

    def update(self) -> Recast:
        pointer, address = self._view.pointer, self._view.address
        if pointer and pointer() != address:
            raise TensorError(self.name, f"moved since it was cast: from {address:#x} to {pointer():#x}; cast anew")
        return self.cast.update()

    @property
    def codes(self) -> Any:
        """The codes, as a tensor of fp8."""
        codes = self.cast.codes
        if isinstance(codes, np.ndarray):
            return _tensors.Typed(codes, "F8_E4M3")
        return codes.view(sys.modules["torch"].float8_e4m3fn)


def cast(tensor: Any, rule: str) -> tuple[Any, Any]:
    """Codes and scales of one bf16 matrix, or of a stack of matrices.

    tensor  a tensor as Trainer takes it, of dtype BF16, with its elements in a row
    rule    a name of RULES

    The codes are weft.Typed of uint8, and the scales an array of float32: (..., rows / 128, columns / 128), rounded up,
    or for a rule without blocks one of each matrix. On a device both are tensors of torch. Raises TensorError.
    """
    source = _Source("tensor", tensor, _rules.required(rule))
    return source.codes, source.cast.scales


class Cast:
    """A trainer's tensors with the fp8 variants of some. `named` has all of them, for Trainer and Layout.

    named     a mapping from name to tensor, or pairs, as for Trainer
    rule      a name of RULES
    tensors   patterns between commas, as in a site's [cut.NAME]: those that are cast. They must be BF16 matrices, or
              stacks of matrices, with their elements in a row. Shards (DTensor) are refused

    Memory: for each element that is cast one byte for the code and two for a copy of the bf16 bits, by which update()
    finds what changed; all on the tensor's device. The opening casts everything.
    """

    def __init__(self, named: Named, rule: str, tensors: str) -> None:
        self.rule = _rules.required(rule)
        given = mapping_of(named)
        patterns = [pattern.strip() for pattern in tensors.split(",")]
        chosen = [name for name in given if any(fnmatchcase(name, pattern) for pattern in patterns)]
        if not chosen:
            raise ValueError(f"{tensors!r} matches none of the {len(given)} tensors: nothing would be cast")
        self._sources = [_Source(name, given[name], self.rule) for name in chosen]
        variants: dict[str, Any] = {RULE: self._sources[0].cast.text(rule)}
        for source in self._sources:
            variants[SET + source.name] = source.codes
            variants[SET + source.name + SCALE] = source.cast.scales
        for name in variants:
            if name in given:
                raise TensorError(name, "the model has a tensor of this name, which the fp8 set takes")
        self.named: dict[str, Any] = {**given, **variants}

    def update(self) -> Recast:
        """Casts what changed since the last call. Call it after a step and before publish(). Not for several threads.

        A device's work is ordered by torch's current stream. TensorError: a tensor was given other memory.
        """
        done = [source.update() for source in self._sources]
        return Recast(sum(one.elements for one in done), sum(one.blocks for one in done))


def part(layout: Layout, which: str) -> Layout:
    """The layout of one set: "bf16" is the model as it was given to Cast, and "fp8" has the variants in place of what
    was cast, the name of the rule, and all that was not cast. `.empty()` makes memory for it."""
    if which not in ("bf16", "fp8"):
        raise ValueError(f"{which!r} is no set: choose bf16 or fp8")
    names = set(layout.index)

    def has(name: str) -> bool:
        return not name.startswith(SET) if which == "bf16" else SET + name not in names

    if RULE not in names:
        raise ValueError("the layout has no fp8 set: its trainer publishes no weft.quant.Cast")
    return Layout.of(spec for spec in layout.tensors if has(spec.name))


def view(layout: Layout, named: Named) -> Blocks:
    """Whole tensors of a layout as boxes, for a rollout that takes these alone: `Rollout(..., view=True)`.

    The site needs a cut for each set, because a view is whole keys. Raises TensorError.
    """
    parts = []
    for name, tensor in mapping_of(named).items():
        if name not in layout.index:
            raise TensorError(name, "the layout does not have it")
        number = layout.index[name]
        parts += [one for one in _binding._parts_of(layout.tensors[number], number, tensor, True, None) if one.count]
    begin = np.array([one.view.address for one in parts], np.uint64)
    _binding._check_written(parts, begin, np.array([one.view.bytes for one in parts], np.uint64))
    return _binding._by_blocks(parts, _binding._one_device(parts))


def rule_of(named: Named) -> str:
    """The rule that a rollout's fp8 set was cast by, as the trainer said."""
    tensor = mapping_of(named)[RULE]
    tensor = tensor.array if isinstance(tensor, _tensors.Typed) else tensor
    return bytes(np.asarray(tensor.cpu() if hasattr(tensor, "cpu") else tensor)).decode()
