"""A libweft that is missing, older or none at all is refused by name when the package is imported."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import support
import weft_fabric as weft
from weft_fabric import _declarations, _library

TRY = """
try:
    import weft_fabric as weft
except ImportError as error:
    print(type(error).__name__, error)
"""


class Library(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def built(self, code):
        path = Path(self.folder.name) / "libweft.so"
        subprocess.run(
            [os.environ.get("WEFT_CC", "cc"), "-shared", "-fPIC", "-x", "c", "-", "-o", path],
            input=code,
            text=True,
            check=True,
        )
        return path

    def said(self, path):
        environment = {**os.environ, "WEFT_LIBRARY": str(path)}
        done = subprocess.run([sys.executable, "-B", "-c", TRY], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_missing(self):
        said = self.said("/nowhere/libweft.so")
        self.assertIn("LibraryError libweft cannot be opened", said)
        self.assertIn("/nowhere/libweft.so", said)
        self.assertIn("WEFT_LIBRARY", said)

    def test_another_library(self):
        self.assertIn("is no libweft", self.said(self.built("int something;")))

    def test_another_version(self):
        path = self.built('const char *weft_version_string(void) { return "0.0.9"; }')
        self.assertIn(f"is weft 0.0.9, and this package is for weft {_declarations.VERSION}", self.said(path))

    def test_the_name_for_the_loader(self):
        linked = Path(weft.library_path).resolve()
        found = subprocess.run(["readelf", "-d", str(linked)], capture_output=True, text=True)
        if "SONAME" in found.stdout:  # a wheel's has none
            self.assertIn(f"[{_library._loader_name()}]", found.stdout)

    def test_an_older_one_of_the_same_version(self):
        path = self.built(f'const char *weft_version_string(void) {{ return "{_declarations.VERSION}"; }}')
        self.assertRegex(self.said(path), r"lacks weft_\w+: it is older")

    @unittest.skipUnless(support.FABRIC, "this build knows no libfabric")
    def test_the_old_name_tells_the_new_one(self):
        done = subprocess.run([sys.executable, "-c", "import weft"], capture_output=True, text=True, check=False)
        self.assertIn("write `import weft_fabric as weft`", done.stderr)

    @unittest.skipUnless(os.environ.get("WEFT_COMMAND"), "WEFT_COMMAND names no command")
    def test_the_command_goes_by_the_name_that_it_was_called_by(self):
        for words, said in (
            (["--help"], "  python -m weft_fabric demo "),
            (["rollout", "--help"], "\n       python -m weft_fabric rollout --store"),
            (["x"], "see python -m weft_fabric --help"),
            (["demo", "--x"], "see python -m weft_fabric demo --help"),
        ):
            done = subprocess.run(
                [sys.executable, "-m", "weft_fabric", *words], capture_output=True, text=True, check=False
            )
            self.assertIn(said, done.stdout + done.stderr)

    def test_without_libfabric_there_are_update_files(self):
        (Path(self.folder.name) / "libfabric.so.1").touch()
        code = """
import io, support, weft_fabric as weft
base, target = support.weights(), support.weights()
support.change(target, 1)
file = io.BytesIO()
weft.diff(base, target, file)
with weft.UpdateFile(file.getvalue()) as update:
    update.apply(base)
assert support.same(base, target)
try:
    weft.Trainer(support.site(provider="tcp"), base, log=support.quiet)
except weft.CallError as error:
    print(error)
"""
        environment = {**os.environ, "LD_LIBRARY_PATH": self.folder.name}
        done = subprocess.run(
            [sys.executable, "-B", "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            cwd=support.ROOT / "python" / "tests",
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "provider tcp: install libfabric .*libfabric1")

    def test_the_library_that_was_found_is_named(self):
        self.assertTrue(
            weft.library_path.endswith(("libweft.so", _library._loader_name())) or os.environ.get("WEFT_LIBRARY")
        )


if __name__ == "__main__":
    support.main()
