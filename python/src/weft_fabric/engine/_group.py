"""The processes of one engine move together: each commits and holds, they agree, and each keeps or undoes."""

from __future__ import annotations

import time
from typing import Any, Callable, NamedTuple, Protocol, Sequence

from .._library import failure, lib
from .._records import Staged, Version
from .._rollout import Rollout
from ..errors import Error


class Ranks(Protocol):
    """The processes of an engine: each calls `every` with what it has, and gets what all have, in the order of ranks.

    Where a process is away or late, `every` raises in the others, in bounded time.
    """

    rank: int
    size: int

    def every(self, own: Any) -> Sequence[Any]:
        """What each process has."""
        ...


class Alone:
    """An engine of one process."""

    rank, size = 0, 1

    def every(self, own: Any) -> Sequence[Any]:
        return [own]


_SLICE_S = 0.05  # a version comes as an update or, where the bits are the trainer's already, as a name for them


def known(held: Version | None) -> Version | None:
    """The version held, but None for bits that the trainer has not named yet."""
    return held if held and held.run else None


class State(NamedTuple):
    """What one process tells the others."""

    held: int | None  # number of the version that it holds
    staged: int | None = None  # number of the version that is staged
    snapshot: bool = False
    fault: str = ""
    stale: bool = False  # after a snapshot, which cannot be undone

    @property
    def next(self) -> int | None:
        """The number that a commit brings."""
        return self.held if self.staged is None else self.staged


def _passed(text: str) -> Error:
    return failure(lib.WEFT_E_PASSED, text)


def _check(states: Sequence[State], what: str, stale: bool = False) -> None:
    """Raises the same error in each process if one of them failed.

    stale  whether what this process computes from its weights is not of these
    """
    faults = [f"process {rank}: {state.fault}" for rank, state in enumerate(states) if state.fault]
    if not faults:
        return
    held = {state.held for state in states}
    if stale or any(state.stale for state in states):
        after = "what the engine computes from its weights is not of these: serve nothing before an update succeeds"
    elif len(held) == 1:
        after = f"the engine holds version {held.pop()} as before"
    else:
        after = f"its processes hold versions {sorted(str(h) for h in held)}: serve nothing before an update succeeds"
    raise _passed(f"{what}: {'; '.join(faults)}; {after}")


def _fault(call: Callable[[], Any]) -> tuple[Any, str]:
    """The result of a call, or the text of its error."""
    try:
        return call(), ""
    except (Error, RuntimeError) as error:
        return None, str(error) or type(error).__name__


