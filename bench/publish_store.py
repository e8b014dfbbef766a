#!/usr/bin/env python3
"""publish_store.py [MEGABYTES [VERSIONS]] - weft_publish with [trainer] store beside one without: two trainers of equal
weights publish equal changes in turn, each first in every second round, and the store's first anchor is written before.
PYTHONPATH=python/src and WEFT_LIBRARY=BUILD/libweft.so name the package and the library. Needs numpy."""
import json
import statistics
import sys
import tempfile
import time

import numpy
import weft_fabric as weft

QUIET_S = 0.25 # between two publishes, so that each is timed alone


def main():
    megabytes, versions = (int(sys.argv[i]) if len(sys.argv) > i else least for i, least in ((1, 100), (2, 41)))
    random = numpy.random.default_rng(1)
    plain = {f"w{i}": random.integers(0, 2**16, megabytes * 50_000, dtype=numpy.uint16) for i in range(10)}
    stored = {name: values.copy() for name, values in plain.items()}
    spent = {"plain": [], "stored": []}
    with tempfile.TemporaryDirectory() as work:
        with open(f"{work}/site.ini", "w", encoding="utf-8") as site:
            site.write("[trainer]\nlisten = 127.0.0.1:0\njournal = 512MiB\n[peer.a]\n")
        with weft.Trainer(weft.Site(f"{work}/site.ini"), plain) as one, \
                weft.Trainer(weft.Site(f"{work}/site.ini", {"trainer.store": f"{work}/store"}), stored) as two:
            while not two.stats().recorded:
                time.sleep(0.1)
            for version in range(1, versions):
                for name, values in plain.items():
                    at = random.integers(0, values.size, values.size // 85)
                    values[at] ^= 1
                    stored[name][at] ^= 1
                turn = [(one, "plain"), (two, "stored")]
                for trainer, kind in turn if version % 2 else reversed(turn):
                    begun = time.perf_counter()
                    trainer.publish(version)
                    spent[kind].append(1e3 * (time.perf_counter() - begun))
                    time.sleep(QUIET_S)
            ratio = statistics.median(b / a for a, b in zip(spent["plain"], spent["stored"]))
            stats = two.stats()
    print(json.dumps({"plain_ms": round(statistics.median(spent["plain"]), 2), "ratio": round(ratio, 3),
                      "stored_ms": round(statistics.median(spent["stored"]), 2), "recorded": stats.recorded,
                      "unrecorded": stats.unrecorded}))


main()
