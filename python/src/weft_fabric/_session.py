"""Session: what trainer and rollout have in common."""

from __future__ import annotations

import asyncio
import sys
import warnings
from typing import Any, AsyncIterator, Callable, Iterator, Optional, Sequence, Tuple, TypeVar

from . import _binding, _dtypes, _records, _wait
from ._aside import aside
from ._callbacks import Carrier, log_callback
from ._handle import SessionHandle
from ._layout import Layout
from ._library import NULL, check, failure, ffi, lib, sized
from ._records import Event, Peer, Stats, Version
from ._site import Site
from .errors import CallError, ClosedError, Error, TensorError

Log = Callable[[str, str], Any]
Result = TypeVar("Result")

Sources = Sequence[Tuple[Optional[str], Any]]  # address, slices


def _options(log: Any, slices: Any, sources: Sources, values: dict[str, int]) -> tuple[Any, list[Any]]:
    """The options for C, and what they point to."""
    options = sized("weft_options")
    keep = []
    for name, value in values.items():
        setattr(options, name, value)
    if log is not None:
        options.log = log
    if slices is not None:
        keep.append(ffi.from_buffer("weft_slice[]", slices))
        options.slices, options.slice_count = keep[-1], len(slices)
    array = ffi.new("weft_trainer_source[]", len(sources))
    for source, (address, own) in zip(array, sources):
        word = NULL if address is None else ffi.new("char[]", address.encode())
        boxes = ffi.from_buffer("weft_slice[]", own)
        source.slices, source.slice_count, source.address = boxes, len(own), word
        keep += [word, boxes]
    options.sources, options.source_count = array, len(sources)
    return options, [array, keep]


def _boxes(named: Any, what: str) -> Any:
    """The slices of weft.Blocks."""
    if not isinstance(named, _binding.Blocks):
        raise CallError(f"{what}: give the boxes as weft.Blocks", lib.WEFT_E_ARGUMENT, "argument")
    return named.slices


def _device_of(named: Any) -> int:
    """The number of the device that has the tensors, and 1; 0: no device says a number. The thread that opens a session
    may have another device current, or none."""
    first = next(iter(named.values()), None) if isinstance(named, dict) else named
    kind, _, number = str(getattr(first, "device", "")).partition(":")
    return int(number) + 1 if kind == "cuda" and number.isdigit() else 0


def _bytes_of(attachment: Any) -> tuple[Any, int]:
    """An attachment for C: its bytes and their number."""
    if attachment is None:
        return NULL, 0
    held = ffi.from_buffer(attachment)
    return held, len(held)


def _state(text: str) -> CallError:
    return CallError(text, lib.WEFT_E_STATE, "state")


