"""What weft knows of vLLM's two formats of a layer: the model format, which loaders fill, and the kernel format, which
process_weights_after_loading leaves and the engine computes with.

vLLM remembers the model format for its own reload, in a package that is private. _MEMORIES names that by version.
"""

from __future__ import annotations

import importlib
from math import prod
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Tuple

import torch

from .. import _dtypes
from .._layout import TensorSpec
from ._boxes import Copy
from ._moves import Digit, Move, moved
from ._recorder import Recording, guarded, record
from ._refusals import of_module, packer
from ._trace import Trace, Untold, like

# Version of vLLM, and where it has LAYERWISE_INFO (what each layer was like before its weights were loaded).
_MEMORIES = {"0.32": "vllm.model_executor.model_loader.reload"}
# What weights are computed into, where no memory says that no loader fills it, or where no parameter has it.
_COMPUTED = ("W_UV", "W_UK", "W_UK_T", "W_UK_T_dcp_qrep", "W_K", "W_V", "_cpu_unpacked_conv_weight", "_bf16x3_weight")
# Packages of vLLM whose objects process_weights_after_loading may write to.
_OWNED = ("vllm.model_executor", "vllm.models", "vllm.v1.attention")
_INTS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

Weights = Iterable[Tuple[str, torch.Tensor]]
Held = Tuple[Iterable[Copy], Weights]
Moves = Mapping[str, Move]


class Formats(NamedTuple):
    """What is known of the layers that pack weights."""

    layers: dict[str, str | None]  # by name: why the layer cannot be updated in place, or None
    moves: dict[str, Move]  # by the name of the parameter


def _memory() -> str | None:
    """The package that remembers, of this version of vLLM."""
    import vllm

    return _MEMORIES.get(".".join(vllm.__version__.split(".")[:2]))


def _remembered() -> tuple[Any, frozenset[str]]:
    """What each layer was like, and names of tensors that vLLM leaves out there. ({}, ...): of another version."""
    place = _memory()
    if place is None:
        return {}, frozenset()
    layers = importlib.import_module(f"{place}.layerwise").LAYERWISE_INFO
    return layers, frozenset(importlib.import_module(f"{place}.meta").SKIP_TENSORS)


