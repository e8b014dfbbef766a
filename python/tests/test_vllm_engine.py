"""weft_fabric.vllm in real vLLM, a CPU build that tools/run-vllm installs. The scenes are in vllm_engine.py.

test_vllm_engine.py --record    writes vllm_tables.json anew
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import support

if importlib.util.find_spec("vllm") is None:
    support.skip("vllm is missing (tools/run-vllm installs a CPU build)")

import vllm_engine  # noqa: E402

AMX = "amx_tile" in Path("/proc/cpuinfo").read_text()
PAGE = support.ROOT / "docs" / "VLLM.md"
TWENTY = "dense tied mla deepseek kimi moe mixtral glm gpt_oss nemotron fp8 mla_fp8".split()
TABLES = Path(__file__).with_name("vllm_tables.json")


class Scenes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.holder.cleanup)
        cls.folder = cls.holder.name

    def play(self, scene, **environment):
        """The result of a scene, in a process of its own."""
        threads = "0|1" if environment.get("TP") == "2" else "auto"
        env = {**vllm_engine.environment(self.folder), "VLLM_CPU_OMP_THREADS_BIND": threads, **environment}
        env.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "1" if environment.get("TP") == "2" else "0")
        done = subprocess.run(
            [sys.executable, "-B", vllm_engine.__file__, scene, self.folder],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
        )
        self.assertEqual(done.returncode, 0, done.stdout[-6000:])
        lines = [line for line in done.stdout.split("\n") if line.startswith("result ")]
        self.assertEqual(len(lines), 1, done.stdout[-6000:])
        return json.loads(lines[0].split(" ", 1)[1])

    def check_versions(self, model, size=1, isa="", empty="", last=3):
        tp = str(size)
        got = self.play("versions", TP=tp, MODEL=model, ISA=isa, EMPTY=empty, LAST=str(last))
        said, before, end = got["said"], str(last // 2), str(last)
        for version in map(str, range(last + 1)):
            self.assertRegex(got["held"][version], rf"^[0-9a-f]+:{version}:")
        self.assertNotEqual(said["0"], said[end])  # so the comparison can fail
        self.assertEqual(got.get("undone", said[before]), said[before])
        self.assertNotEqual(said[before], said[str(last // 2 + 1)])
        for version in ("0", end):
            dense = self.play("dense", TP=tp, MODEL=model, ISA=isa, CHECKPOINT=f"v{version}")
            self.assertEqual(said[version], dense["said"], f"version {version}")
        self.assertEqual(got["sums"], dense["sums"])  # vLLM's own, over every parameter of each process
        began, ended, spans = got["answer"]
        self.assertEqual((began, ended, [span[0] for span in spans]), (got["held"][end], got["held"][end], [began]))
        times = ("pause_ms", "derive_ms", "call_ms")
        pause, own, call = (sorted(got[key].values())[last // 2] for key in times)
        print(f"tensor-parallel {tp}, {model} {isa}: median of {last + 1}: pause {pause:.2f} ms, of which {own:.2f} are "
              f"the engine's own code, update {call:.2f} ms")  # fmt: skip

    def test_tokens_and_logprobs_are_those_of_a_dense_load(self):
        """Of weights as loaded, moved, aliases, and those that the engine's own code computes again."""
        for model in TWENTY:
            with self.subTest(model):
                self.check_versions(model, last=20)

    def test_packed_experts_take_versions(self):
        """By the packing of this CPU, and by that of one without AMX."""
        for model, isa, empty in (
            ("moe", "", "empty"),
            ("nemotron", "", "empty"),
            *([("moe", "vec", "")] if AMX else []),
        ):
            with self.subTest(model, isa=isa, empty=empty):
                self.check_versions(model, 1, isa, empty)

    def test_two_processes_move_together(self):
        for model in ("dense", "moe"):
            with self.subTest(model):
                self.check_versions(model, 2)

    def test_data_parallel_engines_take_versions(self):
        """Each engine has all weights, and a name of its own."""
        got = self.play("parallel", MODEL="dense", TP="2")
        self.check_parallel(got, 1)

    def check_parallel(self, got, roots):
        for version, held in enumerate(got["held"]):
            self.assertRegex(held, rf"^[0-9a-f]+:{version}:[0-9a-f+]+")
            self.assertEqual(held.count("+"), roots - 1)
        self.assertEqual(got["of"], got["held"][-1])
        self.assertEqual(got["sums"], got["dense"])
        self.assertEqual(len(got["sums"]), 2)

    def test_data_parallel_engines_that_exchange_experts(self):
        """Each has half of the experts, and all move together. They answer nothing, because this build cannot."""
        got = self.play("parallel", MODEL="moe", TP="2", STILL="1")
        self.check_parallel(got, 2)
        self.assertNotEqual(*got["sums"])

    def test_new_requests_do_not_reuse_old_keys(self):
        got = self.play("caches")
        for caches in ("reset", "salt", "keep"):
            self.assertGreater(got[caches]["again"], 100, caches)  # the cache works
            self.assertNotEqual(*got[caches]["versions"])
        self.assertEqual((got["reset"]["new"], got["salt"]["new"]), (0, 0))
        self.assertGreater(got["keep"]["new"], 100)
        self.assertEqual(got["sleep"], ["", True])

    def test_a_request_that_runs_bears_both_versions(self):
        got = self.play("running", VLLM_ENABLE_V1_MULTIPROCESSING="1")
        self.assertEqual((got["began"], got["ended"], got["tokens"]), (got["first"], got["second"], 300))
        self.assertEqual([span[0] for span in got["spans"]], [got["first"], got["second"]])
        self.assertEqual([span[1:] for span in got["spans"]], [[0, got["spans"][0][2]], [got["spans"][0][2], 300]])
        print(f"running: changed at token {got['spans'][0][2]}, pause {got['pause_ms']:.2f} ms")

    def test_refusals(self):
        for model, keep, choice, text in (
            ("tied", "", {}, "the CPU build computes with a packed copy of the weight"),
            ("padded", "keep", {}, "nobody can say how: w13_weight .*shape.*layer model.layers.0.mlp.experts"),
            ("dense", "keep", {}, "model.norm.weight.*no tensor of the trainer's layout fills"),
            *([("mla", "keep", {"attention_backend": None}, "weight is .0,. in the engine")] if AMX else []),
        ):
            with self.subTest(model):
                got = self.play("refusals", MODEL=model, KEEP=keep, CHOICE=json.dumps(choice))
                self.assertRegex(got.get("error", ""), text)

    def test_the_page(self):
        """The programs of docs/VLLM.md: both end well, and the last line of each is the same digest."""
        found = re.findall(r"^```python\n(# (\w+\.py).*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        folder = Path(self.folder) / "page"
        config = vllm_engine.config_of("dense")
        vllm_engine.save(config, vllm_engine.weights_of(config), folder / "model")
        site = support.SITE.format(provider="tcp").replace(":0", f":{support.free_port()}")
        (folder / "site.ini").write_text(site)
        started = []
        for code, name in found:
            (folder / name).write_text(code)
            command = [sys.executable, "-B", name, "site.ini", "model"]
            env = vllm_engine.environment(self.folder)
            started.append(subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True))
        said = [process.communicate(timeout=900)[0].strip().split("\n")[-1] for process in started]
        self.assertEqual([process.returncode for process in started], [0, 0])
        self.assertRegex(said[0], "^weights [0-9a-f]{16}$")
        self.assertEqual(said[0], said[1])

    def test_recorder_agrees_with_vllm(self):
        """Each copy is what vLLM's own fakes take down, and the tables of the short tier are of this."""
        got = self.play("record")
        for model in got["models"]:
            for own, judged in zip(model["ranks"], model["judged"]):
                self.assertEqual(sorted(own), sorted(judged), model["name"])
                self.assertGreater(len(own), 10)
            del model["judged"]
        if "--record" in sys.argv:
            TABLES.write_text(json.dumps(got, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")
        self.assertEqual(json.loads(TABLES.read_text()), got)


if __name__ == "__main__":
    if "--record" in sys.argv:
        outcome = unittest.TextTestRunner().run(unittest.TestSuite([Scenes("test_recorder_agrees_with_vllm")]))
        sys.exit(not outcome.wasSuccessful())
    os.environ.setdefault("PYTHONPATH", "")
    support.main()
