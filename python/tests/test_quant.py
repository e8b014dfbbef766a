"""fp8 variants: the bytes of vLLM's and slime's own functions, only what changed cast anew, bf16 and fp8 rollouts."""

import base64
import contextlib
import hashlib
import importlib.util
import itertools
import json
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

import support
import weft_fabric as weft
import weft_fabric.quant
from make_quant_golden import bell, patterns
from support import BOUND, quiet
from weft_fabric import _binding
from weft_fabric.quant import RULES, Recast, _numpy, _rules
from weft_fabric.quant._tensor import CastTensor

GOLDEN = json.loads(Path(__file__).with_name("quant_golden.json").read_text())
PATTERNS = "model.layers.*_proj.weight"
CUTS = {"cut__fp8__tensors": "fp8/*", "cut__bf16__tensors": PATTERNS}


def bf16(bits):
    return weft.Typed(bits, "BF16")


def by_numpy(bits, rule):
    """Codes and scales as arrays."""
    codes, scales = weft.quant.cast(bf16(bits), rule)
    return codes.array, scales


def by_torch(bits, rule):
    """As on a device, here in host memory."""
    from weft_fabric.quant import _torch

    return tuple(part.numpy() for part in parts_of(cast_tensor(_torch, as_torch(bits), rule)))


def cast_tensor(kit, bits, rule):
    rule = RULES[rule]
    return CastTensor(kit, rule, _rules.Tables(*(kit.table(values, "cpu") for values in _rules.tables_of(rule))), bits)


def parts_of(cast):
    return cast.codes, cast.scales


def as_torch(bits):
    """int16, in the same memory."""
    import torch

    return torch.from_numpy(bits.view(np.int16))


def has_fp8():
    if not importlib.util.find_spec("torch"):
        return False
    import torch

    return hasattr(torch, "float8_e4m3fn")


WAYS = {"numpy": by_numpy, **({"torch": by_torch} if has_fp8() else {})}