def computed(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors that vLLM made of weights after the loaders had filled these."""
    layers, left_out = _remembered()
    for path, layer in model.named_modules():
        names = set(_COMPUTED) & {*vars(layer), *layer._parameters, *layer._buffers}
        if layer in layers:
            names |= layer._parameters.keys() - layers[layer].restore_metadata[0].keys() - left_out
        for name in sorted(names):
            tensor = getattr(layer, name)
            if isinstance(tensor, torch.Tensor) and tensor.numel():
                yield f"{path}.{name}" if path else name, tensor
        sinks = getattr(getattr(layer, "impl", None), "sinks", None)  # of attention, which may have a wider copy
        if isinstance(sinks, torch.Tensor) and sinks.numel():
            yield f"{path}.impl.sinks", sinks


def _metas(layer: torch.nn.Module) -> dict[str, torch.Tensor]:
    """A layer's parameters as before its weights came, on the device meta. Their loaders are the layer's again."""
    layers, _ = _remembered()
    if layer not in layers:
        raise Untold("this version of vLLM keeps no memory of it that weft knows")
    to_meta = importlib.import_module(f"{_memory()}.meta").to_meta_tensor
    own = importlib.import_module(f"{_memory()}.sanitize").restore_layer_refs
    return {name: own(to_meta(tensor), layer) for name, tensor in layers[layer].restore_metadata[0].items()}


def _reshaped(model: torch.nn.Module) -> Iterator[tuple[str, str]]:
    """Layers that nothing else refuses, and that have a parameter in another shape than loaders fill; and why."""
    layers, _ = _remembered()
    for path, layer in model.named_modules():
        before = layers[layer].restore_metadata[0] if layer in layers and not of_module(layer) else {}
        for name, meta in before.items():
            live = layer._parameters.get(name)
            if live is not None and live.shape != meta.shape:
                yield path, f"its {name} is {tuple(live.shape)} in the engine, and loaders fill {tuple(meta.shape)}"


def _process(layer: Any) -> None:
    packer(layer).process_weights_after_loading(layer)


def _traced(layer: torch.nn.Module, metas: dict[str, torch.Tensor]) -> dict[str, tuple[Digit, ...]]:
    kept = _remembered()[1] & layer._parameters.keys() - metas.keys()
    return Trace(layer, metas, kept, _OWNED, _process).maps()


def _kind(layer: Any, metas: Mapping[str, torch.Tensor]) -> Any:
    """What layers that are packed alike have in common."""
    shapes = [(n, t.shape, t.dtype, layer._parameters[n].shape) for n, t in metas.items() if n in layer._parameters]
    return type(layer), type(packer(layer)), tuple(shapes)


def _tried(layer: torch.nn.Module, metas: dict[str, torch.Tensor], model: Recording) -> Any:
    """The digits of each parameter, or why there are none: either is of all layers that are packed alike."""
    try:
        with guarded(model):
            return _traced(layer, metas)
    except Exception as error:
        return error


def _trace(path: str, layer: torch.nn.Module, model: Recording, known: dict[Any, Any], found: Formats) -> None:
    try:
        metas = _metas(layer)
        kind = _kind(layer, metas)
        if kind not in known:
            known[kind] = _tried(layer, metas, model)
        if isinstance(known[kind], Exception):
            raise known[kind]
        found.moves.update({f"{path}.{n}": Move(layer, n, metas[n], digits) for n, digits in known[kind].items()})
        found.layers[path] = None
    except Exception as error:  # of vLLM's own code too: the engine then serves, and weft refuses the layer
        found.layers[path] = (
            f"its weights are packed, and nobody can say how: {error or type(error).__name__}: choose another "
            f"moe_backend, such as 'triton', which packs nothing"
        )


def _same(copy: Copy, tensor: torch.Tensor, live: torch.Tensor) -> bool:
    """Whether the engine has, bit for bit, what a copy says that it has of a tensor of the checkpoint."""
    place = live.storage_offset() + (copy.data - live.data_ptr()) // copy.item
    bits = _INTS[copy.item]
    want = tensor.contiguous().as_strided(copy.sizes, copy.source, copy.first)
    got = live.detach().as_strided(copy.sizes, copy.target, place)
    return torch.equal(want.view(bits).to(live.device), got.view(bits))


def _of_checkpoint(read: Callable[[], Weights], model: torch.nn.Module, device: torch.device, moves: Moves) -> Held:
    specs = [TensorSpec(name, _dtypes.required(tensor.dtype), tuple(tensor.shape)) for name, tensor in read()]
    return record(model, specs, device, ["*"], {}, moves), read()


def _of_dummy(device: torch.device, moves: Moves) -> Held:
    """With load_format="dummy" each parameter of the model format has made-up values, which its shape tells."""
    from vllm.model_executor.model_loader.weight_utils import initialize_single_dummy_weight as fill

    def weights() -> Weights:
        for name, move in moves.items():
            tensor = like(move.model, device)
            fill(tensor)
            yield name, tensor.data

    models = [(name, move.model) for name, move in moves.items()]
    copies = [Copy(n, 0, tuple(t.shape), t.stride(), 0, t.stride(), t.element_size(), n) for n, t in models]
    return list(moved(copies, moves)), weights()


def _held(model: torch.nn.Module, config: Any, device: torch.device, moves: Moves) -> Held:
    """What the engine was loaded with, and the copies that say where it has that."""
    from vllm.model_executor.model_loader import get_model_loader

    if config.load_config.load_format == "dummy":
        return _of_dummy(device, moves)
    read = getattr(get_model_loader(config.load_config), "get_all_weights", None)
    if read is None:
        raise Untold(f"load_format {config.load_config.load_format} gives nothing to judge that by")
    return _of_checkpoint(lambda: read(config.model_config, model), model, device, moves)


def _wrong(moves: Moves, held: Held) -> set[str]:
    """Packed parameters that do not hold, by their moves, what the engine was loaded with."""
    copies, weights = held
    landed: dict[str, list[Copy]] = {}
    left = {name: getattr(move.layer, move.name).numel() for name, move in moves.items()}
    for copy in copies:
        if copy.parameter in moves:
            landed.setdefault(copy.tensor, []).append(copy)
            left[copy.parameter] -= prod(copy.sizes)
    wrong = {name for name, count in left.items() if count}
    for name, tensor in weights:
        for copy in landed.get(name, []):
            move = moves[copy.parameter]
            if not _same(copy, tensor, getattr(move.layer, move.name)):
                wrong.add(copy.parameter)
    return wrong


def _judge(found: Formats, held: Callable[[Moves], Held]) -> Formats:
    """Without layers whose moves the engine's own memory belies."""
    why, wrong = "the engine has other bits than it was loaded with", set(found.moves)
    try:
        wrong = _wrong(found.moves, held(found.moves))
    except Exception as error:  # of vLLM's own code too
        why = str(error) or type(error).__name__
    layers = {name.rpartition(".")[0]: f"its weights are packed, and no move explains them: {why}" for name in wrong}
    moves = {name: move for name, move in found.moves.items() if name.rpartition(".")[0] not in layers}
    return Formats({**found.layers, **layers}, moves)


def learn(model: torch.nn.Module, config: Any, device: torch.device) -> Formats:
    """Traces the layers that pack weights, and judges each move by the engine's memory and its checkpoint.

    No weight is written.
    """
    from vllm.config import set_current_vllm_config
    from vllm.utils.torch_utils import set_default_torch_dtype

    found = Formats(dict(_reshaped(model)), {})
    known: dict[Any, Any] = {}
    packed = [(path, layer) for path, layer in model.named_modules() if packer(layer)]
    if not packed:
        return found
    with set_current_vllm_config(config), set_default_torch_dtype(config.model_config.dtype), torch.no_grad():
        for path, layer in packed:
            _trace(path, layer, Recording(model, device), known, found)
        if not found.moves:
            return found
        return _judge(found, lambda moves: _held(model, config, device, moves))
