"""fp8 variants: the bytes of vLLM's and slime's own functions, only what changed cast anew, bf16 and fp8 rollouts."""

import base64
import contextlib
import hashlib
import importlib.util
import json
import unittest
from pathlib import Path

import numpy as np
import support
from make_quant_golden import bell, patterns
from support import BOUND, quiet

import weft
import weft.quant
from weft.quant import RULES, Recast, _numpy, _rules

GOLDEN = json.loads(Path(__file__).with_name("quant_golden.json").read_text())
PATTERNS = "model.layers.*_proj.weight"
CUTS = {"cut__fp8__tensors": "fp8/*", "cut__bf16__tensors": PATTERNS}
TORCH = importlib.util.find_spec("torch")


def bf16(bits):
    return weft.Typed(bits, "BF16")


def made(tensor, rule):
    """Codes and scales as numpy arrays."""
    codes, scales = weft.quant.cast(tensor, rule)
    if isinstance(codes, weft.Typed):
        return codes.array, scales
    import torch

    return codes.view(torch.uint8).numpy(), scales.numpy()


def as_torch(bits):
    import torch

    return torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16)


def has_fp8():
    if not TORCH:
        return False
    import torch

    return hasattr(torch, "float8_e4m3fn")


WAYS = {"numpy": bf16, **({"torch": as_torch} if has_fp8() else {})}


def value_of(code):
    """The number that an e4m3 code means, by its definition."""
    sign, exponent, mantissa = -1 if code & 0x80 else 1, code >> 3 & 15, code & 7
    return sign * (mantissa / 512 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10))


class Rules(unittest.TestCase):
    def bits_of(self, case):
        """The bits of a golden case: written out, or made anew where the file has their hash."""
        if case["case"] == "patterns":
            bits = patterns()
        elif case["case"].startswith("bell "):
            bits = bell(*map(int, case["case"].split()[1:]))
        else:
            raw = np.frombuffer(base64.b64decode(case["bits"]), np.uint16)
            return raw.reshape(case["shape"]).copy()
        self.assertEqual(hashlib.sha256(bits.tobytes()).hexdigest(), case["bits"])
        return bits

    def test_the_bytes_are_those_of_the_engines_functions(self):
        self.assertEqual(set(GOLDEN["made by"]), set(RULES))
        for case in GOLDEN["cases"]:
            bits = self.bits_of(case)
            for rule, (codes, shape, scales) in case["rules"].items():
                zeros = rule == "fp8-tensor-f32/1" and not (bits & 0x7FFF).any()
                for way, give in WAYS.items():
                    with self.subTest(case=case["case"], rule=rule, way=way):
                        own_codes, own_scales = made(give(bits), rule)
                        self.assertEqual(list(own_scales.shape), shape)
                        self.assertEqual(own_scales.tobytes(), base64.b64decode(scales))
                        self.assertEqual(zeros, False, "vLLM gives NaN for a tensor of zeros")
                        own = own_codes.tobytes()
                        if len(codes) == 64:
                            self.assertEqual(hashlib.sha256(own).hexdigest(), codes)
                        else:
                            self.assertEqual(own, base64.b64decode(codes))

if __name__ == "__main__":
    support.main()
