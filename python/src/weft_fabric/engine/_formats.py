"""A layer's two formats: the model format, which loaders fill, and the kernel format, which
process_weights_after_loading leaves and the engine computes with.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Tuple

import torch

from .. import _dtypes
from .._layout import TensorSpec
from ..errors import TensorError
from ._boxes import Copy
from ._derive import FEW, LIMIT, Attention, Derived, Layer, Remade, placed, reloaded
from ._framework import Framework, Metas, Weights
from ._moves import Move, moved
from ._objects import flags, tensors
from ._recorder import Recording, guarded, in_model_format, recorded
from ._trace import Trace, Traced, Untold, like

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


def computed(model: torch.nn.Module, of: Framework) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors that an engine made of weights after the loaders had filled these."""
    for path, layer in model.named_modules():
        names = of.computed & {*vars(layer), *layer._parameters, *layer._buffers}
        metas = of.remembered(layer)
        if metas is not None:
            names |= layer._parameters.keys() - metas.keys() - of.left_out
        for name in sorted(names):
            tensor = getattr(layer, name)
            if isinstance(tensor, torch.Tensor) and tensor.numel():
                yield f"{path}.{name}" if path else name, tensor
        for at, tensor in tensors(getattr(layer, "impl", None), of.owned, ".impl", set()):
            if at.endswith(".sinks") and tensor.numel():  # of attention, which may have a wider copy
                yield f"{path}{at}", tensor


def _metas(layer: torch.nn.Module, of: Framework) -> Metas:
    metas = of.remembered(layer)
    if metas is None:
        raise Untold("nobody that weft knows remembers what it was like before its weights came")
    return metas


def _reshaped(model: torch.nn.Module, of: Framework) -> Iterator[tuple[str, str]]:
    """Layers that nothing else refuses, and that have a parameter in another shape than loaders fill; and why."""
    for path, layer in model.named_modules():
        for name, meta in ({} if of.refused(layer) else of.remembered(layer) or {}).items():
            live = layer._parameters.get(name)
            if live is not None and live.shape != meta.shape:
                yield path, f"its {name} is {tuple(live.shape)} in the engine, and loaders fill {tuple(meta.shape)}"


def _rest(layer: torch.nn.Module, metas: Metas, of: Framework) -> list[str]:
    """Parameters that the memory leaves out."""
    return sorted(of.left_out & layer._parameters.keys() - metas.keys())


