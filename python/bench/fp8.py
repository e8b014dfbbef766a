#!/usr/bin/env python3
"""Updates of bf16 and fp8 sets of the same steps: bytes, changes, and what the cast of only the changes takes.

    export PYTHONPATH=python/src:examples WEFT_LIBRARY=build-release/libweft.so
    python3 python/bench/fp8.py V0 V1 V2 ... [--cast PATTERNS]
    python3 python/bench/fp8.py --loop 20 --rate 1e-6 --cast "blocks.*.qkv.weight,blocks.*.out.weight"

The first form reads safetensors files of consecutive versions. The second takes the steps of examples/rl_loop.py, whose
policy learns from batches of its own. Both print for each rule and step what the cast tensors alone come to: the share
of bf16 elements and of fp8 codes that changed, scales that changed, the bytes of both updates (level fast), and the
milliseconds of the processor that update() takes, beside those of casting everything.
"""

import argparse
import io
import json
import statistics
import time

import numpy as np

import weft_fabric as weft
import weft_fabric.quant


def read(path):
    """The BF16 tensors of a safetensors file, by name."""
    with open(path, "rb") as file:
        head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = np.frombuffer(file.read(), np.uint8)
    named = {}
    for name, facts in head.items():
        if name != "__metadata__" and facts["dtype"] == "BF16":
            first, end = facts["data_offsets"]
            named[name] = data[first:end].view(np.uint16).reshape(facts["shape"])
    return named


def loop_steps(count, rate):
    """Versions of examples/rl_loop.py's policy in bf16, before and after each step of its optimizer."""
    import rl_loop
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    policy, served = rl_loop.Policy(), rl_loop.Policy().bfloat16()
    optimizer = torch.optim.Adam(policy.parameters(), rate)
    for step in range(count + 1):
        rl_loop.copy_to(served, policy)
        yield {n: p.detach().view(torch.int16).numpy().view(np.uint16).copy() for n, p in served.named_parameters()}
        tokens = torch.cat([torch.from_numpy(rl_loop.generate(served, 2 * step + i)[0]) for i in range(2)])
        rl_loop.learn(policy, optimizer, tokens)


def timed(call):
    before = time.process_time()
    result = call()
    return result, 1000 * (time.process_time() - before)


def changes(before, after):
    """Changed elements and bytes of the update from one set to the other."""
    update = weft.diff(before, after, io.BytesIO(), level="fast")
    return update.changed, update.bytes


class Ledger:
    """One rule, by the steps of one model."""

    def __init__(self, rule, patterns, first):
        self.weights = {name: array.copy() for name, array in first.items()}
        self.typed = {name: weft.Typed(array, "BF16") for name, array in self.weights.items()}
        self.cast = weft.quant.Cast(self.typed, rule, patterns)
        self.rule, self.patterns, self.rows = rule, patterns, []
        self.chosen = [n[len("fp8/") :] for n in self.cast.named if n.startswith("fp8/") and n[4:] in self.weights]

    def sets(self):
        """Copies of what is cast: as bf16, as codes, as scales."""
        named = self.cast.named
        return (
            {name: weft.Typed(self.weights[name].copy(), "BF16") for name in self.chosen},
            {name: weft.Typed(named["fp8/" + name].array.copy(), "F8_E4M3") for name in self.chosen},
            {name: named["fp8/" + name + ".scale"].copy() for name in self.chosen},
        )

    def step(self, after):
        before = self.sets()
        for name, array in after.items():
            self.weights[name][...] = array
        done, ms = timed(self.cast.update)
        now = self.sets()
        again, all_ms = timed(lambda: weft.quant.Cast(self.typed, self.rule, self.patterns))
        for name in self.chosen:
            assert again.named["fp8/" + name].array.tobytes() == now[1][name].array.tobytes(), name
            assert again.named["fp8/" + name + ".scale"].tobytes() == now[2][name].tobytes(), name
        bf16, codes, scales = (changes(one, other) for one, other in zip(before, now))
        both = changes({**before[1], **{n + ".s": s for n, s in before[2].items()}},
                       {**now[1], **{n + ".s": s for n, s in now[2].items()}})[1]  # fmt: skip
        self.rows.append((bf16[0], codes[0], scales[0], done.blocks, bf16[1], both, ms, all_ms))

    def print(self):
        elements = sum(self.weights[name].size for name in self.chosen)
        scales = sum(self.cast.named["fp8/" + name + ".scale"].size for name in self.chosen)
        print(f"{self.rule}: {len(self.chosen)} tensors of {elements} elements, {scales} scales")
        print(
            "  step  bf16 changed  fp8 changed  scales  whole blocks  bf16 bytes  fp8 bytes  ratio  update ms  all ms"
        )
        for step, (bf16, codes, other, blocks, wide, narrow, ms, all_ms) in enumerate(self.rows, 1):
            print(f"  {step:4} {100 * bf16 / elements:11.3f} % {100 * codes / elements:10.4f} % {other:7} {blocks:13} "
                  f"{wide:11} {narrow:10} {wide / narrow:6.2f} {ms:10.1f} {all_ms:7.1f}")  # fmt: skip
        middle = [statistics.median(column) for column in zip(*self.rows)]
        print(f"  median: bf16 {100 * middle[0] / elements:.3f} %, fp8 {100 * middle[1] / elements:.4f} %, "
              f"bytes {middle[4]:.0f} and {middle[5]:.0f}, a cast of the changes takes {middle[6] / middle[7]:.2f} of "
              "one of everything", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="safetensors files of consecutive versions")
    parser.add_argument("--loop", type=int, metavar="STEPS", help="take the steps of examples/rl_loop.py instead")
    parser.add_argument("--rate", type=float, default=1e-5, help="Adam's learning rate in the loop")
    parser.add_argument("--cast", default="model.layers.*_proj.weight", help="patterns of the tensors that are cast")
    options = parser.parse_args()
    steps = loop_steps(options.loop, options.rate) if options.loop else map(read, options.files)
    first = next(steps)
    ledgers = [Ledger(rule, options.cast, first) for rule in weft.quant.RULES]
    for after in steps:
        for ledger in ledgers:
            ledger.step(after)
    for ledger in ledgers:
        ledger.print()


if __name__ == "__main__":
    main()
