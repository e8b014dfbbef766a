"""Updates as files, by path and by bytes; each written file is whole or absent."""

import gc
import io
import os
import signal
import tempfile
import threading
import time
import unittest
from pathlib import Path

import numpy as np

import support
import weft_fabric as weft
from support import arrays, change, same, weights


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name) / "update.weft"

    def versions(self, count=2):
        all_ = [weights()]
        for version in range(1, count):
            all_.append(weights())
            for earlier in range(1, version + 1):
                change(all_[-1], earlier)
        return all_

    def test_there_and_back_at_each_level(self):
        for level in ("full", "pairs", "fast", "tight"):
            base, target = self.versions()
            info = weft.diff(base, target, self.path, level=level, versions=(4, 5), attachment=b"head", threads=2)
            self.assertEqual((info.level, info.bytes, info.target.number), (level, self.path.stat().st_size, 5))
            with weft.UpdateFile(self.path) as update:
                self.assertEqual(
                    (update.header.changed, update.header.base.number, update.header.level), (info.changed, 4, level)
                )
                self.assertEqual(update.layout, weft.Layout(base))
                self.assertEqual(update.header.layout, update.layout.hash)
                self.assertEqual(update.attachment, b"head")
                changes = update.changes(base)
                self.assertEqual((sum(c.changed for c in changes), {c.exact for c in changes}), (info.changed, {True}))
                out = io.BytesIO()
                update.rewrite(base, out)
                self.assertEqual(out.getvalue(), b"".join(a.tobytes() for a in arrays(target).values()))
                applied = update.apply(base)
                self.assertEqual((applied.version, applied.changed), (info.target, info.changed))
                self.assertTrue(same(base, target))
                with self.assertRaises(weft.VersionError) as caught:
                    update.apply(base)
                self.assertEqual(caught.exception.name, "base")
            self.assertRaises(weft.ClosedError, lambda: update.attachment)
            self.assertIn("closed", repr(update))

    def test_a_layout_outlives_its_file(self):
        base, target = self.versions()
        weft.diff(base, target, self.path)
        for source in (self.path, Path(self.path).read_bytes()):
            with weft.UpdateFile(source) as update:
                layout = update.layout
            del update
            gc.collect()
            self.assertEqual((layout.hash, layout.match(layout)[0]), (weft.Layout(base).hash, 0))

    def test_one_call_at_a_time(self):
        base, target = self.versions()
        out = io.BytesIO()
        weft.diff(base, target, out)
        with weft.UpdateFile(out.getvalue()) as update, weft.UpdateFile(out.getvalue()) as other:
            calls = {
                "apply": lambda progress: update.apply(base, progress=progress),
                "rewrite": lambda progress: update.rewrite(base, io.BytesIO(), progress=progress),
                "invert": lambda progress: update.invert(io.BytesIO(), base=base, progress=progress),
                "merge": lambda progress: weft.merge([update], io.BytesIO(), base=base, progress=progress),
            }
            for name in ("rewrite", "invert", "merge", "apply"):
                others = (lambda: update.layout, lambda: update.attachment, update.changes, update.close,
                          lambda: weft.merge([other, update], io.BytesIO()))  # fmt: skip
                with self.subTest(name):
                    support.colliding(self, calls[name], others)
            self.assertTrue(same(base, target))

    def test_the_header_tells_the_classes_of_each_dtype(self):
        random = np.random.default_rng(1)
        base = random.standard_normal(1 << 18, np.float32)
        target = base.copy()
        target.view(np.uint32)[random.random(base.size) < np.where(abs(base) < 0.5, 0.05, 0.005)] += 1
        weft.diff({"w": base}, {"w": target}, self.path)
        with weft.UpdateFile(self.path) as update:
            thresholds = update.header.classes["F32"]
        self.assertGreater(len(thresholds), 0)
        self.assertEqual(list(thresholds), sorted(set(thresholds)))

    def test_merge(self):
        one, two, three = self.versions(3)
        parts = [io.BytesIO(), io.BytesIO()]
        weft.diff(one, two, parts[0], level="fast", versions=(1, 2))
        weft.diff(two, three, parts[1], level="fast", versions=(2, 3))
        updates = [weft.UpdateFile(part.getvalue()) for part in parts]
        for options in ({}, {"base": one, "level": "tight"}):
            info = weft.merge(updates, self.path, **options)
            self.assertEqual((info.base.number, info.target.number), (1, 3))
        with weft.UpdateFile(self.path) as update:
            update.apply(one)
        self.assertTrue(same(one, three))
        with self.assertRaises(weft.CallError):
            weft.merge(updates[::-1], self.path)

    def test_there_and_back_by_the_opposite(self):
        for level, bound, wanted in (("fast", False, None), ("tight", True, None), ("tight", True, "fast")):
            base, target = self.versions()
            there, back, options = io.BytesIO(), io.BytesIO(), {"base": base if bound else None, "level": wanted}
            weft.diff(base, target, there, level=level, versions=(4, 5), attachment=b"new")
            with weft.UpdateFile(there.getvalue()) as update:
                with self.assertRaisesRegex(weft.CallError, "attachment of 3 bytes"):
                    update.invert(io.BytesIO(), **options)
                info = update.invert(back, attachment=b"old", **options)
            self.assertEqual((info.base.number, info.target.number), (5, 4))
            with weft.UpdateFile(back.getvalue()) as update:
                self.assertEqual(update.attachment, b"old")
                update.apply(target)
            self.assertTrue(same(arrays(base), target))
        with weft.UpdateFile(there.getvalue()) as update, self.assertRaisesRegex(weft.CallError, "base"):
            update.invert(self.path, attachment=b"old")

    def test_damaged_and_missing_files(self):
        base, target = self.versions()
        whole = io.BytesIO()
        weft.diff(base, target, whole)
        for bad in (whole.getvalue()[:-1], b"", b"x" * 1000):
            with self.assertRaises(weft.Error):
                weft.UpdateFile(bad)
        damaged = bytearray(whole.getvalue())
        damaged[len(damaged) // 2] ^= 1
        before = {name: array.copy() for name, array in arrays(base).items()}
        with self.assertRaises(weft.VersionError), weft.UpdateFile(damaged) as update:
            update.apply(base)
        self.assertTrue(same(before, base))
        with self.assertRaisesRegex(weft.CallError, "nowhere"):
            weft.UpdateFile("/nowhere/x.weft")

    def test_what_a_callback_raises_comes_out_and_no_file_is_left(self):
        base, target = self.versions()

        class Broken(io.RawIOBase):
            def write(self, data):
                raise ZeroDivisionError("the disk")

        def progress(done, total):
            raise ZeroDivisionError("enough")

        self.assertRaisesRegex(ZeroDivisionError, "the disk", weft.diff, base, target, Broken())
        for threads in (1, 2):
            self.assertRaisesRegex(
                ZeroDivisionError, "enough", weft.diff, base, target, self.path, progress=progress, threads=threads
            )
        self.assertEqual(list(self.path.parent.iterdir()), [])
        seen = []
        weft.digest(base, progress=lambda done, total: seen.append((done, total)))
        self.assertEqual(seen[-1][0], seen[-1][1])

    def test_files_that_take_less_at_once(self):
        base, target = self.versions()

        class Slow(io.RawIOBase):
            def __init__(self):
                self.held = bytearray()

            def write(self, data):
                self.held += bytes(data[:7])
                return min(len(data), 7)

        slow, quick = Slow(), io.BytesIO()
        weft.diff(base, target, slow)
        weft.diff(base, target, quick)
        self.assertEqual(bytes(slow.held), quick.getvalue())

    def test_ctrl_c_ends_the_work(self):
        base, target = {"w": np.zeros(1 << 24, np.float32)}, {"w": np.ones(1 << 24, np.float32)}
        reached = threading.Event()

        def progress(done, total):
            if not reached.is_set():
                reached.set()
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.05)

        with self.assertRaises(KeyboardInterrupt):
            weft.diff(base, target, self.path, threads=2, progress=progress)
            time.sleep(5)
        self.assertEqual(list(self.path.parent.iterdir()), [])

    def test_the_base_may_be_read_only_and_what_is_written_not(self):
        base, target = self.versions()
        frozen = {"w": memoryview(bytes(64))}
        weft.diff(frozen, {"w": bytearray(b"\1" * 64)}, self.path)
        with weft.UpdateFile(self.path) as update:
            with self.assertRaisesRegex(weft.TensorError, "read-only"):
                update.apply(frozen)


if __name__ == "__main__":
    support.main()
