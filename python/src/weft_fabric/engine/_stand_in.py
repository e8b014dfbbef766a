"""A tensor without elements that stands for one of a checkpoint while loaders run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator

import torch

from ..errors import TensorError

if TYPE_CHECKING:
    from ._recorder import Recording

# What may be done to a stand-in: views of its elements, and copies that the loader only reads.
_VIEWS = frozenset(
    "__getitem__ narrow select view view_as reshape reshape_as transpose swapaxes t permute movedim squeeze unsqueeze "
    "flatten unflatten chunk split split_with_sizes tensor_split unbind expand expand_as detach data T mT".split()
)
_COPIES = frozenset("contiguous clone to cpu cuda type_as".split())
_PLAIN = (bool, int, float, str, type(None), torch.Size, torch.dtype, torch.device, torch.layout)
_WRITES = re.compile(r"__i\w+__|[a-z]\w*_|__set\w*__|__del\w*__")  # operations that write to what they are called on


def _name(func: Any) -> str:
    """The name of a method, or of the property that it gets."""
    name = getattr(func, "__name__", str(func))
    return str(getattr(getattr(func, "__self__", None), "__name__", name)) if name == "__get__" else str(name)


def _stand_ins_in(value: Any) -> Iterator[StandIn]:
    """Those among arguments, in lists and dictionaries too."""
    if isinstance(value, StandIn):
        yield value
    elif isinstance(value, (tuple, list, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _stand_ins_in(one)


def _on_meta(value: Any) -> Any:
    """Arguments with stand-ins as what these show, and other tensors without elements."""
    if isinstance(value, StandIn):
        return value.elements
    if isinstance(value, torch.Tensor):
        return value.to("meta")
    if type(value) is dict:
        return {key: _on_meta(one) for key, one in value.items()}
    return type(value)(map(_on_meta, value)) if type(value) in (tuple, list) else value


class StandIn(torch.Tensor):
    """Stands for elements of a checkpoint tensor. `elements` is a view, on the device meta, of the whole tensor. One
    that is not `exact` stands for what was computed from the tensors `names`."""

    tensor_name: str
    names: frozenset[str]
    exact: bool
    elements: torch.Tensor
    recording: Recording

    @staticmethod
    def of(name: str, elements: torch.Tensor, recording: Recording, names: Iterable[str] = ()) -> StandIn:
        stand_in: StandIn = torch.Tensor._make_subclass(StandIn, elements)
        stand_in.tensor_name, stand_in.elements, stand_in.recording = name, elements, recording
        stand_in.names, stand_in.exact = frozenset(names) or frozenset((name,)), not names
        return stand_in

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = list(_stand_ins_in((*args, *kwargs.values())))
        with torch._C.DisableTorchFunctionSubclass():
            if not given:
                return func(*args, **kwargs)
            name = _name(func)
            if name == "copy_":
                source = args[1] if len(args) > 1 else kwargs["src"]
                if isinstance(source, StandIn):
                    source.recording.accept(args[0], source)
                    return args[0]
            if name == "__setitem__" and isinstance(args[2], StandIn) and not isinstance(args[0], StandIn):
                args[2].recording.accept(args[0][args[1]], args[2])
                return None
            return given[0]._act(name, func, args, kwargs)

    def _act(self, name: str, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """An operation of a loader on this stand-in."""
        if name == "device":
            return self.recording.device
        if name in _COPIES and args[0] is self:
            return self._copied(name, args[1:], kwargs)
        if name == "__iter__":
            return iter([self._view(x) for x in self.elements.unbind(0)])
        if "out" in kwargs or _WRITES.fullmatch(name):
            raise self._refusal(name)
        try:
            result = func(*_on_meta(args), **_on_meta(kwargs))
        except (RuntimeError, NotImplementedError, TypeError) as error:
            raise self._refusal(name) from error
        if isinstance(result, _PLAIN) or (isinstance(result, tuple) and all(isinstance(x, int) for x in result)):
            return result
        several = isinstance(result, (tuple, list))
        shown = [self._shown(name, x, (args, kwargs)) for x in (result if several else [result])]
        return tuple(shown) if several else shown[0]

    def _view(self, elements: torch.Tensor) -> StandIn:
        return StandIn.of(self.tensor_name, elements, self.recording, () if self.exact else self.names)

    def _shown(self, name: str, elements: torch.Tensor, given: Any) -> StandIn:
        """The result of an operation. One that torch had to copy for has storage of its own: it was computed."""
        if not isinstance(elements, torch.Tensor):
            raise self._refusal(name)
        own = elements.untyped_storage()._cdata == self.elements.untyped_storage()._cdata
        if name in _VIEWS and own and elements.dtype == self.elements.dtype:
            return self._view(elements)
        return self._made(elements, given, self._refusal(name))

    def _made(self, elements: torch.Tensor, given: Any, why: TensorError) -> StandIn:
        names = frozenset().union(*(one.names for one in _stand_ins_in(given)), self.names)
        self.recording.compute(names, why)
        return StandIn.of(self.tensor_name, elements, self.recording, names)

    def _copied(self, name: str, args: Any, kwargs: Any) -> StandIn:
        """A copy that keeps the elements: on another device, or contiguous."""
        wanted = [x for x in (*args, *kwargs.values()) if isinstance(x, (torch.dtype, torch.Tensor))]
        for one in wanted:
            dtype = one if isinstance(one, torch.dtype) else one.dtype
            if dtype != self.elements.dtype:
                why = TensorError(self.tensor_name, f"its loader converts {self.elements.dtype} to {dtype}: publish "
                                                    f"what the engine holds")  # fmt: skip
                return self._made(self.elements.to(dtype), (), why)
        return self._view(self.elements)

    def _refusal(self, name: str) -> TensorError:
        return TensorError(self.tensor_name, f"its loader does '{name}' with it, which only moves of elements can be "
                                             f"recorded through")  # fmt: skip
