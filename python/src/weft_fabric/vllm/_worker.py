"""What a worker of vLLM gets beside the engine: it tells weft before its weights go, and answers what it holds."""

from __future__ import annotations

import functools
from typing import Any

from ..engine._core import Core


def _core_of(worker: Any) -> Core | None:
    core = getattr(getattr(worker, "weight_transfer_engine", None), "core", None)
    return core if isinstance(core, Core) else None


def _needed(worker: Any) -> Core:
    core = _core_of(worker)
    if core is None:
        raise RuntimeError('this worker has no engine of weft: give LLM weight_transfer_config={"backend": "weft"}')
    return core


def _weft_held(self: Any) -> list[int] | None:
    """Run, number and root of what the worker holds."""
    held = _needed(self).held
    return list(held) if held else None


def _weft_is_staged(self: Any, version: int | None = None) -> bool:
    """Whether a version is staged in each worker."""
    return _needed(self).is_staged(version)


def _weft_ready(self: Any, version: int | None = None) -> int | str:
    """The number that update_weights would bring without waiting, or None."""
    return _needed(self).ready(version)


def _weft_finish(self: Any) -> list[int] | None:
    """finish_weight_update and weft_held in one call, because an engine stands still meanwhile."""
    self.finish_weight_update()
    return _weft_held(self)


def _weft_pause_ms(self: Any) -> float:
    """Milliseconds of the last commit."""
    return _needed(self).pause_ms


def attach(worker_class: Any) -> None:
    """Adds methods for collective_rpc to a class of workers, and has its sleep and wake_up tell weft. vLLM's contract
    for weight transfer has no call for these two, and weft must not read weights that are unmapped. A finish that fails
    ends the update, as an update_weights that fails does."""
    if hasattr(worker_class, "weft_held"):
        return
    sleep, wake_up = worker_class.sleep, worker_class.wake_up

    @functools.wraps(sleep)
    def sleep_after_weft(self: Any, level: int = 1) -> Any:
        core = _core_of(self)
        if core:
            core.sleep(level)
        return sleep(self, level)

    @functools.wraps(wake_up)
    def wake_up_before_weft(self: Any, tags: list[str] | None = None) -> Any:
        result = wake_up(self, tags)
        core = _core_of(self)
        if core and (tags is None or "weights" in tags):
            core.wake()
        return result

    finish = worker_class.finish_weight_update

    @functools.wraps(finish)
    def finish_and_end(self: Any) -> Any:
        try:
            return finish(self)
        except BaseException:  # vLLM would refuse every later start, though the commit was undone
            self._weight_update_active = False
            raise

    worker_class.finish_weight_update = finish_and_end
    worker_class.sleep, worker_class.wake_up = sleep_after_weft, wake_up_before_weft
    worker_class.weft_held, worker_class.weft_is_staged = _weft_held, _weft_is_staged
    worker_class.weft_ready, worker_class.weft_finish = _weft_ready, _weft_finish
    worker_class.weft_pause_ms = _weft_pause_ms
