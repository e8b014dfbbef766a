#!/usr/bin/env python3
"""Kernels of a publish and of commits by torch's profiler (CUPTI, or ROCm's), which sees weft's launches too: how
often, how long, and for how long the device was busy at all.

    PYTHONPATH=python/src WEFT_LIBRARY=build-release/libweft.so bench/device/trace.py [--level auto,tight]"""

import collections
import time

import rig
import torch
from torch.profiler import ProfilerActivity, profile


def busy(spans):
    """The time that some span covers."""
    total, end = 0, float("-inf")
    for first, last in sorted(spans):
        total += max(0, last - max(first, end))
        end = max(end, last)
    return total


class Trace(rig.Rig):
    def traced(self, what, call):
        activity = ProfilerActivity.CUDA if self.cuda else ProfilerActivity.CPU
        with profile(activities=[activity]) as seen, self.timed(f"{what}: until the device is done"):
            cpu = time.thread_time()
            result = call()
            self.add(f"{what}: processor time of the calling thread", time.thread_time() - cpu)
        events = [event for event in seen.events() if event.device_type == torch.autograd.DeviceType.CUDA]
        self.add(f"{what}: device busy", busy((e.time_range.start, e.time_range.end) for e in events) / 1e6)
        self.kernels(what, events)
        return result

    def kernels(self, what, events):
        took = collections.defaultdict(list)
        for event in events:
            took[event.name].append(event.time_range.elapsed_us())
        print(f"\n{what}: {len(events)} launches and copies")
        for name, each in sorted(took.items(), key=lambda row: -sum(row[1]))[:20]:
            print(f"  {sum(each) / 1e3:9.2f} ms {len(each):6} x {sum(each) / len(each):9.1f} us  {name[:80]}")

    def commits(self, level):
        for _ in range(self.warm):
            self.step()
            self.publish()
            self.rollout.commit(self.rollout.staged(timeout=60))
        self.step()
        staged = self.traced(
            f"{level}: publish and staging", lambda: self.publish() and self.rollout.staged(timeout=60)
        )
        self.traced(f"{level}: commit", lambda: self.rollout.commit(staged))
        self.prove("commit")
        self.step()
        self.publish()
        staged = self.rollout.staged(timeout=60)
        self.traced(f"{level}: queued commit", lambda: self.rollout.commit(staged, queue=True))
        self.rollout.settle(True)
        self.prove("queued commit")

    def alone(self):
        for _ in range(self.warm):
            self.step()
            self.publish()
        self.step()
        print(rig.told(self.traced("publish, no peer", self.publish)))

    def main(self):
        for level in self.level.split(","):
            with self.joined(self.alone, level):
                self.commits(level)
        self.table("one of each, traced")


def main():
    read = rig.parser(__doc__)
    read.set_defaults(level="auto,tight")
    Trace(read.parse_args()).main()


if __name__ == "__main__":
    main()
