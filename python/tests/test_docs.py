"""What the documents show works: README.md and docstrings by doctest, the programs of docs/ as processes."""

import doctest
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import support
import weft_fabric as weft
from weft_fabric import _store, _trainer, _update

DOCS = support.ROOT / "docs"


def programs(page="PYTHON.md"):
    """A page's Python programs by the name in their first line."""
    blocks = re.findall(r"^```python\n(# (\w+\.py).*?)^```", (DOCS / page).read_text(), re.M | re.S)
    return {name: code for code, name in blocks}


def site_lines(page):
    """What a page shows of a site."""
    return "".join(re.findall(r"^```ini\n(.*?)^```", (DOCS / page).read_text(), re.M | re.S))


@unittest.skipUnless(support.FABRIC, "this build knows no libfabric")
class Documents(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def play(self, trainer, rollout):
        """A trainer and a rollout as processes: both end well, and the last line of each is the same digest."""
        for name in (trainer, rollout):
            (self.folder / name).write_text(programs()[name])
        shown = site_lines("PYTHON.md")
        self.assertEqual(shown.count(":7118 "), 1)
        (self.folder / "site.ini").write_text(
            shown.replace(":7118 ", f":{support.free_port()} ") + "[session]\nconnect_deadline = 60s\n"
        )
        started = [
            subprocess.Popen(
                [sys.executable, "-B", name, "site.ini"], cwd=self.folder, stdout=subprocess.PIPE, text=True
            )
            for name in (trainer, rollout)
        ]
        said = [process.communicate(timeout=2 * support.BOUND)[0].split("\n") for process in started]
        self.assertEqual([process.returncode for process in started], [0, 0])
        self.assertRegex(said[0][-2], "^weights [0-9a-f]{16}$")
        self.assertEqual(said[0][-2], said[1][-2])

    def outlive(self, trainer, rollout, five, two):
        """The trainer is killed when the rollout holds its second version, and starts anew long after."""
        code = programs()[trainer]
        killed = code.replace(five, two).replace("wait(5", "wait(2")
        last = '    print(f"weights'
        killed = killed.replace(last, f"    print('held', flush=True)\n    sys.stdin.read()\n{last}")
        self.assertEqual([killed.count(two), killed.count("stdin")], [1, 1])
        port = support.free_port()
        site = support.SITE.format(provider="tcp").replace(":0", f":{port}")
        site = site.replace("connect_deadline = 60s", "connect_deadline = 1s")
        for name, text in (("killed.py", killed), (trainer, code), (rollout, programs()[rollout]), ("site.ini", site)):
            (self.folder / name).write_text(text)

        def start(name):
            process = subprocess.Popen([sys.executable, "-B", name, "site.ini"], cwd=self.folder,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
            self.addCleanup(process.communicate)
            self.addCleanup(process.kill)
            return process

        first_life = start("killed.py")
        support.await_port(port)  # because a first contact has connect_deadline
        served = start(rollout)
        while first_life.stdout.readline() != "held\n":
            self.assertIsNone(first_life.poll())
        first_life.kill()
        with self.assertRaises(subprocess.TimeoutExpired):  # it serves for thrice its connect_deadline
            served.wait(timeout=3)
        said = start(trainer).communicate(timeout=2 * support.BOUND)[0].split("\n")
        self.assertEqual(served.communicate(timeout=2 * support.BOUND)[0].split("\n")[-2], said[-2])
        self.assertRegex(said[-2], "^weights [0-9a-f]{16}$")
        self.assertEqual(served.returncode, 0)

    def test_sites_that_are_shown_can_be_read(self):
        for page in sorted(DOCS.glob("*.md")):
            for shown in re.findall(r"^```ini\n(.*?)^```", page.read_text(), re.M | re.S):
                with self.subTest(page.name):
                    weft.Site(shown, {} if "mode = " in shown else {"security.mode": "open"})

    def test_a_numpy_rollout_outlives_its_trainer(self):
        self.outlive("numpy_trainer.py", "numpy_rollout.py", "range(1, 6)", "range(1, 3)")

    @unittest.skipUnless(importlib.util.find_spec("torch"), "torch is missing (tools/run-tests installs it)")
    def test_a_torch_rollout_outlives_its_trainer(self):
        self.outlive("torch_trainer.py", "torch_rollout.py", "range(5)", "range(2)")

    def test_from_a_numpy_trainer(self):
        self.play("numpy_trainer.py", "numpy_rollout.py")

    @unittest.skipUnless(importlib.util.find_spec("torch"), "torch is missing (tools/run-tests installs it)")
    def test_from_a_torch_trainer(self):
        self.play("torch_trainer.py", "torch_rollout.py")

    @unittest.skipUnless(importlib.util.find_spec("torch"), "torch is missing (tools/run-tests installs it)")
    def test_adapters_of_lora(self):
        self.play("lora_trainer.py", "lora_rollout.py")

    def test_a_bf16_and_an_fp8_rollout(self):
        for name, code in programs("FP8.md").items():
            (self.folder / name).write_text(code)
        site = support.SITE.format(provider="tcp").replace(":0", f":{support.free_port()}")
        (self.folder / "site.ini").write_text(site + site_lines("FP8.md"))
        started = [
            subprocess.Popen([sys.executable, "-B", *words], cwd=self.folder, stdout=subprocess.PIPE, text=True)
            for words in (["fp8_trainer.py", "site.ini"], ["fp8_rollout.py", "site.ini", "a", "bf16"],
                          ["fp8_rollout.py", "site.ini", "b", "fp8"])
        ]  # fmt: skip
        said = [process.communicate(timeout=2 * support.BOUND)[0].splitlines() for process in started]
        self.assertEqual([process.returncode for process in started], [0, 0, 0])
        self.assertRegex(said[0][-2], "^bf16 [0-9a-f]{16}$")
        self.assertEqual(said[0][-2:], [said[1][-1], said[2][-1]])

    def test_a_store_that_is_read(self):
        named = support.weights()
        with weft.Store(self.folder / "store", create=True) as store:
            store.put(named, 7)
        (self.folder / "read_store.py").write_text(programs()["read_store.py"])
        said = subprocess.run([sys.executable, "-B", self.folder / "read_store.py", self.folder / "store"],
                              stdout=subprocess.PIPE, text=True, check=True).stdout  # fmt: skip
        self.assertRegex(said, "^version 7 by 1 files of [0-9]+ bytes$")

    def test_readme(self):
        before = os.getcwd()
        os.chdir(self.folder)
        try:
            done = doctest.testfile(str(support.ROOT / "python" / "README.md"), module_relative=False)
        finally:
            os.chdir(before)
        self.assertGreater(done.attempted, 10)
        self.assertEqual(done.failed, 0)

    def test_docstrings(self):
        for module in (_store, _trainer, _update):
            done = doctest.testmod(module)
            self.assertGreater(done.attempted, 2)
            self.assertEqual(done.failed, 0)

    def test_everything_public_is_described(self):
        for name in weft.__all__:
            thing = getattr(weft, name)
            if callable(thing):
                self.assertTrue(thing.__doc__, name)
                for member, value in vars(thing).items() if isinstance(thing, type) else ():
                    if (
                        not member.startswith("_")
                        and callable(value)
                        and member not in ("count", "index", "of", "close")
                    ):
                        self.assertTrue(value.__doc__, f"{name}.{member}")


if __name__ == "__main__":
    support.main()
