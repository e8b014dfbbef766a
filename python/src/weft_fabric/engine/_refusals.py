"""What is refused by name: engines that an update in place would leave with old copies, without a word."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping

from .._library import lib
from ..errors import CallError


def is_of(method: Any, names: frozenset[str]) -> bool:
    """Whether an object is of a class of that name, or of one that derives from it."""
    return any(base.__name__ in names for base in type(method).__mro__)


def refuse(
    model: Any, reasons: Iterable[str], known: Mapping[str, str | None], of_module: Callable[[Any], str | None]
) -> None:
    """Raises CallError with all reasons why a model cannot be updated in place, and the layers that each is about.

    reasons    those of the engine as a whole
    known      layers that were traced, by name: why that failed, or None
    of_module  why another module cannot be updated in place, or None
    """
    found: dict[str, list[str]] = {why: [] for why in reasons}
    for name, module in model.named_modules():
        why = known[name] if name in known else of_module(module)
        if why:
            found.setdefault(why, []).append(name or type(module).__name__)
    if found:
        lines = [f"{why}{_where(names)}" for why, names in found.items()]
        raise CallError(f"this engine cannot be updated in place: {'; '.join(lines)}", lib.WEFT_E_MISSING, "missing")


def _where(names: list[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f" (layer {names[0]}{more})" if names else ""
