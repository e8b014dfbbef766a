"""The weight-transfer engine that vLLM makes in each worker. Importing this needs vLLM."""

from __future__ import annotations

import datetime
from typing import Any, Sequence

import torch
from vllm.distributed.parallel_state import get_world_group
from vllm.distributed.weight_transfer.base import WeightTransferEngine
from vllm.logger import init_logger
from vllm.v1.worker.gpu_worker import Worker

from .._layout import TensorSpec
from ..errors import TensorError
from ._boxes import Copy
from ._core import Core, Init, Update
from ._derive import Derived, Reloads
from ._formats import as_at_load, checkpoint, computed, learn
from ._group import Alone, Ranks
from ._recorder import record
from ._refusals import refuse
from ._worker import attach

_LOG = init_logger(f"vllm.{__name__}")
AGREE_S = 60  # how long a process may be late when all agree


class WorldRanks:
    """The processes of vLLM's world, over its group of gloo."""

    def __init__(self) -> None:
        world = get_world_group()
        self.rank, self.size, self._group = world.rank_in_group, world.world_size, world.cpu_group

    def every(self, own: Any) -> Sequence[Any]:
        limit = datetime.timedelta(seconds=AGREE_S)
        torch.distributed.monitored_barrier(group=self._group, timeout=limit)
        gathered: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(gathered, own, group=self._group)
        return gathered


def _ranks() -> Ranks:
    world = WorldRanks()
    return world if world.size > 1 else Alone()


def _first(config: Any) -> int:
    """The number of the engine's first process. Data-parallel engines that exchange no experts have a world each."""
    parallel = config.parallel_config
    alone = parallel.data_parallel_size == 1
    return int(parallel.data_parallel_index) * int(parallel.world_size) if alone else 0


class Engine(WeightTransferEngine):  # type: ignore[misc]
    """Takes versions of a trainer of weft into the model's own memory, between two steps of the engine.

    update_weights waits until a version is staged, and finish_weight_update commits that. Both concern all processes.
    """

    init_info_cls = Init
    update_info_cls = Update
    supports_draft_weight_update = False

    def __init__(self, config: Any, vllm_config: Any, device: torch.device, model: torch.nn.Module) -> None:
        super().__init__(config, vllm_config, device, model)
        self._init = Init("", "")
        self._formats = learn(model, vllm_config, device)  # before caches take the memory that this needs
        self._reloads = Reloads(model, device, self._formats.moves)
        steps = [self._reloads.step, *(step.step for step in self._formats.steps.values())]
        self._derived = Derived(steps, lambda: as_at_load(vllm_config))
        self.core = Core(_ranks(), str(device), self._record, self._places, self._derived.run, _first(vllm_config))

    def _record(self, layout: Sequence[TensorSpec]) -> list[Copy]:
        refuse(self.model, self.vllm_config, self._formats.layers)
        derived = self._formats.derived()
        made = {name: tensor for name, tensor in computed(self.model) if name not in derived}
        ignore = [*self._init.ignore, *derived]
        copies = record(self.model, layout, self.device, ignore, made, self._formats.moves, self._reloads)
        if not self._init.empty and not self.core.is_discarded:
            self._prove()
        return copies

    def _prove(self) -> None:
        """What the engine computes from weights must be what its own code makes of them now."""
        if self._reloads.fresh:
            self._reloads.fill(checkpoint(self.model, self.vllm_config))
        for name in self._derived.wrong():
            raise TensorError(name, "the engine has other bits than its own code makes of its weights")

    def _places(self) -> list[int]:
        return [parameter.data_ptr() for parameter in self.model.parameters()]

    def init_transfer_engine(self, init_info: Init) -> None:
        self._init = init_info
        self.core.open(init_info)
        size = sum(tensor.nbytes for tensor in [*self._reloads.weights.values(), *self._formats.kept()])
        if size or self._formats.steps:
            _LOG.info("weft: each commit runs the engine's own code for %d tensors, from %.1f MB of copies",
                      len(self._reloads.places) + len(self._formats.derived()), size / 1e6)  # fmt: skip

    def start_weight_update(self) -> None:
        self.core.start()

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self.receive_weights(self.parse_update_info(update_info))  # waits for no device, because none did any work

    def receive_weights(self, update_info: Update) -> None:
        self.core.stage(update_info)

    def finish_weight_update(self) -> None:
        self.core.commit()

    def shutdown(self) -> None:
        self.core.close()


attach(Worker)
