"""What workers and cores of vLLM get beside the engine: a worker tells weft before its weights go, and answers what it
holds; a core labels its answers by that."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Sequence

from .._records import Version
from ..engine._core import Core
from ..engine._group import label


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


def label_of(held: Sequence[Any]) -> str:
    """The label of what workers answer to weft_held."""
    return label([None if one is None else Version(*one) for one in held])


def _weft_label(self: Any) -> str:
    """The label of what all processes hold that exchange what they hold. Each of them calls it."""
    core = _needed(self)
    return label(core.ranks.every(core.held))


def _weft_is_staged(self: Any, version: int | None = None) -> bool:
    """Whether what leads to a version is staged in this worker."""
    return isinstance(_needed(self).here(version), int)


def _weft_ready(self: Any, version: int | None = None) -> int | str:
    """The number of the version that this worker has what leads to, or why it has not."""
    return _needed(self).here(version)


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
    ends the update, as an update_weights that fails does. A start drops an update that nobody finished."""
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

    start = worker_class.start_weight_update

    @functools.wraps(start)
    def start_anew(self: Any) -> Any:
        if _core_of(self):  # an update that was cancelled was never finished
            self._weight_update_active = False
        return start(self)

    finish = worker_class.finish_weight_update

    @functools.wraps(finish)
    def finish_and_end(self: Any) -> Any:
        try:
            return finish(self)
        except BaseException:  # vLLM would refuse every later start, though the commit was undone
            self._weight_update_active = False
            raise

    worker_class.start_weight_update, worker_class.finish_weight_update = start_anew, finish_and_end
    worker_class.sleep, worker_class.wake_up = sleep_after_weft, wake_up_before_weft
    worker_class.weft_held, worker_class.weft_is_staged = _weft_held, _weft_is_staged
    worker_class.weft_ready, worker_class.weft_finish = _weft_ready, _weft_finish
    worker_class.weft_pause_ms, worker_class.weft_label = _weft_pause_ms, _weft_label


# Calls in which all processes agree.
_AGREE = frozenset(("init_weight_transfer_engine", "update_weights", "finish_weight_update", "weft_finish"))


def attach_core(core_class: Any) -> None:
    """Has each finish_weight_update set the engine's weight_version to the label of what it brought, whoever calls it.
    After one that failed this is what the workers still hold. Data-parallel engines that exchange experts have one
    label, because vLLM wants the same of all. While these run, calls in which processes agree are refused: an engine
    that waits for the other's answer is late for the step that the other is in."""
    if hasattr(core_class, "_weft_labels"):
        return
    call, core_class._weft_labels = core_class.collective_rpc, True

    @functools.wraps(call)
    def call_and_label(self: Any, method: Any, *args: Any, **kwargs: Any) -> Any:
        chosen = self.vllm_config.weight_transfer_config
        own = getattr(chosen, "backend", None) == "weft"
        if own and method in _AGREE and getattr(self, "engines_running", False):
            raise RuntimeError(f"{method}: data-parallel engines that exchange experts run: pause them first, keeping "
                               f"their requests (POST /pause?mode=keep)")  # fmt: skip
        if not own or method != "finish_weight_update":
            return call(self, method, *args, **kwargs)
        several = self.vllm_config.parallel_config.data_parallel_size > 1
        try:
            result = call(self, method, *args, **kwargs)
        except Exception:
            with contextlib.suppress(Exception):  # the first error is the one to tell
                held = label_of(call(self, "weft_held"))
                same = several and held and self.get_weight_version().startswith(held.rpartition(":")[0] + ":")
                self.set_weight_version(self.get_weight_version() if same else "" if several else held)
            raise
        self.set_weight_version(call(self, "weft_label")[0] if several else label_of(call(self, "weft_held")))
        return result

    core_class.collective_rpc = call_and_label
