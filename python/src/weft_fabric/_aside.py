"""asyncio: the waits of a session on a thread, so that the loop goes on. A cancelled wait ends within a slice."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Callable, TypeVar

Result = TypeVar("Result")


async def aside(call: Callable[[], Result], cancel: Callable[[], Any] | None = None) -> Result:
    """Makes a call on a thread of the loop's. If the task is cancelled, `cancel` ends the call. The call is
    awaited in any case, because one thread at a time may use a session."""
    future = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if not future.done():
            if cancel:
                cancel()
            while not future.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([future])
        if not future.cancelled():
            future.exception()  # taken, so that nobody is told of it later
        raise
