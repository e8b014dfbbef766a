"""Whole tensors by name through weft: what the checkpoint engines of verl and NeMo-RL have in common.

A framework gathers its tensors anew for each step, one after the other. So the sender copies them into memory of its
own, which weft publishes, and the receiver has such memory, too. Between the two only what changed is sent.

A framework may give some tensors alone: the base once, and then the adapters of LoRA. The others stay as they are, and
a receiver hands on those that were given, as it would by any other transport. Their names are the version's attachment,
with the number of the version before. A receiver that did not hand on that one hands on all, because its engine lacks
more than the names.
"""

from __future__ import annotations

import json
import secrets
import time
from typing import Any, Iterable, NamedTuple

import torch

from .. import _dtypes, _wait
from .._aside import aside
from .._idle import Idle
from .._layout import Layout
from .._library import failure, lib
from .._records import Update, Version
from .._rollout import Rollout
from .._site import Site
from .._trainer import Trainer
from ..errors import PeerError, TensorError


class Turn(NamedTuple):
    """What sender and receivers know before an exchange: the sender's run, and the number that it published last."""

    run: int
    last: int | None

    def number(self, wanted: int | None = None) -> int:
        """Number of the version to come: the framework's, where it rises, else the next one."""
        if self.last is None:
            return wanted or 0
        return wanted if wanted is not None and wanted > self.last else self.last + 1


_SAME = (
    "the framework gives the bits that it gave before. Gather the tensors that the optimizer steps, after its step; of "
    "LoRA the adapters, and not their base"
)


class Sender:
    """The trainer's end. The session opens with the first tensors, because they say the layout, and stays open. Tensors
    that were not given before open it anew, and receivers join again with what they have."""

    def __init__(self, site: Any) -> None:
        self._site = Site.of(site)
        self._copies: dict[str, torch.Tensor] = {}
        self._trainer: Trainer | None = None
        self._watching = Idle()
        self._given: dict[str, None] = {}  # since the version published last, a send that failed included
        self._published: int | None = None
        self.turn = Turn(int(time.time()) << 32 | secrets.randbits(32), None)

    def send(self, weights: Iterable[tuple[str, torch.Tensor]], number: int) -> Update | None:
        """Takes tensors of the model and publishes them as a version. Never waits for a receiver.

        weights  pairs of name and full tensor, on any device; each is copied before the next one is asked for. Tensors
                 of earlier versions that are not among them keep their bits
        number   number of the version, above the one before
        None is returned for the first version of a set of tensors. TensorError: a tensor has another shape or dtype than
        the first time, and nothing is published.
        """
        self.turn = Turn(self.turn.run, number)  # counts if it fails, too, because the receivers count so
        given: dict[str, None] = {}
        for name, tensor in weights:
            if name in given:
                raise TensorError(name, "the framework gives it twice")
            self._copy(name, tensor)
            self._given[name] = given[name] = None
        if self._trainer and len(self._copies) > len(self._trainer.layout.tensors):
            self.close()
            self._trainer = None
        update = self._publish(number, json.dumps({"given": list(self._given), "after": self._published}).encode())
        self._given, self._published = {}, number
        return update

    def _copy(self, name: str, tensor: torch.Tensor) -> None:
        tensor = tensor.detach()
        if hasattr(tensor, "placements"):
            raise TensorError(name, "it is a DTensor: an adapter takes full tensors")
        held = self._copies.get(name)
        if held is None:
            held = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        if held.shape != tensor.shape or held.dtype != tensor.dtype:
            raise TensorError(
                name, f"it was {held.dtype} of {tuple(held.shape)}, and is {tensor.dtype} of {tuple(tensor.shape)}"
            )
        held.copy_(tensor)
        self._copies[name] = held  # now that it is filled

    def _publish(self, number: int, given: bytes) -> Update | None:
        if self._trainer:
            update = self._trainer.publish(number, attachment=given)
            self._watching.note(update, number, lambda: _SAME, stacklevel=3)
            return update
        self._trainer = Trainer(self._site, self._copies, first_version=number, run=self.turn.run, attachment=given)
        return None

    def close(self) -> None:
        if self._trainer:
            self._trainer.close()


