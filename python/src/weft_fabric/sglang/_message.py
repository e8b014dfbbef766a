"""What goes to the processes of an engine: a verb and its fields, where SGLang expects named tensors."""

from __future__ import annotations

import json
from typing import Any, Sequence

from .._library import lib
from ..errors import CallError

LOADER = "weft_fabric.sglang.load"


def message(verb: str, **body: Any) -> list[tuple[str, str]]:
    """What update_weights_from_tensor takes for load_format=LOADER: "open" with Init's fields, "stage" and "commit"
    with Update's, "held" or "close". It goes outside begin_weight_update and end_weight_update."""
    return [("weft", json.dumps([verb, body]))]


def order(given: Sequence[tuple[str, Any]]) -> tuple[str, dict[str, Any]]:
    """The verb and what goes with it."""
    try:
        ((name, text),) = given
        verb, body = json.loads(text)
    except (TypeError, ValueError):
        name = verb = ""
    if name != "weft" or verb not in ("open", "stage", "commit", "held", "close"):
        raise CallError(f"{LOADER} takes what weft.sglang.message makes", lib.WEFT_E_ARGUMENT, "argument")
    return verb, body


def order_of(request: Any) -> tuple[str, dict[str, Any]]:
    """order() of what SGLang's processes send each other. All processes get the same."""
    from sglang.srt.utils import MultiprocessingSerializer

    return order(MultiprocessingSerializer.deserialize(request.serialized_named_tensors[0]))