def by_parameters(make):
    """A constructor of Cast that is given tensors of torch in the place of arrays, in the same memory."""
    import torch

    def init(self, named, rule, patterns):
        tensors = {name: as_torch(tensor.array).view(torch.bfloat16) for name, tensor in named.items()}
        make(self, tensors, rule, patterns)
        assert isinstance(self.named["fp8/rule"], torch.Tensor)
        assert self.named["fp8/model.layers.0.q_proj.weight"].dtype == torch.float8_e4m3fn

    return init


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
                for way, cast in WAYS.items():
                    with self.subTest(case=case["case"], rule=rule, way=way):
                        own_codes, own_scales = cast(bits, rule)
                        self.assertEqual(list(own_scales.shape), shape)
                        self.assertEqual(own_scales.tobytes(), base64.b64decode(scales))
                        own = own_codes.tobytes()
                        if len(codes) == 64:
                            self.assertEqual(hashlib.sha256(own).hexdigest(), codes)
                        else:
                            self.assertEqual(own, base64.b64decode(codes))

    @unittest.skipUnless(has_fp8(), "a torch with float8_e4m3fn is missing")
    def test_torch_is_among_the_ways(self):
        self.assertIn("torch", WAYS)

    def test_a_code_is_the_nearest_number(self):
        """By the definition of e4m3 alone: for every bf16 below 448, and scale 1."""
        numbers = np.array([value_of(code) for code in range(0x7F)])
        self.assertEqual(numbers[-1], 448)
        bits = np.arange(0x43E1, dtype=np.uint16)
        values = (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        codes = _numpy.codes(bits.view(np.int16), np.float32(1), False)
        self.assertLess(codes.max(), 0x7F)
        above = np.clip(np.searchsorted(numbers, values), 1, 0x7E)
        low, high = values - numbers[above - 1], numbers[above] - values
        wanted = np.where((low < high) | ((low == high) & (above % 2 == 1)), above - 1, above)
        self.assertEqual(codes.tolist(), wanted.tolist())
        minus = _numpy.codes((bits | 0x8000).view(np.int16), np.float32(1), False)
        self.assertTrue((minus == codes | 0x80).all())

    def test_numbers_that_are_not_finite(self):
        """NaN is 7f whatever it was, all over its block. Beside an infinity all is zero."""
        bits = np.full((2, 384), 0x3F80, np.uint16)
        bits[0, 3], bits[1, 130], bits[1, 131] = 0xFFC1, 0x7F80, 0xBF80
        for way, cast in WAYS.items():
            for rule in ("fp8-block128-f32/1", "fp8-block128-slime/1"):
                codes, scales = cast(bits.copy(), rule)
                self.assertEqual(np.isnan(scales[0]).tolist(), [True, False, False], way)
                self.assertEqual(np.isinf(scales[0]).tolist(), [False, True, False], way)
                self.assertTrue((codes[:, :128] == 0x7F).all(), way)
                self.assertEqual([codes[1, 130], codes[1, 131], codes[1, 132]], [0x7F, 0x80, 0], way)
                self.assertTrue((codes[:, 256:] == 0x7E).all(), way)

    def test_a_matrix_of_zeros(self):
        for rule in RULES:
            for way, cast in WAYS.items():
                codes, scales = cast(np.zeros((3, 5), np.uint16), rule)
                self.assertFalse(codes.any(), (rule, way))
                self.assertTrue(np.isfinite(scales).all(), (rule, way))

    def test_a_stack_is_cast_by_matrices(self):
        bits = np.stack([bell(150, 140, seed) for seed in range(6)]).reshape(2, 3, 150, 140)
        for rule in RULES:
            for way, cast in WAYS.items():
                codes, scales = cast(bits, rule)
                alone = [cast(bits[i, j].copy(), rule) for i in range(2) for j in range(3)]
                self.assertEqual(codes.tobytes(), b"".join(one.tobytes() for one, _ in alone), (rule, way))
                self.assertEqual(scales.tobytes(), b"".join(one.tobytes() for _, one in alone), (rule, way))
                self.assertEqual(scales.shape, (2, 3, 2, 2) if "block" in rule else (6,))


class Changes(unittest.TestCase):
    def kits(self):
        yield _numpy, lambda bits: bits.view(np.int16)
        if has_fp8():
            from weft_fabric.quant import _torch

            yield _torch, as_torch

    def check(self, kit, cast, bits, rule, message):
        anew = by_numpy(bits, rule)
        for one, other in zip(parts_of(cast), anew):
            one = one if kit is _numpy else one.numpy()
            self.assertEqual(one.tobytes(), other.tobytes(), message)

    def test_steps_give_what_a_cast_of_everything_gives(self):
        """Few elements, none, largest ones that fall and rise, a block that becomes zero, everything."""
        random = np.random.default_rng(3)

        def few(bits):
            at = random.integers(0, bits.size, 40)
            bits.reshape(-1)[at] ^= random.integers(0, 8, 40).astype(np.uint16)

        def fall(bits):
            bits.reshape(-1)[np.argmax(bits & 0x7FFF)] = 0x3000

        def rise(bits):
            bits[-1, -1, -1] = 0x4321

        def empty_block(bits):
            bits[1, :128, :128] = 0

        def all_other(bits):
            bits[...] = np.stack([bell(150, 270, 8), bell(150, 270, 9)])

        for rule in RULES:
            for kit, see in self.kits():
                bits = np.stack([bell(150, 270, 1), bell(150, 270, 2)])
                cast = cast_tensor(kit, see(bits), rule)
                self.assertEqual(cast.update(), Recast(0, 0))
                for step in (few, fall, few, rise, fall, few, empty_block, all_other, fall):
                    before = bits.copy()
                    step(bits)
                    done = cast.update()
                    self.assertEqual(done.elements, int((bits != before).sum()))
                    self.check(kit, cast, bits, rule, (rule, kit.__name__, step.__name__))

    def test_only_what_changed_is_cast(self):
        bits = bell(256, 256, 1)
        cast = cast_tensor(_numpy, bits.view(np.int16), "fp8-block128-f32/1")
        cast.codes[...] = 0xFF  # no code that a cast gives
        bits[5, 7] = 0x3000
        self.assertEqual(cast.update(), Recast(1, 0))
        self.assertEqual(np.flatnonzero(cast.codes != 0xFF).tolist(), [5 * 256 + 7])
        bits[200, 100] = 0x4000  # larger than all: its block has another scale
        self.assertEqual(cast.update(), Recast(1, 1))
        other = cast.codes != 0xFF
        other[5, 7] = False
        self.assertTrue(other[128:, :128].all())
        self.assertEqual(other.sum(), 128 * 128)

    def test_an_update_cut_short_is_made_up_for(self):
        """A stop at any call that update() makes, as Ctrl-C is: the next update gives the right bytes."""

        class Stop(BaseException):
            pass

        class Stopping:
            def __init__(self):
                self.left = 10**9

            def __getattr__(self, name):
                self.left -= 1
                if self.left < 0:
                    raise Stop
                return getattr(_numpy, name)

        for rule, many in itertools.product(("fp8-block128-f32/1", "fp8-tensor-slime/1"), (False, True)):
            stops = 0
            while True:
                kit, bits = Stopping(), bell(150, 140, 1)
                cast = cast_tensor(kit, bits.view(np.int16), rule)
                bits[3, 4], bits[140, 139] = 0x4000, 0x3333
                bits.reshape(-1)[np.argmax(bits[:100] & 0x7FFF)] = 0x3111
                bits[40:120, :100] ^= 2 * many
                kit.left = stops
                try:
                    cast.update()
                    break
                except Stop:
                    stops += 1
                kit.left = 10**9
                bits[40:120, :100] ^= 2 * many  # as they were before the cast that was cut short
                cast.update()
                self.check(_numpy, cast, bits, rule, stops)
            self.assertGreater(stops, 3)


def model(seed=0):
    """A small model: two layers of matrices, and what no rule casts."""
    named = {"model.embed.weight": bf16(bell(40, 160, seed))}
    for layer in range(2):
        at = f"model.layers.{layer}."
        named[at + "norm.weight"] = bf16(bell(1, 160, seed + 1).reshape(160))
        named[at + "q_proj.weight"] = bf16(bell(200, 160, seed + 2 + layer))
        named[at + "down_proj.weight"] = bf16(bell(160, 300, seed + 4 + layer))
    return named


def step(named, version):
    """Changes some elements of each tensor, and now and then a large one."""
    random = np.random.default_rng(version)
    for tensor in named.values():
        flat = tensor.array.reshape(-1)
        at = random.integers(0, flat.size, 1 + flat.size // 80)
        flat[at] ^= random.integers(1, 4, at.size).astype(np.uint16)
        if version % 2 == 0:
            flat[random.integers(0, flat.size)] = 0x3E00 + version


class Fleet(unittest.TestCase):
    def play(self, provider, rule):
        named = model()
        cast = weft.quant.Cast(named, rule, PATTERNS)
        with contextlib.ExitStack() as stack:
            trainer = stack.enter_context(weft.Trainer(support.site(provider=provider, **CUTS), cast.named, log=quiet))
            there, held = support.site(trainer, provider, **CUTS), {}
            for peer, which in (("a", "bf16"), ("b", "fp8")):
                layout = weft.Layout.fetch(there, peer)
                own = weft.quant.part(layout, which).empty()
                rollout = stack.enter_context(weft.Rollout(there, peer, weft.quant.view(layout, own), layout=layout,
                                                           view=True, empty=True, log=quiet))  # fmt: skip
                held[which] = rollout, own
            for version in range(1, 6):
                step(named, version)
                done = cast.update()
                trainer.publish(version)
                self.assertGreater(done.elements, 0)
                for which, (rollout, own) in held.items():
                    self.assertEqual(support.take(rollout, version).number, version)
                    self.check(which, own, named, rule)
                trainer.wait(version, ["a", "b"], timeout=BOUND)
            sent = {peer.name: peer.update_bytes for peer in trainer.peers()}
        self.assertEqual(weft.quant.rule_of(held["fp8"][1]), rule)
        self.assertFalse([name for name in held["bf16"][1] if name.startswith("fp8/")])
        self.assertTrue(0 < sent["b"] < sent["a"], sent)

    def check(self, which, own, named, rule):
        """Each tensor of a set is what the rule gives for the trainer's weights of now."""
        seen = 0
        for name, tensor in named.items():
            if which == "fp8" and "_proj" in name:
                codes, scales = by_numpy(tensor.array, rule)
                self.assertEqual(own["fp8/" + name].array.tobytes(), codes.tobytes(), name)
                self.assertEqual(own["fp8/" + name + ".scale"].array.tobytes(), scales.tobytes(), name)
                self.assertNotIn(name, own)
                seen += 2
            else:
                self.assertEqual(own[name].array.tobytes(), tensor.array.tobytes(), name)
                seen += 1
        self.assertEqual(len(own), seen + (which == "fp8"))

    def test_a_bf16_and_an_fp8_rollout_of_one_trainer(self):
        self.play("loop", "fp8-tensor-f32/1")

    @unittest.skipUnless(support.FABRIC, "this build knows no libfabric")
    def test_the_same_over_tcp(self):
        self.play("tcp", "fp8-block128-f32/1")

    @unittest.skipUnless(has_fp8(), "a torch with float8_e4m3fn is missing")
    def test_a_trainer_that_casts_by_torch(self):
        """As on a device, here in host memory."""
        from weft_fabric.quant import _torch

        with mock.patch.object(weft.quant, "_kit", lambda view, x: _numpy if isinstance(x, weft.Typed) else _torch):
            with mock.patch.object(weft.quant.Cast, "__init__", by_parameters(weft.quant.Cast.__init__)):
                self.play("loop", "fp8-block128-ue8m0/1")

    def test_without_cuts_the_view_is_refused(self):
        cast = weft.quant.Cast(model(), "fp8-block128-f32/1", PATTERNS)
        with weft.Trainer(support.site(), cast.named, log=quiet) as trainer:
            there = support.site(trainer)
            layout = weft.Layout.fetch(there, "b")
            own = weft.quant.part(layout, "fp8").empty()
            with self.assertRaisesRegex(weft.Error, "key"):
                weft.Rollout(there, "b", weft.quant.view(layout, own), layout=layout, view=True, empty=True, log=quiet)


class Refusals(unittest.TestCase):
    def test_what_cannot_be_cast_is_named(self):
        good, rule = bf16(bell(4, 4, 1)), "fp8-tensor-f32/1"
        for text, tensor in (
            ("F32, and a rule casts BF16", np.zeros((4, 4), np.float32)),
            ("casts matrices", bf16(np.zeros(4, np.uint16))),
            ("has no elements", bf16(np.zeros((0, 4), np.uint16))),
            ("not contiguous", bf16(np.zeros((4, 8), np.uint16)[:, ::2])),
        ):
            with self.assertRaisesRegex(weft.TensorError, text) as caught:
                weft.quant.Cast({"good": good, "w": tensor}, rule, "*")
            self.assertEqual(caught.exception.tensor, "w")
        with self.assertRaisesRegex(ValueError, "'fp8/1' is no rule: choose one of fp8-block128-f32/1, "):
            weft.quant.Cast({"w": good}, "fp8/1", "*")
        with self.assertRaisesRegex(ValueError, "matches none of the 1 tensors"):
            weft.quant.Cast({"w": good}, rule, "*.weight")
        with self.assertRaisesRegex(weft.TensorError, "the fp8 set takes"):
            weft.quant.Cast({"w": good, "fp8/w": good}, rule, "w")

    def test_views_that_do_not_fit_are_named(self):
        layout = weft.Layout(weft.quant.Cast({"w": bf16(bell(4, 4, 1))}, "fp8-tensor-f32/1", "w").named)
        with self.assertRaisesRegex(weft.TensorError, "the layout does not have it"):
            weft.quant.view(layout, {"v": np.zeros(4, np.float32)})
        with self.assertRaisesRegex(weft.TensorError, "its shape is"):
            weft.quant.view(layout, {"fp8/w": weft.Typed(np.zeros((4, 5), np.uint8), "F8_E4M3")})
        with self.assertRaisesRegex(weft.TensorError, "elements are F32, the layout has BF16"):
            weft.quant.view(layout, {"w": np.zeros((4, 4), np.float32)})
        self.assertEqual(len(weft.quant.view(layout, {})), 0)
        with self.assertRaisesRegex(ValueError, "no set"):
            weft.quant.part(layout, "int4")
        with self.assertRaisesRegex(ValueError, "no fp8 set"):
            weft.quant.part(weft.Layout({"w": np.zeros(4)}), "fp8")

    @unittest.skipUnless(importlib.util.find_spec("torch"), "torch is missing (tools/run-tests installs it)")
    def test_tensors_of_torch(self):
        import torch

        weight = torch.nn.Parameter(torch.randn(130, 140).to(torch.bfloat16))
        cast = weft.quant.Cast({"w": weight}, "fp8-block128-f32/1", "w")
        with torch.no_grad():
            weight[3, 4] += 1
        self.assertEqual(cast.update().elements, 1)
        bits = weight.detach().view(torch.int16).numpy().view(np.uint16)
        self.assertEqual(cast.named["fp8/w"].array.tobytes(), by_numpy(bits, "fp8-block128-f32/1")[0].tobytes())
        weight.data = weight.data.clone()
        with self.assertRaisesRegex(weft.TensorError, "moved since it was cast"):
            cast.update()
        with self.assertRaisesRegex(weft.TensorError, "on the device meta"):
            weft.quant.Cast({"w": torch.empty((4, 4), device="meta", dtype=torch.bfloat16)}, "fp8-tensor-f32/1", "w")

    @unittest.skipUnless(importlib.util.find_spec("torch"), "torch is missing (tools/run-tests installs it)")
    def test_a_view_whose_tensor_got_other_memory_is_named(self):
        import torch

        layout = weft.Layout(weft.quant.Cast({"w": bf16(bell(4, 4, 1))}, "fp8-tensor-f32/1", "w").named)
        served = torch.zeros(4, 4, dtype=torch.bfloat16)
        bound = _binding.bind(layout, weft.quant.view(layout, {"w": served}), True)
        bound.check_still_there()
        served.data = served.data.clone()
        with self.assertRaisesRegex(weft.TensorError, "'w': moved since bind"):
            bound.check_still_there()


if __name__ == "__main__":
    support.main()
