"""weft in SGLang: a custom weight loader that brings versions into each process's own memory, in place.

    engine = sglang.Engine(model, custom_weight_loader=[weft.adapters.sglang.LOADER])
    follower = weft.adapters.sglang.follow(engine, "site.ini", "a")    # "a-{rank}" for tensor-parallel engines
    follower.update()                                                  # the trainer's newest version

SGLang finds register() by the entry point sglang.srt.plugins. Where a loader raises, SGLang's scheduler ends. So the
plug-in has update_weights_from_tensor return weft's errors, and the engine serves on with the weights that it had.
"""

from __future__ import annotations

import datetime
import json
import time
from typing import TYPE_CHECKING, Any, Callable, Sequence

import torch

from .. import _wait
from .._layout import TensorSpec
from .._library import failure, lib
from ..errors import CallError, Error
from ..engine._boxes import Copy
from ..engine._core import Core, Init, Update
from ..engine._group import Alone, Ranks, label
from ..engine._recorder import record

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..engine._core import InitOptions

LOADER = "weft_fabric.adapters.sglang.load"
_TARGET = "sglang.srt.model_executor.model_runner_components.weight_updater.WeightUpdater.update_weights_from_tensor"
_PLAIN_METHODS = ("UnquantizedLinearMethod", "UnquantizedEmbeddingMethod")  # leave weights as the loader put them
_AGREE_S = 60  # how long a process may be late when all agree
_POLL_S = 0.02


class _TensorParallel:
    """The processes of an engine, over SGLang's group of gloo."""

    def __init__(self, group: Any) -> None:
        self.rank, self.size, self._group = group.rank_in_group, group.world_size, group.cpu_group

    def every(self, own: Any) -> Sequence[Any]:
        limit = datetime.timedelta(seconds=_AGREE_S)
        torch.distributed.monitored_barrier(group=self._group, timeout=limit)
        gathered: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(gathered, own, group=self._group)
        return gathered


def _ranks() -> Ranks:
    from sglang.srt.distributed import get_tp_group

    group = _TensorParallel(get_tp_group())
    return group if group.size > 1 else Alone()


def _refuse(model: torch.nn.Module) -> None:
    """Raises for layers with weights in another form than the checkpoint: an update in place would pass them by."""
    for name, module in model.named_modules():
        method = getattr(module, "quant_method", None)
        if method is not None and type(method).__name__ not in _PLAIN_METHODS:
            raise CallError(f"layer {name} has its weights by {type(method).__name__}: weft takes layers of "
                            f"{' and '.join(_PLAIN_METHODS)}", lib.WEFT_E_ARGUMENT, "argument")  # fmt: skip
        if getattr(module, "use_intel_amx_backend", False):
            raise CallError(f"layer {name} has its weights packed for AMX: start SGLang without the AMX backend",
                            lib.WEFT_E_ARGUMENT, "argument")  # fmt: skip


class _Process:
    """One process of an engine: the model, and the session that follows the trainer."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self._at = next(model.parameters()).device
        self._ignore: Sequence[str] = ()
        self._core = Core(_ranks(), str(self._at), self._record, self._places)

    def _record(self, layout: Sequence[TensorSpec]) -> list[Copy]:
        _refuse(self.model)
        return record(self.model, layout, self._at, self._ignore)

    def _places(self) -> list[int]:
        return [parameter.data_ptr() for parameter in self.model.parameters()]

    def do(self, verb: str, body: dict[str, Any]) -> str:
        """What load() is asked for. Returns what it has to say."""
        verbs = {"open": self._open, "stage": self._stage, "commit": self._commit, "close": self._close}
        return verbs[verb](body)

    def _open(self, init: dict[str, Any]) -> str:
        self._core.close()
        self._ignore = init.get("ignore", ())
        self._core.open(Init(**init))
        return self._held()

    def _stage(self, update: dict[str, Any]) -> str:
        """Asks for a version. "staged" where every process has it, else why not; never waits."""
        self._core.start()
        ready = self._core.ready(update["version"])
        return "staged" if isinstance(ready, int) else ready

    def _commit(self, update: dict[str, Any]) -> str:
        self._core.start()
        self._core.stage(Update(**update))
        self._core.commit()
        return self._held()

    def _close(self, nothing: dict[str, Any]) -> str:
        self._core.close()
        return ""

    def _held(self) -> str:
        return label(self._core.ranks.every(self._core.held))


_process: _Process | None = None
_said = ""  # what the last call of load() has to say
_registered = False


def _order(named_tensors: Sequence[tuple[str, torch.Tensor]]) -> tuple[str, dict[str, Any]]:
    """The verb and what goes with it, from the bytes of JSON that message() made."""
    if len(named_tensors) != 1 or named_tensors[0][0] != "weft":
        raise CallError(f"{LOADER} takes one tensor named weft, which weft.adapters.sglang.message makes",
                        lib.WEFT_E_ARGUMENT, "argument")  # fmt: skip
    verb, body = json.loads(bytes(named_tensors[0][1].cpu().numpy()))
    return verb, body


def message(verb: str, **body: Any) -> list[tuple[str, torch.Tensor]]:
    """What update_weights_from_tensor takes for load_format=LOADER: "open" with Init's fields, "stage" and "commit"
    with Update's, or "close"."""
    return [("weft", torch.tensor(list(json.dumps([verb, body]).encode()), dtype=torch.uint8))]