class Group:
    """Brings the rollouts of all processes of an engine to one version. Each process calls each method. `derive` makes
    again what the engine computes from its weights, after these changed."""

    def __init__(
        self, rollout: Rollout, ranks: Ranks, derive: Callable[[], None] = lambda: None, judges: bool = False
    ) -> None:
        """judges  whether bits that are no version of the trainer are refused"""
        self.rollout = rollout
        self.judges = judges
        self.ranks = ranks
        self.stale = False  # what is computed is not of the weights that are held
        self._derive = derive
        self.pause_ms = 0.0  # time of the last commit
        self.derive_ms = 0.0  # what of that the engine's own code took
        self._staged: Staged | None = None
        self._target = 0
        self._states: Sequence[State] = ()

    def stage(self, version: int | None, timeout: float) -> int:
        """Waits until what leads each process to a version is staged. None: the trainer's newest version. Returns its
        number. No weight changes."""
        self._target = self._newest(timeout) if version is None else version
        self._await(timeout)
        return self._target

    def here(self, version: int | None) -> int:
        """The number of the version that this process could go to now, without a word to the others: they may be
        computing together. None: the newest that it knows of. Raises Error where that is not here."""
        target = self.rollout.offered(timeout=0.0) if version is None else version
        if target is None:
            raise _passed(f"the trainer has told of no version{self.rollout._absence()}")
        held, staged = known(self.rollout.held), self._wait(target, 0.0)
        if staged is None and (held is None or held.number != target):
            raise _passed(f"version {target} is not here{self.rollout._absence()}")
        return target if version is not None or staged is None else staged.version

    def commit(self, timeout: float, stream: Any = None) -> Version:
        """Moves each process to what stage() brought, or none of them. Returns what this process holds.

        A snapshot cannot be held back, so processes that have one to take are at one version only at the end.
        """
        if not self._states:
            raise failure(lib.WEFT_E_STATE, "nothing was staged: call stage first")
        begin = time.perf_counter()
        while not self._move(stream):
            self._await(timeout)
        self._states = ()
        self.pause_ms = 1000 * (time.perf_counter() - begin)
        held = known(self.rollout.held)
        assert held is not None
        return held

    def _move(self, stream: Any) -> bool:
        """One step of all processes, by what each of them has staged. Whether all are there."""
        states = self._states
        numbers = {state.next for state in states}
        if any(state.snapshot for state in states) or len(numbers) > 1:
            self._go_on_apart()
            return self._is_there()
        if any(state.staged is not None for state in states):
            self._commit_together(stream)
        number = numbers.pop()
        return number is not None and number >= self._target

    def _state(self, fault: str = "") -> State:
        held, staged = known(self.rollout.held), self._staged
        return State(
            held.number if held else None,
            staged.version if staged else None,
            staged is not None and staged.kind == "snapshot",
            fault,
        )

    def _newest(self, timeout: float) -> int:
        """The newest version that any process knows of."""
        every = self.ranks.every(_fault(lambda: self.rollout.offered(timeout=timeout)))
        known = [number for number, _ in every if number is not None]
        if not known:
            why = next((fault for _, fault in every if fault), f"none came in {timeout} s")
            raise _passed(f"no process of the engine knows of a version: {why}")
        return max(map(int, known))

    def _await(self, timeout: float) -> None:
        """Waits for what leads to the target, and learns what the others wait for."""
        self._staged, fault = _fault(lambda: self._wait(self._target, timeout))
        if self.stale and not fault:
            fault = self._derived()
        if self._staged and self.judges and self._is_unknown(self._staged):
            self._staged, fault = (
                None,
                "its weights, read back from where they lie, are no version that the trainer knows",
            )
        state = self._state(fault)
        if self._staged is None and not fault and state.held != self._target:
            state = state._replace(fault=f"version {self._target} did not come in {timeout} s{self.rollout._absence()}")
        self._states = self.ranks.every(state)
        try:
            _check(self._states, f"version {self._target} is not staged")
        except Error:
            self._states = ()
            raise

    def _is_unknown(self, staged: Staged) -> bool:
        """Whether the trainer replaces weights that it cannot name. A wrong map would keep the engine wrong for good."""
        return not staged.base.run and known(self.rollout.held) is None

    def _wait(self, target: int, timeout: float) -> Staged | None:
        self.rollout.want(target)
        end = time.monotonic() + timeout
        while True:
            held = known(self.rollout.held)
            left = 0.0 if held and held.number == target else end - time.monotonic()
            staged = self.rollout.staged(max(0.0, min(left, _SLICE_S)))
            if staged and self._leads(staged, target):
                return staged
            if left <= 0:
                return None
            if staged:
                time.sleep(_SLICE_S)

    def _leads(self, staged: Staged, target: int) -> bool:
        """Whether what is staged is the target or a step to that, which nobody has to publish any more."""
        return staged.version >= target or (self.rollout.offered(timeout=0.0) or 0) >= target

    def _is_there(self) -> bool:
        """Whether all processes hold the target or one later version."""
        every = self.ranks.every(self._state().held)
        numbers = {number for number in every if number is not None}
        if len(numbers) == 1 and None not in every:
            return bool(numbers.pop() >= self._target)
        self._target = max(numbers | {self._target})
        return False

    def _go_on_apart(self) -> None:
        """Each process takes what it has, because that cannot be held back or is not the same. They meet at the newest
        of these."""
        fault = ""
        if self._staged:
            _, fault = _fault(lambda: self.rollout.commit(self._staged))  # type: ignore[arg-type]
            fault = fault or self._derived()
        self._staged = None
        _check(self.ranks.every(self._state(fault)._replace(stale=self.stale)), "a snapshot did not come")

    def _commit_together(self, stream: Any) -> None:
        """Commits with hold, agrees and settles. After any failure each process has the weights that it had."""
        staged, self._staged, fault = self._staged, None, ""
        if staged:
            _, fault = _fault(lambda: self.rollout.commit(staged, stream=stream, hold=True))
        holds = staged is not None and not fault
        try:
            if holds:
                fault = self._derived()
            states = self.ranks.every(self._state(fault))
        except BaseException:
            if holds:
                self._undo(stream)
            raise
        failed = any(state.fault for state in states)
        if holds and failed:
            self._undo(stream)
        elif holds:
            self.rollout.settle(True, stream=stream)
        if failed:
            self._states = ()
            _check(states, "the commit was undone", self.stale)

    def _undo(self, stream: Any) -> None:
        self.rollout.settle(False, stream=stream)
        self._derived()

    def _derived(self) -> str:
        """Derives. Returns the text of an error, whatever the engine's code raised."""
        self.stale = True
        begin = time.perf_counter()
        try:
            self._derive()
        except Exception as error:
            return f"what the engine computes from weights: {error or type(error).__name__}"
        self.derive_ms = 1000 * (time.perf_counter() - begin)
        self.stale = False
        return ""


def label(held: Sequence[Version | None]) -> str:
    """What an engine holds, as text for its answers: run, number, and the root of each process. "" if nothing is held,
    or not the same version by all."""
    first = held[0] if held else None
    if first is None or any(v is None or (v.run, v.number) != (first.run, first.number) for v in held):
        return ""
    roots = "+".join(f"{version.root:016x}" for version in held if version)
    return f"{first.run:x}:{first.number}:{roots}"
