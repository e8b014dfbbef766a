"""Updates as files: the same bytes for disks, object stores and links of the caller's own."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import Any, BinaryIO, Callable, Iterable, NamedTuple, Union

from . import _binding, _records, _wait
from ._callbacks import Carrier, sink_of, work_of
from ._handle import Handle
from ._layout import Layout, Named, mapping_of
from ._library import NULL, check, ffi, lib, sized
from ._records import Applied, Header, Update

Progress = Callable[[int, int], Any]
Target = Union[str, "os.PathLike[str]", BinaryIO]


class Changes(NamedTuple):
    """Changes of one tensor by an update. `exact` is False where `changed` is the most that can have changed."""

    name: str
    changed: int
    bytes: float
    exact: bool


def worked(call: Callable[[Any, Any], int], threads: int, progress: Progress | None, memory: int = 0,
           to: BinaryIO | None = None) -> None:  # fmt: skip
    """Makes a call with a sink (NULL without `to`) and a weft_work. Ctrl-C ends it; callbacks' exceptions come out."""
    carrier = Carrier()
    work, keep_work = work_of(carrier, threads, progress, memory)
    sink, keep_sink = sink_of(carrier, to) if to is not None else (NULL, None)

    def run(keep: Any = (keep_work, keep_sink)) -> None:
        carrier.finish(call(sink, work))

    _wait.interruptible(run, carrier.stop)


def _written(to: Target, write: Callable[[BinaryIO], None]) -> None:
    """Writes to a file object; a path has all of the bytes, or is as before."""
    if not isinstance(to, (str, os.PathLike)):
        write(to)
        return
    path = os.fspath(to)
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "wb") as file:
            write(file)
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise


def _diff_options(level: str | None, versions: tuple[int, int], attachment: Any, names: str) -> tuple[Any, list[Any]]:
    options = sized("weft_diff_options")
    keep = [ffi.new("char[]", names.encode()), NULL if level is None else ffi.new("char[]", level.encode())]
    options.names, options.level = keep
    options.base.number, options.target.number = versions
    if attachment is not None:
        keep.append(ffi.from_buffer(attachment))
        options.attachment, options.attachment_bytes = keep[-1], len(keep[-1])
    return options, keep


def diff(base: Named, target: Named, to: Target, *, level: str | None = None, versions: tuple[int, int] = (0, 1),
         attachment: Any = None, names: str = "always", layout: Layout | None = None, threads: int = 0,
         progress: Progress | None = None) -> Update:  # fmt: skip
    """Writes the update that turns `base` into `target` to a path or a binary file.

    level     "full", "pairs", "fast" or "tight"; None: "tight"
    versions  numbers of base and target
    names     "always" or "never": whether the file holds the layout's names and shapes
    progress  progress(done, total), possibly on another thread
    """
    before, after = mapping_of(base), mapping_of(target)
    layout = layout if layout is not None else Layout(before)
    old, new = _binding.bind(layout, before, False), _binding.bind(layout, after, False)
    options, keep = _diff_options(level, versions, attachment, names)
    info = sized("weft_update_info")

    def call(sink: Any, work: Any, keep: Any = keep) -> int:
        return int(lib.weft_diff(layout._pointer, old.c, old.count, new.c, new.count, options, work, sink, info))

    _written(to, lambda file: worked(call, threads, progress, to=file))
    return _records.update_of(info)


