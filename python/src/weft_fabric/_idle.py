"""Versions that change nothing: a sign that the wrong tensors are bound or given."""

from __future__ import annotations

import warnings
from typing import Callable

from ._records import Update

MOST = 3  # versions in a row that change nothing, after which there is a warning


class Idle:
    """Counts versions in a row that changed nothing, and warns once."""

    def __init__(self) -> None:
        self._count = 0
        self._warned = False

    def note(self, update: Update | None, version: int, cause: Callable[[], str], stacklevel: int = 2) -> None:
        """Takes note of a version's figures. `cause` says what is likely wrong; `stacklevel` counts from the caller on."""
        self._count = self._count + 1 if update and not update.changed else 0
        if self._count < MOST or self._warned:
            return
        self._warned = True
        warnings.warn(
            f"{MOST} versions in a row changed nothing, up to {version}: {cause()}", stacklevel=stacklevel + 1
        )
