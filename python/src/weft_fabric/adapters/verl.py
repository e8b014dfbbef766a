"""verl's checkpoint engine "weft": weights go from the actor's rank 0 to the rollouts, and only what changed is sent.

In verl's configuration, of actor and rollout:

    checkpoint_engine:
      backend: weft
      custom_backend_module: weft_fabric.adapters.verl
      engine_kwargs: {weft: {site: /etc/weft/site.ini}}

Sessions stay open from step to step. Each rollout worker has the model in host memory, and hands all of it to its
engine as verl's other checkpoint engines do.
"""

from __future__ import annotations

from typing import Any, AsyncIterator, Iterable

import torch
from verl.checkpoint_engine import CheckpointEngine, CheckpointEngineRegistry

from ._exchange import End, Turn


@CheckpointEngineRegistry.register("weft")
class WeftCheckpointEngine(End, CheckpointEngine):  # type: ignore[misc]
    """One end: verl makes one in each worker of the actor, and one beside each worker of a rollout.

    bucket_size  verl's, and not used: weft cuts its own buckets
    is_master    whether this is the actor's rank 0, which publishes
    site, peer and timeout are as for End. The trainer is the actor
    """

    def __init__(
        self, bucket_size: int, is_master: bool = False, *, site: str, peer: str = "rollout", timeout: float = 600.0
    ) -> None:
        super().__init__(site, peer, timeout)
        self._is_master = is_master

    @classmethod
    def build_topology(
        cls, actor_wg_world_size: int, rollout_world_size: int, metadata: list[dict[str, Any]]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """Tells each worker its rank, and what the actor's rank 0 prepared."""
        return cls._told(actor_wg_world_size, metadata[0]), cls._told(rollout_world_size, metadata[0])

    @staticmethod
    def _told(size: int, turn: dict[str, Any]) -> dict[str, list[Any]]:
        return {"rank": list(range(size)), "turn": [turn] * size}

    def init_process_group(self, rank: int, turn: dict[str, Any]) -> None:
        """Takes what build_topology() tells this worker."""
        self._rank = rank
        self._turn = Turn(**turn)

    def finalize(self) -> None:
        """Nothing: the session stays open, because the next step needs it."""

    async def send_weights(
        self, weights: Iterable[tuple[str, torch.Tensor]], global_steps: int | None = None
    ) -> dict[str, float]:
        """Publishes the weights, in the actor's rank 0. The other ranks go through the tensors alone, because gathering
        them is collective. Returns figures for verl's log."""
        if not self._is_master:
            for _ in weights:
                pass
            return {}
        update = self._sender.send(weights, self._turn.number(global_steps))
        if update is None:
            return {}
        return {"weft/bytes": update.bytes, "weft/dense_bytes": update.dense_bytes, "weft/changed": update.changed}

    async def receive_weights(self, global_steps: int | None = None) -> AsyncIterator[tuple[str, torch.Tensor]]:
        """The tensors that were sent, at the version that the actor publishes in this step."""
        for pair in (await self._receive(self._turn.number(global_steps))).items():
            yield pair
