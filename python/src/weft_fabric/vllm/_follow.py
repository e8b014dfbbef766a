"""Driving an LLM or AsyncLLM of vLLM: updates, what becomes of caches, and answers that bear their versions."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, AsyncIterator, Awaitable, Callable, Coroutine, NamedTuple, Sequence

from .._library import failure, lib
from .._site import Site
from ..errors import CallError
from ._worker import label_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..engine._core import InitOptions

CACHES = ("reset", "keep", "salt")
_POLL_S = 0.02
_ANSWER_S = 180.0  # an answer of vLLM's core takes no longer than this beside what it waits for


class Answer(NamedTuple):
    """An output of vLLM, with the labels of the weights that the engine held when the request came and when it ended.
    If these differ, `output.outputs[i].weight_versions` has the spans of tokens, where vLLM has that."""

    output: Any
    began: str
    ended: str


def _checked(caches: str) -> str:
    if caches not in CACHES:
        raise ValueError(f"caches={caches!r}: say what becomes of keys and values that old weights computed: 'reset' "
                         f"drops them, 'salt' leaves them to requests that began before, 'keep' lets new requests use "
                         f"them")  # fmt: skip
    return caches


def _init(site: Any, peer: str, options: Any) -> dict[str, Any]:
    if isinstance(site, Site):
        raise TypeError("site: give the path or the text of the site, because each process of the engine loads it")
    return {"init_info": {"site": str(site), "peer": peer, **options}}


def salted(prompt: Any, salt: str) -> Any:
    """A prompt whose keys and values are cached for requests of the same salt alone."""
    if isinstance(prompt, str):
        prompt = {"prompt": prompt}
    elif isinstance(prompt, (list, tuple)):
        prompt = {"prompt_token_ids": list(prompt)}
    elif not isinstance(prompt, dict):
        raise TypeError(f"caches='salt' takes prompts as text, token ids or a dictionary, not {type(prompt).__name__}")
    own = prompt.get("cache_salt")
    return {**prompt, "cache_salt": f"{own}:{salt}" if own else salt}


def _serves(version: str) -> str:
    if not version:
        raise CallError("the engine holds no version: update it before it answers", lib.WEFT_E_STATE, "state")
    return version


def _ended(output: Any, version: str) -> str:
    """The label of an output's last tokens, which vLLM says, else that of now."""
    spans = [spans for one in output.outputs if (spans := getattr(one, "weight_versions", None))]
    return str(spans[-1][-1].version) if spans else version


