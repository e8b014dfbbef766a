#!/usr/bin/env python3
"""Publish and commit beside what torch takes for the same, and every bit of the rollout held against the trainer's.

    PYTHONPATH=python/src WEFT_LIBRARY=build-release/libweft.so bench/device/beside_torch.py [--small --device cpu]

Trainer and rollout are two models in one process, over the provider loop. Exit code 1: a bit differs."""

import contextlib
import threading
import time

import rig
import sampler
import torch

import weft_fabric as weft


class Beside(rig.Rig):
    def alone(self):
        for _ in range(self.warm + self.rounds):
            self.step()
            with self.timed("publish, no peer"):
                self.publish("publish, no peer: until the weights are free")
        self.step()
        with sampler.sampled("publish, no peer"):
            print(rig.told(self.publish()))

    def take(self):
        """One version to the rollout."""
        self.step()
        with self.timed("publish, with a peer"):
            self.publish("publish, with a peer: until the weights are free")
        with self.timed("staged after that"):
            return self.rollout.staged(timeout=60)

    def plain(self, staged):
        with self.timed("commit, while the engine stands still"):
            self.rollout.commit(staged)

    def queued(self, staged):
        with self.timed("queued commit: until the device is done"):
            begin = time.perf_counter()
            self.rollout.commit(staged, queue=True)
            self.add("queued commit: the call", time.perf_counter() - begin)
        self.rollout.settle(True)

    def held(self, staged):
        with self.timed("commit that holds, and its settlement"):
            self.rollout.commit(staged, hold=True)
            self.rollout.settle(True)

    def commits(self):
        for _ in range(self.warm + self.rounds):
            for way in (self.plain, self.queued, self.held):
                way(self.take())
                self.prove(way.__name__)

    def graph(self):
        """A graph of the engine reads the new weights when it is replayed after a queued commit."""
        weight = self.served["layers.0.q"]
        x = torch.randn(8, weight.shape[1], device=self.device, dtype=weight.dtype)
        x @ weight.T
        self.wait()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x @ weight.T
        staged = self.take()
        self.rollout.commit(staged, queue=True)
        graph.replay()
        self.rollout.settle(True)
        assert torch.equal(y, x @ weight.T), "a graph that was replayed after a queued commit read other weights"
        self.prove("graph")

    def decode(self, row):
        """A step like an engine's decode step."""
        gates = [tensor for name, tensor in self.served.items() if name.endswith("gate")]
        x = torch.ones(8, gates[0].shape[1], device=self.device, dtype=gates[0].dtype)
        with self.timed(row):
            for weight in gates:
                x @ weight.T

    def decodes(self):
        for _ in range(50):
            self.decode("decode step alone")
        for _ in range(self.rounds):
            self.step()
            thread = threading.Thread(target=self.publish)
            thread.start()
            while (staged := self.rollout.staged()) is None:
                self.decode("decode step beside publish and staging")
            thread.join()
            self.rollout.commit(staged)
            self.prove("decode")

    def torch_alone(self):
        """What a program in torch would do: compare, list, gather, copy to the host; or copy everything."""
        room = max(tensor.numel() for tensor in self.weights.values())
        places = torch.empty(room, dtype=torch.int32, pin_memory=self.cuda)
        values = torch.empty(room, dtype=torch.bfloat16, pin_memory=self.cuda)
        for _ in range(self.warm + self.rounds):
            with self.timed("torch: compare, nonzero, gather, copy to pinned memory"):
                for name, tensor in self.weights.items():
                    new, old = tensor.view(-1), self.served[name].view(-1)
                    where = (rig.bits(new) != rig.bits(old)).nonzero().view(-1)
                    places[: where.numel()].copy_(where.int(), non_blocking=True)
                    values[: where.numel()].copy_(new[where], non_blocking=True)
        for _ in range(self.warm + self.rounds):
            with self.timed("torch: all weights copied on the device"):
                rig.copy(self.weights, self.served)

    def tiny(self):
        """What a publish and a commit cost whatever they move; and weights that another hand wrote."""
        self.weights = {"t": torch.randn(1 << 16, device=self.device, dtype=torch.bfloat16)}
        with self.joined(lambda: None):
            for _ in range(30):
                rig.bits(self.weights["t"])[self.version % 101 :: 101] ^= 1
                self.version += 1
                with self.timed("publish, 64 Ki elements"):
                    self.publish()
                staged = self.rollout.staged(timeout=60)
                with self.timed("commit, 64 Ki elements"):
                    self.rollout.commit(staged)
            self.prove("64 Ki elements")
            rig.bits(self.served["t"]).bitwise_xor_(1)
            self.step()
            self.publish()
            self.mended()

    def mended(self):
        """Weft finds what another hand wrote, refuses what it staged, and joins again."""
        while self.rollout.held is None or self.rollout.held.number < self.version:
            with contextlib.suppress(weft.VersionError):
                self.rollout.commit(self.rollout.staged(timeout=60))
        self.prove("weights that another hand wrote")

    def main(self):
        with self.joined(self.alone):
            for part in (self.commits, *([self.graph] if self.cuda else []), self.decodes):
                part()
        self.step()
        self.torch_alone()
        self.tiny()
        self.table("weft beside torch")


if __name__ == "__main__":
    Beside(rig.parser(__doc__).parse_args()).main()
