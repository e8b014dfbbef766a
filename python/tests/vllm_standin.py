"""A stand-in for vLLM: workers that keep its contract for weight transfer, each in a thread, and an LLM that caches
keys and values by prefix. The model is numpy's: fused qkv of rows, and o of columns, parted over the workers."""

import asyncio
import threading
from types import SimpleNamespace

import numpy as np

from weft_fabric.engine._boxes import Copy
from weft_fabric.engine._core import Core, Init, Update
from weft_fabric.vllm._worker import attach, attach_core

SHAPES = {"q": (8, 6), "k": (4, 6), "v": (4, 6), "o": (6, 8), "norm": (6,)}
CUTS = {"cut.rows.tensors": "q, k, v", "cut.rows.rows": 2, "cut.o.tensors": "o", "cut.o.columns": 2,
        "cut.norm.tensors": "norm"}  # fmt: skip


class ThreadRanks:
    """The processes of an engine, as threads."""

    def __init__(self, size, timeout=60.0):
        self.size, self.timeout = size, timeout
        self.barrier = threading.Barrier(size)
        self.said = [None] * size

    def of(self, rank):
        return SimpleNamespace(rank=rank, size=self.size, every=lambda own: self.every(rank, own))

    def every(self, rank, own):
        self.said[rank] = own
        try:
            self.barrier.wait(self.timeout)
            every = list(self.said)
            self.barrier.wait(self.timeout)
        except threading.BrokenBarrierError:
            raise RuntimeError("a process is away") from None
        return every


