#!/usr/bin/env python3
"""Float32 masters that are read as bfloat16, against a mirror of bfloat16 that torch casts.

    PYTHONPATH=python/src WEFT_LIBRARY=build-release/libweft.so python3 python/bench/cast.py [MIB] [ROUNDS]

Three ways of one version, each on one thread, in an order that turns with the round: publish the masters; publish the
mirror, which somebody else cast; cast by torch, and publish the mirror. MIB is that of the mirror. An optimizer's step
has moved every master, and about 1.2 % of the bfloat16 elements. Prints medians of milliseconds, and of the ratios
within each round.
"""

import statistics
import sys
import time

import torch

import weft_fabric as weft

SITE = """
[trainer]
listen = 127.0.0.1:0
threads = 1
[session]
progress = manual
[peers]
provider = tcp
[peer.a]
[log]
level = error
"""


def milliseconds(call):
    begin = time.perf_counter()
    result = call()
    return 1000 * (time.perf_counter() - begin), result


def main():
    mib = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 15
    torch.set_num_threads(1)
    torch.manual_seed(0)
    masters = {f"layer.{i}": torch.randn(1024, 4096).mul_(0.02) for i in range(mib // 8)}
    mirror = {name: master.bfloat16() for name, master in masters.items()}

    def cast():
        for name, master in masters.items():
            mirror[name].copy_(master)

    times = {name: [] for name in ("masters", "masters diff", "cast", "mirror", "mirror diff")}
    with weft.Trainer(weft.Site(SITE), masters, cast="bf16") as direct, weft.Trainer(weft.Site(SITE), mirror) as beside:
        for version in range(1, rounds + 2):
            for master in masters.values():
                master.add_(master * (torch.rand_like(master) - 0.5), alpha=1e-4)
            if version % 2:
                took, one = milliseconds(lambda: direct.publish(version))
                casting, _ = milliseconds(cast)
                copied, other = milliseconds(lambda: beside.publish(version))
            else:
                casting, _ = milliseconds(cast)
                copied, other = milliseconds(lambda: beside.publish(version))
                took, one = milliseconds(lambda: direct.publish(version))
            assert (one.changed, one.bytes, one.target.root) == (other.changed, other.bytes, other.target.root)
            if version > 1:  # the first touches memory
                for name, value in zip(times, (took, one.diff_ms, casting, copied, other.diff_ms)):
                    times[name].append(value)
    print(f"changed {100 * one.changed / one.elements:.2f} %, {one.bytes} bytes, of {mib} MiB")
    for name, column in times.items():
        print(f"{name:13} {statistics.median(column):8.1f} ms")

    def ratio(text, over, under):
        print(f"{text:45} {statistics.median(o / u for o, u in zip(over, under)):.3f}")

    casted = [a + b for a, b in zip(times["cast"], times["mirror"])]
    casted_diff = [a + b for a, b in zip(times["cast"], times["mirror diff"])]
    ratio("diff of masters / diff of mirror", times["masters diff"], times["mirror diff"])
    ratio("diff of masters / (cast + diff of mirror)", times["masters diff"], casted_diff)
    ratio("publish of masters / publish of mirror", times["masters"], times["mirror"])
    ratio("publish of masters / (cast + publish)", times["masters"], casted)


if __name__ == "__main__":
    main()
