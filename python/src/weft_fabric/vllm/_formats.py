"""What weft knows of vLLM's two formats of a layer: the model format, which loaders fill, and the kernel format, which
process_weights_after_loading leaves and the engine computes with.

vLLM remembers the model format for its own reload, in a package that is private. _MEMORIES names that by version.
"""

from __future__ import annotations

import importlib
from contextlib import contextmanager
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Tuple

import torch

from .. import _dtypes
from .._layout import TensorSpec
from ..errors import TensorError
from ._boxes import Copy
from ._derive import LIMIT, Attention, Derived, Layer, Remade, placed, reloaded
from ._moves import Move, moved
from ._recorder import Recording, guarded, in_model_format, recorded
from ._refusals import advice, of_module, packer
from ._trace import Trace, Traced, Untold, like, tensors

# Version of vLLM, and where it has LAYERWISE_INFO (what each layer was like before its weights were loaded).
_MEMORIES = {"0.32": "vllm.model_executor.model_loader.reload"}
# What weights are computed into, where no memory says that no loader fills it, or where no parameter has it.
_COMPUTED = ("W_UV", "W_UK", "W_UK_T", "W_UK_T_dcp_qrep", "W_K", "W_V", "_cpu_unpacked_conv_weight", "_bf16x3_weight",
             "_norm_weight_fp32", "hc_attn_fn_broadcast")  # fmt: skip
_FEW = 1 << 16  # bytes of a layer that may be computed, whatever its size; of a large one a sixteenth
# Packages of vLLM whose objects process_weights_after_loading may write to.
_OWNED = ("vllm.model_executor", "vllm.models", "vllm.v1.attention")

Weights = Iterable[Tuple[str, torch.Tensor]]
Moves = Mapping[str, Move]
Elements = Tuple[str, Iterable[Remade]]  # the parameter, in the model format, and what it has of one tensor


class Formats(NamedTuple):
    """What is known of the layers that pack weights."""

    layers: dict[str, str | None]  # by name: why the layer cannot be updated in place, or None
    moves: dict[str, Move]  # by the name of the parameter
    steps: dict[str, Layer | Attention] = {}  # layers that compute, by name

    def derived(self) -> list[str]:
        """Names of the tensors that are computed again after each commit."""
        return [f"{path}{one}" for path, step in self.steps.items() for one in step.made]

    def kept(self) -> list[torch.Tensor]:
        """Parameters of the model format that weft has beside the engine's."""
        return [move.model for move in self.moves.values() if move.kept]


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
        for at, tensor in tensors(getattr(layer, "impl", None), _OWNED, ".impl", set()):
            if at.endswith(".sinks") and tensor.numel():  # of attention, which may have a wider copy
                yield f"{path}{at}", tensor


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


def _rest(layer: torch.nn.Module, metas: dict[str, torch.Tensor]) -> list[str]:
    """Parameters that vLLM's memory leaves out: processing takes them as they are."""
    return sorted(_remembered()[1] & layer._parameters.keys() - metas.keys())