class Session:
    """One open end. Close it, or use it in a `with` block. One thread at a time calls it. Any thread may call held,
    stats(), peers() and interrupt()."""

    _written = False  # whether weft writes the bound tensors

    def __init__(
        self,
        site: Any,
        named: _binding.Bindable | None,
        layout: Layout | None,
        open_: Callable[[Any, Any, Any, Any], int],
        what: str,
        log: Log | None,
        slices: Any = None,
        sources: Sources = (),
        cast: Any = None,
        **values: int,
    ) -> None:
        if layout is None and (named is None or isinstance(named, (_binding.Pieces, _binding.Blocks))):
            raise CallError("give the layout: it cannot be read from no tensors", lib.WEFT_E_ARGUMENT, "argument")
        self.site = Site.of(site)
        self._cast = _dtypes.of_cast(cast)
        self.layout = layout if layout is not None else Layout(named, cast)  # type: ignore[arg-type]
        self._carrier = Carrier()
        self._on_line = None if log is None else log_callback(self._carrier, log)
        self._binding: _binding.Binding | None = None
        options = _options(self._on_line, slices, sources, {"device": _device_of(named), **values})
        self._handle = SessionHandle(self._open(open_, options), what)

    def _open(self, open_: Callable[[Any, Any, Any, Any], int], given: tuple[Any, list[Any]]) -> Any:
        out = ffi.new("weft_session **")

        def call() -> Any:
            options, _kept = given  # held here, because Ctrl-C leaves the call to end by itself
            with self.site.told():
                check(open_(self.site._pointer, self.layout._pointer, options, out))
            return out[0]

        return _wait.interruptible(call, drop=lib.weft_close)

    def _bind_or_close(self, named: _binding.Bindable | None, attachment: Any, empty: bool) -> None:
        """The first bind, of a constructor: a session that is not bound is nobody's."""
        if named is None:
            return
        try:
            self._bind(named, attachment, empty)
        except BaseException:
            self._handle.close()
            raise

    def _bind(self, named: _binding.Bindable, attachment: Any, empty: bool) -> None:
        binding = _binding.bind(self.layout, named, self._written, self._cast)
        self._check_device(binding)
        data, count = _bytes_of(attachment)
        flags = lib.WEFT_BIND_EMPTY if empty else 0
        with self._handle as session:
            call = lib.weft_bind_blocks if binding.by_blocks else lib.weft_bind
            check(call(session, binding.c, binding.count, data, count, flags))
        self._binding = binding

    def unbind(self) -> None:
        """Lets go of the tensors, so that their memory can be given away. After the call weft touches none of them, and
        `held` goes on to name the version.

        A trainer's peers are served as before, and publish() waits for the next bind(), which takes any bits. A rollout
        leaves the trainer. bind() brings it back: with the same bits, or `empty`."""
        with self._handle as session:
            check(lib.weft_unbind(session))
        self._binding = None

    def _check_device(self, binding: _binding.Binding) -> None:
        """Memory of a device is no memory of a session that works on the host: a touch would end the process."""
        backend = self.stats().backend
        if binding.count and not binding.device.startswith("cpu") and backend.startswith("host"):
            table = binding.pieces.table
            number = table["slice"]["tensor"][0] if binding.by_blocks else table["tensor"][0]
            raise TensorError(
                self.layout.tensors[int(number)].name,
                f"on {binding.device}, and this session's backend is {backend}: let the site's backend be auto or that "
                "of the device, or bind tensors of the host",
            )

    def _bound(self) -> _binding.Binding:
        """The binding, with each tensor where it was bound."""
        if self._binding is None:
            with self._handle:  # one that is closed says so
                pass
            raise _state("no tensors are bound: call bind first")
        self._binding.check_still_there()
        return self._binding

    def _stream(self, binding: _binding.Binding, stream: Any) -> Any:
        """The device stream to order against: the one given, else torch's current one."""
        if stream is None:
            torch = sys.modules.get("torch")
            if torch is None or not binding.device.startswith("cuda"):
                return NULL
            stream = torch.cuda.current_stream(binding.device if ":" in binding.device else None)
        return ffi.cast("void *", int(getattr(stream, "cuda_stream", stream)))

    # ---- what is here

    @property
    def held(self) -> Version | None:
        """The version held now (trainer: published last), or None. Any thread."""
        out = ffi.new("weft_version *")
        with self._handle as session:
            status = lib.weft_held(session, out)
            if status == lib.WEFT_E_STATE:
                return None
            check(status)
        return _records.version_of(out)

    def stats(self) -> Stats:
        """Figures of the session. Any thread."""
        out = sized("weft_stats_info")
        with self._handle as session:
            check(lib.weft_stats(session, out))
        return _records.stats_of(out)

    def peers(self) -> list[Peer]:
        """Trainer: every peer seen in this run. Rollout: the rollout itself. Any thread."""
        count, capacity = ffi.new("size_t *"), 16
        while True:
            out = ffi.new("weft_peer_info[]", capacity)
            out[0].size = ffi.sizeof("weft_peer_info")
            with self._handle as session:
                check(lib.weft_peers(session, out, capacity, count))
            if count[0] <= capacity:
                return [_records.peer_of(out[i]) for i in range(count[0])]
            capacity = int(count[0])

    @property
    def attachment(self) -> bytes | None:
        """The attachment of the version held (trainer: published last), or None."""
        data, count = ffi.new("const void **"), ffi.new("uint64_t *")
        with self._handle as session:
            check(lib.weft_attachment(session, data, count))
            return bytes(ffi.buffer(data[0], count[0])) if data[0] != NULL else None

    # ---- events

    def _event(self) -> Event | None:
        out = sized("weft_event")
        with self._handle as session:
            status = lib.weft_events(session, out)
        self._carrier.finish(lib.WEFT_OK)  # what the log callback raised
        if status == lib.WEFT_AGAIN:
            return None
        check(status)
        return _records.event_of(out)

    def events(self, timeout: float | None = 0.0) -> Iterator[Event]:
        """Takes events off the session's ring, until none comes for `timeout` seconds; None: until interrupt().

        Hands waiting lines of the log to the log callback, too.
        """
        deadline = _wait.Deadline(timeout)
        while True:
            event = self._event()
            if event is not None:
                yield event
                deadline = _wait.Deadline(timeout)
            elif deadline.passed() or self._handle.take_interrupt():
                return
            else:
                self._rest(deadline)

    async def events_async(self) -> AsyncIterator[Event]:
        """Events as they come, until the session is closed."""
        while not self._handle.closed:
            try:
                event = self._event()
            except ClosedError:
                return
            if event is not None:
                yield event
            else:
                await asyncio.sleep(_wait.SLICE_MS / 1000)

    def _rest(self, deadline: _wait.Deadline) -> None:
        """A slice of waiting in which a session with manual progress makes progress."""
        ms = deadline.slice()
        if self._manual:
            self.progress(ms / 1000)
        else:
            _wait.sleep(ms)

    @property
    def _manual(self) -> bool:
        return self.site.get("session.progress") == "manual"

    def progress(self, timeout: float = 0.0) -> None:
        """Makes progress by hand, for a site with `[session] progress = manual`. Ctrl-C ends the wait."""
        deadline = _wait.Deadline(timeout)
        while True:
            with self._handle as session:
                status = lib.weft_progress(session, deadline.slice())
                self._carrier.finish(status)
            if deadline.passed() or not self._manual:
                return

    # ---- waiting and closing

    def interrupt(self) -> None:
        """Ends the wait that is running on another thread, or else the next one, with TimeoutExpired. Any thread."""
        self._handle.interrupt()

    def _check_interrupt(self) -> None:
        if self._handle.take_interrupt():
            raise failure(lib.WEFT_E_TIMEOUT, "the wait was interrupted")

    async def _aside(self, wait: Callable[[], Result]) -> Result:
        """A wait on a thread. A cancelled task ends it, and none after it."""
        try:
            return await aside(wait, self.interrupt)
        except asyncio.CancelledError:
            self._handle.take_interrupt()
            raise

    @property
    def closed(self) -> bool:
        return self._handle.closed

    def close(self) -> None:
        """Says goodbye to the other ends and gives everything back; at most the site's close_deadline. The weights stay
        as they are. A second call does nothing. CallError: a call runs on another thread, and nothing was closed."""
        if self._handle.closed:
            return
        self._handle.close()
        self._binding = None
        self._carrier.finish(lib.WEFT_OK)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *error: Any) -> None:
        await aside(self.close)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is None or handle.closed or handle.foreign():
            return
        warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self)
        try:
            handle.close()
        except Error:
            pass
