"""What weft does in each process of an engine: joins, stages, commits, sleeps, wakes. No framework, no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Sequence, TypedDict

import numpy as np

from .._binding import SLICE, Blocks
from .._layout import Layout, TensorSpec
from .._library import lib
from .._records import Version
from .._rollout import Rollout
from .._site import Site
from ..errors import CallError, Error
from ._boxes import Copy
from ._group import Group, Ranks, known
from ._placement import check_cover, is_whole, place

Record = Callable[[Sequence[TensorSpec]], "list[Copy]"]


class InitOptions(TypedDict, total=False):
    """What follow() hands on to Init."""

    overrides: dict[str, Any]
    empty: bool
    known: bool
    ignore: list[str]
    sources: list[Any]
    timeout: float


@dataclass
class Init:
    """With what an engine joins: vLLM's init_weight_transfer_engine takes the fields as `init_info`.

    site       path or text of the site
    peer       name of the peer; with several processes it has "{rank}" in it, for the number of each
    overrides  keys of the site that win over the file
    empty      the engine's weights are no model yet (load_format = "dummy"): join by a snapshot
    known      the engine's weights are a version that the trainer knows: other bits are refused, and never replaced
    ignore     patterns of tensors that the engine does not take, and of parameters that keep what they have
    sources    of several trainers: pairs of address (None: the site's) and slices (tensor, row, rows, column, columns)
    timeout    seconds that the trainer has to give its layout
    """

    site: str
    peer: str
    overrides: dict[str, Any] = field(default_factory=dict)
    empty: bool = False
    known: bool = False
    ignore: list[str] = field(default_factory=list)
    sources: list[Any] = field(default_factory=list)
    timeout: float = 60.0


@dataclass
class Update:
    """What an engine is asked for, as vLLM's `update_info` has it: the version (None: the newest that the trainer has told of), and
    seconds to wait for it."""

    version: int | None = None
    timeout: float = 60.0


def _state(text: str) -> CallError:
    return CallError(text, lib.WEFT_E_STATE, "state")


def _slices(given: Any) -> Any:
    """Slices that came as lists through a remote call."""
    if isinstance(given, (Blocks, np.ndarray)):
        return given
    return np.array([tuple(one) for one in given], SLICE)


class Core:
    """One process of an engine. `record` says where the model's loaders put the tensors of a layout; `places` says
    where the parameters lie now; `derive` makes again what the engine computes from its weights."""

    def __init__(
        self,
        ranks: Ranks,
        device: str,
        record: Record,
        places: Callable[[], Any],
        derive: Callable[[], None] = lambda: None,
        first: int = 0,
    ) -> None:
        """first  number of the engine's first process, of all data-parallel engines of one server"""
        self.ranks = ranks
        self.device = device
        self.rollout: Rollout | None = None
        self.blocks: Blocks | None = None
        self._record = record
        self._places = places
        self._derive = derive
        self._first = first
        self._at: Any = None
        self._layout: Layout | None = None
        self._group: Group | None = None
        self._asleep = ""  # what became of the weights: "kept" elsewhere, or "discarded"
        self._wants: Update | None = None

    # ---- joining

    def open(self, init: Init) -> None:
        """Asks the trainer for its layout, records where each tensor lands, and joins. Every process calls it."""
        if self.rollout is not None or self._asleep:
            raise _state("the engine has joined already: shut it down first")
        if init.empty and init.known:
            raise CallError("empty and known: weights that are no model yet are no version that the trainer knows",
                            lib.WEFT_E_ARGUMENT, "argument")  # fmt: skip
        if self.ranks.size > 1 and "{rank}" not in init.peer:
            raise CallError(f"peer '{init.peer}': an engine of {self.ranks.size} processes needs a name for each, such "
                            f"as '{init.peer}-{{rank}}'", lib.WEFT_E_ARGUMENT, "argument")  # fmt: skip
        self._together(lambda: self._place(init))
        assert self._layout is not None and self.blocks is not None
        check_cover(self._layout, self.ranks.every(self.blocks.slices), init.ignore)
        self._together(lambda: self._join(init))

    def _together(self, call: Callable[[], None]) -> None:
        """A step that all processes do, or none: the error of one is raised in each."""
        error = None
        try:
            call()
        except Exception as one:
            error = one
        faults = self.ranks.every("" if error is None else f"{type(error).__name__}: {error}")
        if error is None and any(faults):
            rank = next(rank for rank, fault in enumerate(faults) if fault)
            error = _state(f"process {rank}: {faults[rank]}")
        if error is not None:
            self.close()
            raise error

    def _site(self, init: Init) -> tuple[Site, str]:
        return Site(init.site, init.overrides), init.peer.replace("{rank}", str(self._first + self.ranks.rank))

    def _place(self, init: Init) -> None:
        site, peer = self._site(init)
        self._layout = Layout.fetch(site, peer, init.timeout)
        self._find()

    def _find(self) -> None:
        """Finds where each tensor of the layout lies now."""
        assert self._layout is not None
        self.blocks = place(self._layout, self._record(self._layout.tensors), self.device)
        self._at = self._places()

    def _join(self, init: Init) -> None:
        layout, blocks = self._layout, self.blocks
        assert layout is not None and blocks is not None
        site, peer = self._site(init)
        sources = [(address, _slices(own)) for address, own in init.sources]
        view = not is_whole(layout, blocks)
        self.rollout = Rollout(
            site, peer, blocks, layout=layout, empty=init.empty, wants=True, view=view, sources=sources
        )
        self._group = Group(self.rollout, self.ranks, self._derive, init.known)

    # ---- updates

    def _open_group(self) -> Group:
        if self._asleep:
            raise _state("the engine sleeps: wake it before it takes versions")
        if self._group is None:
            raise _state("the engine has not joined: call init_weight_transfer_engine first")
        return self._group

    def _follow_moves(self) -> None:
        """After the engine gave its weights other memory: binds them where they are now, by the bits that they have."""
        if self.rollout is not None and not self._asleep and self._places() != self._at:
            self.sleep(1)
            self.wake()

    def start(self) -> None:
        self._follow_moves()
        self._open_group()
        self._wants = None

    def stage(self, update: Update) -> int:
        """Waits until each process has what leads to the version. No weight changes."""
        self._follow_moves()
        number = self._open_group().stage(update.version, update.timeout)
        self._wants = update
        return number

    def ready(self, version: int | None) -> int | str:
        """The number of the version that all processes could go to now, of which each calls this. A text: why the
        version is not here."""
        found = self.ranks.every(self.here(version))
        texts = [f"process {rank}: {one}" for rank, one in enumerate(found) if isinstance(one, str)]
        if texts:
            return texts[0]
        return int(found[0]) if min(found) == max(found) else self.ready(max(found))

    def here(self, version: int | None) -> int | str:
        """The number of the version that this process could go to now. It asks no other process, so any may be called
        alone, and while they compute together. A text: why the version is not here."""
        try:
            return self._open_group().here(version)
        except Error as error:
            return str(error)

    def commit(self) -> Version:
        """Moves all processes, or none."""
        group = self._open_group()
        if self._wants is None:
            raise _state("no version was asked for: call update_weights between start and finish")
        if self._places() != self._at:
            raise _state("the engine gave its weights other memory since the version was staged: update it again")
        wants, self._wants = self._wants, None
        return group.commit(wants.timeout)

    @property
    def held(self) -> Version | None:
        """The version that this process holds. None: it sleeps, the trainer has not named the bits yet, or what the
        engine computes from weights is not that version's."""
        stale = self._group is not None and self._group.stale
        return None if self.rollout is None or self._asleep or stale else known(self.rollout.held)

    @property
    def is_discarded(self) -> bool:
        """Whether the weights are no model, because the engine let go of them when it fell asleep."""
        return self._asleep == "discarded"

    @property
    def pause_ms(self) -> float:
        """Milliseconds of the last commit, with what the processes agreed."""
        return self._group.pause_ms if self._group else 0.0

    # ---- sleep and end

    def sleep(self, level: int) -> None:
        """Before the weights go: weft touches none of them after it returns. Level 2 discards them."""
        if self.rollout is None or self._asleep or level < 1:
            return
        self.rollout.unbind()
        self._asleep = "kept" if level == 1 else "discarded"

    def wake(self) -> None:
        """After the weights are back: binds them where they are now, and proves them. After level 2 the engine holds
        nothing, and gets a snapshot."""
        if not self._asleep:
            return
        assert self.rollout is not None
        if self._places() != self._at:
            self._find()
        assert self.blocks is not None
        assert self._group is not None
        self._group.judges = self._group.judges and self._asleep == "kept"
        self.rollout.bind(self.blocks, empty=self._asleep == "discarded")
        self._asleep = ""

    def close(self) -> None:
        """Leaves the trainer. The weights stay as they are, and the engine may join again."""
        rollout, self.rollout, self._group = self.rollout, None, None
        self._asleep, self._wants = "", None
        if rollout is not None:
            rollout.close()
