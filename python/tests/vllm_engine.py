"""Scenes with real vLLM (a CPU build), each a process of its own, because an engine leaves its process changed.

python vllm_engine.py SCENE FOLDER     plays one, and prints a line "result JSON"
"""

import json
import os
import re
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import support

SITE = support.SITE + "[peer.w*]\n"
MLA = {
    "num_hidden_layers": 2,
    "num_key_value_heads": 4,
    "q_lora_rank": 64,
    "kv_lora_rank": 512,  # the only one that the CPU's kernel has, with 64 of rope
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 32,
    "v_head_dim": 32,
    "moe_intermediate_size": 64,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 4,
    "topk_group": 2,
    "num_nextn_predict_layers": 0,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
}
QWEN3_MOE = {
    "num_hidden_layers": 1,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "decoder_sparse_step": 1,
    "norm_topk_prob": True,
    "mlp_only_layers": [],
}
GLM = {
    "num_hidden_layers": 2,
    "partial_rotary_factor": 0.5,
    "use_qk_norm": True,
    "attention_bias": True,
    "moe_intermediate_size": 64,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
}
GPT_OSS = {
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "sliding_window": 64,
    "layer_types": ["sliding_attention", "full_attention"],
}
NEMOTRON_H = {
    "num_hidden_layers": 4,
    "hybrid_override_pattern": "M-M*",
    "mamba_num_heads": 8,
    "mamba_head_dim": 32,
    "n_groups": 2,
    "ssm_state_size": 16,
    "conv_kernel": 4,
    "expand": 2,
    "mlp_hidden_act": "relu2",
}
# compressed-tensors with a scale for each row, as llm-compressor writes that.
CODES = {"num_bits": 8, "type": "float", "symmetric": True}
FP8 = {
    "quant_method": "compressed-tensors",
    "format": "float-quantized",
    "quantization_status": "compressed",
    "ignore": ["lm_head", "re:.*experts.*", "re:.*mlp.gate$"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {**CODES, "strategy": "channel", "dynamic": False},
            "input_activations": {**CODES, "strategy": "token", "dynamic": True},
        }
    },
}
MODELS = {
    "dense": ("Qwen3", {"num_hidden_layers": 2}),
    "tied": ("Llama", {"num_hidden_layers": 2, "tie_word_embeddings": True, "vocab_size": 500}),
    "moe": ("Qwen3Moe", QWEN3_MOE),
    "padded": ("Qwen3Moe", {**QWEN3_MOE, "moe_intermediate_size": 48}),
    "mla": ("DeepseekV3", {**MLA, "first_k_dense_replace": 2}),
    "deepseek": ("DeepseekV3", {**MLA, "first_k_dense_replace": 1}),
    "kimi": ("DeepseekV3", {**MLA, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1}),
    "glm": ("Glm4Moe", GLM),
    "gpt_oss": ("GptOss", GPT_OSS),
    "nemotron": ("NemotronH", NEMOTRON_H),
    "fp8": ("Qwen3", {"num_hidden_layers": 2, "quantization_config": FP8}),
    "mla_fp8": ("DeepseekV3", {**MLA, "first_k_dense_replace": 2, "quantization_config": FP8}),
    "mixtral": ("Mixtral", {"num_hidden_layers": 2, "num_local_experts": 4, "num_experts_per_tok": 2}),
}
CPU_MLA = {"attention_backend": "CPU_MLA"}  # because AMX_MLA has packed copies of kv_b_proj alone
CHOICES = dict.fromkeys(("mla", "deepseek", "kimi", "mla_fp8"), CPU_MLA)
# Names of a checkpoint that transformers renames as it loads.
OLD_NAMES = {
    "Mixtral": {"mlp.": "block_sparse_moe.", "gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"},
    "NemotronH": {"model.": "backbone."},
}
BIAS = "e_score_correction_bias"  # of a router, in float32
CUTS = {
    "cut.rows.tensors": "*.q_proj.weight, *.k_proj.weight, *.v_proj.weight, *.gate_proj.weight, *.up_proj.weight, "
    "*embed_tokens.weight, lm_head.weight",
    "cut.rows.rows": 2,
    "cut.columns.tensors": "*.o_proj.weight, *.down_proj.weight",
    "cut.columns.columns": 2,
    "cut.whole.tensors": "*norm.weight, *.mlp.gate.weight",
}
OPTIONS = {
    "skip_tokenizer_init": True,
    "dtype": "bfloat16",
    "enforce_eager": True,
    "seed": 0,
    "max_model_len": 512,
    "max_num_seqs": 4,
}
ENGINES = []
PROMPTS = ([5, 6, 7, 8], [100, 3])


