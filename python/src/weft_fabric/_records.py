"""What the calls return, as named tuples. Each has the fields of the struct of weft.h, and text where C has numbers."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from . import _dtypes
from ._library import NULL, ffi, lib, text_of

Record = TypeVar("Record")


class Version(NamedTuple):
    """A version. `number` is the trainer's label, `root` the digest of all bits, `run` the trainer's start.

    Versions compare by run and number, so that a later one is the larger one. Bits of no run compare by their root."""

    run: int
    number: int
    root: int

    @property
    def _order(self) -> tuple[int, int, int]:
        return (self.run, self.number, 0 if self.run else self.root)

    def __eq__(self, other: object) -> bool:
        return self._order == other._order if isinstance(other, Version) else tuple(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._order)

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        return self._order < other._order if isinstance(other, Version) else tuple(self) < other

    def __le__(self, other: tuple[Any, ...]) -> bool:
        return self == other or self < other

    def __gt__(self, other: tuple[Any, ...]) -> bool:
        return not self <= other

    def __ge__(self, other: tuple[Any, ...]) -> bool:
        return not self < other

    @property
    def label(self) -> str:
        """Run, number and root as text, for samples: what engines of vLLM and SGLang say of an answer's weights."""
        return f"{self.run:x}:{self.number}:{self.root:016x}"

    def __str__(self) -> str:
        return f"{self.run:016x}/{self.number} {self.root:016x}"

    def __repr__(self) -> str:
        return f"Version(run={self.run:#x}, number={self.number}, root={self.root:#018x})"


class Update(NamedTuple):
    """Figures of one update, in bytes, elements and milliseconds."""

    base: Version
    target: Version
    level: str
    elements: int
    changed: int
    dense_bytes: int
    bytes: int
    diff_ms: float
    encode_ms: float


class Staged(NamedTuple):
    """A version that is whole, proved and ready to commit. `kind` is "update" or "snapshot"."""

    kind: str
    base: Version
    target: Version
    changed: int
    bytes: int
    receive_ms: float
    decode_ms: float
    encoded: bool
    pause_ms: float

    @property
    def version(self) -> int:
        """Number of the version: what commit() takes."""
        return self.target.number


class Rail(NamedTuple):
    """A local address and its connections to the other end."""

    address: str
    connections: int
    up: int
    writes: int
    bytes: int
    resent_bytes: int
    failures: int


class Peer(NamedTuple):
    """One peer as the trainer sees it; on a rollout the rollout itself. `held` is None if nothing is held."""

    name: str
    state: str
    provider: str
    backend: str
    level: str
    held: Version | None
    lag: int
    bucket_bytes: int
    bytes: int
    snapshot_bytes: int
    update_bytes: int
    rate_bytes_s: float
    rtt_ms: float
    send_ms: float
    apply_ms: float
    commit_ms: float
    apply_bytes_s: float
    bucket_cost_ms: float
    streams: int
    bucket_bound: str
    via: str
    lag_ms: float
    rails: tuple[Rail, ...]


class Stats(NamedTuple):
    """Figures of a session."""

    versions: int
    bytes_sent: int
    snapshot_bytes: int
    memory_bytes: int
    allocations: int
    events_lost: int
    peers_joined: int
    peers_lost: int
    journal_bytes: int
    undone: int
    check_failures: int
    listen: str
    backend: str
    provider: str
    merges: int
    merge_ms: float
    rails: tuple[Rail, ...]
    recorded: int
    unrecorded: int
    away_ms: float


class Event(NamedTuple):
    """What happened to a peer. `kind` is "joined", "lost", "held", "staged", "resync", "goodbye", "nothing", "lagging"
    or "rail"; `status` names the reason, "ok" if there is none."""

    kind: str
    status: str
    peer: str
    version: Version
    text: str


class Applied(NamedTuple):
    """Figures of an update that was applied."""

    version: Version
    changed: int
    digest_ms: float
    decode_ms: float
    apply_ms: float


class Header(NamedTuple):
    """Header of an update file. `layout` is the layout's hash as in Layout.hash. `classes` has for each dtype the
    exponents at which the classes of level "tight" begin."""

    base: Version
    target: Version
    level: str
    layout: str
    elements: int
    dense_bytes: int
    tensors: int
    changed: int
    bytes: int
    frame_bytes: int
    frames: int
    attachment_bytes: int
    run_shift: int
    named: bool
    classes: dict[str, tuple[int, ...]]


class Stored(NamedTuple):
    """One version of a store. `base` is None where the version has no update, `time_s` seconds since 1970."""

    version: Version
    base: Version | None
    update_bytes: int
    anchor_bytes: int
    time_s: int
    damaged: bool
    reachable: bool
    merge_bytes: int
    tight_bytes: int


