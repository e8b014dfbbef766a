"""The weight-transfer engine that vLLM makes in each worker. Importing this needs vLLM."""

from __future__ import annotations

from typing import Any

import torch
from vllm.distributed.parallel_state import get_world_group
from vllm.distributed.weight_transfer.base import WeightTransferEngine
from vllm.logger import init_logger
from vllm.v1.worker.gpu_worker import Worker

from ..engine._core import Init, Update
from ..engine._model import Model, ranks_of
from ._framework import framework
from ._refusals import refuse
from ._worker import attach

_LOG = init_logger(f"vllm.{__name__}")


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
        self._model = Model(
            model,
            framework(model, vllm_config),
            device,
            ranks_of(get_world_group()),
            lambda layers: refuse(model, vllm_config, layers),
            _first(vllm_config),
        )
        self.core = self._model.core

    def init_transfer_engine(self, init_info: Init) -> None:
        said = self._model.open(init_info)
        if said:
            _LOG.info("%s", said)

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
