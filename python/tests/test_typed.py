"""Options that are handed on are typed: mypy sees a wrong one, and knows those that the sessions take."""

import inspect
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import support
import weft_fabric as weft
from weft_fabric._rollout import RolloutOptions
from weft_fabric._trainer import TrainerOptions
from weft_fabric.engine._core import Init, InitOptions

PROGRAM = """
from typing import Any
import weft_fabric.sglang, weft_fabric.torch, weft_fabric.vllm

def every(model: Any) -> None:
    weft_fabric.torch.publish_after(None, model, "site", cast="bf16", run=3)
    weft_fabric.torch.publish_after(None, model, "site", emty=True)
    weft_fabric.torch.follow(model, "site", "a", empty=True, on_away="raise")
    weft_fabric.torch.follow(model, "site", "a", emty=True)
    weft_fabric.vllm.follow(model, "site", "a", caches="keep", emty=True)
    weft_fabric.sglang.follow(model, "site", "a", emty=True)
"""


class Typed(unittest.TestCase):
    def test_options_are_those_of_the_sessions(self):
        for options, session in ((TrainerOptions, weft.Trainer), (RolloutOptions, weft.Rollout), (InitOptions, Init)):
            self.assertLessEqual(set(options.__annotations__), set(inspect.signature(session).parameters))

    @unittest.skipUnless(
        Path(sys.executable).with_name("mypy").exists(), "mypy is missing (tools/run-tests installs it)"
    )
    def test_mypy_sees_a_wrong_option(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "program.py")
            program.write_text(PROGRAM)
            done = subprocess.run(
                [sys.executable, "-m", "mypy", "--config-file", support.ROOT / "pyproject.toml", "--cache-dir", folder,
                 "--follow-imports", "silent", program],
                cwd=support.ROOT / "python" / "src", capture_output=True, text=True, check=False,
            )  # fmt: skip
        lines = [line for line in done.stdout.splitlines() if "error: " in line]
        self.assertEqual(len(lines), 4, done.stdout + done.stderr)
        for line in lines:
            self.assertIn('Unexpected keyword argument "emty"', line)


if __name__ == "__main__":
    support.main()
