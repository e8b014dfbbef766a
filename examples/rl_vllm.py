"""Generator b of rl_loop.py as vLLM, with a model that plain torch trains under the names that vLLM loads.

rl_loop.py takes this where vLLM is installed. vLLM gets its weights through weft alone (weft.vllm). A second engine, in
a process of its own, loads the checkpoint of each version by vLLM's own loader, and makes the same texts again.
"""

import json
import multiprocessing
import os
import pathlib
import shutil
import tempfile
import time

import torch
from rl_loop import BATCH, DEPTH, LENGTH, PROMPT, WIDTH, WORDS

HEAD = 32  # width of a head: vLLM has no narrower ones on CPUs
HEADS, INNER = WIDTH // HEAD, 2 * WIDTH
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "vocab_size": WORDS,
    "hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": DEPTH, "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS, "head_dim": HEAD, "hidden_act": "silu", "max_position_embeddings": LENGTH,
    "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "attention_bias": False, "mlp_bias": False,
    "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine runs in the process of the generator
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_CI_ENV": "1",  # no compiler runs
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",  # three processes of a tiny model share what cores there are
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "WEFT_VLLM_CPU": "keep",  # vLLM's CPU build computes with the weights as loaded
}
LATE = 600  # seconds that no engine takes to start or to answer


# ---- the policy, in plain torch


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        wide = x.float()
        scale = (wide.square().mean(-1, keepdim=True) + CONFIG["rms_norm_eps"]).rsqrt()
        return self.weight * (wide * scale).to(x.dtype)


def plain(inside, outside):
    return torch.nn.Linear(inside, outside, bias=False)


def turned(x):
    """Rotary places: each pair of a head's elements, turned by an angle that grows with the place."""
    rate = CONFIG["rope_theta"] ** (-torch.arange(0, HEAD, 2) / HEAD)
    angle = torch.arange(x.shape[2])[:, None] * rate
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    left, right = x.chunk(2, -1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), -1)


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = plain(WIDTH, WIDTH), plain(WIDTH, WIDTH), plain(WIDTH, WIDTH)
        self.o_proj = plain(WIDTH, WIDTH)

    def forward(self, x):
        made = (layer(x) for layer in (self.q_proj, self.k_proj, self.v_proj))
        q, k, v = (one.unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for one in made)
        seen = torch.nn.functional.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True)
        return self.o_proj(seen.transpose(1, 2).flatten(2))


