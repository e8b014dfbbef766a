"""weft for torch models in one process: publish_after() in the trainer, follow() in the rollout.

publisher = weft.torch.publish_after(optimizer, model, "site.ini")   # each optimizer.step() is a version from now on
follower = weft.torch.follow(model, "site.ini", "a")                 # in the engine
follower.update()                                                    # between two decode steps
"""

from __future__ import annotations

from typing import Any, Callable

import torch

from . import _wait
from ._library import failure, lib
from ._records import Staged, Update, Version
from ._rollout import Rollout
from ._site import Site
from ._trainer import Trainer

__all__ = ["Follower", "Publisher", "follow", "named_tensors", "publish_after"]


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (str(tensor.device), tensor.data_ptr(), tuple(tensor.shape), tensor.dtype)


def named_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The tensors of a model's state: parameters and persistent buffers. Of tied tensors the first name stands."""
    named: dict[str, torch.Tensor] = {}
    seen: set[tuple[Any, ...]] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if not isinstance(tensor, torch.Tensor) or (tensor.numel() and _place(tensor) in seen):
            continue
        seen.add(_place(tensor))
        named[name] = tensor
    return named


class Publisher:
    """Publishes a model after steps of its optimizer. `trainer` is the session; close() ends it and the publishing."""

    def __init__(
        self, optimizer: Any, model: torch.nn.Module, site: Any, every: int, first_version: int, options: Any
    ) -> None:
        if every < 1:
            raise ValueError(f"every={every}: publish after each 1, 2, 3 ... steps")
        self.model = model
        self.version = first_version
        self.last: Update | None = None
        self.every = every
        self._steps = 0
        self.trainer = Trainer(site, named_tensors(model), first_version=first_version, **options)
        self._remove = _after_step(optimizer, self._on_step)

    def _on_step(self) -> None:
        self._steps += 1
        if self._steps % self.every == 0:
            self.publish()

    def publish(self) -> Update:
        """Publishes the weights of now as the next version, whatever `every` says."""
        self.last = self.trainer.publish(self.version + 1)
        self.version += 1
        return self.last

    def wait(self, timeout: float | None = None) -> None:
        """Waits until every peer that joined holds the version published last."""
        self.trainer.wait(self.version, timeout=timeout)

    def rebind(self) -> None:
        """After the model's tensors moved (`model.to(...)`): binds the same weights where they are now."""
        self.trainer.bind(named_tensors(self.model))

    def close(self) -> None:
        self._remove()
        self.trainer.close()

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def _after_step(optimizer: Any, call: Callable[[], Any]) -> Callable[[], None]:
    """Has `call` made after each step; returns what ends that. torch before 2.0 has no such hook."""
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


def publish_after(optimizer: Any, model: torch.nn.Module, site: Any, *, every: int = 1, first_version: int = 0,
                  **options: Any) -> Publisher:  # fmt: skip
    """Publishes `model` after each `every` steps of `optimizer`, as versions first_version + 1, + 2 and so on.

    site     a Site, or the path or text of one
    options  as for Trainer: attachment, log, incarnation
    """
    return Publisher(optimizer, model, site, every, first_version, options)


class Follower:
    """Keeps a model's weights those of the trainer. `rollout` is the session."""

    def __init__(self, model: torch.nn.Module, site: Any, peer: str, options: Any) -> None:
        self.model = model
        self.rollout = Rollout(site, peer, named_tensors(model), **options)
        self.last: Staged | None = None

    @property
    def version(self) -> int | None:
        """Number of the version that the weights are, or None."""
        held = self.rollout.held
        return held.number if held else None

    def update(self, timeout: float | None = 0.0) -> Version | None:
        """Commits the version that is staged or comes in `timeout` seconds, and returns it. Call it
        between two decode steps; drop caches that were computed with the old weights."""
        staged = self.rollout.staged(timeout)
        if staged is None:
            return None
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
                raise failure(lib.WEFT_E_TIMEOUT, f"version {version} did not come in {timeout} s; held is {held}")
            self.update(deadline.slice() / 1000)

    def rebind(self) -> None:
        """After the model's tensors moved: binds the same weights where they are now."""
        self.rollout.bind(named_tensors(self.model))

    def close(self) -> None:
        self.rollout.close()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def follow(model: torch.nn.Module, site: Any, peer: str, **options: Any) -> Follower:
    """Has `model` follow the site's trainer under the name `peer`; `update()` brings each version in.

    options  as for Rollout: empty, attachment, log, incarnation. `empty=True` where the model has no weights yet
    """
    return Follower(model, Site.of(site), peer, options)