class Moved(NamedTuple):
    """What it took to move weights to a version of a store: files, and the anchors among them."""

    version: Version
    files: int
    anchors: int
    bytes: int
    damaged: int


class Fault(NamedTuple):
    """A fault of a store. `file` is None for a version that no whole files lead to."""

    file: str | None
    version: Version
    status: str
    text: str


class Device(NamedTuple):
    """A device that a backend found, or the reason why a backend has none."""

    backend: str
    device: int
    name: str
    detail: str
    memory_bytes: int
    usable: bool


class Provider(NamedTuple):
    """A provider at an address of this host, or the reason why it cannot be had."""

    provider: str
    fabric: str
    address: str
    detail: str
    message_bytes: int
    usable: bool


def _names(enum: str, prefix: str) -> dict[int, str]:
    """Numbers of an enum to names in lower case."""
    return {number: name[len(prefix) :].lower() for number, name in ffi.typeof(enum).elements.items()}


_STAGED_KINDS = _names("weft_staged_kind", "WEFT_STAGED_")
_PEER_STATES = _names("weft_peer_state", "WEFT_PEER_")
_EVENT_KINDS = _names("weft_event_kind", "WEFT_EVENT_")
_VERSION = ffi.typeof("weft_version")


def hex_of(words: Any) -> str:
    """A hash of two words, low first, as 32 hexadecimal digits."""
    return f"{words[1]:016x}{words[0]:016x}"


def version_of(c: Any) -> Version:
    return Version(c.run, c.number, c.root)


def _plain(value: Any) -> Any:
    if isinstance(value, (int, float)):
        return value
    return version_of(value) if ffi.typeof(value) is _VERSION else text_of(value)


def _fill(record: type[Record], c: Any, /, **given: Any) -> Record:
    """A record of the struct's fields of the same names, and of those given."""
    fields: tuple[str, ...] = record._fields  # type: ignore[attr-defined]
    return record(**{name: given[name] if name in given else _plain(getattr(c, name)) for name in fields})


def _rails(c: Any) -> tuple[Rail, ...]:
    return tuple(_fill(Rail, c.rails[i]) for i in range(min(c.rail_count, lib.WEFT_RAILS_MAX)))


def update_of(c: Any) -> Update:
    return Update(version_of(c.base), version_of(c.target), text_of(c.level), c.elements, c.changed, c.dense_bytes,
                  c.bytes, c.diff_ms, c.encode_ms)  # fmt: skip


def staged_of(c: Any) -> Staged:
    return Staged(_STAGED_KINDS[c.kind], version_of(c.base), version_of(c.target), c.changed, c.bytes, c.receive_ms,
                  c.decode_ms, bool(c.encoded), c.pause_ms)  # fmt: skip


def peer_of(c: Any) -> Peer:
    held = version_of(c.held)
    return _fill(Peer, c, state=_PEER_STATES[c.state], held=held if any(held) else None, rails=_rails(c))


def stats_of(c: Any) -> Stats:
    return _fill(Stats, c, rails=_rails(c))


def event_of(c: Any) -> Event:
    return _fill(Event, c, kind=_EVENT_KINDS[c.kind], status=text_of(lib.weft_status_name(c.status)))


def applied_of(c: Any) -> Applied:
    return _fill(Applied, c)


def _classes(update: Any) -> dict[str, tuple[int, ...]]:
    """Thresholds by the name of the dtype, of those that have some."""
    room = ffi.new("uint32_t[]", lib.WEFT_THRESHOLDS_MAX)
    counts = ((name, lib.weft_update_thresholds(update, number, room)) for number, name in _dtypes.NAMES.items())
    return {name: tuple(room[0:count]) for name, count in counts if count}


def header_of(update: Any, c: Any) -> Header:
    return _fill(Header, c, layout=hex_of(c.layout), named=bool(c.named), classes=_classes(update))


def stored_of(c: Any) -> Stored:
    base = version_of(c.base)
    return _fill(Stored, c, base=base if any(base) else None, damaged=bool(c.damaged), reachable=bool(c.reachable))


def moved_of(c: Any) -> Moved:
    return _fill(Moved, c)


def fault_of(c: Any) -> Fault:
    file = None if c.file == NULL else text_of(c.file)
    return _fill(Fault, c, file=file, status=text_of(lib.weft_status_name(c.status)))


def device_of(c: Any) -> Device:
    return _fill(Device, c, usable=bool(c.usable))


def provider_of(c: Any) -> Provider:
    return _fill(Provider, c, usable=bool(c.usable))
