"""SGLang as one of the frameworks of engines. SGLang forgets what layers were like before their weights came, so
remember() takes that down."""

from __future__ import annotations

import copy
import functools
import inspect
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Mapping

import torch

from ..engine._framework import Framework, Weights
from ..engine._trace import Untold
from ._refusals import advice, of_module, packer

_OWNED = ("sglang.srt.layers", "sglang.srt.models")
_BEFORE = "_weft_before"  # attribute of a model: what it was like before its weights came
_POST = "post_load_weights"  # by which a model computes tensors from weights, once loaders have filled these
# Those that weft knows: they make tensors of attention, of the layers that they are told of, and write nothing else.
KNOWN = {"DeepseekV2WeightLoaderMixin.post_load_weights", "KimiK25ForConditionalGeneration.post_load_weights"}
# Scales of what attention caches, which no trainer has.
_CACHES = frozenset(("k_scale_float", "v_scale_float", "q_scale_float", "idx_q_scale_float"))
_playing = False  # whether loaders run for weft


class _Before:
    """A model before its weights came."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.metas = {layer: _metas(layer) for layer in model.modules() if layer._parameters}
        self.tensors = {layer: _own_tensors(layer) for layer in model.modules()}
        self.others = {layer: _others(layer) for layer in model.modules()}

    def unknown(self) -> Iterator[str]:
        """Why nobody makes again what was computed as weights came: numbers, and tensors in other objects."""
        for layer, had in self.others.items():
            for name, value in _others(layer).items():
                if name not in had or had[name] != value:
                    yield f"{name} of {type(layer).__name__} was computed as weights came, and is no tensor by itself"

    def made(self) -> frozenset[str]:
        """Names of what was computed as weights came: attributes that hold tensors since then."""
        return frozenset(name for layer, had in self.tensors.items() for name in _own_tensors(layer) - had)


def _own_tensors(layer: torch.nn.Module) -> frozenset[str]:
    """Names of tensors that are neither parameters nor buffers."""
    return frozenset(name for name, value in vars(layer).items() if isinstance(value, torch.Tensor))


def _others(layer: torch.nn.Module) -> dict[str, Any]:
    """Numbers with a point, and how many tensors are in lists, tuples and dictionaries, by name."""
    own = {name: value for name, value in vars(layer).items() if not name.startswith("_") and name not in _CACHES}
    found: dict[str, Any] = {name: value for name, value in own.items() if type(value) is float}
    for name, value in own.items():
        every = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
        count = sum(isinstance(one, torch.Tensor) for one in every)
        found.update({name: count} if count else {})
    return found


def unknown(model: torch.nn.Module) -> Iterator[str]:
    """Why a model has copies of weights that nobody makes again."""
    for module in model.modules():
        post = getattr(type(module), _POST, None)
        if post is not None and post.__qualname__ not in KNOWN:
            yield f"{post.__qualname__} computes from weights, in a way that weft does not know"
    before = model.__dict__.get(_BEFORE)
    yield from before.unknown() if before else ()


def _metas(layer: torch.nn.Module) -> Mapping[str, torch.Tensor]:
    """Parameters on the device meta, with their class and loaders. What has no shape yet is left out."""
    every = {n: p for n, p in layer._parameters.items() if p is not None and not torch.nn.parameter.is_lazy(p)}
    metas = {name: parameter.data.to("meta") for name, parameter in every.items()}
    for name, meta in metas.items():
        meta.__class__, meta.__dict__ = every[name].__class__, every[name].__dict__.copy()
    return metas


def remember(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Around what makes a model: takes down what the model was like before its weights came."""
    model = original(*args, **kwargs)
    model.__dict__[_BEFORE] = _Before(model)
    return model


def is_async(original: Callable[..., bool], weight: torch.Tensor) -> bool:
    """Around should_async_load: loaders that run for weft stay in the thread that watches them."""
    return not _playing and original(weight)


@contextmanager
def _as_at_load(model: torch.nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """What processing finds set. Loaders end with post_load_weights, which would write to the engine: weft runs that
    on copies, by _finish()."""
    global _playing
    from sglang.srt.model_loader.utils import set_default_torch_dtype

    mute = [module for module in model.modules() if hasattr(type(module), _POST)]
    _playing = True
    for module in mute:
        module.__dict__[_POST] = lambda *args, **kwargs: None
    try:
        with set_default_torch_dtype(dtype):
            yield
    finally:
        _playing = False
        for module in mute:
            del module.__dict__[_POST]


def _finish(model: torch.nn.Module, path: str) -> Callable[[Any], None] | None:
    """What computes the tensors of attention: post_load_weights of the innermost module around it that takes names of
    weights, so that one layer is computed and no other."""
    parts = path.split(".")
    for at in reversed(range(len(parts))):
        around = model.get_submodule(".".join(parts[:at]))
        if _POST in dir(type(around)) and "weight_names" in inspect.signature(getattr(type(around), _POST)).parameters:
            return functools.partial(_finished, around, parts[at:])
    return None


def _finished(around: torch.nn.Module, parts: list[str], scratch: torch.nn.Module) -> None:
    """Runs post_load_weights with scratch in place of the module at a path."""
    top = node = _shallow(around)
    for part in parts[:-1]:
        inner = node._modules[part] = _shallow(node._modules[part])
        node = inner
    node._modules[parts[-1]] = scratch
    getattr(type(top), _POST)(top, weight_names=[".".join([*parts, "kv_b_proj.weight"])])


def _shallow(module: Any) -> Any:
    """A module that has the same of all but of the list of its own modules."""
    other = copy.copy(module)
    other.__dict__["_modules"] = dict(module._modules)
    return other


def _checkpoint(runner: Any) -> Weights:
    read = getattr(runner.loader, "_get_all_weights", None)
    if read is None:
        raise Untold(f"load_format {runner.load_config.load_format} gives nothing to judge that by")
    found: Weights = read(runner.model_config, runner.model)
    return found


def _dummy(tensor: torch.Tensor) -> None:
    from sglang.srt.model_loader.weight_utils import initialize_dummy_weights

    one = torch.nn.Module()
    one.register_buffer("one", tensor)
    initialize_dummy_weights(one)


def framework(runner: Any) -> Framework:
    """Of the ModelRunner of an engine, whose weights are loaded."""
    model = runner.model
    before = model.__dict__.get(_BEFORE) or _Before(torch.nn.Module())  # of a model that was made in another way
    is_dummy = getattr(runner.load_config.load_format, "value", None) == "dummy"
    return Framework(
        _OWNED,
        before.made(),
        remembered=before.metas.get,
        packer=packer,
        refused=of_module,
        advice=advice,
        context=lambda: _as_at_load(model, runner.model_config.dtype),
        finish=lambda path: _finish(model, path),
        checkpoint=lambda: _checkpoint(runner),
        dummy=_dummy if is_dummy else None,
        dtype=runner.model_config.dtype,
    )
