"""What is bound of a torch model: the tensors of its state, and their names."""

from __future__ import annotations

from typing import Any, Mapping, Union

import torch

from . import _dtensor, _tensors
from .errors import TensorError

Model = Union[torch.nn.Module, Mapping[str, torch.Tensor]]  # a mapping: some tensors of a model, such as its adapters

_COMPILED = "_orig_mod"  # where torch.compile has the module that it wraps
_REPLICAS = ("DistributedDataParallel", "DataParallel", "DeepSpeedEngine")  # have it as `module`, in each process


def _wrappers(model: Model, *names: str) -> dict[str, torch.nn.Module]:
    """Modules of classes with these names, by their paths. By name, because nothing is imported to look for them."""
    if isinstance(model, Mapping):
        return {}
    modules = model.named_modules(remove_duplicate=False)
    return {path: one for path, one in modules if any(kind.__name__ in names for kind in type(one).__mro__)}


def is_replicated(model: Model) -> bool:
    """Whether a wrapper says that each process has all of the model."""
    return bool(_wrappers(model, *_REPLICAS))


def place(tensor: torch.Tensor) -> tuple[Any, ...]:
    local = _dtensor.local_of(tensor)
    return (str(local.device), local.data_ptr(), tuple(tensor.shape), tensor.dtype)


def _tie(tensor: torch.Tensor) -> Any:
    """What tied tensors have in common: their place, or where there is no memory the tensor itself."""
    local = _dtensor.local_of(tensor)
    return place(tensor) if local.numel() and local.data_ptr() else id(tensor)


def _plain(name: str, wrappers: list[str]) -> str:
    """A name without what wrappers add to it."""
    for path in wrappers:
        if name.startswith(path + "module."):
            name = path + name[len(path + "module.") :]
    return ".".join(part for part in name.split(".") if part != _COMPILED)


def state(model: Model) -> dict[str, Any]:
    """The model's state, by the names that it has without wrappers."""
    for path, module in _wrappers(model, "FullyShardedDataParallel").items():
        for name, _ in module.named_parameters():  # its state would be copies, gathered for this call
            raise TensorError(f"{path}.{name}" if path else name, _tensors.FLAT)
    wrappers = [path + "." if path else "" for path in _wrappers(model, *_REPLICAS)]
    wrappers.sort(key=len, reverse=True)  # inner ones first, whose paths have the outer ones
    named: dict[str, Any] = {}
    for full, tensor in (model if isinstance(model, Mapping) else model.state_dict(keep_vars=True)).items():
        name = _plain(full, wrappers)
        if name in named:
            raise TensorError(full, f"without the wrappers it is named {name}, as another tensor is")
        named[name] = tensor
    return named


def replaced(model: Model, bound: Mapping[str, torch.Tensor]) -> str | None:
    """The name of the first bound tensor that is no longer the model's, or None."""
    here = state(model)
    for name, tensor in bound.items():
        now = here.get(name)
        if now is not tensor and (now is None or place(now) != place(tensor)):
            return name
    return None


def named_tensors(model: Model, tied: str | None = None) -> dict[str, torch.Tensor]:
    """The tensors of a model's state: parameters and persistent buffers, by the names that they have without wrappers
    (torch.compile, DDP). Of tied tensors the first name stands, and with `tied="all"` each; of a mapping each does."""
    return parted(model, tied)[0]


def parted(model: Model, tied: str | None) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """named_tensors(), and the names that were left out with the name that stands for each."""
    if tied not in (None, "first", "all"):
        raise ValueError(f'tied={tied!r}: the names of tied tensors are published "first" or "all"')
    every = tied == "all" or (tied is None and isinstance(model, Mapping))
    named: dict[str, torch.Tensor] = {}
    left_out: dict[str, str] = {}
    seen: dict[Any, str] = {}
    for name, tensor in state(model).items():
        if not isinstance(tensor, torch.Tensor):
            continue
        first = seen.setdefault(_tie(tensor), name)
        if first == name or every:
            named[name] = tensor
        else:
            left_out[name] = first
    return named, left_out
