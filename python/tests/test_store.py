"""Versions in a folder: each comes back, what is damaged is named, and a trainer's store is read without the trainer."""

import contextlib
import tempfile
import threading
import time
import unittest
from pathlib import Path

import numpy as np

import support
import weft_fabric as weft
from support import arrays, change, same, weights


class Stores(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.place = Path(self.folder.name) / "store"

    def versions(self, count):
        all_ = [weights()]
        for version in range(1, count):
            all_.append(weights())
            for earlier in range(1, version + 1):
                change(all_[-1], earlier)
        return all_

    def filled(self, count=5, anchors=0):
        versions = self.versions(count)
        store = weft.Store(self.place, create=True, anchors=anchors)
        self.addCleanup(store.close)
        for number, named in enumerate(versions):
            store.put(named, 120 + number, base=versions[number - 1] if number else None)
        return store, versions

    def test_every_version_comes_back(self):
        store, versions = self.filled()
        listed = store.versions
        self.assertEqual([stored.version.number for stored in listed], list(range(120, 125)))
        self.assertEqual([stored.base and stored.base.number for stored in listed], [None, 120, 121, 122, 123])
        self.assertTrue(all(stored.reachable and not stored.damaged for stored in listed))
        named = weights()
        for number in (4, 1, 3, 0, 2):
            moved = store.apply(named, 120 + number)
            self.assertEqual((moved.version, moved.damaged), (listed[number].version, 0))
            self.assertTrue(same(named, versions[number]))
        self.assertEqual(store.apply(named, listed[4].version, threads=2).anchors, 0)
        self.assertEqual(store.check(), [])
        self.assertIn("5 versions", repr(store))

    def test_a_version_needs_no_model(self):
        store, versions = self.filled(3)
        layout = store.layout(122)
        self.assertEqual(layout, weft.Layout(versions[2]))
        empty = layout.empty()
        self.assertEqual(store.apply(empty, 122, layout=layout).anchors, 1)
        self.assertEqual([typed.array.tobytes() for typed in empty.values()],
                         [array.tobytes() for array in arrays(versions[2]).values()])  # fmt: skip

    def test_several_sources_and_one_rank(self):
        trained = {"q": np.arange(32, dtype=np.float32).reshape(8, 4), "n": np.ones(6, np.float32)}
        layout = weft.Layout(trained)
        keys = {"trainer__store": str(self.place), "cut__q__tensors": "q", "cut__q__rows": "2"}
        for r in (0, 1):
            keys[f"source__{r}__listen"] = f"127.0.0.{r + 1}:0"

        def box(of, row, rows, more):
            own = of["q"][row : row + rows]
            where = [own.ctypes.data] + ([of["n"].ctypes.data] if more else [])
            count = len(where)
            return weft.Blocks([0, 1][:count], [row, 0][:count], [rows, 1][:count], 0, [4, 6][:count], where, keep=of)

        parts = [box(trained, 0, 3, True), box(trained, 3, 5, False)]
        seen = [{name: array.copy() for name, array in trained.items()}]
        with contextlib.ExitStack() as stack:
            trainers = [
                stack.enter_context(
                    weft.Trainer(support.site(**keys), part, layout=layout, holding=True, run=9, source=r,
                                 log=support.quiet)  # fmt: skip
                )
                for r, part in enumerate(parts)
            ]
            for version in (1, 2):
                change(trained, version)
                seen.append({name: array.copy() for name, array in trained.items()})
                for trainer in trainers:
                    trainer.publish(version)
        with weft.Store(self.place) as store:
            self.assertEqual([stored.version.number for stored in store.versions], [0, 1, 2])
            self.assertEqual(store.layout(2), layout)
            rank = {name: np.zeros_like(array) for name, array in trained.items()}
            blocks = box(rank, 4, 4, True)  # the second half of q, of which each source has rows
            for number in (2, 0, 1):
                store.apply(blocks, number)
                self.assertTrue(np.array_equal(rank["q"][4:], seen[number]["q"][4:]))
                self.assertTrue(np.array_equal(rank["n"], seen[number]["n"]))
                self.assertFalse(rank["q"][:4].any())
            whole = {name: np.zeros_like(array) for name, array in trained.items()}
            store.apply(whole, 1)
            self.assertTrue(same(whole, seen[1]))
            with self.assertRaises(weft.CallError) as caught:
                store.apply(box(rank, 5, 3, True), 1)
            self.assertIn("would part them", str(caught.exception))
        next(self.place.glob("*/*2/source-0-of-2.weft")).unlink()
        with weft.Store(self.place) as store:
            self.assertEqual([stored.version.number for stored in store.versions], [0, 1])
            half = box(rank, 4, 4, False)  # of which source 0 has nothing
            store.view(half, layout)
            self.assertEqual([stored.version.number for stored in store.versions], [0, 1, 2])
            store.apply(half, 2)
            self.assertTrue(np.array_equal(rank["q"][4:], seen[2]["q"][4:]))
            with self.assertRaises(weft.Error):
                store.apply(blocks, 2)

    def test_a_wait_ends_when_files_come(self):
        store, versions = self.filled(2)
        with weft.Store(self.place) as reader:
            self.assertFalse(reader.wait(timeout=0))
            store.put(versions[0], 122, base=versions[1])
            self.assertTrue(reader.wait())
            self.assertEqual(reader.versions[-1].version.number, 122)
            self.assertFalse(reader.wait(timeout=0.01))

    def test_attachments(self):
        one, two, three = self.versions(3)
        with weft.Store(self.place, create=True) as store:
            store.put(one, 1, attachment=b"first")
            store.put(two, 2, base=one)
            store.put(three, 3, base=two, attachment=b"third")
            self.assertEqual([store.attachment(number) for number in (1, 2, 3)], [b"first", b"first", b"third"])

    def test_what_is_damaged_is_named(self):
        store, versions = self.filled()
        file = sorted(self.place.glob("*/*/source-*"))[1]  # of version 122
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.chmod(0o644)
        file.write_bytes(data)
        faults = store.check()
        self.assertEqual([fault.version.number for fault in faults if fault.file], [122])
        self.assertEqual({fault.version.number for fault in faults if fault.file is None}, {122, 123, 124})
        self.assertTrue(all(fault.text and fault.status != "ok" for fault in faults))
        with self.assertRaises(weft.Error):
            store.apply(weights(), 124)
        store.apply(versions[3], 121)
        self.assertTrue(same(versions[3], versions[1]))

    def test_old_versions_go(self):
        store, _ = self.filled(9, anchors=4)
        self.assertEqual(store.trim(weft.Kept(versions=3)), 0)  # younger than an hour
        self.assertEqual(store.trim(weft.Kept(versions=3, grace_s=0)), 4)
        self.assertEqual(store.versions[0].version.number, 124)
        self.assertEqual(store.check(), [])

    def test_errors(self):
        store, versions = self.filled(2)
        with self.assertRaises(weft.CallError) as caught:
            store.apply(versions[0], 7)
        self.assertEqual(caught.exception.name, "missing")
        with self.assertRaises(weft.Error) as caught:
            store.put(versions[1], 121, base=versions[1])
        self.assertEqual(caught.exception.name, "state")
        with self.assertRaises(weft.Error):
            weft.Store(self.place / "absent")
        with self.assertRaises(weft.CallError):
            weft.Store("gs://bucket/prefix", create=True)
        store.close()
        self.assertRaises(weft.ClosedError, lambda: store.versions)
        self.assertIn("closed", repr(store))

        def stop(done, total):
            raise KeyError("enough")

        with weft.Store(self.place) as again, self.assertRaises(KeyError):
            again.apply(weights(), 121, progress=stop)

    def test_one_call_at_a_time(self):
        store, versions = self.filled(2)
        named = weights()
        others = (lambda: store.versions, store.refresh, store.close, lambda: store.wait(0), lambda: store.layout(121),
                  lambda: store.attachment(121), lambda: store.apply(weights(), 120),
                  lambda: store.trim(weft.Kept(1)), store.check)  # fmt: skip
        for call in (lambda progress: store.apply(named, 121, progress=progress),
                     lambda progress: store.put(versions[1], 130, progress=progress),
                     lambda progress: store.check(progress=progress)):  # fmt: skip
            support.colliding(self, call, others)
        self.assertTrue(same(named, versions[1]))

    def test_threads_that_wait_and_close(self):
        store, versions = self.filled(2)
        ended = []

        def wait():
            try:
                while True:
                    store.wait(0.01)
            except (weft.ClosedError, weft.CallError) as error:
                ended.append(type(error))

        threads = [threading.Thread(target=wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        while not store._handle.closed:
            with contextlib.suppress(weft.CallError):
                store.close()
        for thread in threads:
            thread.join()
        self.assertEqual(len(ended), 3)
        self.assertIn(weft.ClosedError, ended)

    def test_the_store_of_a_trainer(self):
        named, site = weights(), support.site(trainer__store=str(self.place))
        with weft.Trainer(site, named, attachment=b"head", log=support.quiet) as trainer:
            for version in (1, 2, 3):
                change(named, version)
                trainer.publish(version)
            deadline = time.monotonic() + 60
            while trainer.stats().recorded + trainer.stats().unrecorded < 4:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            root = trainer.held.root
        with weft.Store(self.place) as store:
            other = weights()
            self.assertEqual(store.apply(other, 3).version.root, root)
            self.assertTrue(same(other, named))
            self.assertEqual(store.attachment(3), b"head")


if __name__ == "__main__":
    support.main()
