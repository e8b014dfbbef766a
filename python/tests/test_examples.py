"""The examples run: figures come out, every version is judged, and a bit that differs is found."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import support

try:
    import torch
except ImportError:
    support.skip("torch is missing (tools/run-tests installs it)")

EXAMPLE = support.ROOT / "examples" / "rl_loop.py"
UNDER_RAY = support.ROOT / "examples" / "ray_loop.py"
VERSIONS = 4


def load():
    spec = importlib.util.spec_from_file_location("rl_loop", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Loop(unittest.TestCase):
    @unittest.skipUnless(support.FABRIC, "this build knows no libfabric")
    def test_two_generators_make_what_a_dense_copy_makes(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [
                    *(sys.executable, "-B", str(EXAMPLE), "--engine", "torch"),
                    *("--versions", str(VERSIONS), "--rate", "1e-5", "--out", folder),
                ],
                stdout=subprocess.PIPE,
                text=True,
                timeout=5 * support.BOUND,
            )
            self.assertEqual(done.returncode, 0)
            rows = json.loads((Path(folder) / "figures.json").read_text())
            drawn = (Path(folder) / "loop.png").exists()
        self.assertIn(f"{VERSIONS + 1} versions: tokens and log-probabilities of 2 generators", done.stdout)
        self.assertEqual([row["version"] for row in rows], list(range(1, VERSIONS + 1)))
        self.assertEqual(drawn, bool(importlib.util.find_spec("matplotlib")))
        for row in rows:
            self.assertLess(row["bytes"], row["dense_bytes"] // 2)
            self.assertTrue(0 < row["changed"] < row["elements"] // 2)
            self.assertEqual([len(row["pause_ms"]), len(row["staleness"])], [2, 2])
            self.assertTrue(set(row["staleness"]) <= {0, 1})

    def test_one_bit_that_differs_is_found(self):
        loop = load()
        torch.manual_seed(0)
        torch.set_num_threads(1)
        policy = loop.Policy().bfloat16()
        dense = loop.generate(policy, 5)
        loop.compare("a", 3, loop.generate(policy, 5), dense)
        for place, what in enumerate(("tokens", "log-probabilities")):
            made = [array.copy() for array in dense]
            made[place].reshape(-1).view("uint8")[0] ^= 1
            with self.assertRaisesRegex(AssertionError, f"generator a, version 3: {what} differ"):
                loop.compare("a", 3, made, dense)

    def test_a_policy_of_other_weights_makes_other_texts(self):
        loop = load()
        torch.manual_seed(0)
        policy = loop.Policy().bfloat16()
        dense = loop.generate(policy, 5)
        with torch.no_grad():
            policy.head.bias[3] += 0.5
        with self.assertRaises(AssertionError):
            loop.compare("b", 1, loop.generate(policy, 5), dense)

    def test_learning_prefers_what_is_rewarded(self):
        loop = load()
        torch.manual_seed(0)
        policy = loop.Policy()
        counting = torch.arange(loop.LENGTH).remainder(loop.WORDS).repeat(2, 1)
        counting[1, loop.PROMPT :] = 0
        self.assertEqual(loop.reward(counting)[0].sum().item(), loop.LENGTH - loop.PROMPT)

        def likely():
            with torch.no_grad():
                return policy(counting[:1, :-1])[0].gather(1, counting[0, 1:, None])[loop.PROMPT - 1 :].mean().item()

        before = likely()
        optimizer = torch.optim.Adam(policy.parameters(), 1e-3)
        for _ in range(5):
            loop.learn(policy, optimizer, counting)
        self.assertGreater(likely(), before)


@unittest.skipUnless(support.FABRIC, "this build knows no libfabric")
@unittest.skipUnless(importlib.util.find_spec("ray"), "ray is missing")
class UnderRay(unittest.TestCase):
    def test_a_rollout_that_is_killed_under_ray(self):
        """It comes back by a snapshot, the trainer goes on meanwhile, and no bit differs at any version."""
        # A short path, because Ray's sockets lie deep in it.
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(
            dir="/tmp", ignore_cleanup_errors=True
        ) as sockets:
            done = subprocess.run(
                [sys.executable, "-B", str(UNDER_RAY), "--versions", "6", "--rate", "1e-5", "--out", folder],
                stdout=subprocess.PIPE,
                text=True,
                timeout=10 * support.BOUND,
                env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": sockets},
            )
            self.assertEqual(done.returncode, 0)
            rows = json.loads((Path(folder) / "ray.json").read_text())
        self.assertIn("7 versions: tokens and log-probabilities of 2 rollouts are the dense copy's", done.stdout)
        self.assertEqual([row["version"] for row in rows], list(range(1, 7)))
        for row in rows:
            self.assertLess(row["bytes"], row["dense_bytes"] // 2)
            self.assertIn("a", [batch["name"] for batch in row["batches"]])
        made = [batch for row in rows for batch in row["batches"] if batch["name"] == "b"]
        back = next(batch for batch in made if batch["process"] != made[0]["process"])
        self.assertEqual(back["kinds"][0], "snapshot")
        self.assertEqual({batch["process"] for batch in made}, {made[0]["process"], back["process"]})


if __name__ == "__main__":
    support.main()
