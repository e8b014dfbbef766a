"""bench/device on the host: each program holds every bit, and sees one that is wrong."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import support

try:
    import torch
except ImportError:
    support.skip("torch is missing (tools/run-tests installs it)")

import weft_fabric as weft

FOLDER = support.ROOT / "bench/device"
SMALL = ("--small", "--device", "cpu")
SAMPLED = """
import sampler, torch, weft_fabric
with sampler.sampled("all"):
    for _ in range(100):
        weft_fabric.digest({"w": torch.ones(1 << 22)})
"""
sys.path.insert(0, str(FOLDER))

import trace

import beside_torch
import rig


class Programs(unittest.TestCase):
    def said(self, *arguments, code=0, **environment):
        run = subprocess.run([sys.executable, "-B", *arguments], check=False, capture_output=True, text=True,
                             cwd=FOLDER, timeout=10 * support.BOUND,
                             env={**os.environ, "OMP_NUM_THREADS": "1", **environment})  # fmt: skip
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run.stdout

    def test_beside_torch(self):
        said = self.said("beside_torch.py", *SMALL)
        self.assertRegex(said, r"(?m)^queued commit: the call +[0-9.]+ ")
        self.assertRegex(said, r"(?m)^every bit of the rollout was the trainer's in \d+ versions$")

    def test_pair(self):
        said = self.said("pair.py", *SMALL, "--providers", "stream,loupe")
        self.assertRegex(said, r"(?m)^stream: publish until held +[0-9.]+ ")
        self.assertRegex(said, r"(?m)^loupe: cannot be had here$")
        self.assertRegex(said, r"(?m)^every bit of the rollout was the trainer's in 3 versions$")

    def test_trace(self):
        self.assertRegex(self.said("trace.py", *SMALL), r"(?m)^tight: commit: device busy +0.00 ")

    @unittest.skipIf(torch.cuda.is_available(), "there is a device")
    def test_no_device(self):
        self.assertEqual(self.said("trace.py", code=77), "skipped: torch sees no device\n")

    @unittest.skipUnless(shutil.which("cc"), "there is no C compiler")
    def test_samples_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "libsampler.so")
            subprocess.run(
                ["cc", "-O2", "-shared", "-fPIC", "-D_GNU_SOURCE", FOLDER / "sampler.c", "-o", path], check=True
            )
            symbols = Path(folder, "symbols")
            symbols.write_text("0000000000000000 t everything_of_weft\n")
            said = self.said("-c", SAMPLED, WEFT_SAMPLER=str(path), WEFT_SYMBOLS=str(symbols))
        self.assertRegex(said, r"(?m)^all: [1-9]\d* samples, by thread ")
        self.assertRegex(said, r"(?m)^ +[0-9.]+ %  everything_of_weft$")


class Checks(unittest.TestCase):
    def test_a_bit_of_one_element(self):
        commit = weft.Rollout.commit

        def wrong(rollout, staged, **options):
            held = commit(rollout, staged, **options)
            rig.bits(beside.served["layers.1.up"])[3, 5] ^= 1
            return held

        beside = beside_torch.Beside(rig.parser("").parse_args(SMALL))
        seen = self.assertRaisesRegex(SystemExit, "^plain, version 5: 1 tensors differ, first layers.1.up$")
        with mock.patch.object(weft.Rollout, "commit", wrong), seen:
            beside.main()

    def test_sums(self):
        weights = {"a": torch.zeros(4, 6, dtype=torch.bfloat16), "b": torch.ones(1, dtype=torch.bfloat16)}
        sums = rig.sums(weights)
        for name, place in (("a", (0, 0)), ("a", (3, 5)), ("b", (0,))):
            for bit in (1, -(1 << 15)):
                rig.bits(weights[name])[place] ^= bit
                self.assertNotEqual(rig.sums(weights), sums)
                rig.bits(weights[name])[place] ^= bit
        self.assertEqual(rig.sums(weights), sums)

    def test_busy(self):
        self.assertEqual(trace.busy([(5, 7), (0, 2), (1, 3), (1, 2)]), 5)
        self.assertEqual(trace.busy([]), 0)


if __name__ == "__main__":
    support.main()
