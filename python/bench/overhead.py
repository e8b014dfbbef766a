#!/usr/bin/env python3
"""What Python adds to a publish and a commit: the same versions by C and by Python, in turn, on this machine.

    PYTHONPATH=python/src WEFT_LIBRARY=build-release/libweft.so python3 python/bench/overhead.py [ROUNDS]

Prints for each model what the quickest tenth of both takes, and the difference, in microseconds.
"""

import mmap
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import weft

ROOT = Path(__file__).resolve().parents[2]
SITE = """
[trainer]
listen = 127.0.0.1:0
journal = 256MiB
threads = 1
[peers]
provider = loop
staging = 256MiB
[peer.a]
[log]
level = error
"""
MODELS = {  # tensors, elements of each, changes of each, versions
    "1 tensor of 1 Ki": (1, 1 << 10, 10, 400),
    "300 tensors of 1 Ki": (300, 1 << 10, 10, 200),
    "300 tensors of 64 Ki, 1 %": (300, 1 << 16, 655, 30),
    "64 tensors of 1 Mi, 1 %": (64, 1 << 20, 10486, 12),
}


def built(folder):
    library = Path(weft.library_path).resolve()
    program = Path(folder) / "overhead"
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O2", f"-I{ROOT / 'include'}", str(library), f"-Wl,-rpath,{library.parent}"]
    source = Path(__file__).with_suffix(".c")
    subprocess.run([os.environ.get("CC", "cc"), source, *flags, "-o", program], check=True)
    return program


def by_c(program, site, tensors, elements, changed, versions):
    words = [program, site, *map(str, (tensors, elements, changed, versions))]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return [tuple(map(float, line.split())) for line in said.split("\n")[:-1]]


def zeros(tensors, elements):
    """Mapped as in C, because the size of pages counts for more than the language does."""
    rows = np.frombuffer(mmap.mmap(-1, tensors * elements * 2), np.uint16).reshape(tensors, elements)
    rows[:] = 0
    return rows


def step(memory, changed, version):
    stride = memory.shape[1] // changed
    memory[:, version % stride :: stride][:, :changed] += 1


def one_version(trainer, rollout, version):
    before = time.perf_counter()
    trainer.publish(version)
    published = time.perf_counter()
    staged = rollout.staged(timeout=60)
    start = time.perf_counter()
    rollout.commit(staged)
    return (published - before) * 1e6, (time.perf_counter() - start) * 1e6


def by_python(site, tensors, elements, changed, versions):
    memory = [zeros(tensors, elements) for _ in range(2)]
    named = [{f"layer.{i}": weft.Typed(row, "BF16") for i, row in enumerate(rows)} for rows in memory]
    times = []
    with weft.Trainer(site, named[0]) as trainer:
        there = weft.Site(site, {"trainer.listen": trainer.stats().listen})
        with weft.Rollout(there, "a", named[1]) as rollout:
            for version in range(1, versions + 1):
                step(memory[0], changed, version)
                times.append(one_version(trainer, rollout, version))
    assert (memory[0] == memory[1]).all()
    return times


def quick(times):
    """The time that a tenth of the versions is below: what else the machine does falls out."""
    return [statistics.quantiles(column, n=10)[0] for column in zip(*times)]


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        program, site = built(folder), Path(folder) / "site.ini"
        site.write_text(SITE)
        print(
            f"{'model':28} {'publish: C':>11} {'Python':>9} {'more':>7}   {'commit: C':>10} {'Python':>9} {'more':>7}"
        )
        for name, model in MODELS.items():
            c, python = [], []
            for _ in range(rounds):
                c += by_c(program, site, *model)[2:]
                python += by_python(site, *model)[2:]
            (cp, cc), (pp, pc) = quick(c), quick(python)
            print(f"{name:28} {cp:11.1f} {pp:9.1f} {pp - cp:7.1f}   {cc:10.1f} {pc:9.1f} {pc - cc:7.1f}", flush=True)


if __name__ == "__main__":
    main()
