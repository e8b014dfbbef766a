"""What weft adds to SGLang's processes: what a model was like before its weights came, the model that weft follows a
trainer with, and the verbs that a Follower sends."""

from __future__ import annotations

from typing import Any, Callable

from .._library import lib
from ..engine._core import Init, Update
from ..engine._group import label
from ..engine._model import Model, ranks_of
from ..errors import CallError
from ._framework import framework, is_async, remember, unknown
from ._message import LOADER, order_of
from ._refusals import refuse

_WEIGHTS = "weights"  # SGLang's tag of the memory that weights lie in


def _state(text: str) -> CallError:
    return CallError(text, lib.WEFT_E_STATE, "state")


class Process:
    """One process of an engine: the model, and the session that follows the trainer."""

    def __init__(self, runner: Any) -> None:
        from sglang.srt.distributed import get_tp_group

        model, args = runner.model, runner.server_args
        device = next(model.parameters()).device
        self._model = Model(
            model,
            framework(runner),
            device,
            ranks_of(get_tp_group()),
            lambda layers: refuse(model, args, layers, unknown(model)),
        )
        self.core = self._model.core

    def do(self, verb: str, body: dict[str, Any]) -> str:
        """What a message asks for. Returns what weft has to say."""
        if verb in ("stage", "commit") and self.core.rollout is None:
            raise _state("the engine has not joined: call follow() first")
        return str(getattr(self, f"_{verb}")(**body))

    def _open(self, **init: Any) -> str:
        self.core.close()
        self._model.open(Init(**init))
        return self._held()

    def _stage(self, version: int | None = None) -> str:
        """Asks for a version. Where every process has it "staged" and its number, else why not; never waits."""
        self.core.start()
        ready = self.core.ready(version)
        return f"staged {ready}" if isinstance(ready, int) else ready

    def _commit(self, **update: Any) -> str:
        self.core.start()
        self.core.stage(Update(**update))
        self.core.commit()
        return self._held()

    def _close(self) -> str:
        self.core.close()
        return ""

    def _held(self) -> str:
        return label(self.core.ranks.every(self.core.held))


_process: Process | None = None


def learn(original: Callable[..., Any], runner: Any, *args: Any, **kwargs: Any) -> Any:
    """Around ModelRunner.load_model, because caches take the memory that learning needs after that."""
    global _process
    from sglang.srt.runtime_context import get_model

    result = original(runner, *args, **kwargs)
    if LOADER in (get_model().custom_weight_loader or ()) and not runner.is_draft_worker:
        _process = Process(runner)
    return result


def _done(manager: Any, request: Any) -> str:
    verb, body = order_of(request)
    if _process is None:
        raise _state(f"the engine was started without custom_weight_loader=['{LOADER}']")
    if manager._session is not None:  # at whose end SGLang processes the weights again, which are processed
        raise _state("a weight-update session is open: call end_weight_update before weft moves weights")
    if _WEIGHTS not in manager.offload_tags:
        _process.core.wake()
    elif verb in ("open", "stage", "commit"):
        raise _state("the engine released its weights: resume_memory_occupation first")
    return _process.do(verb, body)


def answer(original: Callable[..., Any], manager: Any, request: Any) -> Any:
    """Around the scheduler's update_weights_from_tensor: does what a message asks for. Such a message needs no session,
    so no weights are processed again. An error is SGLang's failure, because one that is raised ends the scheduler."""
    if request.load_format != LOADER:
        return original(manager, request)
    from sglang.srt.managers.io_struct import UpdateWeightsFromTensorReqOutput

    try:
        success, said = True, _done(manager, request)
    except Exception as error:
        success, said = False, f"{type(error).__name__}: {error}"
    if success:
        manager.record_weight_version_after_update(request.weight_version)
        success, said = manager.flush_cache_after_weight_update(request, success, said)
    return UpdateWeightsFromTensorReqOutput(success=success, message=said)


def ask(original: Callable[..., Any], manager: Any, request: Any, http: Any = None) -> Any:
    """Around update_weights_from_tensor of the process that takes requests. SGLang lets nothing run beside an update.
    What asks whether a version is staged moves no weight, so requests go on."""
    if request.load_format != LOADER or order_of(request)[0] != "stage":
        return original(manager, request, http)
    return _asked(manager, request)


async def _asked(manager: Any, request: Any) -> Any:
    from sglang.srt.managers.communicator import FanOutCommunicator

    manager.auto_create_handle_loop()
    return FanOutCommunicator.merge_results(await manager.update_weights_from_tensor_communicator(request))


def let_go(original: Callable[..., Any], manager: Any, request: Any) -> Any:
    """Around release_memory_occupation: weft touches no weight from then on, and the next message after they are back
    binds them where they are then."""
    from sglang.srt.runtime_context import get_exec

    if _process is not None and (not request.tags or _WEIGHTS in request.tags):
        kept = not manager.memory_saver_adapter.enabled or get_exec().features.enable_weights_cpu_backup
        _process.core.sleep(1 if kept else 2)
    return original(manager, request)


_MANAGER = "sglang.srt.managers.scheduler_components.weight_updater.SchedulerWeightUpdaterManager"
HOOKS = {
    "sglang.srt.model_loader.loader._initialize_model": remember,
    "sglang.srt.model_loader.utils.should_async_load": is_async,
    "sglang.srt.model_executor.model_runner.ModelRunner.load_model": learn,
    f"{_MANAGER}.update_weights_from_tensor": answer,
    f"{_MANAGER}.release_memory_occupation": let_go,
    "sglang.srt.managers.tokenizer_control_mixin.TokenizerControlMixin.update_weights_from_tensor": ask,
}
