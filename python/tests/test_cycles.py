"""Opening and closing again and again leaves nothing: no memory, no descriptor, no file's mapping, no thread."""

import ctypes
import gc
import os
import unittest

import support
import weft_fabric as weft
from support import change, pair, same, take, weights

CYCLES = 1000 if support.FULL else 40

# One arena, because the C library keeps what is free at the top of another thread's.
M_ARENA_MAX = -8
ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def threads():
    return len(os.listdir("/proc/self/task"))


def mapped():
    """Mappings of files, which memory of its own does not count."""
    with open("/proc/self/maps") as file:
        return sum(1 for line in file if line.split()[4] != "0")


def taken():
    """KiB that are this process's own, in memory or swapped out, after the C library gave back what it keeps."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(("Anonymous:", "Swap:")))


class Cycles(unittest.TestCase):
    def cycle(self, version):
        trained, served = weights(), weights()
        with pair(trained, served) as (trainer, rollout):
            change(trained, version)
            trainer.publish(version)
            take(rollout, version)
            self.assertTrue(same(trained, served))
        with self.assertRaises(weft.TensorError):
            weft.Rollout(support.site(), "a", {"w": trained["embed"].T}, log=support.quiet)

    def test_sessions(self):
        for version in range(1, 11):
            self.cycle(version)
        before = descriptors(), mapped(), threads()
        memory, highest = taken(), 0
        for version in range(1, CYCLES + 1):
            self.cycle(version)
            if version % (CYCLES // 10) == 0:
                highest = max(highest, taken())
        self.assertEqual((descriptors(), mapped(), threads()), before)
        print(f"{CYCLES} cycles: {memory} KiB before, {taken()} KiB after, {highest} KiB at most")
        self.assertLess(taken() - memory, 1024)

    def test_layouts_sites_and_files(self):
        import io

        base, target, file = weights(), weights(), io.BytesIO()
        change(target, 1)
        weft.diff(base, target, file)
        memory = 0
        for number in range(2200 if support.FULL else 330):
            if number == (200 if support.FULL else 30):
                memory = taken()
            weft.Layout(base)
            support.site().get("trainer.listen")
            with weft.UpdateFile(file.getvalue()) as update:
                update.changes(base)
        self.assertLess(taken() - memory, 1024)


if __name__ == "__main__":
    support.main()
