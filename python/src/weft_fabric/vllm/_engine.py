"""The weight-transfer engine that vLLM makes in each worker. Importing this needs vLLM."""

from __future__ import annotations

import datetime
from typing import Any, Sequence

import torch
from vllm.distributed.parallel_state import get_world_group
from vllm.distributed.weight_transfer.base import WeightTransferEngine
from vllm.v1.worker.gpu_worker import Worker

from .._layout import TensorSpec
from ._boxes import Copy
from ._core import Core, Init, Update
from ._formats import computed, learn
from ._group import Alone, Ranks
from ._recorder import record
from ._refusals import refuse
from ._worker import attach

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


class Engine(WeightTransferEngine):  # type: ignore[misc]
    """Takes versions of a trainer of weft into the model's own memory, between two steps of the engine.

    update_weights waits until a version is staged, and finish_weight_update commits that. Both concern all processes.
    """

    init_info_cls = Init
    update_info_cls = Update
    supports_draft_weight_update = False

    def __init__(self, config: Any, vllm_config: Any, device: torch.device, model: torch.nn.Module) -> None:
        super().__init__(config, vllm_config, device, model)
        self._ignore: Sequence[str] = ()
        self._formats = learn(model, vllm_config, device)  # before caches take the memory that this needs
        self.core = Core(_ranks(), str(device), self._record, self._places)

    def _record(self, layout: Sequence[TensorSpec]) -> list[Copy]:
        refuse(self.model, self.vllm_config, self._formats.layers)
        made = dict(computed(self.model))
        return record(self.model, layout, self.device, self._ignore, made, self._formats.moves)

    def _places(self) -> list[int]:
        return [parameter.data_ptr() for parameter in self.model.parameters()]

    def init_transfer_engine(self, init_info: Init) -> None:
        self._ignore = init_info.ignore
        self.core.open(init_info)

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