def strided(name, parameter, source_first, sizes, source, target):
    """A copy to a view of a parameter."""
    strides = tuple(stride // target.itemsize for stride in target.strides)
    return Copy(
        name, source_first, sizes, source, target.__array_interface__["data"][0], strides, target.itemsize, parameter
    )


class Model:
    """What one of `size` workers has of the model, as vLLM fuses it."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size
        self.qkv = np.zeros((16 // size, 6), np.float32)
        self.o = np.zeros((6, 8 // size), np.float32)
        self.norm = np.zeros(6, np.float32)

    def parameters(self):
        return [self.qkv, self.o, self.norm]

    def record(self, layout):
        assert [spec.name for spec in layout] == list(SHAPES)
        at, copies = 0, []
        for name in "qkv":
            rows = SHAPES[name][0] // self.size
            copies.append(strided(name, "qkv", self.rank * rows * 6, (rows, 6), (6, 1), self.qkv[at : at + rows]))
            at += rows
        columns = 8 // self.size
        copies.append(strided("o", "o", self.rank * columns, (6, columns), (8, 1), self.o))
        copies.append(strided("norm", "norm", 0, (6,), (1,), self.norm))
        return copies

    def load(self, weights):
        """A dense load."""
        part = {n: np.split(weights[n], self.size, 0 if n in "qkv" else 1)[self.rank] for n in ("q", "k", "v", "o")}
        self.qkv[:] = np.concatenate([part[n] for n in "qkv"])
        self.o[:] = part["o"]
        self.norm[:] = weights["norm"]

    def same(self, weights):
        other = Model(self.rank, self.size)
        other.load(weights)
        return all(a.tobytes() == b.tobytes() for a, b in zip(self.parameters(), other.parameters()))


class Engine:
    """weft_fabric.vllm._engine.Engine without vLLM."""

    def __init__(self, model, ranks):
        self.core = Core(
            ranks, "cpu", model.record, lambda: [a.__array_interface__["data"][0] for a in model.parameters()]
        )

    def init_transfer_engine(self, init):
        self.core.open(init)

    def start_weight_update(self):
        self.core.start()

    def update_weights(self, info):
        self.core.stage(Update(**info))

    def finish_weight_update(self):
        self.core.commit()

    def shutdown(self):
        self.core.close()


class Worker:
    """vllm.v1.worker.gpu_worker.Worker (0.32) as far as weights are transferred."""

    def __init__(self, model, ranks):
        self.model = model
        self.weight_transfer_engine = Engine(model, ranks)
        self._weight_update_active = False
        self._away = None

    def init_weight_transfer_engine(self, init_info):
        self.weight_transfer_engine.init_transfer_engine(Init(**init_info))

    def shutdown_weight_transfer_engine(self):
        self.weight_transfer_engine.shutdown()

    def start_weight_update(self):
        if self._weight_update_active:
            raise RuntimeError("start_weight_update called while a weight update is already active")
        self.weight_transfer_engine.start_weight_update()
        self._weight_update_active = True

    def update_weights(self, update_info):
        if not self._weight_update_active:
            raise RuntimeError("start_weight_update must be called before update_weights.")
        try:
            self.weight_transfer_engine.update_weights(update_info)
        except BaseException:
            self._weight_update_active = False
            raise

    def finish_weight_update(self):
        if not self._weight_update_active:
            raise RuntimeError("finish_weight_update called without a matching start_weight_update.")
        self.weight_transfer_engine.finish_weight_update()
        self._weight_update_active = False

    def sleep(self, level=1):
        """The weights go: to a copy, or for good. What reads them now reads other bits."""
        self._away = [array.copy() for array in self.model.parameters()] if level == 1 else None
        for array in self.model.parameters():
            array[...] = np.nan

    def wake_up(self, tags=None):
        for array, kept in zip(self.model.parameters(), self._away or []):
            array[...] = kept


attach(Worker)


class EngineCore:
    """vllm.v1.engine.core.EngineCore: it calls all workers, and knows the label that answers bear."""

    def __init__(self, workers, data_parallel_size=1):
        self.workers = workers
        self.vllm_config = SimpleNamespace(
            weight_transfer_config=SimpleNamespace(backend="weft"),
            parallel_config=SimpleNamespace(data_parallel_size=data_parallel_size),
        )
        self.weight_version = "default"

    def set_weight_version(self, version):
        self.weight_version = version

    def get_weight_version(self):
        return self.weight_version

    def collective_rpc(self, method, timeout=None, args=(), kwargs=None):
        results = [None] * len(self.workers)

        def call(rank):
            try:
                results[rank] = getattr(self.workers[rank], method)(*args, **(kwargs or {}))
            except BaseException as error:
                results[rank] = error

        threads = [threading.Thread(target=call, args=(rank,)) for rank in range(len(self.workers))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results


attach_core(EngineCore)


class LLM:
    """vllm.LLM as far as weft.vllm.follow needs that. An answer is computed from the keys of the prompt, which are
    cached by prefix and salt, and from the weights of now."""

    def __init__(self, size=1):
        self.ranks = ThreadRanks(size)
        self.workers = [Worker(Model(rank, size), self.ranks.of(rank)) for rank in range(size)]
        self.cached, self.encoded = {}, 0
        self.core = EngineCore(self.workers)
        self.llm_engine = SimpleNamespace(reset_prefix_cache=self._reset, reset_encoder_cache=self._reset_encoder)

    def _reset(self, reset_running_requests=False, reset_connector=False):
        self.cached.clear()
        return True

    def _reset_encoder(self):
        self.encoded += 1

    def collective_rpc(self, method, args=(), kwargs=None):
        return self.core.collective_rpc(method, None, args, kwargs)

    @property
    def weight_version(self):
        return self.core.weight_version

    def init_weight_transfer_engine(self, request):
        self.collective_rpc("init_weight_transfer_engine", kwargs={"init_info": request["init_info"]})

    def shutdown_weight_transfer_engine(self):
        self.collective_rpc("shutdown_weight_transfer_engine")

    def start_weight_update(self):
        self.collective_rpc("start_weight_update")

    def update_weights(self, request):
        self.collective_rpc("update_weights", kwargs={"update_info": request["update_info"]})

    def finish_weight_update(self):
        self.collective_rpc("finish_weight_update")

    def update_weight_version(self, version):
        self.core.set_weight_version(version)

    def sleep(self, level=1):
        self.cached.clear()
        self.collective_rpc("sleep", args=(level,))

    def wake_up(self, tags=None):
        self.collective_rpc("wake_up", args=(tags,))

    def generate(self, prompts):
        return [
            self._answer(prompt if isinstance(prompt, dict) else {"prompt_token_ids": prompt}) for prompt in prompts
        ]

    def _answer(self, prompt):
        key = (tuple(prompt["prompt_token_ids"]), prompt.get("cache_salt"))
        reused = key in self.cached
        if not reused:
            self.cached[key] = sum(float(worker.model.qkv.sum()) for worker in self.workers)
        now = sum(float(worker.model.qkv.sum()) for worker in self.workers)
        span = SimpleNamespace(version=self.weight_version, start=0, end=1)
        one = SimpleNamespace(token_ids=[self.cached[key], now], weight_versions=[span])
        return SimpleNamespace(outputs=[one], reused=reused)


class AsyncLLM:
    """vllm.v1.engine.async_llm.AsyncLLM in the same way. Weights may change while generation is paused alone."""

    def __init__(self, size=1, engines=1):
        """engines  data-parallel ones with a worker each, which wait for each other in each step of theirs"""
        self.llm, self.paused, self.pauses = LLM(max(size, engines)), False, 0
        self.theirs = False  # a pause that somebody else made
        self.vllm_config = SimpleNamespace(parallel_config=SimpleNamespace(data_parallel_size=engines))
        self.cores = [EngineCore([one], engines) for one in self.llm.workers] if engines > 1 else [self.llm.core]
        self.engine_core = SimpleNamespace(
            pause_scheduler_async=self._pause, call_utility_all_async=self._call if engines > 1 else None
        )
        every = self.llm.ranks.every
        if engines > 1:
            self.llm.ranks.every = lambda rank, own: self._still() and every(rank, own)

    def _still(self):
        if not self.paused:
            raise RuntimeError("an engine waits for the other's step, which waits for this")
        return True

    async def _call(self, utility, method, timeout, args, kwargs):
        calls = [asyncio.to_thread(core.collective_rpc, method, timeout, args, kwargs) for core in self.cores]
        return await asyncio.gather(*calls)

    async def collective_rpc(self, method, timeout=None, args=(), kwargs=None):
        assert self.paused or self.theirs or not method.endswith(("finish_weight_update", "weft_finish"))
        return (await self._call("collective_rpc", method, timeout, args, kwargs))[0]

    async def init_weight_transfer_engine(self, request):
        await self.collective_rpc("init_weight_transfer_engine", kwargs={"init_info": request.init_info})

    async def shutdown_weight_transfer_engine(self):
        await self.collective_rpc("shutdown_weight_transfer_engine")

    async def _pause(self, mode, clear_cache):
        assert (mode, clear_cache) == ("keep", False)
        self.paused, self.pauses = True, self.pauses + 1

    async def pause_generation(self, *, mode="abort", clear_cache=True):
        await self._pause(mode, clear_cache)
        await asyncio.sleep(0.02)

    async def resume_generation(self):
        self.paused = False

    async def is_paused(self):
        return self.paused or self.theirs

    async def start_weight_update(self):
        await self.collective_rpc("start_weight_update")

    async def update_weights(self, request):
        assert self.paused == (len(self.cores) > 1)  # it may wait
        await self.collective_rpc("update_weights", kwargs={"update_info": request.update_info})

    async def finish_weight_update(self, weight_version=None):
        await self.collective_rpc("finish_weight_update")

    async def update_weight_version(self, version):
        for core in {self.llm.core, *self.cores}:
            core.set_weight_version(version)

    async def reset_prefix_cache(self, reset_running_requests=False, reset_connector=False):
        return self.llm._reset(reset_running_requests)

    async def reset_encoder_cache(self):
        self.llm._reset_encoder()

    async def sleep(self, level=1):
        await asyncio.to_thread(self.llm.sleep, level)

    async def wake_up(self, tags=None):
        await asyncio.to_thread(self.llm.wake_up, tags)

    async def generate(self, prompt, *arguments):
        (first,), (last,) = self.llm.generate([prompt]), self.llm.generate([prompt])
        yield first
        yield last
