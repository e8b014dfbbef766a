"""weft_fabric.adapters.sglang in a real SGLang engine, on the host's cores, in the environment of tools/run-sglang.

test_sglang_engine.py dense FOLDER    plays the judge: an engine that loads a checkpoint, and prints a line "said JSON"
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import support

if importlib.util.find_spec("sglang") is None:
    support.skip("sglang is missing (tools/run-sglang installs it)")

import vllm_engine as models  # noqa: E402
import weft_fabric as weft  # noqa: E402

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


def engine_of(path, **options):
    import sglang

    return sglang.Engine(model_path=str(path), **OPTIONS, **options)


def ask(engine):
    """Tokens, and the bits of their log-probabilities."""
    sampling = {"max_new_tokens": 12, "temperature": 0, "ignore_eos": True}
    prompts = [list(prompt) for prompt in models.PROMPTS]
    outputs = engine.generate(input_ids=prompts, sampling_params=sampling, return_logprob=True)
    likely = [[one[0].hex() for one in output["meta_info"]["output_token_logprobs"]] for output in outputs]
    return [[output["output_ids"], hexes] for output, hexes in zip(outputs, likely)]


def dense(path):
    """What an engine says that loaded a checkpoint by SGLang's own start, in a process of its own."""
    command = [sys.executable, "-B", "-W", "ignore", __file__, "dense", str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
    lines = [line for line in done.stdout.split("\n") if line.startswith("said ")]
    assert done.returncode == 0 and len(lines) == 1, done.stdout[-6000:]
    return json.loads(lines[0].split(" ", 1)[1])


def plug_in(folder):
    """Makes weft known to SGLang's processes, as an installed package is."""
    info = Path(folder) / "entry" / "weft-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weft\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[sglang.srt.plugins]\nweft = weft_fabric.adapters.sglang:register\n")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(info.parent), os.environ.get("PYTHONPATH", "")])
    sys.path.insert(0, str(info.parent))


class InSglang(unittest.TestCase):
    def test_tokens_and_logprobs_are_those_of_a_dense_load(self):
        import weft_fabric.adapters.sglang as adapter

        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        folder = Path(holder.name)
        plug_in(folder)
        config = models.config_of("dense")
        weights = models.weights_of(config)
        engine = engine_of(models.save(config, weights, folder / "0"), custom_weight_loader=[adapter.LOADER])
        self.addCleanup(engine.shutdown)
        said = []
        with models.trainer_of(weights, "tcp") as trainer:
            overrides = {"trainer.listen": trainer.stats().listen, "log.level": "warn"}
            with adapter.follow(engine, models.SITE.format(provider="tcp"), "a", overrides=overrides) as follower:
                for version in range(VERSIONS):
                    if version:
                        models.step(weights, version)
                        trainer.publish(version)
                    self.assertIn(f":{version}:", follower.update(version, timeout=120))
                    said.append(ask(engine))
                    models.save(config, weights, folder / str(version))
                with self.assertRaisesRegex(weft.Error, "version 9 did not come in 0.5 s"):
                    follower.update(9, timeout=0.5)
                self.assertEqual(ask(engine), said[-1])  # the engine serves on
        for one, other in zip(said, said[1:]):
            self.assertNotEqual(one, other)  # so the comparison can fail
        for version in (0, VERSIONS - 1):
            self.assertEqual(said[version], dense(folder / str(version)), f"version {version}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["dense"]:
        judge = engine_of(sys.argv[2])
        print("said " + json.dumps(ask(judge)), flush=True)
        judge.shutdown()
    else:
        support.main()