def load(model: torch.nn.Module, named_tensors: Sequence[tuple[str, torch.Tensor]]) -> None:
    """The custom weight loader. SGLang calls it in each process of an engine, with a message()."""
    global _process, _said
    if not _registered:
        raise CallError("SGLang did not load the plug-in weft, which returns errors in place of ending the scheduler: "
                        "name it in SGLANG_PLUGINS", lib.WEFT_E_STATE, "state")  # fmt: skip
    verb, body = _order(named_tensors)
    if _process is not None and _process.model is not model:
        raise CallError("a second model: weft takes no draft models", lib.WEFT_E_ARGUMENT, "argument")
    if verb == "open" and _process is None:
        _process = _Process(model)
    if _process is None:
        raise CallError("the engine has not joined: call follow() first", lib.WEFT_E_STATE, "state")
    _said = _process.do(verb, body)


def _tell(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Around update_weights_from_tensor: what weft has to say is the message, and its errors are SGLang's failures."""
    global _said
    _said = ""
    try:
        success, text = original(*args, **kwargs)
    except Error as error:
        return False, f"{type(error).__name__}: {error}"
    return success, _said or text


def register() -> None:
    """Hooks _tell() into SGLang. SGLang calls this in each of its processes, by the entry point sglang.srt.plugins."""
    global _registered
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    if not _registered:
        HookRegistry.register(_TARGET, _tell, HookType.AROUND)
    _registered = True


class Follower:
    """Keeps an engine's weights those of the trainer. `version` is the label of what the engine holds."""

    def __init__(self, engine: Any, site: Any, peer: str, options: Any) -> None:
        self.engine = engine
        self.version = self._send("open", False, site=str(site), peer=peer, **options)

    def _send(self, verb: str, flush_cache: bool, **body: Any) -> str:
        """Sends a message to each process of the engine. CallError: SGLang or weft refuses, and no weight moved."""
        self._checked(verb, self.engine.begin_weight_update())
        try:
            said = self._checked(verb, self.engine.update_weights_from_tensor(
                message(verb, **body), load_format=LOADER, flush_cache=flush_cache))  # fmt: skip
        finally:
            self.engine.end_weight_update()
        return "" if said == "Success" else said

    @staticmethod
    def _checked(verb: str, result: tuple[bool, str]) -> str:
        success, text = result
        if not success:
            raise CallError(f"{verb}: {text}", lib.WEFT_E_STATE, "state")
        return text

    def update(self, version: int | None = None, timeout: float = 60.0) -> str:
        """Brings the engine to a version, or to the trainer's newest one, and returns the label of what it holds then.
        While the version comes the engine generates. The commit flushes SGLang's cache of keys and values."""
        deadline = _wait.Deadline(timeout)
        while (said := self._send("stage", False, version=version)) != "staged":
            if deadline.passed():
                which = "of the trainer" if version is None else version
                raise failure(lib.WEFT_E_TIMEOUT, f"version {which} did not come in {timeout} s: {said}")
            time.sleep(_POLL_S)
        self.version = self._send("commit", True, version=version, timeout=max(1.0, deadline.left() or 0.0))
        return self.version

    def close(self) -> None:
        """Leaves the trainer. The engine keeps its weights."""
        self._send("close", False)

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def follow(engine: Any, site: Any, peer: str, **options: Unpack[InitOptions]) -> Follower:
    """Has an engine of SGLang follow the site's trainer.

    engine   a sglang.Engine with custom_weight_loader=[LOADER]
    site     path or text of the site
    peer     name of the peer, with "{rank}" in it for a tensor-parallel engine
    options  overrides of the site, empty, ignore, sources, timeout, as for vLLM
    """
    return Follower(engine, site, peer, options)