def _traced(layer: torch.nn.Module, metas: Metas, of: Framework) -> Traced:
    found = Trace(layer, metas, _rest(layer, metas, of), of.owned, of.process).trace()
    size, whole = (sum(metas[name].nbytes for name in names) for names in (found.others, metas))
    if size > max(FEW, whole // 16) or (found.others and not found.made):
        raise Untold("; ".join(found.others.values()))
    return found


def _kind(layer: Any, metas: Metas, of: Framework) -> Any:
    """What layers that are packed alike have in common."""
    live = {n: p for n, p in layer._parameters.items() if p is not None}
    beside = [(at, one.shape, one.dtype) for at, one in tensors(layer, of.owned, "", set())]
    shapes = [(n, t.shape, t.dtype) for n, t in metas.items()]
    shapes += [(n, p.shape, p.dtype, p.stride()) for n, p in live.items()]
    return (
        type(layer),
        type(of.packer(layer)),
        type(getattr(layer, "scheme", None)),
        (*shapes, *beside, *flags(layer, of.owned)),
    )


def _tried(layer: torch.nn.Module, metas: Metas, model: Recording, of: Framework) -> Any:
    """The digits of each parameter, or why there are none: either is of all layers that are packed alike."""
    try:
        if "process_weights_after_loading" in getattr(of.packer(layer), "__dict__", {}):
            raise Untold("its processing was replaced by a function, which may write to other layers")
        model.watch(tensors(layer, of.owned, "", set()))
        with guarded(model):
            return _traced(layer, metas, of)
    except Exception as error:
        return error


def _trace(
    path: str, layer: torch.nn.Module, model: Recording, known: dict[Any, Any], found: Formats, of: Framework
) -> None:
    try:
        metas = _metas(layer, of)
        kind = _kind(layer, metas, of)
        if kind not in known:
            known[kind] = _tried(layer, metas, model, of)
        if isinstance(known[kind], Exception):
            raise known[kind]
        _add(path, layer, metas, known[kind], found, of)
    except Exception as error:  # of the framework's own code too: the engine then serves, and weft refuses the layer
        found.layers[path] = f"its weights are packed, and nobody can say how: {_text(error)}{of.advice(layer)}"


def _add(path: str, layer: torch.nn.Module, metas: Metas, traced: Traced, found: Formats, of: Framework) -> None:
    device = next(tensor.device for tensor in layer.parameters())
    own = {
        name: Move(layer, name, metas[name], digits, False, traced.padding.get(name))
        for name, digits in traced.moved.items()
    }
    size = sum(tensor.nbytes for tensor in found.kept()) + sum(metas[name].nbytes for name in traced.others)
    if size > LIMIT:
        raise Untold(f"with it weft would keep {size >> 20} MB of copies")
    own.update({name: Move(layer, name, like(metas[name], device), (), True) for name in traced.others})
    found.moves.update({f"{path}.{name}": move for name, move in own.items()})
    found.layers[path] = None
    if traced.made:
        found.steps[path] = Layer(path, layer, own, _rest(layer, metas, of), traced.made, of.owned, of.process)


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


def _of_dummy(device: torch.device, moves: Moves, fill: Callable[[torch.Tensor], None]) -> Iterator[Elements]:
    """Without a checkpoint each parameter of the model format has made-up values, which its shape tells."""
    for name, move in moves.items():
        tensor = like(move.model, device)
        fill(tensor)
        if move.padding is not None:
            tensor.data.view(-1, len(move.padding))[:, move.padding.to(device)] = 0
        copy = Copy(name, 0, tuple(tensor.shape), tensor.stride(), 0, tensor.stride(), tensor.element_size(), name)
        if move.kept:
            yield name, [Remade(name, move.model.data, tensor.data)]
        else:
            live = getattr(move.layer, move.name)
            yield name, [placed(part, tensor.data, live) for part in moved([copy], moves)]


def _held(model: torch.nn.Module, of: Framework, device: torch.device, moves: Moves) -> Iterator[Elements]:
    """What the engine was loaded with, and where it has that."""
    if of.dummy:
        return _of_dummy(device, moves, of.dummy)
    return _of_checkpoint(of.checkpoint, model, device, moves)


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
    return wrong | {name for name, count in left.items() if count not in (0, _padding(moves[name]))}


def _padding(move: Move) -> int:
    """How many elements of a parameter are padding, which a checkpoint does not have."""
    return 0 if move.padding is None else int(move.padding.sum()) * (move.model.numel() // len(move.padding))


def _judge(found: Formats, held: Callable[[Moves], Iterable[Elements]]) -> Formats:
    """Without layers whose moves the engine's own memory belies, and those that compute other bits than it has."""
    why = {}
    text = "the engine has other bits than it was loaded with"
    try:
        wrong = _wrong(found.moves, held(found.moves)) if found.moves else set()
    except Exception as error:  # of the framework's own code too
        wrong, text = set(found.moves), _text(error)
    why.update({name.rpartition(".")[0]: text for name in wrong})
    steps = {path: _lighter(step) for path, step in found.steps.items() if path not in why}
    for path, step in steps.items():
        fault = _fault(step)
        if fault:
            why[path] = fault
    layers = {path: f"its weights are packed, and no move explains them: {text}" for path, text in why.items()}
    moves = {name: move for name, move in found.moves.items() if name.rpartition(".")[0] not in layers}
    steps = {path: step for path, step in steps.items() if path not in layers}
    return Formats({**found.layers, **layers}, moves, steps)


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _fault(step: Layer | Attention) -> str:
    """Why a step does not make what the engine has, "" if it does."""
    try:
        wrong = Derived([step.step]).wrong()
    except Exception as error:  # of the framework's own code too
        return _text(error)
    return f"the engine has another {wrong[0]} than its own code computes" if wrong else ""


def _lighter(step: Layer | Attention) -> Layer | Attention:
    """A layer's step without the elements that only move, where it makes what the engine has without them."""
    light = step._replace(light=True) if isinstance(step, Layer) else step
    return step if _fault(light) else light


def _attention(model: torch.nn.Module, found: Formats, of: Framework) -> None:
    """Adds modules that compute tensors by themselves after all layers, if they compute what the engine has."""
    made: dict[str, list[str]] = {}
    modules, every = dict(model.named_modules()), dict(computed(model, of))
    filled = {p.untyped_storage()._cdata for name, p in model.named_parameters() if name not in every}
    for name, tensor in every.items():
        path = name.partition(".impl.")[0] if ".impl." in name else name.rpartition(".")[0]
        computes = path not in found.layers and of.finished_by(path, modules[path])
        if computes and tensor.untyped_storage()._cdata not in filled:
            made.setdefault(path, []).append(name[len(path) :])
    for path, names in made.items():
        process = of.finished_by(path, modules[path])
        assert process is not None
        step = Attention(path, modules[path], names, of.owned, process)
        try:
            recording = Recording(model, torch.device("cpu"))
            recording.watch(tensors(modules[path], of.owned, "", set()))
            recording.watch(every.items())
            with guarded(recording):
                fault = _fault(step)
        except TensorError:  # it would write to the model
            continue
        if not fault:  # else the tensors are judged by where they lie
            found.steps[path] = step


def learn(model: torch.nn.Module, of: Framework, device: torch.device) -> Formats:
    """Traces the layers that pack weights, and judges each move by the engine's memory and its checkpoint.

    No weight is written.
    """
    found = Formats(dict(_reshaped(model, of)), {}, {})
    known: dict[Any, Any] = {}
    with of.context(), torch.no_grad():
        for path, layer in model.named_modules():
            if of.packer(layer):
                _trace(path, layer, Recording(model, device), known, found, of)
        found = _judge(found, lambda moves: _held(model, of, device, moves))
        _attention(model, found, of)
        return found
