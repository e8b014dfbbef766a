"""Versions as files in a folder, which nobody overwrites."""

from __future__ import annotations

import os
import secrets
import time
from typing import Any, NamedTuple, Union

from . import _binding, _records, _wait
from ._callbacks import Carrier, fault_callback
from ._handle import Handle
from ._layout import Layout, Named, mapping_of
from ._library import NULL, check, ffi, lib, sized
from ._records import Fault, Moved, Stored, Update, Version
from ._update import Progress, worked

Which = Union[int, Version]
_LOOK_MS = 1000  # Ctrl-C ends a wait for a folder at once, and one for an object server after so long


class Kept(NamedTuple):
    """What Store.trim leaves: 0 stands for any number of versions and bytes, and for any age in seconds."""

    versions: int = 0
    bytes: int = 0
    age_s: int = 0
    grace_s: int = 3600


def _label(which: Which) -> Any:
    """A version for C: a number is that of the last run that has it."""
    out = ffi.new("weft_version *")
    out.run, out.number = (0, which) if isinstance(which, int) else (which.run, which.number)
    return out


class Store:
    """The versions of a folder (docs/STORE.md): of `[trainer] store`, of `weft put`, or of put(). One thread at a time
    calls it. Close it, or use it in a `with` block.

    >>> import tempfile, numpy, weft_fabric as weft
    >>> old = {"w": numpy.zeros(1000, numpy.float32)}
    >>> new = {"w": numpy.ones(1000, numpy.float32)}
    >>> folder = tempfile.TemporaryDirectory()
    >>> with weft.Store(folder.name) as store:
    ...     _ = store.put(old, 120)
    ...     _ = store.put(new, 121, base=old)
    ...     store.apply(old, 121).files
    1
    >>> bool((old["w"] == new["w"]).all())
    True
    """

    def __init__(self, folder: str | os.PathLike[str], *, create: bool = False, anchors: int = 0) -> None:
        options, out = sized("weft_store_options"), ffi.new("weft_store **")
        options.create, options.anchors = create, anchors
        check(lib.weft_store_open(os.fsencode(folder), options, out))
        self._handle = Handle(out[0], "the store", lib.weft_store_close)

    def refresh(self) -> None:
        """Looks for what others wrote since."""
        with self._handle as store:
            check(lib.weft_store_refresh(store))

    def wait(self, timeout: float | None = None) -> bool:
        """Refreshes the store until it has other files than before; False: none came in `timeout` seconds. A folder tells
        at once what is written on this host, and all else is looked at after up to a second."""
        deadline = _wait.Deadline(timeout)
        while True:
            with self._handle as store:
                status = check(lib.weft_store_wait(store, deadline.slice(_LOOK_MS)))
            if status == lib.WEFT_OK:
                return True
            if deadline.passed():
                return False

    def view(self, boxes: _binding.Blocks, layout: Layout) -> None:
        """Has the store be that of one process of many: a version is there as soon as the sources that the boxes need have
        written it. `layout` is the whole model's."""
        slices = boxes.slices
        with self._handle as store:
            check(lib.weft_store_view(store, layout._pointer, ffi.from_buffer("weft_slice[]", slices), len(slices)))

    @property
    def versions(self) -> list[Stored]:
        """The versions by run and number, rising."""
        count = ffi.new("size_t *")
        with self._handle as store:
            check(lib.weft_store_list(store, NULL, 0, count))
            out = ffi.new("weft_store_entry[]", max(1, count[0]))
            check(lib.weft_store_list(store, out, count[0], count))
        return [_records.stored_of(out[i]) for i in range(count[0])]

    def layout(self, which: Which) -> Layout:
        """The layout of a version."""
        out = ffi.new("weft_layout **")
        with self._handle as store:
            check(lib.weft_store_layout(store, _label(which), out))
        return Layout._of_pointer(ffi.gc(out[0], lib.weft_layout_free))

    def attachment(self, which: Which) -> bytes | None:
        """The attachment of a version, or None."""
        version, count = _label(which), ffi.new("uint64_t *")
        with self._handle as store:
            check(lib.weft_store_attachment(store, version, NULL, 0, count))
            room = ffi.new("char[]", max(1, count[0]))
            check(lib.weft_store_attachment(store, version, room, count[0], count))
        return bytes(ffi.buffer(room, count[0])) if count[0] else None

    def apply(self, named: Named | _binding.Blocks, which: Which, *, layout: Layout | None = None, threads: int = 0,
              progress: Progress | None = None) -> Moved:  # fmt: skip
        """Moves weights to a version, in place, by the files that take the fewest bytes. Weights of the store go forward
        or back by updates; all others are overwritten from an anchor. All files are proved before a weight changes, so
        the weights are what they were after an error.

        weft.Blocks are the weights of one process of many, of a store that trainers with cuts or of several sources
        wrote; `layout` is then the whole model's, which is the store's if it is left out."""
        blocks = isinstance(named, _binding.Blocks)
        given = named if isinstance(named, _binding.Blocks) else mapping_of(named)
        if layout is None:
            layout = self.layout(which) if isinstance(given, _binding.Blocks) else Layout(given)
        bound, info, version = _binding.bind(layout, given, True), sized("weft_store_info"), _label(which)
        function, pointer = lib.weft_store_apply_blocks if blocks else lib.weft_store_apply, layout._pointer

        def call(sink: Any, work: Any) -> int:
            return int(function(store, version, pointer, bound.c, bound.count, work, info))

        with self._handle as store:
            worked(call, threads, progress)
        return _records.moved_of(info)

    def put(self, named: Named, number: int, *, base: Named | None = None, attachment: Any = None,
            level: str = "fast", layout: Layout | None = None, threads: int = 0,
            progress: Progress | None = None) -> Update:  # fmt: skip
        """Writes a version: the update from the last version, whose weights are `base`, and an anchor where one is due.
        Level "tight" writes a smaller update beside it, for readers that go forward. Without `base` an anchor alone.
        The first version begins a run, and all later ones go on in the last run."""
        given = mapping_of(named)
        layout = layout if layout is not None else Layout(given)
        before = None if base is None else _binding.bind(layout, mapping_of(base), False)
        after, last = _binding.bind(layout, given, False), self.versions[-1:]
        options, info = sized("weft_store_put_options"), sized("weft_update_info")
        options.target.run = last[0].version.run if last else int(time.time()) << 32 | secrets.randbits(32) | 1
        options.target.number = number
        if before is not None and last:
            options.base.run, options.base.number = last[0].version.run, last[0].version.number
        name = ffi.new("char[]", level.encode())
        options.level = name
        data = None if attachment is None else ffi.from_buffer(attachment)
        if data is not None:
            options.attachment, options.attachment_bytes = data, len(data)

        def call(sink: Any, work: Any) -> int:
            old, count = (NULL, 0) if before is None else (before.c, before.count)
            return int(
                lib.weft_store_put(store, layout._pointer, old, count, after.c, after.count, options, work, info)
            )

        with self._handle as store:
            worked(call, threads, progress)
        return _records.update_of(info)

    def check(self, *, threads: int = 0, progress: Progress | None = None) -> list[Fault]:
        """Proves every file against weights. Needs memory for the weights."""
        carrier, found, count = Carrier(), [], ffi.new("uint64_t *")
        report = fault_callback(carrier, lambda fault: found.append(_records.fault_of(fault)))

        def call(sink: Any, work: Any) -> int:
            return int(lib.weft_store_check(store, work, report, NULL, count))

        with self._handle as store:
            worked(call, threads, progress)
        return found

    def trim(self, keep: Kept) -> int:
        """Removes the oldest versions until the rest is within all bounds; returns their number. All before an anchor
        goes, so that all that stays can be read."""
        bounds, removed = sized("weft_store_keep"), ffi.new("uint64_t *")
        for name, value in keep._asdict().items():
            setattr(bounds, name, value)
        with self._handle as store:
            check(lib.weft_store_trim(store, bounds, removed))
        return int(removed[0])

    def close(self) -> None:
        """Gives the folder back. A second call does nothing. CallError: a call runs, and nothing was closed."""
        self._handle.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<Store, closed>" if self._handle.closed else f"<Store of {len(self.versions)} versions>"