def merge(updates: Iterable[UpdateFile], to: Target, *, layout: Layout | None = None, base: Named | None = None,
          level: str | None = None, threads: int = 0, progress: Progress | None = None) -> Update:  # fmt: skip
    """Writes one update in place of several that follow each other, from the first base to the last target.

    Updates of level "tight" need the `base`. Without it no weight is read.
    """
    files = list(updates)
    given = None if base is None else mapping_of(base)
    if given is not None and layout is None:
        layout = Layout(given)
    old = None if given is None else _binding.bind(layout, given, False)  # type: ignore[arg-type]
    word = NULL if level is None else ffi.new("char[]", level.encode())
    info = sized("weft_update_info")

    def call(sink: Any, work: Any) -> int:
        where = NULL if layout is None else layout._pointer
        pieces, count = (NULL, 0) if old is None else (old.c, old.count)
        return int(lib.weft_update_merge(pointers, len(files), where, pieces, count, word, work, sink, info))

    with contextlib.ExitStack() as calls:
        pointers = ffi.new("weft_update_file *[]", [calls.enter_context(file._handle) for file in files])
        _written(to, lambda file: worked(call, threads, progress, to=file))
    return _records.update_of(info)


def digest(named: Named, *, layout: Layout | None = None, threads: int = 0, progress: Progress | None = None) -> int:
    """The root digest of weights: two ends hold the same bits if their roots are equal."""
    given = mapping_of(named)
    layout = layout if layout is not None else Layout(given)
    bound, root = _binding.bind(layout, given, False), ffi.new("uint64_t *")

    def call(sink: Any, work: Any) -> int:
        return int(lib.weft_digest_tensors(layout._pointer, bound.c, bound.count, work, NULL, root))

    worked(call, threads, progress)
    return int(root[0])


def _closed(keep: Any, pointer: Any) -> None:
    """Closes a file of C. `keep` is what C reads from until then."""
    lib.weft_update_close(pointer)