class Follower:
    """Keeps an LLM's weights those of the trainer. `version` is the label of what the engine holds, "" for nothing."""

    def __init__(self, llm: Any, site: Any, peer: str, caches: str, options: Any) -> None:
        self.llm = llm
        self.caches = _checked(caches)
        llm.init_weight_transfer_engine(_init(site, peer, options))
        self.version = ""
        self._learn()

    def _learn(self) -> None:
        self.version = label_of(self.llm.collective_rpc("weft_held"))
        self.llm.update_weight_version(self.version)

    def update(self, version: int | None = None, timeout: float = 60.0) -> str:
        """Brings the engine to a version, or to the newest that the trainer has told of. Returns the label of what it
        holds then. Whatever fails, the label is that of what the engine holds, and the error says why."""
        before = self.version
        try:
            self.llm.start_weight_update()
            self.llm.update_weights({"update_info": {"version": version, "timeout": timeout}})
            self.llm.finish_weight_update()
        finally:
            self._learn()
            if self.version != before:
                self._drop_caches()
        return self.version

    def _drop_caches(self) -> None:
        engine = self.llm.llm_engine
        if self.caches == "reset" and not engine.reset_prefix_cache(reset_running_requests=True):
            raise RuntimeError("vLLM did not reset its prefix cache: requests are running")
        if self.caches != "keep":
            engine.reset_encoder_cache()

    def generate(self, prompts: Sequence[Any], *arguments: Any, **options: Unpack[InitOptions]) -> list[Answer]:
        """LLM.generate for a list of prompts; each answer bears its versions."""
        began = _serves(self.version)
        if self.caches == "salt":
            prompts = [salted(prompt, began) for prompt in prompts]
        outputs = self.llm.generate(prompts, *arguments, **options)
        return [Answer(output, began, _ended(output, self.version)) for output in outputs]

    def pause_ms(self) -> float:
        """Milliseconds that the last commit took in the slowest worker."""
        return float(max(self.llm.collective_rpc("weft_pause_ms")))

    def sleep(self, level: int = 1) -> None:
        """LLM.sleep. The workers tell weft, which touches no weight then."""
        self.llm.sleep(level)
        self.version = ""

    def wake(self, tags: list[str] | None = None) -> str:
        """LLM.wake_up. After level 2 the engine holds nothing before an update."""
        self.llm.wake_up(tags)
        self._learn()
        return self.version

    def close(self) -> None:
        """Leaves the trainer. The engine keeps its weights."""
        self.llm.shutdown_weight_transfer_engine()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class AsyncFollower:
    """The same for an AsyncLLM. Requests go on while a version comes, stand still for the commit alone, and go on with
    the new weights."""

    def __init__(self, llm: Any, caches: str) -> None:
        self.llm = llm
        self.caches = _checked(caches)
        self.version = ""
        self._one = asyncio.Lock()

    async def open(self, site: Any, peer: str, options: Any) -> AsyncFollower:
        init = SimpleNamespace(**_init(site, peer, options))
        limit = options.get("timeout", 60.0)
        await self._agreed(lambda: self._answered(self.llm.init_weight_transfer_engine(init), limit))
        await self._learn()
        return self

    async def _agreed(self, act: Callable[[], Awaitable[None]]) -> None:
        """Acts where workers agree. Data-parallel engines that exchange experts stand still for that: they wait for
        each other in each step, and a worker that waits for the others to agree is late for theirs."""
        parallel = getattr(getattr(self.llm, "vllm_config", None), "parallel_config", None)
        together = getattr(parallel, "data_parallel_size", 1) > 1
        await (self._still(act) if together else act())

    async def _answered(self, call: Awaitable[Any], limit: float = 0.0) -> Any:
        """Waits for a call of vLLM: its calls have no end where a core has died. TimeoutExpired."""
        try:
            return await asyncio.wait_for(call, limit + _ANSWER_S)
        except asyncio.TimeoutError:
            raise failure(lib.WEFT_E_TIMEOUT, f"vLLM's core gave no answer in {limit + _ANSWER_S:.0f} s") from None

    async def _each(self, method: str, *args: Any) -> list[list[Any]]:
        """What the workers of each data-parallel engine answer. vLLM's own collective_rpc gives the first engine's."""
        every = getattr(getattr(self.llm, "engine_core", None), "call_utility_all_async", None)
        if every is None:
            return [await self._answered(self.llm.collective_rpc(method, args=args))]
        found: list[list[Any]] = await self._answered(every("collective_rpc", method, None, args, None))
        return found

    async def _still(self, act: Callable[[], Awaitable[None]]) -> None:
        """Acts while the engine stands still. Requests are kept. It goes on whatever comes, a cancelled call too, unless
        it stood still before."""
        if await self._answered(self.llm.is_paused()):
            return await act()
        paused = asyncio.ensure_future(self._answered(self._pause()))
        try:
            await asyncio.shield(paused)
            await act()
        finally:
            await asyncio.shield(asyncio.ensure_future(self._go_on(paused)))

    async def _go_on(self, paused: asyncio.Future[Any]) -> None:
        await asyncio.wait([paused])  # vLLM refuses to go on while it pauses
        await self._answered(self.llm.resume_generation())

    @staticmethod
    def _label(each: list[list[Any]]) -> str:
        """One label of all engines: those that have a share each count their roots together."""
        labels = {label_of(held) for held in each}
        return labels.pop() if len(labels) == 1 else label_of([one for held in each for one in held])

    async def _learn(self) -> None:
        self.version = self._label(await self._each("weft_held"))
        await self._answered(self.llm.update_weight_version(self.version))

    async def update(self, version: int | None = None, timeout: float = 60.0) -> str:
        """As Follower.update. Requests run while the version comes, and are kept while it is committed."""
        async with self._one:
            end = time.monotonic() + timeout
            number = await self._ready(version, timeout)
            wanted = SimpleNamespace(update_info={"version": number, "timeout": max(1.0, end - time.monotonic())})
            await self._agreed(lambda: self._stage(wanted))
            await self._still(self._commit)
            return self.version

    async def _stage(self, wanted: SimpleNamespace) -> None:
        await self._answered(self.llm.start_weight_update())
        await self._answered(self.llm.update_weights(wanted), wanted.update_info["timeout"])

    async def _ready(self, version: int | None, timeout: float) -> int:
        """Waits until what leads to the version is staged in all workers. Returns its number."""
        end, wanted = time.monotonic() + timeout, version
        while True:
            every = [one for each in await self._each("weft_ready", wanted) for one in each]
            missing = [f"process {rank}: {one}" for rank, one in enumerate(every) if isinstance(one, str)]
            if not missing and min(every) == max(every):
                return int(every[0])
            if not missing:
                wanted = max(every)  # that one process knows of a newer version
                continue
            if time.monotonic() > end:
                what = "the trainer's version" if version is None else f"version {version}"
                raise failure(lib.WEFT_E_TIMEOUT, f"{what} did not come in {timeout} s: {missing[0]}")
            await asyncio.sleep(_POLL_S)

    async def _pause(self) -> None:
        """Keeps the requests. vLLM's pause_generation sleeps 20 ms after the engine stands still, for the order of
        events alone, so its core is asked where it can be."""
        pause = getattr(getattr(self.llm, "engine_core", None), "pause_scheduler_async", self.llm.pause_generation)
        await pause(mode="keep", clear_cache=False)

    async def _commit(self) -> None:
        """Few calls one after the other, because the engine stands still."""
        before = self.version
        try:
            self.version = self._label(await self._each("weft_finish"))
        except BaseException:
            await self._learn()
            raise
        finally:
            if self.version != before:
                told = asyncio.gather(self.llm.update_weight_version(self.version), *self._drop_caches())
                await self._answered(told)

    def _drop_caches(self) -> list[Coroutine[Any, Any, None]]:
        drops = [self._reset_prefixes()] if self.caches == "reset" else []
        return drops if self.caches == "keep" else [*drops, self.llm.reset_encoder_cache()]

    async def _reset_prefixes(self) -> None:
        if not await self.llm.reset_prefix_cache(reset_running_requests=True):
            raise RuntimeError("vLLM did not reset its prefix cache: requests are running")

    async def generate(self, prompt: Any, *arguments: Any, **options: Unpack[InitOptions]) -> AsyncIterator[Answer]:
        """AsyncLLM.generate: the answer as it grows, with the versions that it began and, so far, ended with."""
        began = _serves(self.version)
        if self.caches == "salt":
            prompt = salted(prompt, began)
        async for output in self.llm.generate(prompt, *arguments, **options):
            yield Answer(output, began, _ended(output, self.version))

    async def pause_ms(self) -> float:
        """Milliseconds that the last commit took in the slowest worker."""
        return float(max(await self.llm.collective_rpc("weft_pause_ms")))

    async def sleep(self, level: int = 1) -> None:
        """AsyncLLM.sleep. The workers tell weft, which touches no weight then."""
        await self.llm.sleep(level)
        self.version = ""

    async def wake(self, tags: list[str] | None = None) -> str:
        """AsyncLLM.wake_up. After level 2 the engine holds nothing before an update."""
        await self.llm.wake_up(tags)
        await self._learn()
        return self.version

    async def close(self) -> None:
        """Leaves the trainer. The engine keeps its weights."""
        await self.llm.shutdown_weight_transfer_engine()


def follow(llm: Any, site: Any, peer: str, *, caches: str, **options: Unpack[InitOptions]) -> Follower:
    """Has an LLM with weight_transfer_config={"backend": "weft"} follow the site's trainer; update() brings versions.

    site     path or text of the site
    peer     name of the peer, with "{rank}" in it for an engine of several processes
    caches   what becomes of keys and values that old weights computed. "reset": all go, and requests that run are
             computed anew. "salt": requests that come after an update share none with those before. "keep": they are
             used on
    options  of Init: overrides, empty, known, ignore, sources, timeout
    """
    return Follower(llm, site, peer, caches, options)


async def follow_async(llm: Any, site: Any, peer: str, *, caches: str, **options: Unpack[InitOptions]) -> AsyncFollower:
    """follow() for an AsyncLLM."""
    return await AsyncFollower(llm, caches).open(site, peer, options)
