"""What differs between the frameworks of engines, as data and a few functions."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, ContextManager, Iterable, Mapping, NamedTuple, Optional, Tuple

import torch

Weights = Iterable[Tuple[str, torch.Tensor]]
Metas = Mapping[str, torch.Tensor]


def _nothing(*_: Any) -> None:
    return None


class Framework(NamedTuple):
    """Of one engine. A method is the object that processes a layer's weights after they were loaded.

    owned       packages whose objects processing may write to
    computed    names of what weights are computed into, where no memory says that no loader fills it, or where no
                parameter has it
    left_out    parameters that the memory of model formats leaves out: processing takes these as they are
    remembered  a layer's parameters before weights came, on the device meta; None: nobody remembers them
    packer      the method of a layer that leaves weights in another form than loaders do, or None
    refused     why a module cannot be updated in place, or None
    advice      what to do about a layer that is refused because nobody can tell its packing
    context     what processing finds set at the load
    checkpoint  what the engine was loaded with, once more
    dummy       has a parameter hold what a load without a checkpoint makes up; None: there is a checkpoint
    dtype       of the model, which attention's processing is called with
    finish      what a copy of the module at a path computes tensors by after all layers, where no method of the
                module's own does; None: nothing does
    """

    owned: tuple[str, ...] = ()
    computed: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()
    remembered: Callable[[torch.nn.Module], Optional[Metas]] = _nothing
    packer: Callable[[torch.nn.Module], Any] = _nothing
    refused: Callable[[torch.nn.Module], Optional[str]] = _nothing
    advice: Callable[[torch.nn.Module], str] = lambda layer: ""
    context: Callable[[], ContextManager[Any]] = contextlib.nullcontext
    checkpoint: Callable[[], Weights] = lambda: ()
    dummy: Callable[[torch.Tensor], None] | None = None
    dtype: torch.dtype = torch.bfloat16
    finish: Callable[[str], Optional[Callable[[Any], None]]] = _nothing

    def process(self, layer: Any) -> None:
        """Has a layer's weights processed as at the load."""
        self.packer(layer).process_weights_after_loading(layer)

    def finished_by(self, path: str, module: Any) -> Callable[[Any], None] | None:
        """What a copy of a module computes tensors by after all layers; None: nothing does."""
        if hasattr(type(module), "process_weights_after_loading"):
            return lambda scratch: scratch.process_weights_after_loading(self.dtype)
        return self.finish(path)
