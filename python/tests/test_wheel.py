"""The wheel, and the one that the sdist gives, install and have library, command and site files inside (long form)."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import support


class Wheel(unittest.TestCase):
    def run_here(self, *words, **options):
        outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WEFT_"))}
        done = subprocess.run(
            words, cwd=self.folder, env=outside, capture_output=True, text=True, check=False, timeout=900, **options
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def installed(self, wheel):
        """The bin of a new environment with that wheel alone; numpy and cffi are those of this interpreter."""
        root = self.folder / "environment"
        self.run_here(sys.executable, "-m", "venv", "--clear", root)
        beside = next(root.glob("lib/python3*/site-packages")) / "beside.pth"
        beside.write_text("\n".join(path for path in sys.path if path.endswith("-packages")) + "\n")
        self.run_here(root / "bin/pip", "install", "-q", "--no-deps", "--no-index", wheel)
        return root / "bin"

    def check(self, wheel):
        bin = self.installed(wheel)
        called = self.run_here(bin / "weft-fabric", "--help")
        self.assertIn("  weft-fabric demo ", called)
        self.assertIn("  python -m weft_fabric demo ", self.run_here(bin / "python", "-m", "weft_fabric", "--help"))
        self.assertIn('"identical":true', self.run_here(bin / "weft-fabric", "demo", "--params", "100000", "--json"))
        where = self.run_here(
            bin / "python", "-c", "import weft_fabric as w; print(w.__path__[0], w.library_path)"
        ).split()
        self.assertEqual(where[1], where[0] + "/libweft.so")
        self.assertEqual(
            {path.name for path in (Path(where[0]) / "conf").iterdir()},
            {path.name for path in (support.ROOT / "conf").iterdir()},
        )

    def test_the_wheel_and_the_sdist(self):
        build = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w")
        self.run_here(*build, self.folder / "wheel", support.ROOT)
        self.check(next((self.folder / "wheel").iterdir()))
        code = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
        done = subprocess.run(
            [sys.executable, "-c", code, self.folder / "sdist"],
            cwd=support.ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.run_here(*build, self.folder / "again", next((self.folder / "sdist").iterdir()))
        self.check(next((self.folder / "again").iterdir()))


if __name__ == "__main__":
    if not support.FULL:
        support.skip("a long form, which runs with WEFT_FULL=1")
    try:
        import scikit_build_core  # noqa: F401
    except ImportError:
        support.skip("scikit-build-core is missing (tools/run-tests installs it)")
    support.main()