def plug_in(folder, group, points):
    """Has weft be a package with entry points, as an installed one is. Returns the path of Python that shows it."""
    info = Path(folder) / "entry" / "weft-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weft\nVersion: 0\n")
    (info / "entry_points.txt").write_text("\n".join((f"[{group}]", *points, "")))
    return os.pathsep.join([str(info.parent), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])


def environment(folder):
    """What a process with vLLM needs: the entry point, as an installed package has it, and quiet."""
    plugins = ("weft = weft_fabric.vllm:register", "weft_still = vllm_engine:stand_still")
    return {
        **os.environ,
        "PYTHONPATH": plug_in(folder, "vllm.general_plugins", plugins),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_CPU_CI_ENV": "1",
        "WEFT_VLLM_CPU": "keep",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "auto",
    }


def stand_still():
    """Has engines step without computing where STILL says so: the CPU build cannot exchange experts."""
    if os.environ.get("STILL"):
        from vllm.v1.worker.gpu_worker import Worker

        Worker.execute_dummy_batch = lambda self: None


def config_of(name, **more):
    import transformers

    family, own = MODELS[name]
    fields = {
        "vocab_size": 512,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 1024,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    config = getattr(transformers, f"{family}Config")(**{**fields, **own, **more})
    config.architectures = [f"{family}ForCausalLM"]
    config.dtype = "bfloat16"
    return config


def names_of(config):
    """Names and shapes of a checkpoint, where each expert is a tensor of its own."""
    old = OLD_NAMES.get(config.architectures[0].removesuffix("ForCausalLM"), {})
    for name, shape in _new_names_of(config):
        for new, before in old.items():
            name = name.replace(new, before)
        yield name, shape


def _new_names_of(config):
    import torch
    import transformers

    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    biases = [(name, tensor) for name, tensor in model.named_buffers() if name.endswith(BIAS)]
    for name, tensor in [*model.named_parameters(), *biases]:
        shape = tuple(tensor.shape)
        each = "experts" in name and len(shape) == 3 and config.model_type != "gpt_oss"
        for expert in range(shape[0]) if each else ():
            base = f"{name.rsplit('.', 1)[0]}.{expert}"
            if name.endswith("gate_up_proj"):
                yield f"{base}.gate_proj.weight", (shape[1] // 2, shape[2])
                yield f"{base}.up_proj.weight", (shape[1] // 2, shape[2])
            else:
                yield f"{base}.down_proj.weight", shape[1:]
        if not each:
            yield name, shape


def weights_of(config, seed=0):
    import torch

    generator = torch.Generator().manual_seed(seed)
    weights = {
        name: (torch.randn(shape, generator=generator) * 0.05 + (1 if len(shape) == 1 else 0)).to(
            torch.float32 if name.endswith(BIAS) else torch.bfloat16
        )
        for name, shape in names_of(config)
    }
    return quantized(weights) if getattr(config, "quantization_config", None) else weights


def quantized(weights):
    """Linear layers as codes of fp8, and a scale in bfloat16 for each row."""
    import torch

    result = {}
    for name, tensor in weights.items():
        if re.search(r"(?<!experts)\.\w+_(proj|mqa)\.weight$", name):
            scale = (tensor.float().abs().amax(1, keepdim=True) / 448).to(torch.bfloat16)
            tensor = (tensor.float() / scale.float()).clamp(-448, 448).to(torch.float8_e4m3fn)
            result[f"{name}_scale"] = scale
        result[name] = tensor
    return result


def save(config, weights, folder):
    from safetensors.torch import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(folder)
    return str(folder)


def step(weights, seed, share=85):
    """Changes one element in `share` of each tensor by a few steps of its dtype."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    for tensor in weights.values():
        if tensor.element_size() == 1:  # codes, none of which becomes NaN
            codes = tensor.view(torch.uint8).view(-1)
            where = torch.randperm(codes.numel(), generator=generator)[: max(1, codes.numel() // share)]
            codes[where] ^= torch.randint(1, 4, (len(where),), generator=generator, dtype=torch.uint8) * (
                (codes[where] & 0x7C) != 0x7C
            )
            continue
        bits = tensor.view(torch.int16).view(-1)  # of float32 these are halves, of which the first is changed alone
        count = max(1, bits.numel() // share)
        where = torch.randperm(bits.numel(), generator=generator)[:count]
        bits[where] += torch.randint(-3, 4, (count,), generator=generator, dtype=torch.int16)


def engine_of(path, **options):
    import torch
    from vllm import LLM

    if os.environ.get("ISA") == "vec":  # what vLLM takes without AMX
        torch.cpu._is_amx_tile_supported = lambda: False
    llm = LLM(model=path, **{**OPTIONS, **CHOICES.get(os.environ.get("MODEL"), {}), **options})
    ENGINES.append(llm)
    return llm


def sampling(tokens=16):
    from vllm import SamplingParams

    return SamplingParams(temperature=0, max_tokens=tokens, detokenize=False, logprobs=5, ignore_eos=True)


def said(outputs):
    """Tokens, and the bits of their log-probabilities."""
    return [
        [
            list(one.outputs[0].token_ids),
            [[(k, p.logprob.hex()) for k, p in sorted(d.items())] for d in one.outputs[0].logprobs],
        ]
        for one in outputs
    ]


def ask(llm):
    return said(llm.generate([{"prompt_token_ids": list(p)} for p in PROMPTS], sampling(), use_tqdm=False))


def trainer_of(weights, provider, **keys):
    import weft_fabric as weft

    return weft.Trainer(weft.Site(SITE.format(provider=provider), keys), weights, log=support.quiet)


def follower_of(llm, trainer, provider, peer="a", caches="reset", empty=False, **keys):
    import weft_fabric as weft
    import weft_fabric.vllm

    overrides = {"trainer.listen": trainer.stats().listen, "log.level": "warn", **keys}
    return weft.vllm.follow(llm, SITE.format(provider=provider), peer, caches=caches, overrides=overrides, empty=empty)


# ---- scenes


def scene_dense(folder):
    """What a dense load of a checkpoint says; the judge of the others."""
    llm = engine_of(f"{folder}/{os.environ['CHECKPOINT']}", tensor_parallel_size=int(os.environ.get("TP", "1")))
    return {"said": ask(llm), "sums": llm.collective_rpc("compute_weight_checksums")}


def derive_ms(worker):
    """What of the last commit the engine's own code took."""
    return worker.weight_transfer_engine.core._group.derive_ms


def undo_next(worker):
    """Has the next commit of a worker undone, as when another process fails."""
    from types import SimpleNamespace

    group = worker.weight_transfer_engine.core._group
    commit, ranks = group.rollout.commit, group.ranks

    def every(own):
        group.ranks = ranks
        return [own._replace(fault="planted")]

    def held(*args, **keys):
        group.ranks, group.rollout.commit = SimpleNamespace(rank=0, size=1, every=every), commit
        return commit(*args, **keys)

    group.rollout.commit = held


def undone(llm, follower, version):
    """What the engine says after a commit that was undone."""
    import weft_fabric as weft

    llm.collective_rpc(undo_next)
    try:
        follower.update(version)
    except weft.VersionError as error:
        assert "the commit was undone: process 0: planted" in str(error), error
        return ask(llm)


def scene_versions(folder):
    """Versions 0 to LAST in one engine, by several processes where TP says so. One process undoes one at first."""
    last = int(os.environ["LAST"])
    size = int(os.environ.get("TP", "1"))
    config = config_of(os.environ["MODEL"])
    weights = weights_of(config)
    path = save(config, weights, f"{folder}/v0")
    provider = "loop" if size == 1 else "tcp"
    cuts = CUTS if size > 1 else {}
    result = {"said": {}, "held": {}, "pause_ms": {}, "call_ms": {}, "derive_ms": {}}
    empty = bool(os.environ.get("EMPTY"))  # without a checkpoint, so that version 0 comes as a snapshot
    choice = {"load_format": "dummy"} if empty else {}
    llm = engine_of(path, weight_transfer_config={"backend": "weft"}, tensor_parallel_size=size, **choice)
    with trainer_of(weights, provider, **cuts) as trainer:
        with follower_of(llm, trainer, provider, "w{rank}" if size > 1 else "a", empty=empty, **cuts) as follower:
            for version in range(last + 1):
                if version:
                    step(weights, version)
                    trainer.publish(version)
                if version == last // 2 + 1 and size == 1:
                    result["undone"] = undone(llm, follower, version)
                begin = time.perf_counter()
                result["held"][version] = follower.update(version)
                result["call_ms"][version] = 1000 * (time.perf_counter() - begin)
                result["pause_ms"][version] = follower.pause_ms()
                result["derive_ms"][version] = max(llm.collective_rpc(derive_ms)) if size == 1 else 0
                result["said"][version] = ask(llm)
            answer = follower.generate([{"prompt_token_ids": [1, 2]}], sampling(4), use_tqdm=False)[0]
            result["answer"] = [
                answer.began,
                answer.ended,
                [tuple(vars(s).values()) for s in answer.output.outputs[0].weight_versions],
            ]
            result["sums"] = llm.collective_rpc("compute_weight_checksums")
    save(config, weights, f"{folder}/v{last}")
    return result


def scene_caches(folder):
    """Whether a new request reuses keys and values that old weights computed, by vLLM's own count."""
    config = config_of("tied")
    weights = weights_of(config)
    llm = engine_of(
        save(config, weights, f"{folder}/tied"),
        weight_transfer_config={"backend": "weft"},
        enable_prefix_caching=True,
        block_size=32,
    )
    prompt = [{"prompt_token_ids": [3 + i % 400 for i in range(200)]}]
    result = {}
    with trainer_of(weights, "loop") as trainer, follower_of(llm, trainer, "loop") as follower:
        version = 0
        for caches in ("reset", "salt", "keep"):
            follower.caches = caches
            follower.update(version)
            follower.generate(prompt, sampling(2), use_tqdm=False)
            again = follower.generate(prompt, sampling(2), use_tqdm=False)[0]
            version += 1
            step(weights, version)
            trainer.publish(version)
            follower.update(version)
            new = follower.generate(prompt, sampling(2), use_tqdm=False)[0]
            result[caches] = {
                "again": again.output.num_cached_tokens,
                "new": new.output.num_cached_tokens,
                "versions": [again.ended, new.began],
            }
        held = follower.version
        follower.sleep(1)  # which this build ignores: the weights stay where they are
        result["sleep"] = [follower.version, follower.wake() == held]
    return result


def scene_running(folder):
    """A version that comes while a request runs: the request goes on, and its answer bears both versions."""
    import asyncio

    return asyncio.run(_running(folder))


async def _running(folder):
    from vllm import SamplingParams
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    import weft_fabric as weft
    import weft_fabric.vllm

    config = config_of("dense")
    weights = weights_of(config)
    path = save(config, weights, f"{folder}/running")
    llm = AsyncLLM.from_engine_args(AsyncEngineArgs(model=path, weight_transfer_config={"backend": "weft"}, **OPTIONS))
    params = SamplingParams(temperature=0, max_tokens=300, detokenize=False, ignore_eos=True)
    with trainer_of(weights, "tcp") as trainer:
        overrides = {"trainer.listen": trainer.stats().listen, "log.level": "warn"}
        follower = await weft.vllm.follow_async(
            llm, SITE.format(provider="tcp"), "a", caches="salt", overrides=overrides
        )
        first = await follower.update(0)
        answers = []

        async def run():
            async for answer in follower.generate({"prompt_token_ids": [5, 6, 7]}, params, "request"):
                answers.append(answer)
                if len(answers) == 10:
                    begun.set()

        import asyncio

        begun = asyncio.Event()
        task = asyncio.create_task(run())
        await asyncio.wait_for(begun.wait(), 60)
        step(weights, 1)
        trainer.publish(1)
        second = await follower.update(1)
        await asyncio.wait_for(task, 120)
        pause = await follower.pause_ms()
        await follower.close()
    last = answers[-1]
    spans = [tuple(vars(span).values()) for span in last.output.outputs[0].weight_versions]
    llm.shutdown()
    return {
        "first": first,
        "second": second,
        "began": last.began,
        "ended": last.ended,
        "spans": spans,
        "pause_ms": pause,
        "tokens": len(last.output.outputs[0].token_ids),
    }


def scene_parallel(folder):
    """Two data-parallel engines take versions: each with all weights, or with half of the experts where STILL says so."""
    import asyncio

    return asyncio.run(_parallel(folder))


async def _parallel(folder):
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    import weft_fabric as weft
    import weft_fabric.vllm

    model = os.environ["MODEL"]
    weights = weights_of(config_of(model))
    experts = bool(os.environ.get("STILL"))
    cuts = {"cut.experts.by": "expert", "cut.experts.groups": 2} if experts else {}
    both = {**OPTIONS, "data_parallel_size": 2, "enable_expert_parallel": experts}

    def engine(version, **options):
        path = save(config_of(model), weights, f"{folder}/{version}")
        return AsyncLLM.from_engine_args(AsyncEngineArgs(model=path, **both, **options))

    def sums(llm):
        return llm.engine_core.call_utility_all_async("collective_rpc", "compute_weight_checksums")

    llm = engine("first", weight_transfer_config={"backend": "weft"})
    with trainer_of(weights, "tcp", **cuts) as trainer:
        overrides = {"trainer.listen": trainer.stats().listen, "log.level": "warn", **cuts}
        follower = await weft.vllm.follow_async(
            llm, SITE.format(provider="tcp"), "w{rank}", caches="reset", overrides=overrides
        )
        held = [await follower.update(0)]
        for version in range(1, 4):
            step(weights, version)
            trainer.publish(version)
            held.append(await follower.update(version))
        step(weights, 4)
        trainer.publish(4)
        await llm.pause_generation(mode="keep", clear_cache=False)  # as a client of HTTP does
        await llm.start_weight_update()
        await llm.update_weights(SimpleNamespace(update_info={"version": 4}))
        await llm.finish_weight_update()
        await llm.resume_generation()
        held.append(follower._label(await follower._each("weft_held")))
        result = {"held": held, "sums": await sums(llm), "of": await llm.engine_core.get_weight_version_async()}
        await follower.close()
    llm.shutdown()
    other = engine("last")
    result["dense"] = await sums(other)
    other.shutdown()
    return result


def scene_refusals(folder):
    """What the real engine refuses by name."""
    import weft_fabric as weft

    result = {}
    os.environ["WEFT_VLLM_CPU"] = os.environ.get("KEEP", "")
    config = config_of(os.environ["MODEL"])
    weights = weights_of(config)
    llm = engine_of(
        save(config, weights, f"{folder}/{os.environ['MODEL']}"),
        weight_transfer_config={"backend": "weft"},
        **json.loads(os.environ["CHOICE"]),
    )
    if os.environ["MODEL"] == "dense":
        weights.pop("model.norm.weight")
    with trainer_of(weights, "loop") as trainer:
        try:
            follower_of(llm, trainer, "loop")
        except weft.Error as error:
            result["error"] = str(error)
    return result


def scene_pause(folder):
    """Milliseconds that an LLM stands still."""
    import vllm_pause

    return vllm_pause.scene_pause(folder)


def scene_stands(folder):
    """Milliseconds that an AsyncLLM stands still."""
    import vllm_pause

    return vllm_pause.scene_stands(folder)


def scene_record(folder):
    """Where real loaders put each tensor."""
    import vllm_record

    return vllm_record.tables(folder)


def main():
    scene, folder = sys.argv[1], sys.argv[2]
    result = globals()[f"scene_{scene}"](folder)
    for engine in ENGINES:  # whose processes would outlive this one
        engine.llm_engine.engine_core.shutdown()
    sys.stdout.flush()
    print("\nresult " + json.dumps(result), flush=True)
    os._exit(0)  # an engine's threads may outlive its use


if __name__ == "__main__":
    main()
