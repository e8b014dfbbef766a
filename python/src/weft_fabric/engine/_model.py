"""The model in one process of an engine: where its tensors lie, what is computed of them, and the core that brings
versions into it."""

from __future__ import annotations

import datetime
from typing import Any, Callable, Mapping, Sequence

import torch

from .._layout import TensorSpec
from ..errors import TensorError
from ._boxes import Copy
from ._core import Core, Init
from ._derive import Derived, Reloads
from ._formats import computed, learn
from ._framework import Framework
from ._group import Alone, Ranks
from ._recorder import record

AGREE_S = 60  # how long a process may be late when all agree


class _Gloo:
    """Processes that agree over a group of gloo."""

    def __init__(self, group: Any) -> None:
        self.rank, self.size, self._group = group.rank_in_group, group.world_size, group.cpu_group

    def every(self, own: Any) -> Sequence[Any]:
        limit = datetime.timedelta(seconds=AGREE_S)
        torch.distributed.monitored_barrier(group=self._group, timeout=limit)
        gathered: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(gathered, own, group=self._group)
        return gathered


def ranks_of(group: Any) -> Ranks:
    """The processes of a framework's group, as vLLM and SGLang have it."""
    return _Gloo(group) if group.world_size > 1 else Alone()


class Model:
    """What weft knows of a model. Made once the weights are loaded, before caches take the memory that this needs."""

    def __init__(
        self,
        model: torch.nn.Module,
        of: Framework,
        device: torch.device,
        ranks: Ranks,
        refuse: Callable[[Mapping[str, str | None]], None],
        first: int = 0,
    ) -> None:
        """refuse  raises for an engine that cannot be updated in place; it gets what is known of the layers
        first   number of the engine's first process, of all data-parallel engines of one server
        """
        self.model, self.of, self.device = model, of, device
        self.formats = learn(model, of, device)
        self._refuse = refuse
        self._init = Init("", "")
        self._reloads = Reloads(model, device, self.formats.moves)
        steps = [self._reloads.step, *(step.step for step in self.formats.steps.values())]
        self._derived = Derived(steps, of.context)
        self.core = Core(ranks, str(device), self._record, self._places, self._derived.run, first)

    def open(self, init: Init) -> str:
        """Joins. Returns what the operator should know, or ""."""
        self._init = init
        self.core.open(init)
        size = sum(tensor.nbytes for tensor in [*self._reloads.weights.values(), *self.formats.kept()])
        if not size and not self.formats.steps:
            return ""
        count = len(self._reloads.places) + len(self.formats.derived())
        return f"weft: each commit runs the engine's own code for {count} tensors, from {size / 1e6:.1f} MB of copies"

    def _record(self, layout: Sequence[TensorSpec]) -> list[Copy]:
        self._refuse(self.formats.layers)
        derived = self.formats.derived()
        made = {name: tensor for name, tensor in computed(self.model, self.of) if name not in derived}
        ignore = [*self._init.ignore, *derived]
        with self.of.context():
            copies = record(self.model, layout, self.device, ignore, made, self.formats.moves, self._reloads)
        if not self._init.empty and not self.core.is_discarded:
            self._prove()
        return copies

    def _prove(self) -> None:
        """What the engine computes from weights must be what its own code makes of them now."""
        if self._reloads.fresh:
            self._reloads.fill(self.of.checkpoint())
        for name in self._derived.wrong():
            raise TensorError(name, "the engine has other bits than its own code makes of its weights")

    def _places(self) -> list[int]:
        return [parameter.data_ptr() for parameter in self.model.parameters()]