def _traced(layer: torch.nn.Module, metas: dict[str, torch.Tensor]) -> Traced:
    found = Trace(layer, metas, _rest(layer, metas), _OWNED, _process).trace()
    size, whole = (sum(metas[name].nbytes for name in names) for names in (found.others, metas))
    if size > max(_FEW, whole // 16) or (found.others and not found.made):
        raise Untold("; ".join(found.others.values()))
    return found


def _kind(layer: Any, metas: Mapping[str, torch.Tensor]) -> Any:
    """What layers that are packed alike have in common."""
    live = {n: p for n, p in layer._parameters.items() if p is not None}
    shapes = [(n, t.shape, t.dtype) for n, t in metas.items()]
    shapes += [(n, p.shape, p.dtype, p.stride()) for n, p in live.items()]
    return type(layer), type(packer(layer)), type(getattr(layer, "scheme", None)), tuple(shapes)


def _tried(layer: torch.nn.Module, metas: dict[str, torch.Tensor], model: Recording) -> Any:
    """The digits of each parameter, or why there are none: either is of all layers that are packed alike."""
    try:
        if "process_weights_after_loading" in getattr(packer(layer), "__dict__", {}):
            raise Untold("its processing was replaced by a function, which may write to other layers")
        model.watch(tensors(layer, _OWNED, "", set()))
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
        _add(path, layer, metas, known[kind], found)
    except Exception as error:  # of vLLM's own code too: the engine then serves, and weft refuses the layer
        found.layers[path] = f"its weights are packed, and nobody can say how: {_text(error)}{advice(layer)}"


def _add(path: str, layer: torch.nn.Module, metas: dict[str, torch.Tensor], traced: Traced, found: Formats) -> None:
    device = next(tensor.device for tensor in layer.parameters())
    own = {name: Move(layer, name, metas[name], digits) for name, digits in traced.moved.items()}
    size = sum(tensor.nbytes for tensor in found.kept()) + sum(metas[name].nbytes for name in traced.others)
    if size > LIMIT:
        raise Untold(f"with it weft would keep {size >> 20} MB of copies")
    own.update({name: Move(layer, name, like(metas[name], device), (), True) for name in traced.others})
    found.moves.update({f"{path}.{name}": move for name, move in own.items()})
    found.layers[path] = None
    if traced.made:
        found.steps[path] = Layer(path, layer, own, _rest(layer, metas), traced.made, _OWNED, _process)


def _of_checkpoint(
    read: Callable[[], Weights], model: torch.nn.Module, device: torch.device, moves: Moves
) -> Iterator[Elements]:
    specs = [TensorSpec(name, _dtypes.required(tensor.dtype), tuple(tensor.shape)) for name, tensor in read()]
    with in_model_format(moves):
        recording = recorded(model, specs, device, moves, float("inf"))
    landed: dict[str, list[Copy]] = {}
    for copy in recording.copies:
        landed.setdefault(copy.tensor, []).append(copy)
    again: dict[str, torch.Tensor] = {}
    for name, tensor in read():
        for copy in landed.get(name, []):
            yield from _landed(copy, tensor.contiguous(), moves)
        if name in recording.computed:
            again[name] = tensor
        if sum(one.nbytes for one in again.values()) > LIMIT:
            yield from _again(model, device, again, recording, moves)
            again = {}
    yield from _again(model, device, again, recording, moves)


def _landed(copy: Copy, source: torch.Tensor, moves: Moves) -> Iterator[Elements]:
    move = moves.get(copy.parameter)
    if move:
        live = move.model if move.kept else getattr(move.layer, move.name)
        yield copy.parameter, [placed(part, source, live) for part in moved([copy], moves)]


def _again(
    model: torch.nn.Module, device: torch.device, weights: dict[str, torch.Tensor], recording: Recording, moves: Moves
) -> Iterator[Elements]:
    """What loaders compute of a few tensors."""
    places = [place for place, names in recording.remade.items() if not names.isdisjoint(weights)]
    for copy, scratch in reloaded(model, device, weights, moves, places) if weights else ():
        yield from _landed(copy, scratch, moves)


def _of_dummy(device: torch.device, moves: Moves) -> Iterator[Elements]:
    """With load_format="dummy" each parameter of the model format has made-up values, which its shape tells."""
    from vllm.model_executor.model_loader.weight_utils import initialize_single_dummy_weight as fill

    for name, move in moves.items():
        tensor = like(move.model, device)
        fill(tensor)
        copy = Copy(name, 0, tuple(tensor.shape), tensor.stride(), 0, tensor.stride(), tensor.element_size(), name)
        if move.kept:
            yield name, [Remade(name, move.model.data, tensor.data)]
        else:
            live = getattr(move.layer, move.name)
            yield name, [placed(part, tensor.data, live) for part in moved([copy], moves)]


def checkpoint(model: torch.nn.Module, config: Any) -> Weights:
    """What the engine was loaded with, once more."""
    from vllm.model_executor.model_loader import get_model_loader

    read = getattr(get_model_loader(config.load_config), "get_all_weights", None)
    if read is None:
        raise Untold(f"load_format {config.load_config.load_format} gives nothing to judge that by")
    found: Weights = read(config.model_config, model)
    return found


def _held(model: torch.nn.Module, config: Any, device: torch.device, moves: Moves) -> Iterator[Elements]:
    """What the engine was loaded with, and where it has that."""
    if config.load_config.load_format == "dummy":
        return _of_dummy(device, moves)
    return _of_checkpoint(lambda: checkpoint(model, config), model, device, moves)


def _wrong(moves: Moves, held: Iterable[Elements]) -> set[str]:
    """Packed parameters that do not hold, by their moves, what the engine was loaded with. Those that weft keeps are
    filled with that."""
    left = {name: move.model.numel() for name, move in moves.items()}
    wrong = set()
    for name, elements in held:
        for one in elements:
            left[name] -= one.live.numel()
            if moves[name].kept:
                one.live.copy_(one.value)
            elif not one.is_same():
                wrong.add(name)
    return wrong | {name for name, count in left.items() if count}


def _judge(found: Formats, held: Callable[[Moves], Iterable[Elements]]) -> Formats:
    """Without layers whose moves the engine's own memory belies, and those that compute other bits than it has."""
    why = {}
    text = "the engine has other bits than it was loaded with"
    try:
        wrong = _wrong(found.moves, held(found.moves)) if found.moves else set()
    except Exception as error:  # of vLLM's own code too
        wrong, text = set(found.moves), _text(error)
    why.update({name.rpartition(".")[0]: text for name in wrong})
    for path, step in found.steps.items():
        fault = "" if path in why else _fault(step)
        if fault:
            why[path] = fault
    layers = {path: f"its weights are packed, and no move explains them: {text}" for path, text in why.items()}
    moves = {name: move for name, move in found.moves.items() if name.rpartition(".")[0] not in layers}
    steps = {path: step for path, step in found.steps.items() if path not in layers}
    return Formats({**found.layers, **layers}, moves, steps)


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _fault(step: Layer | Attention) -> str:
    """Why a step does not make what the engine has, "" if it does."""
    try:
        wrong = Derived([step.step]).wrong()
    except Exception as error:  # of vLLM's own code too
        return _text(error)
    return f"the engine has another {wrong[0]} than its own code computes" if wrong else ""


def _attention(model: torch.nn.Module, dtype: torch.dtype, found: Formats) -> None:
    """Adds modules that compute tensors by themselves after all layers, if they compute what the engine has."""
    made: dict[str, list[str]] = {}
    modules, every = dict(model.named_modules()), dict(computed(model))
    filled = {p.untyped_storage()._cdata for name, p in model.named_parameters() if name not in every}
    for name, tensor in every.items():
        path = name.partition(".impl.")[0] if ".impl." in name else name.rpartition(".")[0]
        computes = path not in found.layers and hasattr(type(modules[path]), "process_weights_after_loading")
        if computes and tensor.untyped_storage()._cdata not in filled:
            made.setdefault(path, []).append(name[len(path) :])
    for path, names in made.items():
        step = Attention(path, modules[path], names, _OWNED, dtype)
        try:
            recording = Recording(model, torch.device("cpu"))
            recording.watch(tensors(modules[path], _OWNED, "", set()))
            with guarded(recording):
                fault = _fault(step)
        except TensorError:  # it would write to the model
            continue
        if not fault:  # else the tensors are judged by where they lie
            found.steps[path] = step


@contextmanager
def as_at_load(config: Any) -> Iterator[None]:
    """What vLLM's processing of weights finds set."""
    from vllm.config import set_current_vllm_config
    from vllm.utils.torch_utils import set_default_torch_dtype

    with set_current_vllm_config(config), set_default_torch_dtype(config.model_config.dtype):
        yield


def learn(model: torch.nn.Module, config: Any, device: torch.device) -> Formats:
    """Traces the layers that pack weights, and judges each move by the engine's memory and its checkpoint.

    No weight is written.
    """
    found = Formats(dict(_reshaped(model)), {}, {})
    known: dict[Any, Any] = {}
    with as_at_load(config), torch.no_grad():
        for path, layer in model.named_modules():
            if packer(layer):
                _trace(path, layer, Recording(model, device), known, found)
        found = _judge(found, lambda moves: _held(model, config, device, moves))
        _attention(model, config.model_config.dtype, found)
        return found
