"""examples/rl_loop.py with a generator of vLLM, in the environment of tools/run-vllm.

No bit differs from a dense load of any version, and the engine that judges tells one bit of a weight."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import support

if importlib.util.find_spec("vllm") is None:
    support.skip("vllm is missing (tools/run-vllm installs a CPU build)")

import torch  # noqa: E402

EXAMPLES = support.ROOT / "examples"
VERSIONS = 4
sys.path.insert(0, str(EXAMPLES))

import rl_loop  # noqa: E402
import rl_vllm  # noqa: E402


class LoopOfVllm(unittest.TestCase):
    def test_a_generator_of_vllm_makes_what_a_dense_load_makes(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-B", str(EXAMPLES / "rl_loop.py"), "--versions", str(VERSIONS)]
            done = subprocess.run(
                [*command, "--rate", "1e-5", "--out", folder],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=900,
            )
            self.assertEqual(done.returncode, 0, done.stdout[-6000:])
            rows = json.loads((Path(folder) / "figures.json").read_text())
            self.assertTrue((Path(folder) / "loop.png").read_bytes().startswith(b"\x89PNG"))
        same = "tokens and log-probabilities of 2 generators (torch, vllm) are the dense copy's"
        self.assertIn(f"{VERSIONS + 1} versions: {same}", done.stdout)
        self.assertEqual([row["version"] for row in rows], list(range(1, VERSIONS + 1)))
        for row in rows:
            self.assertLess(row["bytes"], row["dense_bytes"] // 2)
            self.assertTrue(0 < row["changed"] < row["elements"] // 2)
            self.assertEqual([len(row["pause_ms"]), len(row["staleness"])], [2, 2])
            self.assertLess(max(row["distance"]), 0.1)  # vLLM and torch compute one model, each in its own order

    def test_the_judge_tells_one_bit(self):
        torch.manual_seed(0)
        served = rl_vllm.Policy().bfloat16()
        engines = rl_vllm.Engines(rl_loop.KEPT)
        try:
            engines.keep(0, served)
            with torch.no_grad():
                served.lm_head.weight.view(torch.int16)[3, 5] ^= 1 << 7  # twice the weight, or half of it
            engines.keep(1, served)
            first, other, again = (engines.generate(version, 7) for version in (0, 1, 0))
        finally:
            engines.close()
        rl_loop.compare("b", 0, again, first)
        with self.assertRaisesRegex(AssertionError, "generator b, version 1: .* differ"):
            rl_loop.compare("b", 1, other, first)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", "")
    support.main()
