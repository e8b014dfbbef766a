"""What this library and this host have."""

from __future__ import annotations

from typing import Any, Callable

from . import _records
from ._library import NULL, check, ffi, lib
from ._records import Device, Provider


def _listed(struct: str, call: Callable[[Any, int, Any], int], read: Callable[[Any], Any]) -> list[Any]:
    count, capacity = ffi.new("size_t *"), 32
    while True:
        out = ffi.new(f"{struct}[]", capacity)
        check(call(out, capacity, count))
        if count[0] <= capacity:
            return [read(out[i]) for i in range(count[0])]
        capacity = int(count[0])


def devices() -> list[Device]:
    """The devices that backends found. A backend without a device has one entry that says why."""
    return _listed("weft_device_info", lib.weft_devices, _records.device_of)


def providers() -> list[Provider]:
    """The providers at each address of this host, or the reason why one cannot be had."""
    return _listed("weft_provider_info", lambda *to: lib.weft_providers(*to, NULL), _records.provider_of)