class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = plain(WIDTH, INNER), plain(WIDTH, INNER), plain(INNER, WIDTH)

    def forward(self, x):
        return self.down_proj(torch.nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.mlp = Attention(), Inner()
        self.input_layernorm, self.post_attention_layernorm = Norm(), Norm()

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Policy(torch.nn.Module):
    """Says how likely each next word is: a Llama, with the names of its checkpoints."""

    def __init__(self):
        super().__init__()
        self.model = torch.nn.Module()
        self.model.embed_tokens = torch.nn.Embedding(WORDS, WIDTH)
        self.model.layers = torch.nn.ModuleList(Block() for _ in range(DEPTH))
        self.model.norm = Norm()
        self.lm_head = plain(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.model.embed_tokens(tokens)
        for block in self.model.layers:
            x = block(x)
        return self.lm_head(self.model.norm(x)).float().log_softmax(-1)


# ---- the engines of vLLM, each in a process of its own


def engine(folder, **options):
    """A vLLM engine of the configuration, or of the checkpoint, in a folder."""
    from vllm import LLM

    import weft_fabric as weft
    import weft_fabric.vllm

    weft.vllm.register()  # vLLM does so by itself where weft is an installed package
    return LLM(str(folder), dtype="bfloat16", skip_tokenizer_init=True, enforce_eager=True, max_model_len=LENGTH,
               max_num_seqs=BATCH, seed=0, **options)  # fmt: skip


def write(llm, seed):
    """generate() of rl_loop.py by vLLM: texts, and the log-probability of each word that was chosen."""
    from vllm import SamplingParams

    prompts = torch.randint(WORDS, (BATCH, PROMPT), generator=torch.Generator().manual_seed(seed))
    how = [SamplingParams(temperature=1, seed=BATCH * seed + text, max_tokens=LENGTH - PROMPT, logprobs=0,
                          ignore_eos=True, detokenize=False) for text in range(BATCH)]  # fmt: skip
    asked = [{"prompt_token_ids": prompt} for prompt in prompts.tolist()]
    made = [output.outputs[0] for output in llm.generate(asked, how, use_tqdm=False)]
    words = torch.tensor([list(text.token_ids) for text in made])
    chosen = [[one[word].logprob for word, one in zip(text.token_ids, text.logprobs)] for text in made]
    return torch.cat((prompts, words), 1).numpy(), torch.tensor(chosen).numpy()


def generator(site, listen, name, pipe, folder):
    """generator() of rl_loop.py by vLLM. The pause is the whole of an update: RPC, commit, label and caches."""
    import weft_fabric as weft
    import weft_fabric.vllm

    llm = engine(folder, load_format="dummy", weight_transfer_config={"backend": "weft"})
    more = {"empty": True, "overrides": {"trainer.listen": listen}}
    with weft.vllm.follow(llm, site, name, caches="reset", **more) as follower:
        held, wanted = None, 0  # versions are published one by one
        while True:
            if all(llm.collective_rpc("weft_is_staged", args=(wanted,))):
                began = time.perf_counter()
                follower.update(wanted)
                pause = 1000 * (time.perf_counter() - began)
                held, wanted = wanted, wanted + 1
                pipe.send(("version", held, held, pause, *write(llm, held)))
            if pipe.poll(0.002):
                seed = pipe.recv()
                if seed is None:
                    return
                pipe.send(("batch", held, seed, 0.0, *write(llm, seed)))


def judge(folder, pipe):
    """A process that makes again what the generator made, with a checkpoint that vLLM's own loader loads."""
    llm, loaded = None, None
    while (asked := pipe.recv()) is not None:
        version, seed = asked
        checkpoint = str(folder / str(version))
        if llm is None:
            llm = engine(checkpoint)
        elif version != loaded:
            llm.collective_rpc("reload_weights", kwargs={"weights_path": checkpoint})
            llm.reset_prefix_cache()
        loaded = version
        pipe.send(write(llm, seed))


class Engines:
    """What rl_loop.py needs for a generator of vLLM: its process, checkpoints of the last versions, and its judge."""

    def __init__(self, kept):
        self.kept = kept
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rl_vllm-"))
        (self.folder / "config.json").write_text(json.dumps(CONFIG))
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)  # of the processes that start from here on
        context = multiprocessing.get_context("spawn")
        self.pipe, there = context.Pipe()
        self.process = context.Process(target=judge, args=(self.folder, there), daemon=True)
        self.process.start()
        there.close()

    def target(self, site, listen, name, pipe):
        """Function and arguments of the generator's process."""
        return generator, (site, listen, name, pipe, self.folder)

    def keep(self, version, served):
        """Writes the checkpoint of a version, by safetensors alone."""
        from safetensors.torch import save_file

        folder = self.folder / str(version)
        folder.mkdir()
        shutil.copy(self.folder / "config.json", folder)
        save_file({name: tensor.contiguous() for name, tensor in served.state_dict().items()},
                  folder / "model.safetensors", metadata={"format": "pt"})  # fmt: skip
        shutil.rmtree(self.folder / str(version - self.kept), ignore_errors=True)

    def generate(self, version, seed):
        """What a dense load of a version makes in vLLM."""
        self.pipe.send((version, seed))
        if not self.pipe.poll(LATE):
            raise TimeoutError(f"the engine that judges said nothing in {LATE} s")
        try:
            return self.pipe.recv()
        except EOFError:
            raise RuntimeError("the engine that judges ended") from None

    def close(self):
        try:
            self.pipe.send(None)
        except OSError:
            pass  # an engine that ended
        self.process.join(30)
        shutil.rmtree(self.folder)
