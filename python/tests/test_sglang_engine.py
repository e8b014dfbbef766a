"""weft_fabric.sglang in real SGLang engines, on the host's cores, in the environment of tools/run-sglang.

test_sglang_engine.py dense FOLDER PROCESSES    plays the judge: an engine that loads a checkpoint; prints "said JSON"
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock as mock
import urllib.request
from pathlib import Path

import support

if importlib.util.find_spec("sglang") is None:
    support.skip("sglang is missing (tools/run-sglang installs it)")

import vllm_engine as models  # noqa: E402
import weft_fabric as weft  # noqa: E402
import weft_fabric.sglang  # noqa: E402

OPTIONS = {
    "device": "cpu",
    "attention_backend": "torch_native",
    "sampling_backend": "pytorch",
    "grammar_backend": "none",
    "dtype": "bfloat16",
    "skip_tokenizer_init": True,
    "disable_cuda_graph": True,
    "disable_overlap_schedule": True,
    "max_total_tokens": 2048,
    "mem_fraction_static": 0.1,
    "log_level": "error",
}
VERSIONS = 4
# What SGLang asks of a DeepSeek-V3 on a CPU beyond what vLLM does.
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256, "beta_fast": 32, "beta_slow": 1,
        "mscale": 1.0, "mscale_all_dim": 1.0}  # fmt: skip
OF_SGLANG = {"deepseek": {"rope_scaling": YARN, "moe_layer_freq": 1}}


# ---- in the engine's processes


def plug():
    """A plug-in of the tests: methods for collective_rpc, and MLA's absorbed form, in which the engine computes with
    w_kc and w_vc. SGLang's backend torch_native takes the other one at prefill, and fails with that. With
    SGLANG_OPT_FUSE_SWIGLU_INTERLEAVED experts have gate and up in turns, which SGLang does for CUDA alone. Groups of
    processes get no NCCL, which SGLang's wheel for CUDA asks for on a CPU too."""
    from sglang.srt.distributed import parallel_state
    from sglang.srt.layers.quantization import unquant
    from sglang.srt.managers.scheduler import Scheduler
    from sglang.srt.models.deepseek_common import attention_backend_handler as handlers

    handlers.AttentionBackendRegistry.register("torch_native", handlers._dispatch_mla_subtype)
    group = parallel_state.init_model_parallel_group
    parallel_state.init_model_parallel_group = lambda *args, **keys: group(
        *args, **{**keys, "use_pynccl": False, "use_custom_allreduce": False, "use_torch_symm_mem_allreduce": False}
    )
    own = unquant.UnquantizedFusedMoEMethod._maybe_interleave_w13_for_fused_swiglu

    def interleave(method, layer):
        with mock.patch.object(unquant, "_is_cuda", True):
            own(method, layer)

    unquant.UnquantizedFusedMoEMethod._maybe_interleave_w13_for_fused_swiglu = interleave
    Scheduler.weft_sums, Scheduler.weft_undo_next = sums, undo_next
    Scheduler.weft_watch, Scheduler.weft_watched = watch, watched


def model_of(scheduler):
    return scheduler.tp_worker.model_runner.model


def tell(file, what):
    """Of each process of an engine."""
    from sglang.srt.distributed import get_tp_group

    Path(f"{file}.{get_tp_group().rank_in_group}").write_text(json.dumps(what))


def sums(scheduler, file):
    """Writes the bits of all that the model holds: parameters, buffers and other tensors."""
    import torch

    found = {}
    for path, module in model_of(scheduler).named_modules():
        for name, one in {**vars(module), **module._parameters, **module._buffers}.items():
            if isinstance(one, torch.Tensor) and one.numel():
                data = one.detach().contiguous().view(-1).view(torch.uint8).numpy()
                found[f"{path}.{name}"] = hashlib.sha1(data).hexdigest()
    tell(file, found)


def undo_next(scheduler):
    from weft_fabric.sglang import _process

    models.undo_next(types.SimpleNamespace(weight_transfer_engine=_process._process))


def watch(scheduler):
    """Counts from here on how often the live layers are processed or restored."""
    scheduler.weft_calls = []
    live = set(model_of(scheduler).modules())
    for kind in {type(layer.quant_method) for layer in live if getattr(layer, "quant_method", None) is not None}:
        for name in ("process_weights_after_loading", "restore_weights_before_loading"):
            watch_one(kind, name, live, scheduler.weft_calls)


