"""Rollout: takes versions into an engine's weights."""

from __future__ import annotations

from typing import Any, Callable, Literal, TypedDict

from . import _binding, _records, _wait
from ._aside import aside
from ._layout import Layout
from ._library import check, failure, ffi, lib, sized
from ._records import Staged, Version
from ._session import Log, Result, Session, Sources, _boxes
from .errors import CallError

OnAway = Literal["wait", "raise"]


class RolloutOptions(TypedDict, total=False):
    """What follow() hands on to Rollout."""

    empty: bool
    incarnation: int
    wants: bool
    sources: Sources
    attachment: Any
    log: Log | None
    on_away: OnAway


class Rollout(Session):
    """A rollout's end, under the name of one of the site's peers. `Rollout(site, "a", named)` starts to join.

    named       as for Trainer; weft writes these tensors, in commit() alone. Of tied tensors give one
    empty       the memory holds no model yet: the rollout joins by a snapshot
    attachment  as for Trainer
    view        `named` is weft.Blocks, and the rollout takes these boxes of the model alone. The site has cuts, and the
                boxes have all of each key that they touch
    sources     the trainers that publish the model together, in the order of their numbers: pairs of address (None: the
                site's [source.R]) and boxes, which are the weft.Blocks of that trainer or their `slices`. The weights
                move when all of them have one version
    wants       versions come when want() names them, so that the processes of one engine take the same ones
    on_away     what staged() and offered() do while the trainer is away, after the first join: "wait" returns None, and
                `away` says for how long that has been so; "raise" raises PeerError

    A rollout that knows nothing asks for the layout first: `layout = Layout.fetch(site, "a")`.
    """

    _written = True
    _takes_snapshot = False  # whether a commit that runs is the transfer of a snapshot

    def __init__(
        self,
        site: Any,
        peer: str,
        named: _binding.Bindable | None = None,
        *,
        layout: Layout | None = None,
        empty: bool = False,
        incarnation: int = 0,
        wants: bool = False,
        view: bool = False,
        sources: Sources = (),
        attachment: Any = None,
        log: Log | None = None,
        on_away: OnAway = "wait",
    ) -> None:
        if on_away not in ("wait", "raise"):
            raise ValueError(f"on_away={on_away!r}: say 'wait', or 'raise' for PeerError while the trainer is away")
        named = _binding.held(named)
        self._on_away = on_away
        self.peer = peer
        name = peer.encode()
        slices = _boxes(named, "view") if view else None
        every = [(address, own.slices if isinstance(own, _binding.Blocks) else own) for address, own in sources]

        def open_(site: Any, layout: Any, options: Any, out: Any) -> int:
            return int(lib.weft_rollout_open(site, name, layout, options, out))

        super().__init__(site, named, layout, open_, f"rollout {peer}", log, slices, every, incarnation=incarnation,
                         wants=wants, tells_away=on_away == "raise")  # fmt: skip
        self._bind_or_close(named, attachment, empty)

    def bind(self, named: _binding.Bindable, attachment: Any = None, empty: bool = False) -> None:
        """Binds the tensors; later calls bind the same bits at new addresses, for engines that move their weights. A
        version that is staged then is dropped, and comes again."""
        named = _binding.held(named)
        try:
            self._bind(named, attachment, empty)
        except CallError as error:
            if error.status != lib.WEFT_E_STATE or self._binding is None:
                raise
            self.unbind()  # what is staged was decoded for the old addresses
            self._bind(named, attachment, empty)

    def staged(self, timeout: float | None = 0.0) -> Staged | None:
        """The version that is whole, proved and ready to commit, or None if none comes in `timeout` seconds. Its number
        is `.version`. A `timeout` of None waits for ever.

        None, too, while a trainer that the rollout had joined is away: closed, killed, or not reached. The log warns of
        that once, `away` says for how long, and the rollout goes on dialing. PeerError: nobody was there from the
        start, for the site's connect_deadline; or with on_away="raise" nobody is there any more; or the trainer
        refuses, which is raised at once. Ctrl-C ends the wait. A goodbye is among events().
        """
        info = sized("weft_staged_info")
        return self._await(
            timeout, lambda session, ms: lib.weft_staged(session, ms, info), lambda: _records.staged_of(info)
        )

    @property
    def away(self) -> float | None:
        """Seconds since the trainer was there last. None: it is there, or the rollout has not joined yet. Any thread."""
        return self.stats().away_ms / 1000 or None

    def _absence(self) -> str:
        """For the text of what did not come in time."""
        away = self.away  # asked once, because the trainer may come back
        return "" if away is None else f", and the trainer is away for {away:.1f} s"

    def want(self, version: int) -> None:
        """Asks for exactly that version, in a rollout with `wants`. It comes by staged(). VersionError from staged(): it
        cannot be had, and the text says why."""
        with self._handle as session:
            check(lib.weft_want(session, version))

    def offered(self, after: int | None = None, timeout: float | None = 0.0) -> int | None:
        """The number of the trainer's newest version, in a rollout with `wants`. Waits for one above `after` (None: any), and
        returns None if none comes in `timeout` seconds. A trainer that is away is as for staged()."""
        number, known = ffi.new("uint64_t *"), 2**64 - 1 if after is None else after
        return self._await(
            timeout, lambda session, ms: lib.weft_offered(session, known, ms, number), lambda: int(number[0])
        )

    def _await(
        self, timeout: float | None, call: Callable[[Any, int], int], result: Callable[[], Result]
    ) -> Result | None:
        """Calls in slices until there is a result, or the time is over."""
        deadline = _wait.Deadline(timeout)
        while True:
            with self._handle as session:
                status = call(session, deadline.slice())
                if status == lib.WEFT_OK:
                    return result()
                # An interrupt that C tells of may have ended another wait: the handle's mark says.
                error = None if status in (lib.WEFT_AGAIN, lib.WEFT_E_TIMEOUT) else failure(status)
            self._check_interrupt()
            over = deadline.passed()
            told = timeout is None and self._on_away == "raise"  # else a wait without end would never tell
            if error and (over or told or not _is_absence(status)):
                raise error
            if over:
                return None

    def commit(self, version: int | Staged, *, stream: Any = None, hold: bool = False, queue: bool = False) -> Version:
        """Moves the bound weights to the staged version, every tensor or none. Call it between two decode steps.

        Returns the version that is held now. `stream` is as for publish(). A snapshot takes the transfer; Ctrl-C ends
        it, and then nothing may be held until the next snapshot is whole.

        With `hold` the weights are moved, and settle() is to keep or undo that, when all processes of an engine agree.
        Until then the old version counts as held. A snapshot cannot be held back so (CallError).

        `queue` is the same on the stream of a device: the call returns before the weights are moved. Work that the stream
        gets later reads the new weights, or the old ones if some weight was changed by others, which settle() tells.
        """
        number = version.version if isinstance(version, Staged) else version
        where = self._stream(self._bound(), stream)
        held = ffi.new("weft_version *")
        flags = (lib.WEFT_COMMIT_HOLD if hold else 0) | (lib.WEFT_COMMIT_QUEUE if queue else 0)

        def commit() -> None:
            with self._handle as session:
                check(lib.weft_commit(session, number, where, flags, held))

        self._takes_snapshot = self._is_snapshot()
        try:
            if self._takes_snapshot:
                _wait.interruptible(commit, self.interrupt)
            else:
                commit()
        finally:
            if self._takes_snapshot:
                self._handle.take_interrupt()  # it was for this call
            self._takes_snapshot = False
        return _records.version_of(held)

    def settle(self, keep: bool, *, stream: Any = None) -> Version:
        """Keeps or undoes a commit with `hold` or `queue`. Returns the version that is held now. Undone, the old weights
        are there again, and the version stays staged.

        Waits for the device to do a queued commit; where the caller has waited for later work of the stream, not at all.
        VersionError: the device wrote nothing, because a weight was changed by others, and the trainer mends that."""
        where = self._stream(self._bound(), stream)
        held = ffi.new("weft_version *")
        with self._handle as session:
            check(lib.weft_settle(session, lib.WEFT_SETTLE_KEEP if keep else lib.WEFT_SETTLE_UNDO, where, held))
        return _records.version_of(held)

    def _is_snapshot(self) -> bool:
        info = sized("weft_staged_info")
        with self._handle as session:
            return bool(lib.weft_staged(session, 0, info) == lib.WEFT_OK and info.kind == lib.WEFT_STAGED_SNAPSHOT)

    def _end_snapshot(self) -> None:
        if self._takes_snapshot:
            self.interrupt()

    def scrub(self) -> None:
        """Digests the bound weights afresh. VersionError: they differ from the version held, and are mended by the
        trainer as by any version."""
        with self._handle as session:
            check(lib.weft_scrub(session))

    async def staged_async(self, timeout: float | None = None) -> Staged | None:
        """staged() for asyncio. A cancelled task ends the wait."""
        return await self._aside(lambda: self.staged(timeout))

    async def commit_async(self, version: int | Staged, *, stream: Any = None) -> Version:
        """commit() on a thread, so that the event loop goes on. A cancelled task ends a snapshot's transfer."""
        return await aside(lambda: self.commit(version, stream=stream), self._end_snapshot)

    def __repr__(self) -> str:
        return f"<Rollout {self.peer} of {self.layout!r}{', closed' if self.closed else ''}>"


def _is_absence(status: int) -> bool:
    """Whether there is no trainer now. The library reports that at the end of each slice, and a trainer may still come
    in the next one."""
    return status in (lib.WEFT_E_PEER_LOST, lib.WEFT_E_UNREACHABLE)
