"""weft for torch models: publish_after() in the trainer, follow() in the rollout.

publisher = weft.torch.publish_after(optimizer, model, "site.ini")   # each optimizer.step() is a version from now on
follower = weft.torch.follow(model, "site.ini", "a")                 # in the engine
follower.update()                                                    # between two decode steps

A model of DTensors (FSDP2, HSDP, tensor-parallel) is published by each process of its own: the processes are the site's
sources, and each contributes what it has and no process before it has. In an engine such a model is a view.
"""

from __future__ import annotations

import secrets
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any, Callable, Mapping

import torch

from . import _dtensor, _wait
from ._binding import Blocks
from ._idle import Idle
from ._layout import Layout
from ._library import failure, lib
from ._records import Staged, Update, Version
from ._rollout import Rollout, RolloutOptions
from ._site import Site
from ._state import Model, is_replicated, named_tensors, parted, place, replaced
from ._trainer import Trainer, TrainerOptions
from .errors import TensorError

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Follower", "Publisher", "follow", "holding", "named_tensors", "publish_after", "view"]


def _check_same(model: Model, bound: Mapping[str, torch.Tensor]) -> None:
    name = replaced(model, bound)
    if name is not None:
        raise TensorError(name, "the model has another tensor in its place since bind: call rebind()")


def holding(
    model: torch.nn.Module, *, cast: Any = None, layout: Layout | None = None, tied: str | None = None
) -> tuple[Layout, Blocks]:
    """The layout of a model of DTensors, and what this process contributes of it as one of several sources: its part
    of each tensor, but of replicas only the first has any. The options are those of publish_after."""
    return _dtensor.part(named_tensors(model, tied), True, cast, layout)


def view(model: torch.nn.Module) -> tuple[Layout, Blocks]:
    """The layout of a model of DTensors, and what this process has of it, for a rollout that takes that alone."""
    return _dtensor.part(named_tensors(model), False)