def watch_one(kind, name, live, calls):
    own = getattr(kind, name, None)

    def watched(method, layer, *args):
        if layer in live:
            calls.append(name)
        return own(method, layer, *args)

    if own:
        setattr(kind, name, watched)


def watched(scheduler, file):
    tell(file, scheduler.weft_calls)


# ---- outside


def engine_of(path, **options):
    import sglang

    return sglang.Engine(model_path=str(path), **OPTIONS, **options)


def answered(outputs):
    """Tokens, and the bits of their log-probabilities."""
    likely = [[one[0].hex() for one in output["meta_info"]["output_token_logprobs"]] for output in outputs]
    return [[output["output_ids"], hexes] for output, hexes in zip(outputs, likely)]


def question(tokens=12):
    sampling = {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}
    return {"input_ids": [list(p) for p in models.PROMPTS], "sampling_params": sampling, "return_logprob": True}


def ask(engine):
    return answered(engine.generate(**question()))


def told(engine, method):
    """What a method of the plug-in above says of the engine's processes."""
    with tempfile.TemporaryDirectory() as folder:
        engine.collective_rpc(method, file=f"{folder}/rank")
        return [json.loads(file.read_text()) for file in sorted(Path(folder).iterdir())]


def dense(path, size=1):
    """What an engine says and holds that loaded a checkpoint by SGLang's own start, in a process of its own."""
    command = [sys.executable, "-B", "-W", "ignore", __file__, "dense", str(path), str(size)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
    lines = [line for line in done.stdout.split("\n") if line.startswith("said ")]
    assert done.returncode == 0 and len(lines) == 1, done.stdout[-6000:]
    return json.loads(lines[0].split(" ", 1)[1])


def plug_in(folder):
    """Makes weft and plug() known to SGLang's processes, as installed packages are."""
    points = ("weft = weft_fabric.sglang:register", "plug = test_sglang_engine:plug")
    os.environ["PYTHONPATH"] = models.plug_in(folder, "sglang.srt.plugins", points)
    sys.path.insert(0, os.environ["PYTHONPATH"].split(os.pathsep)[0])


class InSglang(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = Path(holder.name)
        plug_in(cls.folder)

    def follower(self, engine, trainer, peer="a", **cuts):
        overrides = {"trainer.listen": trainer.stats().listen, "log.level": "warn", **cuts}
        return weft.sglang.follow(engine, models.SITE.format(provider="tcp"), peer, overrides=overrides)

    def undone(self, engine, follower, version):
        """A commit that is undone, as when another process fails. Returns what the engine says and holds then."""
        engine.collective_rpc("weft_undo_next")
        with self.assertRaisesRegex(weft.CallError, "the commit was undone: process 0: planted"):
            follower.update(version, timeout=120)
        return [ask(engine), told(engine, "weft_sums")]

    def versions(self, name, judged, size=1):
        config = models.config_of(name, **OF_SGLANG.get(name, {}))
        weights, folder = models.weights_of(config), self.folder / name
        engine = engine_of(models.save(config, weights, folder / "0"), custom_weight_loader=[weft.sglang.LOADER],
                           tp_size=size)  # fmt: skip
        self.addCleanup(engine.shutdown)
        engine.collective_rpc("weft_watch")
        said, cuts, peer = [], models.CUTS if size > 1 else {}, "w{rank}" if size > 1 else "a"
        with (
            models.trainer_of(weights, "tcp", **cuts) as trainer,
            self.follower(engine, trainer, peer, **cuts) as follower,
        ):
            for version in range(VERSIONS):
                if version:
                    models.step(weights, version)
                    trainer.publish(version)
                if version == VERSIONS // 2 and size == 1:
                    self.assertEqual(self.undone(engine, follower, version), said[-1])
                self.assertIn(f":{version}:", follower.update(version, timeout=120))
                said.append([ask(engine), told(engine, "weft_sums")])
                engine.release_memory_occupation(["weights"])
                with self.assertRaisesRegex(weft.CallError, "the engine released its weights"):
                    follower.update(version)
                engine.resume_memory_occupation(["weights"])
                models.save(config, weights, folder / str(version))
            with self.assertRaisesRegex(weft.Error, "version 9 did not come in 0.5 s"):
                follower.update(9, timeout=0.5)
            self.assertEqual(ask(engine), said[-1][0])  # the engine serves on
        self.assertEqual(told(engine, "weft_watched"), [[]] * size)
        engine.begin_weight_update()
        engine.end_weight_update()
        self.assertNotEqual(told(engine, "weft_watched"), [[]] * size)  # so the comparison can fail
        engine.shutdown()
        for one, other in zip(said, said[1:]):
            self.assertNotEqual(one[0], other[0])  # so the comparison can fail
        for version in judged:
            self.assertEqual(said[version], dense(folder / str(version), size), f"version {version}")
        return said

    def test_dense(self):
        self.versions("dense", (0, VERSIONS - 1))

    def test_experts(self):
        self.versions("moe", (VERSIONS - 1,))

    def test_experts_that_are_moved(self):
        """The engine computes nonsense of these, and the judge the same nonsense."""
        with mock.patch.dict(os.environ, SGLANG_OPT_FUSE_SWIGLU_INTERLEAVED="1"):
            said = self.versions("moe", (VERSIONS - 1,))
        self.assertNotEqual(said[0][0], dense(self.folder / "moe" / "0")[0])  # so the comparison can fail

    def test_two_processes_move_together(self):
        with mock.patch.dict(os.environ, SGLANG_CPU_OMP_THREADS_BIND="0|1"):
            self.versions("moe", (VERSIONS - 1,), 2)

    def test_mla(self):
        said = self.versions("deepseek", (VERSIONS - 1,))
        made = [one[1][0]["model.layers.0.self_attn.w_kc"] for one in said]
        self.assertEqual(len(set(made)), VERSIONS)  # so the comparison can fail

    @contextlib.contextmanager
    def server(self, path):
        """A server of SGLang, with its URL."""
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            port = held.getsockname()[1]
        given = {**OPTIONS, "model_path": path, "port": port, "custom_weight_loader": weft.sglang.LOADER}
        options = [
            f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in given.items()
        ]
        command = [sys.executable, "-B", "-W", "ignore", "-m", "sglang.launch_server", *options]
        with open(self.folder / "server.log", "w") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            self.await_health(server, f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(60)

    def await_health(self, server, url):
        for _ in range(600):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5):
                return
            self.assertIsNone(server.poll(), (self.folder / "server.log").read_text()[-6000:])
            time.sleep(0.2)
        self.fail("the server does not answer")

    def asked(self, url, tokens=12):
        call = urllib.request.Request(f"{url}/generate", json.dumps(question(tokens)).encode())
        call.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(call, timeout=300) as answer:
            return answered(json.load(answer))

    @unittest.skipUnless(importlib.util.find_spec("soundfile"), "a server of SGLang needs soundfile")
    def test_server(self):
        config = models.config_of("mixtral")
        weights, folder = models.weights_of(config), self.folder / "server"
        with (
            self.server(models.save(config, weights, folder / "0")) as url,
            models.trainer_of(weights, "tcp") as trainer,
        ):
            with self.follower(url, trainer) as follower:
                follower.update(0, timeout=120)
                models.step(weights, 1)
                trainer.publish(1)
                polls, request = 0, threading.Thread(target=self.asked, args=(url, 200))
                request.start()
                while request.is_alive():
                    follower._send("stage", version=1)
                    polls += 1
                self.assertGreater(polls, 3)  # the first would wait for the request to end
                self.assertIn(":1:", follower.update(1, timeout=120))
                with self.assertRaisesRegex(weft.Error, "version 9 did not come in 0.5 s"):
                    follower.update(9, timeout=0.5)
                said = self.asked(url)
        models.save(config, weights, folder / "1")
        self.assertEqual(said, dense(folder / "1")[0])


if __name__ == "__main__":
    if sys.argv[1:2] == ["dense"]:
        judge = engine_of(sys.argv[2], tp_size=int(sys.argv[3]))
        print("said " + json.dumps([ask(judge), told(judge, "weft_sums")]), flush=True)
        judge.shutdown()
    else:
        support.main()