class UpdateFile:
    """An update file: a path, or the bytes of one. Opening proves both ends of the file whole; reading proves frames.
    Close it, or use it in a `with` block.

    >>> import io, numpy, weft_fabric as weft
    >>> old = {"w": numpy.zeros(1000, numpy.float32)}
    >>> new = {"w": numpy.ones(1000, numpy.float32)}
    >>> file = io.BytesIO()
    >>> weft.diff(old, new, file).changed
    1000
    >>> with weft.UpdateFile(file.getvalue()) as update:
    ...     update.apply(old).version.number
    1
    >>> bool((old["w"] == new["w"]).all())
    True
    """

    def __init__(self, source: str | os.PathLike[str] | Any) -> None:
        out = ffi.new("weft_update_file **")
        self._keep: Any = None
        if isinstance(source, (str, os.PathLike)):
            check(lib.weft_update_open(os.fsencode(source), NULL, out))
        else:
            check(lib.weft_update_open(NULL, self._source(source), out))
        # Layouts of the file lie in its memory, which lives until the last of them is gone.
        pointer = ffi.gc(out[0], partial(_closed, self._keep))
        self._handle = Handle(pointer, "the update file", lambda pointer: None)
        self.header: Header = self._describe()

    def _source(self, data: Any) -> Any:
        """A weft_source over bytes."""
        held = ffi.from_buffer(data)

        @ffi.callback("weft_status(void *, uint64_t, void *, uint64_t)")
        def read(user: Any, offset: int, to: Any, count: int) -> int:
            if offset + count > len(held):
                return int(lib.WEFT_E_FILE)
            ffi.memmove(to, held + offset, count)
            return int(lib.WEFT_OK)

        self._keep = (held, read)
        return ffi.new("weft_source *", {"user": NULL, "read": read, "bytes": len(held)})

    def _describe(self) -> Header:
        out = sized("weft_update_header")
        with self._handle as update:
            check(lib.weft_update_describe(update, out))
            return _records.header_of(update, out)

    @property
    def layout(self) -> Layout:
        """The layout that the file carries. Without names in the file the tensors are called "#0", "#1" and so on."""
        out, named = ffi.new("const weft_layout **"), ffi.new("int *")
        with self._handle as update:
            check(lib.weft_update_layout(update, out, named))
            return Layout._of_pointer(ffi.cast("weft_layout *", out[0]), update)

    @property
    def attachment(self) -> bytes | None:
        """The attachment, or None."""
        count = ffi.new("uint64_t *")
        room = ffi.new("char[]", max(1, self.header.attachment_bytes))
        with self._handle as update:
            check(lib.weft_update_attachment(update, room, self.header.attachment_bytes, count))
        return bytes(ffi.buffer(room, count[0])) if count[0] else None

    def changes(self, named: Named | None = None, layout: Layout | None = None) -> list[Changes]:
        """The changes of each tensor. With the base's weights the numbers are exact, and the base is proved."""
        layout = layout if layout is not None else self.layout
        bound = None if named is None else _binding.bind(layout, mapping_of(named), False)
        out, exact = ffi.new("weft_update_tensor[]", len(layout)), ffi.new("int *")
        pieces, count = (NULL, 0) if bound is None else (bound.c, bound.count)
        with self._handle as update:
            check(lib.weft_update_tensors(update, layout._pointer, pieces, count, out, exact))
        return [Changes(spec.name, c.changed, c.bytes, bool(exact[0])) for spec, c in zip(layout.tensors, out)]

    def apply(self, named: Named, *, layout: Layout | None = None, threads: int = 0, memory: int = 0,
              progress: Progress | None = None) -> Applied:  # fmt: skip
        """Moves weights from the update's base to its target, in place, every tensor or none. `memory` bounds the list
        of changes, in bytes; 0: 1 GiB."""
        given = mapping_of(named)
        layout = layout if layout is not None else Layout(given)
        bound, info = _binding.bind(layout, given, True), sized("weft_apply_info")

        def call(sink: Any, work: Any) -> int:
            return int(lib.weft_update_apply(update, layout._pointer, bound.c, bound.count, work, info))

        with self._handle as update:
            worked(call, threads, progress, memory)
        return _records.applied_of(info)

    def invert(self, to: Target, *, base: Named | None = None, layout: Layout | None = None, level: str | None = None,
               attachment: Any = None, threads: int = 0, progress: Progress | None = None) -> Update:  # fmt: skip
        """Writes the update that leads back. Level "fast" needs no `base`; others do. An update that brings an
        attachment needs the base's."""
        given = None if base is None else mapping_of(base)
        layout = layout if layout is not None else None if given is None else Layout(given)
        old = None if given is None else _binding.bind(layout, given, False)  # type: ignore[arg-type]
        word = NULL if level is None else ffi.new("char[]", level.encode())
        data = NULL if attachment is None else ffi.from_buffer(attachment)
        info, size = sized("weft_update_info"), 0 if attachment is None else len(data)

        def call(sink: Any, work: Any) -> int:
            where = NULL if layout is None else layout._pointer
            pieces, count = (NULL, 0) if old is None else (old.c, old.count)
            return int(lib.weft_update_invert(update, where, pieces, count, word, data, size, work, sink, info))

        with self._handle as update:
            _written(to, lambda file: worked(call, threads, progress, to=file))
        return _records.update_of(info)

    def rewrite(self, named: Named, to: Target, *, layout: Layout | None = None, threads: int = 0,
                progress: Progress | None = None) -> Applied:  # fmt: skip
        """Writes the target: every tensor's bytes in layout order, nothing in between. The base is only read."""
        given = mapping_of(named)
        layout = layout if layout is not None else Layout(given)
        bound, info = _binding.bind(layout, given, False), sized("weft_apply_info")

        def call(sink: Any, work: Any) -> int:
            return int(lib.weft_update_rewrite(update, layout._pointer, bound.c, bound.count, work, sink, info))

        with self._handle as update:
            _written(to, lambda file: worked(call, threads, progress, to=file))
        return _records.applied_of(info)

    def close(self) -> None:
        """Closes the file. A second call does nothing. CallError: a call runs, and nothing was closed."""
        self._handle.close()

    def __enter__(self) -> UpdateFile:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._handle.closed:
            return "<UpdateFile, closed>"
        return f"<UpdateFile {self.header.base.number} to {self.header.target.number}, {self.header.bytes} bytes>"
