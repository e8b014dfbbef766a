"""How long an engine of vLLM stands still for a version, beside weft_commit alone in a plain process' memory: 1 % of a
model of 100 million elements changes, 50 times. MODEL says which: dense (where nothing is given), moe, whose experts are
moved, or glm, whose routers are computed again too. A part of vllm_engine.py, whose scenes are these two."""

import asyncio
import os
import statistics
import time

import vllm_engine as scenes

VERSIONS = 50
MEMORY = {"peers.staging": "512MiB"}
SIZES = {
    "vocab_size": 16384,
    "hidden_size": 768,
    "intermediate_size": 2048,
    "num_hidden_layers": 12,
    "head_dim": 64,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
}
EXPERTS = {**SIZES, "num_hidden_layers": 4, "moe_intermediate_size": 512}
MODELS = {"dense": SIZES, "moe": {**EXPERTS, "num_experts": 16}, "glm": {**EXPERTS, "n_routed_experts": 16}}


def change(weights, generator):
    """1 % of each tensor, at random places."""
    import torch

    for tensor in weights.values():
        bits = tensor.view(torch.int16).view(-1)
        where = torch.randint(0, bits.numel(), (max(1, bits.numel() // 100),), generator=generator)
        bits[where] += 1


class Clock:
    """Milliseconds of calls, by name."""

    def __init__(self):
        self.took = {}

    def note(self, name, ms):
        self.took.setdefault(name, []).append(ms)

    def add(self, name, begin):
        self.note(name, 1000 * (time.perf_counter() - begin))

    def figures(self):
        """Median, ninth of ten and worst of each name."""
        return {
            name: [round(value, 2) for value in (statistics.median(took), sorted(took)[len(took) * 9 // 10], max(took))]
            for name, took in self.took.items()
        }


class Alone:
    """Peer b: a copy of the model in plain tensors, and weft_commit without vLLM."""

    def __init__(self, weights, trainer, provider):
        import support
        import weft_fabric as weft

        keys = {"trainer.listen": trainer.stats().listen, **MEMORY}
        site = weft.Site(scenes.SITE.format(provider=provider), keys)
        self.weights = {name: tensor.clone() for name, tensor in weights.items()}
        self.rollout = weft.Rollout(site, "b", self.weights, log=support.quiet)

    def staged(self, version):
        staged = self.rollout.staged(timeout=60)
        assert staged and staged.version == version, (staged, version)
        return staged

    def commit(self, staged, clock):
        begin = time.perf_counter()
        self.rollout.commit(staged)
        clock.add("alone", begin)


def model(folder):
    name = os.environ.get("MODEL", "dense")
    config = scenes.config_of(name, **MODELS[name])
    weights = scenes.weights_of(config)
    return weights, scenes.save(config, weights, f"{folder}/pause")


def result(weights, changed, clock):
    return {"elements": sum(t.numel() for t in weights.values()), "changed": statistics.median(changed),
            "commits": VERSIONS, "ms": clock.figures()}  # fmt: skip


def scene_pause(folder):
    """An LLM in this process. Each version is committed by the engine and alone, in turns, and then copied densely."""
    import torch

    weights, path = model(folder)
    llm = scenes.engine_of(path, weight_transfer_config={"backend": "weft"})
    generator, clock, changed = torch.Generator().manual_seed(1), Clock(), []

    def load(worker):
        """The least that a dense transfer stands still for: the loader copies what is in memory here already."""
        begin = time.perf_counter()
        worker.model_runner.get_model().load_weights(iter(weights.items()))
        clock.add("dense copy", begin)

    def update(version):
        begin = time.perf_counter()
        follower.update(version)
        clock.add("update", begin)
        clock.note("commit", follower.pause_ms())
        clock.note("engine's own code", max(llm.collective_rpc(scenes.derive_ms)))

    with scenes.trainer_of(weights, "loop", **{"trainer.journal": "512MiB", **MEMORY}) as trainer:
        alone = Alone(weights, trainer, "loop")
        with alone.rollout, scenes.follower_of(llm, trainer, "loop", **MEMORY) as follower:
            follower.update(0)
            for version in range(1, VERSIONS + 1):
                change(weights, generator)
                changed.append(trainer.publish(version).changed)
                while not all(llm.collective_rpc("weft_is_staged", args=(version,))):
                    time.sleep(0.01)
                staged = alone.staged(version)
                if version % 2:
                    update(version)
                alone.commit(staged, clock)
                if not version % 2:
                    update(version)
                if version % 5 == 0 and os.environ.get("MODEL", "dense") == "dense":  # else loaders fill another format
                    llm.collective_rpc(load)
    return result(weights, changed, clock)


async def _stands(folder):
    """An AsyncLLM, whose core is another process: from the call that pauses to the end of the one that resumes."""
    import torch
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    import weft_fabric as weft
    import weft_fabric.vllm

    weights, path = model(folder)
    options = {**scenes.OPTIONS, "weight_transfer_config": {"backend": "weft"}}
    llm = AsyncLLM.from_engine_args(AsyncEngineArgs(model=path, **options))
    generator, clock, changed, begun = torch.Generator().manual_seed(1), Clock(), [], 0.0
    core, resume = llm.engine_core, llm.resume_generation
    pause = core.pause_scheduler_async

    async def pause_timed(**how):
        nonlocal begun
        begun = time.perf_counter()
        await pause(**how)

    async def resume_timed():
        await resume()
        clock.add("stands", begun)

    core.pause_scheduler_async, llm.resume_generation = pause_timed, resume_timed
    with scenes.trainer_of(weights, "tcp", **{"trainer.journal": "512MiB", **MEMORY}) as trainer:
        alone = Alone(weights, trainer, "tcp")
        overrides = {"trainer.listen": trainer.stats().listen, "log.level": "warn", **MEMORY}
        follower = await weft.vllm.follow_async(
            llm, scenes.SITE.format(provider="tcp"), "a", caches="reset", overrides=overrides
        )
        await follower.update(0)
        clock.took.clear()
        with alone.rollout:
            for version in range(1, VERSIONS + 1):
                change(weights, generator)
                changed.append(trainer.publish(version).changed)
                staged = alone.staged(version)
                await follower.update(version, timeout=60)
                clock.note("commit", await follower.pause_ms())
                alone.commit(staged, clock)
        await follower.close()
    llm.shutdown()
    return result(weights, changed, clock)


def scene_stands(folder):
    return asyncio.run(_stands(folder))
