"""Trainer: publishes versions of its weights."""

from __future__ import annotations

from typing import Any, Callable, Iterable, TypedDict

from . import _binding, _records, _wait
from ._aside import aside
from ._callbacks import Carrier, free_callback
from ._layout import Layout
from ._library import NULL, failure, ffi, lib, sized
from ._records import Update
from ._session import Log, Session, _boxes, _bytes_of


class TrainerOptions(TypedDict, total=False):
    """What publish_after() hands on to Trainer."""

    layout: Layout | None
    incarnation: int
    attachment: Any
    cast: Any
    log: Log | None
    run: int
    source: int


class Trainer(Session):
    """The trainer's end. `Trainer(site, named)` listens, copies the tensors to the shadow, and lets rollouts join.

    named          a mapping from name to tensor, or pairs such as `model.named_parameters()`; None: call bind() later
    layout         the layout, where `named` does not say it
    first_version  number of the weights bound first
    attachment     bytes that travel with the weights, for instance the header of a model file
    cast           "bf16" or "fp16": a float32 tensor is published as bfloat16 or float16, and rounded while it is read,
                   so that float32 masters need no copy. Without `layout` that is each one of float32; else those that
                   it has so
    holding        `named` is weft.Blocks: this is one of several sources, and contributes these boxes of the model
    run            number of the training run, the same at all sources, and another one than the run before; 0: drawn
    source         number of this source, for the address in the site's [source.R]
    log            `log(level, line)` gets the lines of the log inside events() and close(); None: standard error

    >>> import numpy, weft_fabric as weft
    >>> weights = {"layer.weight": numpy.zeros((256, 256), numpy.float32)}
    >>> site = weft.Site("[trainer]\\nlisten = 127.0.0.1:0\\n[peer.a]\\n", {"peers.provider": "loop"})
    >>> with weft.Trainer(site, weights) as trainer:
    ...     weights["layer.weight"][1, 2] = 0.5
    ...     trainer.publish(1).changed
    1
    """

    def __init__(self, site: Any, named: _binding.Bindable | None = None, *, layout: Layout | None = None, first_version: int = 0,
                 incarnation: int = 0, attachment: Any = None, cast: Any = None, log: Log | None = None,
                 holding: bool = False, run: int = 0, source: int = 0) -> None:  # fmt: skip
        named = _binding.held(named)
        slices = _boxes(named, "holding") if holding else None
        super().__init__(site, named, layout, lib.weft_trainer_open, "the trainer", log, slices,
                         cast=cast, first_version=first_version, incarnation=incarnation, run=run, source=source)  # fmt: skip
        self._bind_or_close(named, attachment, False)

    def bind(self, named: _binding.Bindable, attachment: Any = None) -> None:
        """Binds the tensors; later calls bind them where they are now, for weights that moved, with whatever bits. The
        next publish() says what changed."""
        self._bind(named, attachment, False)

    def _is_there(self) -> bool:
        """Whether tensors are bound, and have the memory in which they were bound."""
        return self._binding is not None and self._binding.is_still_there()

    def publish(self, version: int, *, stream: Any = None, attachment: Any = None,
                weights_free: Callable[[], Any] | None = None) -> Update:  # fmt: skip
        """Publishes the bound weights as a version: finds what changed, encodes it and returns. Never waits for a peer.

        The weights must not change before the call returns, or before it calls `weights_free()`, on this thread, because
        it has read them for the last time: the optimizer's next step may be queued there. What that raises comes out when
        the call is over, and the version may be published. `version` must exceed the last one. `stream` is the device stream to order
        against; None: torch's current one.
        """
        binding, carrier = self._bound(), Carrier()
        info, options = sized("weft_update_info"), sized("weft_publish_options")
        if attachment is not None:
            data, options.attachment_bytes = _bytes_of(attachment)
            options.attachment = data
        if weights_free is not None:
            on_free = options.weights_free = free_callback(carrier, weights_free)
        with self._handle as session:
            carrier.finish(lib.weft_publish(session, version, self._stream(binding, stream), options, info))
        return _records.update_of(info)

    def wait(self, version: int, peers: str | Iterable[str] | None = None, timeout: float | None = None) -> None:
        """Waits until peers have proved that they hold the version: the one or those named, or all that joined and are
        not lost.

        TimeoutExpired: the time passed, or interrupt(). PeerError: a named peer is lost, or every peer is. Ctrl-C ends
        the wait.
        """
        peers = [peers] if isinstance(peers, str) else peers
        names = [] if peers is None else [ffi.new("char[]", peer.encode()) for peer in peers]
        array = NULL if peers is None else ffi.new("const char *[]", names)
        deadline = _wait.Deadline(timeout)
        while True:
            with self._handle as session:
                ms = deadline.slice()
                status = lib.weft_wait(session, version, array, len(names), ms)
                over = status != lib.WEFT_E_TIMEOUT or deadline.passed()
                error = failure(status) if over and status < 0 else None
            if status == lib.WEFT_E_TIMEOUT:
                self._check_interrupt()
            if error:
                whole = _wait.ms_of(timeout or 0)  # C knows its slice alone
                error.args = (str(error).replace(f"wait: after {ms} ms", f"wait: after {whole} ms"),)
                raise error
            if over:
                return

    async def publish_async(self, version: int, *, stream: Any = None, attachment: Any = None,
                            weights_free: Callable[[], Any] | None = None) -> Update:  # fmt: skip
        """publish() on a thread, so that the event loop goes on. `weights_free()` is called on that thread."""
        return await aside(
            lambda: self.publish(version, stream=stream, attachment=attachment, weights_free=weights_free)
        )

    async def wait_async(
        self, version: int, peers: str | Iterable[str] | None = None, timeout: float | None = None
    ) -> None:
        """wait() for asyncio. A cancelled task ends the wait."""
        await self._aside(lambda: self.wait(version, peers, timeout))

    def __repr__(self) -> str:
        return f"<Trainer of {self.layout!r}{', closed' if self.closed else ''}>"
