#!/usr/bin/env python3
"""A trainer and a rollout in another process on one device, over each provider: publish until held, commits, and
joining from nothing, beside a raw TCP stream and a copy in memory.

    PYTHONPATH=python/src WEFT_LIBRARY=build-release/libweft.so bench/device/pair.py [--providers tcp,stream,shm]

After each version the rollout sends sums of its weights that torch made, and the trainer's must be the same. Exit code
1: they differ. A provider that cannot be had here is left out by name."""

import argparse
import ctypes
import json
import socket
import subprocess
import sys
import threading
import time

import rig
import sampler

import weft_fabric as weft


class Follower(rig.Rig):
    """The other process: does what each line of its standard input asks for, and answers by lines."""

    def main(self):
        self.answers, sys.stdout = sys.stdout, sys.stderr
        self.answer(ready=True)
        for line in sys.stdin:
            self.follow(**json.loads(line))

    def answer(self, **said):
        print(json.dumps(said), file=self.answers, flush=True)

    def follow(self, site, empty, until):
        for tensor in self.weights.values() if empty else ():
            tensor.zero_()
        begin, held = time.perf_counter(), -1
        with weft.Rollout(self.site(*site), "a", self.weights, empty=empty) as rollout:
            while held < until:
                with sampler.sampled(empty and f"{site[1]}: the rollout, joining from nothing"):
                    staged = rollout.staged(timeout=60)
                    now = time.perf_counter()
                    held = rollout.commit(staged).number
                    self.wait()
                    end = time.perf_counter()
                self.answer(version=held, commit=end - now, whole=end - begin, sums=rig.sums(self.weights))


class Pair(rig.Rig):
    def ask(self, **what):
        print(json.dumps(what), file=self.other.stdin, flush=True)

    def hear(self):
        line = self.other.stdout.readline()
        return json.loads(line) if line else sys.exit("the rollout's process ended")

    def prove(self, provider, said):
        if said["version"] != self.version or said["sums"] != rig.sums(self.weights):
            sys.exit(f"{provider}: version {said['version']} there is not {self.version} here, to the bit")

    def version_over(self, provider):
        """One version, from its publish until the other process holds it."""
        self.step()
        begin = time.perf_counter()
        self.publish()
        self.add(f"{provider}: publish", time.perf_counter() - begin)
        self.trainer.wait(self.version, ["a"], timeout=60)
        self.add(f"{provider}: publish until held", time.perf_counter() - begin)
        said = self.hear()
        self.add(f"{provider}: commit in the other process", said["commit"])
        self.prove(provider, said)

    def over(self, provider):
        here = self.site(provider=provider)
        with weft.Trainer(here, self.weights, first_version=self.version) as self.trainer:
            there, last = (self.trainer.stats().listen, provider), self.version + self.warm + self.rounds
            self.ask(site=there, empty=False, until=last)
            rig.live(self.trainer)
            while self.version < last:
                self.version_over(provider)
            self.ask(site=there, empty=True, until=last)
            with sampler.sampled(f"{provider}: the trainer, while that rollout joins"):
                said = self.hear()
            self.prove(provider, said)
        self.add(f"{provider}: joining from nothing", said["whole"])
        print(f"{provider}: joining from nothing at {self.bytes / said['whole'] / 1e9:.2f} GB/s", flush=True)

    def raw_tcp(self):
        """One connection within this host, one thread at each end."""
        block, into = bytearray(4 << 20), bytearray(4 << 20)
        total = left = max(1, min(self.bytes, 4 << 30) // len(block)) * len(block)
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as out:
            begin = time.perf_counter()
            threading.Thread(target=lambda: [out.sendall(block) for _ in range(total // len(block))]).start()
            with server.accept()[0] as here:
                while left:
                    left -= here.recv_into(into)
        print(f"raw TCP, one stream: {total / (time.perf_counter() - begin) / 1e9:.2f} GB/s")

    def memcpy(self):
        room = min(self.bytes, 1 << 30)
        one, other = ctypes.create_string_buffer(room), ctypes.create_string_buffer(room)
        ctypes.memmove(one, other, room)  # which touches the memory
        begin = time.perf_counter()
        ctypes.memmove(one, other, room)
        print(f"memcpy, one thread: {room / (time.perf_counter() - begin) / 1e9:.2f} GB/s")

    def main(self, providers):
        usable = {row.provider for row in weft.providers() if row.usable}
        command = [sys.executable, "-B", __file__, "--follow", *sys.argv[1:]]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as self.other:
            self.hear()
            for provider in providers:
                self.over(provider) if provider in usable else print(f"{provider}: cannot be had here")
            self.other.stdin.close()
        self.raw_tcp()
        self.memcpy()
        self.table("two processes on one device")


if __name__ == "__main__":
    read = rig.parser(__doc__)
    read.add_argument("--providers", default="tcp,stream,shm", help="such as tcp,shm")
    read.add_argument("--follow", action="store_true", help=argparse.SUPPRESS)
    options = read.parse_args()
    sys.exit(Follower(options).main() if options.follow else Pair(options).main(options.providers.split(",")))