def _memory(layout: Layout, before: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Memory for a layout, in which tensors that were there before keep their place and bits."""
    named = {}
    for spec in layout.tensors:
        dtype, held = getattr(torch, _dtypes.torch_name(spec.dtype)), before.get(spec.name)
        same = held is not None and held.dtype == dtype and tuple(held.shape) == tuple(spec.shape)
        named[spec.name] = held if held is not None and same else torch.zeros(spec.shape, dtype=dtype)
    return named


class Receiver:
    """A rollout's end, under a name that the site admits."""

    def __init__(self, site: Any, peer: str) -> None:
        self._site = Site.of(site)
        self._peer = peer
        self._rollout: Rollout | None = None
        self._tensors: dict[str, torch.Tensor] = {}
        self._handed: Version | None = None  # the version that was handed on last

    def _open(self, deadline: _wait.Deadline) -> Rollout:
        if self._rollout is None:
            layout = Layout.fetch(self._site, self._peer, deadline.left())
            before, self._tensors = self._tensors, _memory(layout, self._tensors)
            self._rollout = Rollout(self._site, self._peer, self._tensors, layout=layout, empty=not before)
        return self._rollout

    def _open_again(self, rollout: Rollout, refused: PeerError, deadline: _wait.Deadline) -> Rollout:
        """After the sender refused: joins anew if that was because the sender has other tensors now."""
        other = refused.name == "refused" and Layout.fetch(self._site, self._peer, deadline.left()) != rollout.layout
        if not other:
            raise refused
        self.close()
        self._rollout = None
        return self._open(deadline)

    def _given(self, rollout: Rollout, held: Version) -> dict[str, torch.Tensor]:
        """The tensors that the sender gave for the version that is held; all, where one before was not handed on."""
        said, last = rollout.attachment, self._handed
        self._handed = held
        told = {} if said is None else json.loads(said)
        if not told or told["after"] != (last.number if last and last.run == held.run else None):
            return self._tensors
        return {name: self._tensors[name] for name in told["given"]}

    async def receive(self, run: int, number: int, timeout: float) -> dict[str, torch.Tensor]:
        """The tensors that were given for that version of that run or a later one. They change with the next call.

        A trainer that is away may come back in that time. PeerError or TimeoutExpired: the version did not come in
        `timeout` seconds, and the tensors have the old bits.
        """
        deadline = _wait.Deadline(timeout)
        rollout = await aside(lambda: self._open(deadline))
        while True:
            held = rollout.held
            if held and held.run == run and held.number >= number:
                return self._given(rollout, held)
            try:
                staged = await rollout.staged_async(deadline.left())
            except PeerError as error:
                refused = error
                rollout = await aside(lambda: self._open_again(rollout, refused, deadline))
                continue
            if staged:
                await rollout.commit_async(staged)
            elif deadline.passed():
                raise failure(lib.WEFT_E_TIMEOUT, f"version {number} did not come in {timeout} s{rollout._absence()}; "
                              f"held is {held}")  # fmt: skip

    def close(self) -> None:
        if self._rollout:
            self._rollout.close()


class End:
    """What a checkpoint engine has in each worker: a sender that rank 0 of the trainer uses, and a receiver that a
    rollout opens with the first version.

    site     path or text of a site. `[trainer] listen` is the address of the trainer's rank 0
    peer     rollouts join as PEER-rank-random, which a section [peer.PEER-*] admits
    timeout  seconds that a rollout waits for a version
    """

    def __init__(self, site: str, peer: str, timeout: float) -> None:
        self._site = site
        self._peer = peer
        self._timeout = timeout
        self._sender = Sender(site)
        self._receiver: Receiver | None = None
        self._turn = self._sender.turn
        self._rank = 0

    def prepare(self) -> dict[str, Any]:
        """What this end tells the others: its run, and the number that it published last."""
        return self._sender.turn._asdict()

    async def _receive(self, number: int) -> dict[str, torch.Tensor]:
        if self._receiver is None:
            self._receiver = Receiver(self._site, f"{self._peer}-{self._rank}-{secrets.token_hex(4)}")
        return await self._receiver.receive(self._turn.run, number, self._timeout)

    def close(self) -> None:
        """Ends the sessions. The interpreter's end does that, too."""
        self._sender.close()
        if self._receiver:
            self._receiver.close()
