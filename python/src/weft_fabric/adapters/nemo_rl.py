"""NeMo-RL's checkpoint engine of weft: weights go from the policy's rank 0 to the rollouts, what changed alone.

In NeMo-RL's configuration:

    policy:
      generation:
        refit_transport: "weft_fabric.adapters.nemo_rl:WeftCheckpointEngine"
        refit_cfg:
          "weft_fabric.adapters.nemo_rl:WeftCheckpointEngine": {site: /etc/weft/site.ini}

Sessions stay open from refit to refit. Each rollout worker has the model in host memory, and hands all of it to its
engine as NeMo-RL's other checkpoint engines do.
"""

from __future__ import annotations

from typing import Any, AsyncGenerator, Iterable

import torch
from nemo_rl.utils.checkpoint_engines.base import CheckpointEngine

from ._exchange import End, Turn


def _bytes_of(batch: list[tuple[str, torch.Tensor]]) -> int:
    return sum(tensor.numel() * tensor.element_size() for _, tensor in batch)


class WeftCheckpointEngine(End, CheckpointEngine):  # type: ignore[misc]
    """One end: NeMo-RL makes one in each worker of the policy and of the rollouts.

    bucket_size          bytes of tensors that a rollout loads at a time
    release_after_refit  NeMo-RL's: whether it calls finalize() after each refit. The sessions stay open in any case
    site, peer and timeout are as for End. The trainer is the policy
    """

    def __init__(
        self,
        bucket_size: int,
        *,
        site: str,
        peer: str = "rollout",
        timeout: float = 600.0,
        release_after_refit: bool = False,
    ) -> None:
        super().__init__(site, peer, timeout)
        self._bucket_size = bucket_size

    def _take(self, metadata: list[dict[str, Any]], rank: int) -> None:
        self._turn = Turn(metadata[0]["run"], metadata[0]["last"])
        self._rank = rank

    def init_policy_process_group(
        self, *, worker_rank: int, train_world_size: int, rollout_world_size: int, metadata: list[dict[str, Any]]
    ) -> None:
        """Takes this worker's rank, and what the policy's rank 0 prepared: its metadata comes first."""
        self._take(metadata, worker_rank)

    def init_rollout_process_group(
        self, *, rollout_rank: int, train_world_size: int, rollout_world_size: int, metadata: list[dict[str, Any]]
    ) -> None:
        """The same in a rollout."""
        self._take(metadata, rollout_rank)

    def _next(self) -> int:
        """Number of the version of this refit. Each end counts, because NeMo-RL connects them once for many refits."""
        number = self._turn.number()
        self._turn = Turn(self._turn.run, number)
        return number

    async def send_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Publishes the weights, in the policy's rank 0. The other ranks go through the tensors alone, because
        gathering them is collective."""
        number = self._next()
        if self._rank == 0:
            self._sender.send(weights, number)
            return
        for _ in weights:
            pass

    async def receive_weight_batches(self) -> AsyncGenerator[list[tuple[str, torch.Tensor]], None]:
        """The tensors that were sent, at the version of this refit, in batches of at most bucket_size bytes, or of one tensor."""
        batch: list[tuple[str, torch.Tensor]] = []
        for pair in (await self._receive(self._next())).items():
            if batch and _bytes_of([*batch, pair]) > self._bucket_size:
                yield batch
                batch = []
            batch.append(pair)
        if batch:
            yield batch
