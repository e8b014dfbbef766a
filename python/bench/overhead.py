#!/usr/bin/env python3
"""What the package adds to a publish and a commit, beside the bare calls of C.

    PYTHONPATH=python/src WEFT_LIBRARY=build-release/libweft.so python3 python/bench/overhead.py [VERSIONS]

Versions of one session go in turn by the package and by bare calls (cffi's own half microsecond included), because
caches, pages and other work count for more than the language does. Prints microseconds that a
tenth of the versions is below, so that what else the machine does falls out.
"""

import statistics
import sys
import time

import numpy as np

import weft_fabric as weft
from weft_fabric._library import NULL, ffi, lib, sized

SITE = """
[trainer]
listen = 127.0.0.1:0
journal = 256MiB
[peers]
provider = loop
staging = 256MiB
[peer.a]
[log]
level = error
"""
MODELS = {  # tensors, elements of each, changes of each, a part of the versions
    "1 tensor of 1 Ki": (1, 1 << 10, 10, 1),
    "300 tensors of 1 Ki": (300, 1 << 10, 10, 2),
    "300 tensors of 64 Ki, 1 %": (300, 1 << 16, 655, 10),
    "64 tensors of 1 Mi, 1 %": (64, 1 << 20, 10486, 20),
}


class Bare:
    """The calls of C with nothing around them."""

    def __init__(self, trainer, rollout):
        self.trainer, self.rollout = trainer._handle._pointer, rollout._handle._pointer
        self.update, self.held = sized("weft_update_info"), ffi.new("weft_version *")

    def publish(self, version):
        assert lib.weft_publish(self.trainer, version, NULL, NULL, self.update) == 0

    def commit(self, version):
        assert lib.weft_commit(self.rollout, version, NULL, 0, self.held) == 0


class Package:
    def __init__(self, trainer, rollout):
        self.publish, self.commit = trainer.publish, rollout.commit


def step(memory, changed, version):
    stride = memory.shape[1] // changed
    memory[:, version % stride :: stride][:, :changed] += 1


def timed(call, version):
    before = time.perf_counter()
    call(version)
    return (time.perf_counter() - before) * 1e6


def measure(tensors, elements, changed, versions):
    """For the bare calls and for the package the times of publish and commit."""
    memory = [np.zeros((tensors, elements), np.uint16) for _ in range(2)]
    named = [{f"layer.{i}": weft.Typed(row, "BF16") for i, row in enumerate(rows)} for rows in memory]
    site = weft.Site(SITE)
    with weft.Trainer(site, named[0]) as trainer:
        there = weft.Site(SITE, {"trainer.listen": trainer.stats().listen})
        with weft.Rollout(there, "a", named[1]) as rollout:
            ways = Bare(trainer, rollout), Package(trainer, rollout)
            times = ([], [])
            for version in range(1, versions + 1):
                which = version % 2
                step(memory[0], changed, version)
                published = timed(ways[which].publish, version)
                rollout.staged(timeout=60)
                times[which].append((published, timed(ways[which].commit, version)))
    assert (memory[0] == memory[1]).all()
    return [[statistics.quantiles(column, n=10)[0] for column in zip(*way[2:])] for way in times]


def main():
    versions = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    print(f"{'model':28} {'publish: C':>11} {'Python':>9} {'more':>7}   {'commit: C':>10} {'Python':>9} {'more':>7}")
    for name, (tensors, elements, changed, part) in MODELS.items():
        (cp, cc), (pp, pc) = measure(tensors, elements, changed, versions // part)
        print(f"{name:28} {cp:11.1f} {pp:9.1f} {pp - cp:7.1f}   {cc:10.1f} {pc:9.1f} {pc - cc:7.1f}", flush=True)


if __name__ == "__main__":
    main()