def _drawn(after: int) -> int:
    """A run as weft.h draws one: the time, with random bits in the lowest places. It is later than run `after`."""
    return max((time.time_ns() << 32) // 10**9 & ~0xFFF | secrets.randbits(12) | 1, after + 1)


def _run(after: int) -> int:
    """A run that all processes have: rank 0 draws it."""
    drawn = [_drawn(after)]
    torch.distributed.broadcast_object_list(drawn, src=0)
    return drawn[0]


def _idle_cause(bound: Mapping[str, Any], optimizer: Any) -> str:
    """Why versions change nothing, as far as the optimizer tells."""
    stepped = [tensor for group in getattr(optimizer, "param_groups", ()) for tensor in group["params"]]
    places = {place(tensor) for tensor in bound.values()}
    own = [tensor for tensor in stepped if place(tensor) in places]
    if stepped and not own:
        return (
            "the optimizer steps none of the tensors that are bound. Bind those that it steps (the adapters, not their "
            "base), or copy its masters to the bound tensors before each publish"
        )
    if own and not any(tensor.requires_grad for tensor in own):
        return "all bound tensors that the optimizer steps are frozen (requires_grad is False)"
    return "no gradient came, or each step was smaller than the last bit of the weights: keep masters of float32"


class Publisher:
    """Publishes a model after steps of its optimizer. `trainer` is the session; close() ends it and the publishing.
    A process that contributes nothing, such as a replica of a sharded model or of DDP, has no session: `trainer` is
    None."""

    def __init__(
        self, optimizer: Any, model: Model, site: Any, every: int, first_version: int, resume: Any, tied: str | None,
        options: Any,
    ) -> None:  # fmt: skip
        if every < 1:
            raise ValueError(f"every={every}: publish after each 1, 2, 3 ... steps")
        self.model = model
        self.version = first_version
        self.run = 0
        self.branches: list[Version] = []  # versions of earlier runs that this one goes on from, the last one last
        self.last: Update | None = None
        self.every = every
        self._site, self._options = Site.of(site), options
        self._cast, self._layout = options.get("cast"), options.get("layout")
        self._tied = tied
        self._steps = 0
        self._tried = first_version, 0  # the number published last, even if that failed, and the steps until then
        self._optimizer = optimizer
        self._watching = Idle()
        if resume is None:
            self.trainer = self._open(self._site, options.get("run", 0))
        else:
            self._resume(self._site, resume)
        self._remove = _after_step(optimizer, self._on_step)

    def _open(self, site: Site, run: int, after: int = 0) -> Trainer | None:
        """Opens the session, in a run after that one where it is not given."""
        options = {name: value for name, value in self._options.items() if name not in ("run", "source")}
        self._named, self.tied = named, _ = parted(self.model, self._tied)
        _tell_tied(self.tied, self._options.get("log"))
        self._sharded = _dtensor.are_sharded(named)  # also while no tensor is bound
        if not self._sharded:
            if is_replicated(self.model) and _dtensor.rank():
                return None
            trainer = Trainer(site, named, first_version=self.version, run=run or (after and _drawn(after)), **options)
            self.run = trainer.held.run if trainer.held else 0
            return trainer
        self.run = run or _run(after)  # first, because all processes take part, and a part may be refused
        options["layout"], blocks = _dtensor.part(named, True, self._cast, self._layout)
        if not len(blocks):
            return None
        return Trainer(site, blocks, holding=True, run=self.run, source=self._source(), first_version=self.version,
                       **options)  # fmt: skip

    def _source(self) -> int:
        source: int | None = self._options.get("source")
        return torch.distributed.get_rank() if source is None else source

    # ---- resume

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps beside those of model and optimizer, in plain numbers: run, number and root of the
        version published last, the steps since then, and the versions at which earlier runs ended for this one. The
        root of a model of DTensors is None, because each process knows that of its part alone."""
        held = self.trainer.held if self.trainer and not self._sharded else None
        return {"run": self.run, "number": self.version, "root": held and held.root,
                "steps": self._steps % self.every, "branches": [tuple(one) for one in self.branches]}  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a checkpoint, whose weights the model has by now: closes the session and opens it anew, in a
        later run, at the checkpoint's number. `publish_after(..., resume=state)` opens it so at once."""
        self._run_before(state)  # raises while the session is open
        site = self._site
        if self.trainer:
            site = self._at_the_same_address(self.trainer.stats().listen)
            self.trainer.close()
        self._resume(site, state)

    def _at_the_same_address(self, listen: str) -> Site:
        """The site, where it leaves the port to the system with the one that rollouts know."""
        site = self._site
        key = f"source.{self._source()}.listen" if self._sharded else "trainer.listen"
        given = site.get(key) or site.get("trainer.listen")
        return site._with({key: listen}) if given.endswith(":0") else site

    def _run_before(self, state: Mapping[str, Any]) -> int:
        """The run that a resumed one comes after. ValueError: the state is not a publisher's, or its run is too late."""
        lacks = [key for key in ("run", "number", "root", "steps", "branches") if key not in state]
        if lacks:
            raise ValueError(f"no state of a publisher, because it lacks {', '.join(lacks)}: give its state_dict()")
        run, last = self._options.get("run", 0), max(self.run, int(state["run"]))
        if 0 < run <= last:
            raise ValueError(f"run={run}: a resumed trainer has a later run than {last}, or draws one")
        return last

    def _resume(self, site: Site, state: Mapping[str, Any]) -> None:
        last = self._run_before(state)
        self.version, self._steps, self._watching = state["number"], state["steps"], Idle()
        self._tried = self.version, self._steps
        self.branches = [Version(*one) for one in state["branches"]]
        self.branches.append(Version(state["run"], state["number"], state["root"] or 0))
        self.trainer = self._open(site, self._options.get("run", 0), last)
        held = self.trainer.held if self.trainer else None
        if held and state["root"] is not None and held.root != state["root"] and not self._steps:
            warnings.warn(
                f"the model's weights are not those of version {self.version} of the run before (root "
                f"{held.root:016x}, which was {state['root']:016x}): load the model's checkpoint of that version first",
                stacklevel=4,
            )

    # ---- each step

    def _on_step(self) -> None:
        self._steps += 1
        if self._steps % self.every == 0:
            self.publish()

    def _number(self) -> int:
        """The next version's. One that failed is passed over after a step, because the other processes went on."""
        number, steps = self._tried
        if number == self.version or steps != self._steps:
            number += 1
        self._tried = number, self._steps
        return number

    def publish(self) -> Update | None:
        """Publishes the weights of now as the next version, whatever `every` says. None: there is no session. After an
        error a call before the next step tries the same number again."""
        number = self._number()
        if self.trainer:
            if not self.trainer._is_there() or replaced(self.model, self._named) is not None:
                self.rebind()
            self.last = self.trainer.publish(number)
        self.version = number
        self._watching.note(self.last, self.version, lambda: _idle_cause(self._named, self._optimizer))
        return self.last

    def wait(self, timeout: float | None = None) -> None:
        """Waits until every peer that joined holds the version published last."""
        if self.trainer:
            self.trainer.wait(self.version, timeout=timeout)

    def unbind(self) -> None:
        """Lets go of the model's tensors, so that their memory can be given away. Rollouts are served as before. The
        next publish() binds the tensors where they are then."""
        self._named = {}
        if self.trainer:
            self.trainer.unbind()

    def rebind(self) -> None:
        """Binds the model's tensors where they are now, with whatever bits. publish() does so by itself where one moved
        or was replaced."""
        named = named_tensors(self.model, self._tied)
        if self.trainer:
            sharded = _dtensor.are_sharded(named)
            self.trainer.bind(_dtensor.part(named, True, self._cast, self._layout)[1] if sharded else named)
        self._named = named

    def close(self) -> None:
        self._remove()
        if self.trainer:
            self.trainer.close()

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def _tell_tied(tied: Mapping[str, str], log: Any) -> None:
    """Says once which names were left out, because an engine may have a tensor of each."""
    if not tied:
        return
    names = ", ".join(f"{name} ({first})" for name, first in tied.items())
    line = f'tied tensors are published by their first name alone, and tied="all" publishes each: left out: {names}'
    if log is None:
        print("weft info:", line, file=sys.stderr)
    else:
        log("info", line)


def _after_step(optimizer: Any, call: Callable[[], Any]) -> Callable[[], None]:
    """Has `call` made after each step; returns what ends that. torch before 2.0 has no such hook."""
    if optimizer is None:
        return lambda: None
    inner = getattr(optimizer, "optimizer", None)
    if isinstance(inner, torch.optim.Optimizer) and not hasattr(optimizer, "_optimizer_step_post_hooks"):
        return _after_step(inner, call)  # of accelerate, which steps the inner one when gradients are accumulated
    if hasattr(optimizer, "register_step_post_hook"):
        remove: Callable[[], None] = optimizer.register_step_post_hook(lambda *step: call()).remove
        return remove
    step = optimizer.step

    def step_and_call(*arguments: Any, **options: Any) -> Any:
        result = step(*arguments, **options)
        call()
        return result

    optimizer.step = step_and_call
    return lambda: optimizer.__dict__.pop("step", None)


def publish_after(
    optimizer: Any,
    model: Model,
    site: Any,
    *,
    every: int = 1,
    first_version: int = 0,
    resume: Mapping[str, Any] | None = None,
    tied: str | None = None,
    **options: Unpack[TrainerOptions],
) -> Publisher:
    """Publishes `model` after each `every` steps of `optimizer`, as versions first_version + 1, + 2 and so on.
    Warns once if three versions in a row changed nothing.

    optimizer  its steps are counted; None: the caller calls publish()
    model    a module, or a mapping from name to tensor: the adapters of a model, for instance
    site     a Site, or the path or text of one
    tied     of a module's tied tensors the first name is published, and with "all" each name; of a mapping each is,
             and with "first" the first one
    resume   `state_dict()` of the publisher whose checkpoint the model has: goes on at its number, in a later run
    options  as for Trainer: cast, layout, attachment, log, incarnation; of a model of DTensors also `run`, which rank 0
             draws if it is left out, and `source`, which is the process's rank if it is left out. `cast="bf16"`
             publishes float32 masters as bfloat16, and "fp16" as float16, without a copy of them
    """
    return Publisher(optimizer, model, site, every, first_version, resume, tied, options)


class Follower:
    """Keeps a model's weights those of the trainer. `rollout` is the session."""

    def __init__(self, model: Model, site: Any, peer: str, options: Any) -> None:
        self.model = model
        self._named = named = named_tensors(model)
        if _dtensor.are_sharded(named):
            layout, blocks = _dtensor.part(named, False)
            self.rollout = Rollout(site, peer, blocks, layout=layout, view=True, **options)
        else:
            self.rollout = Rollout(site, peer, named, **options)
        self.last: Staged | None = None

    @property
    def version(self) -> int | None:
        """Number of the version that the weights are, or None."""
        held = self.rollout.held
        return held.number if held else None

    @property
    def label(self) -> str:
        """Run, number and root of the version that the weights are, as text for samples. "": of none."""
        held = self.rollout.held
        return held.label if held and held.run else ""

    @property
    def away(self) -> float | None:
        """Seconds since the trainer was there last. None: it is there, or the model has not joined yet."""
        return self.rollout.away

    def update(self, timeout: float | None = 0.0) -> Version | None:
        """Commits the version that is staged or comes in `timeout` seconds, and returns it. Call it
        between two decode steps; drop caches that were computed with the old weights.

        None: no version came, or the trainer is away, and the weights are what they were. PeerError: as for
        Rollout.staged(); or the trainer went away while a snapshot was written in place. Then `version` is None, and
        the weights are nothing to serve until a later update() returns a version."""
        staged = self.rollout.staged(timeout)
        if staged is None:
            return None
        _check_same(self.model, self._named)
        self.last = staged
        with torch.no_grad():
            return self.rollout.commit(staged)

    def until(self, version: int, timeout: float | None = None) -> Version:
        """Updates until the weights are that version or a later one. TimeoutExpired: none came in `timeout` seconds."""
        deadline = _wait.Deadline(timeout)
        while True:
            held = self.rollout.held
            if held and held.number >= version:
                return held
            if deadline.passed():
                raise failure(lib.WEFT_E_TIMEOUT, f"version {version} did not come in {timeout} s{self.rollout._absence()}; "
                              f"held is {held}")  # fmt: skip
            self.update(deadline.slice() / 1000)

    def rebind(self) -> None:
        """After the model's tensors moved: binds the same weights where they are now."""
        named = named_tensors(self.model)
        self.rollout.bind(_dtensor.part(named, False)[1] if _dtensor.are_sharded(named) else named)
        self._named = named

    def close(self) -> None:
        self.rollout.close()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def follow(model: Model, site: Any, peer: str, **options: Unpack[RolloutOptions]) -> Follower:
    """Has `model` follow the site's trainer under the name `peer`; `update()` brings each version in.

    model    a module, or a mapping from name to tensor
    options  as for Rollout: empty, attachment, log, incarnation, sources, on_away. `empty=True` where the model has no
             weights yet. A model of DTensors is a view, so the site has cuts that part the model so
    """
    return Follower(model, Site.of(site), peer, options)
