"""Layers that hold weights in another format than loaders fill: moved, computed again, or refused."""

import collections
import contextlib
import sys
import types
import unittest
from unittest import mock

import support

try:
    import torch
except ImportError:
    support.skip("torch is missing (tools/run-tests installs it)")

from engine_copies import commit  # noqa: E402

import weft_fabric as weft  # noqa: E402
from weft_fabric.engine import _derive, _formats, _trace  # noqa: E402
from weft_fabric.engine._framework import Framework  # noqa: E402
from weft_fabric.engine._moves import Digit, Move  # noqa: E402
from weft_fabric.engine._recorder import Recording, guarded, record  # noqa: E402
from weft_fabric.engine._trace import Trace, Untold  # noqa: E402
from weft_fabric.vllm import _framework  # noqa: E402


def layout_of(shapes, dtype="F32"):
    return weft.Layout.of((name, dtype, shape) for name, shape in shapes.items())


def framework(process=None, **more):
    """A framework whose layers are all processed by a function."""
    kind = type("Packer", (), {"process_weights_after_loading": lambda _, layer: process(layer)})
    return Framework((__name__,), packer=lambda layer: kind(), **more)


def packed(weight):
    """Rows of each expert in blocks of two, and in a block column by column."""
    experts, rows, columns = weight.shape
    return weight.view(experts, rows // 2, 2, columns).transpose(2, 3).contiguous().view(weight.shape)


def halves(weight):
    """The halves of each expert in the other order."""
    experts, rows, columns = weight.shape
    return weight.view(experts, 2, rows // 2, columns).flip(1).reshape(weight.shape)


def pairs(weight):
    """Each two rows in the other order, and in an expert column by column."""
    experts, rows, columns = weight.shape
    return weight.view(experts, rows // 2, 2, columns).flip(2).permute(0, 3, 1, 2).reshape(weight.shape)


class Kernel:
    """What a method makes at load."""


class Method:
    """As vLLM's method of experts: the second time it packs nothing."""

    def __init__(self):
        self.moe_kernel, self.calls, self.small = None, 0, torch.zeros(1)
        self.known, self.list = collections.OrderedDict(), type("List", (list,), {})([0])

    def process(self, layer):
        self.calls += 1
        self.small.fill_(self.calls)
        self.known["calls"] = self.list[0] = self.calls
        layer.size = layer.bias.numel()
        if self.moe_kernel is None:
            layer.w = torch.nn.Parameter(self.pack(layer, layer.w.data), False)
            self.moe_kernel = Kernel()

    def pack(self, layer, weight):
        return packed(weight)


class Packed(torch.nn.Module):
    """A model with one layer of 3 experts, in the kernel format."""

    def __init__(self, method=Method):
        super().__init__()
        self.rows = 4  # that loaders fill of each half
        self.layer = torch.nn.Module()
        self.layer.method = method()
        self.layer.bias = torch.nn.Parameter(torch.ones(3), False)
        self.layer.w = torch.nn.Parameter(torch.zeros(3, 8, 6), False)
        self.meta = self.layer.w.data.to("meta")
        self.process = lambda layer: layer.method.process(layer)
        self.process(self.layer)

    def load_weights(self, weights):
        for name, loaded in weights:
            expert, part = name.split(".")
            self.layer.w.data[int(expert)].narrow(0, 4 * int(part), self.rows).copy_(loaded[: self.rows])

    def trace(self):
        return Trace(self.layer, {"w": self.meta}, ["bias"], (__name__,), self.process).trace()

    def found(self):
        move = Move(self.layer, "w", self.meta, self.trace().moved["w"])
        return _formats.Formats({"layer": None}, {"layer.w": move})


class Packings(unittest.TestCase):
    """Layers that pack what their loaders filled."""

    def setUp(self):
        self.cpu = torch.device("cpu")
        self.shapes = {f"{expert}.{part}": (4, 6) for expert in range(3) for part in range(2)}
        self.weights = {name: torch.rand(shape) for name, shape in self.shapes.items()}

    def dense(self, pack=packed):
        """What the engine holds after it loaded the weights."""
        model = torch.cat(list(self.weights.values())).view(3, 8, 6)
        return pack(model)

    def recorded(self, model, moves):
        return record(model, layout_of(self.shapes, "F32").tensors, self.cpu, ["layer.bias"], {}, moves)

    def filled(self, model, moves):
        """How many copies fill the layer."""
        model.layer.w.data.zero_()
        base = model.layer.w.data_ptr()
        copies = self.recorded(model, moves)
        for copy in copies:
            place = model.layer.w.data.as_strided(copy.sizes, copy.target, (copy.data - base) // 4)
            place.copy_(self.weights[copy.tensor].as_strided(copy.sizes, copy.source, copy.first))
        return len(copies)

    def test_each_element_lands_where_packing_moves_it(self):
        for pack, count in (
            (packed, 6),
            (halves, 6),
            (pairs, 24),
            (lambda w: w.flip(1), 24),
            (lambda w: w.flip(2), 36),
        ):
            kind = type("Other", (Method,), {"pack": lambda _, layer, weight, pack=pack: pack(weight)})
            model = Packed(kind)
            for moves, same in ((model.found().moves, True), ({}, False)):
                copies = self.filled(model, moves)
                self.assertEqual(torch.equal(model.layer.w, self.dense(pack)), same)  # by loaders alone it is another
                self.assertEqual(copies, count if same else 6)
            self.filled(model, model.found().moves)
            back = _derive.model_of(model.found().moves["layer.w"])
            self.assertTrue(torch.equal(back, self.dense(lambda weight: weight)))

    def test_padding_that_no_loader_fills(self):
        """Processing sets the last row of each half to zero, whatever is there, and packs that too."""

        def pack(weight):
            weight = weight.clone()
            weight[:, 3::4] = 0
            return packed(weight)

        model = Packed(type("Other", (Method,), {"pack": lambda _, layer, weight: pack(weight)}))
        traced = model.trace()
        turned = _trace._padding(torch.tensor([0, 0, 0, 1]), (Digit(2, 1, 1), Digit(2, 2, -2)), 4)
        self.assertEqual(turned.tolist(), [0, 1, 0, 0])
        mask = torch.arange(8 * 6) // 6 % 4 == 3
        self.assertTrue(torch.equal(traced.padding["w"], mask))
        moves = {"layer.w": Move(model.layer, "w", model.meta, traced.moved["w"], False, traced.padding["w"])}
        held = lambda moves: _formats._of_checkpoint(lambda: self.weights.items(), model, self.cpu, moves)  # noqa: E731
        model.layer.w.data.copy_(self.dense(pack))
        for model.rows in (3, 4):
            found = _formats._judge(_formats.Formats({"layer": None}, dict(moves)), held)
            self.assertEqual([*found.moves], ["layer.w"] if model.rows == 3 else [])
        with self.assertRaisesRegex(weft.TensorError, "'layer.w': a tensor lands where the engine has padding"):
            self.recorded(model, moves)
        model.rows = 3
        self.filled(model, moves)
        self.assertTrue(torch.equal(model.layer.w, self.dense(pack)))
        made_up = lambda tensor: tensor.copy_(torch.arange(3 * 8 * 6).view(3, 8, 6))  # noqa: E731
        model.layer.w.data.copy_(pack(made_up(torch.empty(3, 8, 6))))
        for spoil, wrong in ((0, set()), (1, {"layer.w"})):
            model.layer.w.data.view(-1)[-1] += spoil
            self.assertEqual(_formats._wrong(moves, _formats._of_dummy(self.cpu, moves, made_up)), wrong)

    def test_a_trace_leaves_the_model_as_it_is(self):
        model = Packed()
        model.layer.w.data.copy_(self.dense())
        before = {name: (tensor, tensor.clone()) for name, tensor in model.named_parameters()}
        kernel = model.layer.method.moe_kernel
        model.trace()
        self.recorded(model, model.found().moves)
        for name, tensor in model.named_parameters():
            self.assertIs(tensor, before[name][0])
            self.assertTrue(torch.equal(*before[name]), name)
        method = model.layer.method
        self.assertEqual((method.calls, float(method.small), method.known["calls"], method.list), (1, 1.0, 1, [1]))
        self.assertIs(model.layer.method.moe_kernel, kernel)

    def test_the_engines_memory_is_the_judge(self):
        model = Packed()

        def judged(weights):
            return _formats._judge(
                model.found(), lambda moves: _formats._of_checkpoint(weights, model, self.cpu, moves)
            )

        weights = lambda: iter(self.weights.items())  # noqa: E731
        model.layer.w.data.copy_(self.dense())
        self.assertEqual(judged(weights), model.found())
        part = lambda: iter(list(self.weights.items())[1:])  # noqa: E731
        for text, given, spoil in (
            ("other bits than it was loaded with", part, lambda: None),
            ("loader fails on .* IndexError", lambda: iter({"3.0": self.weights["0.0"]}.items()), lambda: None),
            ("other bits than it was loaded with", weights, lambda: model.layer.w.data.view(-1)[77:78].neg_()),
        ):
            spoil()
            found = judged(given)
            self.assertEqual(found.moves, {})
            self.assertRegex(found.layers["layer"], text)

    @contextlib.contextmanager
    def remembered(self, model, version="0.32.0", **more):
        """vLLM's memory of the model, as its reload package keeps it: the framework of an engine of `version`."""
        meta = types.SimpleNamespace(SKIP_TENSORS={"bias"}, to_meta_tensor=lambda tensor: tensor)
        layerwise = types.SimpleNamespace(
            LAYERWISE_INFO={model.layer: types.SimpleNamespace(restore_metadata=({"w": model.meta}, {}))}
        )
        sanitize = types.SimpleNamespace(restore_layer_refs=lambda tensor, layer: tensor)
        package = _framework._MEMORIES["0.32"]
        parts = {"layerwise": layerwise, "meta": meta, "sanitize": sanitize}
        modules = {f"{package}.{name}": part for name, part in parts.items()}
        config = types.SimpleNamespace(load_config=types.SimpleNamespace(load_format="auto"),
                                       model_config=types.SimpleNamespace(dtype=torch.bfloat16))  # fmt: skip
        with mock.patch.dict(sys.modules, {"vllm": types.SimpleNamespace(__version__=version), **modules}):
            yield _framework.framework(model, config)._replace(owned=(__name__,), **more)

    def test_what_vllm_remembers(self):
        """By a version that weft knows, no name is needed to see what was computed. By another, names alone tell."""
        model = Packed()
        model.layer.made = torch.nn.Parameter(model.layer.w.data[1:], False)
        model.layer.W_UV = torch.nn.Parameter(model.layer.w.data.transpose(1, 2), False)
        model.layer._cpu_unpacked_conv_weight = torch.ones(2)
        for version, names in (
            ("0.32.1+cpu", ["W_UV", "_cpu_unpacked_conv_weight", "made"]),
            ("0.33.0", ["W_UV", "_cpu_unpacked_conv_weight", "made"]),
            ("0.34.0", ["W_UV", "_cpu_unpacked_conv_weight"]),
        ):
            with self.remembered(model, version) as of:
                found = [name for name, _ in _formats.computed(model, of)]
                self.assertEqual(found, [f"layer.{name}" for name in names])
                self.assertEqual(list(_formats._reshaped(model, of)), [])
        model.layer.w.data = torch.empty(0)
        with self.remembered(model) as of:
            why = "its w is (0,) in the engine, and loaders fill (3, 8, 6)"
            self.assertEqual(list(_formats._reshaped(model, of)), [("layer", why)])

    def test_biases_of_an_odd_number_of_experts(self):
        model = Packed()
        model.layer.b = torch.nn.Parameter(torch.zeros(3, 4), False)
        metas = {"w": model.meta, "b": torch.empty(3, 4, device="meta")}
        digits = Trace(model.layer, metas, ["bias"], (__name__,), model.process).trace().moved["b"]
        self.assertEqual([(digit.extent, digit.unit, digit.target) for digit in digits], [(4, 1, 1), (3, 4, 4)])

    def test_processing_that_counts_experts(self):
        """Two experts stand for all, also where the layer's objects know how many there are."""

        class Counting(Method):
            num_experts = 0

            def process(self, layer):
                assert len(layer.w) == len(layer.s) == self.num_experts
                layer.s = torch.nn.Parameter(layer.s.data * layer.t.data, False)
                super().process(layer)

        model = Packed()
        metas = {"w": model.meta, **{name: torch.empty(3, device="meta") for name in "st"}}
        for name in "st":
            setattr(model.layer, name, torch.nn.Parameter(torch.ones(3), False))
        model.layer.method.__class__, model.layer.method.num_experts = Counting, 3
        trace = Trace(model.layer, metas, ["bias"], (__name__,), model.process)
        found = trace.trace()
        self.assertEqual(trace.metas["w"].shape[0], 2)
        self.assertEqual(([*found.moved], [*found.others], found.made), (["w", "t"], ["s"], [".s"]))
        self.assertEqual([tuple(digit) for digit in found.moved["t"]], [(3, 1, 1)])
        self.assertEqual(model.layer.method.num_experts, 3)

    def test_copies_outside_of_parameters_are_computed(self):
        model = torch.nn.Module()
        model.attention = torch.nn.Module()
        model.attention.sinks = torch.nn.Parameter(torch.ones(4), False)
        model.attention.impl, model.attention.impl.inner = Kernel(), Kernel()
        model.attention.impl.sinks = model.attention.impl.inner.sinks = model.attention.sinks.data
        model.gate = torch.nn.Module()
        model.gate.register_buffer("_bf16x3_weight", torch.ones(4))
        with self.remembered(Packed()) as of:
            found = dict(_formats.computed(model, of))
        names = ["attention.impl.inner.sinks", "attention.impl.sinks", "gate._bf16x3_weight"]
        self.assertEqual(sorted(found), names)

    def test_layers_that_are_packed_alike_are_tried_once(self):
        model, known, found = Packed(), {}, _formats.Formats({}, {})
        model.other = model.layer
        with mock.patch.object(_formats, "_traced", side_effect=Untold("why")) as traced, self.remembered(model) as of:
            for path in ("layer", "other"):
                _formats._trace(path, model.layer, Recording(model, self.cpu), known, found, of)
            self.assertEqual(traced.call_count, 1)
            model.layer.flag = True  # which processing may ask for
            _formats._trace("flagged", model.layer, Recording(model, self.cpu), known, _formats.Formats({}, {}), of)
        self.assertEqual(traced.call_count, 2)
        self.assertEqual([*found.layers], ["layer", "other"])
        self.assertIn("nobody can say how: why: choose another backend", found.layers["other"])

    def test_a_layer_that_cannot_be_traced_is_named(self):
        """Whatever vLLM's own code raises: the engine starts, and weft refuses."""

        def fails(layer, weight):
            raise KeyError("expert_map")

        def hidden(layer):
            layer.hidden = object()

        for version, pack, why in (
            ("0.32.0", lambda layer, w: packed(w), None),
            ("0.34.0", lambda layer, w: packed(w), "nobody that weft knows remembers"),
            ("0.32.0", lambda layer, w: hidden(layer) or w, "hidden, a object, was made at load, and may hold weights"),
            ("0.32.0", fails, "expert_map"),
            ("0.32.0", lambda layer, w: model.layer.w.data.mul_(2), "does 'mul_' with this parameter"),
        ):
            with self.subTest(why):
                model = Packed()
                kind = type("UnquantizedFusedMoEMethod", (Method,), {"pack": lambda _, *a, pack=pack: pack(*a)})
                kind.process_weights_after_loading = kind.process
                model.layer.quant_method = model.layer.method
                model.layer.method.__class__ = kind
                model.layer.method.unquantized_backend = types.SimpleNamespace(name="CPU")
                found, recording = _formats.Formats({}, {}), Recording(model, self.cpu)
                with self.remembered(model, version) as of:
                    _formats._trace("layer", model.layer, recording, {}, found, of)
                self.assertEqual(list(found.moves), ["layer.w"] if why is None else [])
                self.assertIn(str(why), str(found.layers["layer"]))

    def traced(self, pack):
        model = Packed()
        model.layer.method.__class__ = type("Other", (Method,), {"pack": lambda _, *a: pack(*a)})
        return model.trace()

    def test_what_is_not_moved(self):
        base = torch.arange(48).view(1, 8, 6).float()
        for text, pack in (
            ("packed in no regular way", lambda layer, w: w * 2),
            ("padding other than zeros, or elements that were", lambda layer, w: w + 0.25),
            ("padding other than zeros, or elements that were", lambda layer, w: torch.where(base == 5, 0.5, w)),
            (
                "padding other than zeros, or elements that were",
                lambda layer, w: torch.cat([w[:1] * (base != 5), w[1:]]),
            ),
            ("another where its bits are no digits", lambda layer, w: torch.where(w.abs() < 1e-30, 0.0, w)),
            ("other places with other weights", lambda layer, w: w.flip(2) if w[0, 0, 0] > 9 else w.clone()),
            ("another when processed again", lambda layer, w: w[:, :4].clone()),
            ("does not lie in one go", lambda layer, w: w.repeat(1, 1, 2)[:, :, ::2]),
            ("another when processed again", lambda layer, w: w.reshape(-1, 6, 8)),
            ("packed in no regular way", lambda layer, w: w.flip(0)),
            ("packed in no regular way", lambda layer, w: torch.cat([w[:1], packed(w[1:])])),
            ("packed in no regular way", lambda layer, w: w[:, [1, 0, 2, 3, 4, 5, 6, 7]]),
            ("w is torch.float16, and loaders fill torch.float32", lambda layer, w: w.half()),
            ("another where its bits are no digits", lambda layer, w: w.clamp(min=1e-10)),
            ("another where its bits are no digits", lambda layer, w: w.nan_to_num()),
            (
                "another where its bits are no digits",
                lambda layer, w: w.nan_to_num(torch.nan, 1.0),
            ),  # the infinite alone
            ("another where its bits are no digits", lambda layer, w: torch.where(w == 0, 0.0, w)),  # of minus zero
        ):
            with self.subTest(text):
                found = self.traced(pack)
                self.assertRegex(found.others["w"], text)
                self.assertEqual((found.moved, ".w" in found.made), ({}, True))

    def test_what_is_computed_beside(self):
        def keep(layer, weight):
            layer.copy = weight * 2
            layer.fixed = torch.ones(3)
            return weight.clone()

        def most(layer, weight):
            layer.most, layer.least = weight.max(), weight.min()
            return weight.clone()

        def rest(layer, weight):
            layer.twice = layer.bias * 2
            return weight.clone()

        def beside(layer, weight):
            both = torch.cat([weight.reshape(-1), 2 * weight.sum(2).reshape(-1)])  # in the storage of what only moves
            layer.sums = both[weight.numel() :]
            return both[: weight.numel()].view(weight.shape)

        def bound(layer, weight):
            layer.product = (2 * weight).matmul
            return weight.clone()

        for pack, made in (
            (keep, [".copy"]),
            (most, [".most", ".least"]),
            (rest, [".twice"]),
            (beside, [".sums"]),
            (bound, [".product.self"]),
        ):
            found = self.traced(pack)
            self.assertEqual(([*found.moved], found.others, found.made), (["w"], {}, made))

    def test_what_nobody_can_say(self):
        def hides(layer, weight):
            layer.hidden = [object()]
            return weight.clone()

        def closes(layer, weight):
            again = object()
            layer.call = lambda: again
            return weight.clone()

        def counts(layer, weight):
            layer.most = float(weight.max())
            return weight.clone()

        def changes(layer, weight):
            layer.bias.data.add_(1)
            return weight.clone()

        for text, pack in (
            ("^hidden.0, a object, was made at load", hides),
            ("^call.again, a object, was made at load", closes),
            ("^bias is another after processing", changes),
            ("^most is a number that was computed from weights", counts),
        ):
            with self.subTest(text), self.assertRaisesRegex(Untold, text):
                self.traced(pack)

    def test_digits_of_every_dtype(self):
        """A parameter of each dtype, transposed by its layer, is moved as the elements lie."""

        class Layer(torch.nn.Module):
            def __init__(self, meta):
                super().__init__()
                self.w = torch.nn.Parameter(torch.zeros(meta.shape, dtype=meta.dtype), False)
                self.process()

            def process(self):
                self.w = torch.nn.Parameter(self.w.data.view(torch.uint8 if self.w.itemsize == 1 else self.w.dtype)
                                            .t().contiguous().t().view(self.w.dtype).t(), False)  # fmt: skip

        floats = "float32 bfloat16 float16 float8_e4m3fn float8_e5m2 float8_e8m0fnu"
        for dtype in (*floats.split(), "uint8", "int8"):
            with self.subTest(dtype):
                meta = torch.empty(64, 33, dtype=getattr(torch, dtype), device="meta")
                layer = Layer(meta)
                found = Trace(layer, {"w": meta}, [], (__name__,), lambda one: one.process()).trace()
                self.assertEqual((found.others, found.made), ({}, []))
                self.assertEqual([tuple(digit) for digit in found.moved["w"]], [(33, 1, 64), (64, 33, 1)])
                move = Move(layer, "w", meta, found.moved["w"])
                want = torch.arange(64 * 33).to(torch.uint8).view(64, 33)
                if meta.itemsize == 1:
                    layer.w.data.view(torch.uint8).copy_(want.t())
                    self.assertTrue(torch.equal(_derive.model_of(move).view(torch.uint8), want))
                else:
                    layer.w.data.copy_(want.t())
                    self.assertTrue(torch.equal(_derive.model_of(move), want.to(meta.dtype)))
        meta = torch.empty(4, 4, dtype=torch.int32, device="meta")
        with self.assertRaisesRegex(Untold, "w is torch.int32"):
            Trace(torch.nn.Linear(1, 1), {"w": meta}, [], (__name__,), lambda one: None)

    def test_what_writes_to_the_model_is_refused(self):
        for act in (lambda live: live.add_(1), lambda live: live.zero_()):
            model = Packed()
            live = model.layer.w.data
            model.layer.method.__class__ = type(
                "Other", (Method,), {"pack": lambda _, layer, w, act=act: act(live) is None or packed(w)}
            )
            with self.assertRaisesRegex(weft.TensorError, "layer.w"), guarded(Recording(model, self.cpu)):
                model.trace()
            self.assertFalse(bool(live.any()))


def gather():
    """As a processing that asks other processes."""
    library = torch.library.Library("weft_test", "FRAGMENT")
    library.define("all_gather(Tensor x) -> Tensor")
    library.impl("all_gather", lambda x: x.clone(), "CPU")
    return torch.ops.weft_test.all_gather(torch.ones(1))


class Scaled(torch.nn.Module):
    """A model of one layer: loaders fill codes and a scale; the engine has codes transposed, a scale that is never too
    small, and a table of both. A loader computes `decay`; another converts and repeats `gate`."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Module()
        self.layer.codes = torch.nn.Parameter(torch.zeros(4, 6, dtype=torch.uint8), False)
        self.layer.scale = torch.nn.Parameter(torch.zeros(4, 1), False)
        self.metas = {name: tensor.data.to("meta") for name, tensor in self.layer.named_parameters()}
        self.decay = torch.nn.Parameter(torch.zeros(3), False)
        self.gate = torch.nn.Parameter(torch.zeros(2, 4), False)
        self.late = torch.nn.Module()
        self.late.of, self.late.both = self, torch.nn.Parameter(torch.zeros(6, 4), False)
        self.late._modules.clear()
        self.late.__dict__["of"] = types.SimpleNamespace(layer=self.layer)
        self.late.process_weights_after_loading = lambda dtype: None

    def load_weights(self, weights):
        for name, loaded in weights:
            if name == "log":
                self.decay.data.copy_(loaded)
                self.decay.data.copy_(-torch.exp(self.decay.float()))
            elif name == "gate":
                for row in range(2):
                    self.gate.data[row].copy_(loaded)
            else:
                self.layer._parameters[name].data.copy_(loaded)

    @staticmethod
    def process(layer):
        scale = layer.scale.data.clamp(min=1e-4)
        layer.codes = torch.nn.Parameter(layer.codes.data.t().contiguous(), False)
        layer.scale = torch.nn.Parameter(scale, False)
        layer.table = layer.codes.data.float() * scale.t()


def clamped(layer):
    """Processing that makes a scale of the scale alone."""
    layer.codes = torch.nn.Parameter(layer.codes.data.t().contiguous(), False)
    layer.scale = torch.nn.Parameter(layer.scale.data.clamp(min=1e-4), False)


SCALED = {"codes": (4, 6), "scale": (4, 1), "log": (3,), "gate": (4,)}
DTYPES = {"codes": "U8", "scale": "F32", "log": "F32", "gate": "BF16"}


class Derivations(unittest.TestCase):
    """What the engine's own code computes again after each commit."""

    def setUp(self):
        self.cpu = torch.device("cpu")
        self.specs = weft.Layout.of((name, DTYPES[name], shape) for name, shape in SCALED.items()).tensors

    def weights(self, seed):
        generator = torch.Generator().manual_seed(seed)
        return {
            "codes": torch.randint(0, 256, (4, 6), generator=generator, dtype=torch.uint8),
            "scale": torch.tensor([[1e-9], [1.0], [0.5], [float(seed)]]),
            "log": torch.rand(3, generator=generator),
            "gate": torch.rand(4, generator=generator).to(torch.bfloat16),
        }

    def loaded(self, weights):
        model = Scaled()
        model.load_weights(weights.items())
        model.process(model.layer)
        return model

    def same(self, one, other):
        for name in ("layer.codes", "layer.scale", "layer.table", "decay", "gate"):
            self.assertTrue(torch.equal(self.get(one, name), self.get(other, name)), name)

    def get(self, model, name):
        for part in name.split("."):
            model = getattr(model, part)
        return model.data

    def learn(self, model, weights):
        """What weft learns of a model that was loaded with weights."""
        found = _formats.Formats({}, {}, {})
        traced = Trace(model.layer, model.metas, [], (__name__,), model.process).trace()
        _formats._add("layer", model.layer, model.metas, traced, found, framework(model.process))
        held = lambda moves: _formats._of_checkpoint(lambda: iter(weights.items()), model, self.cpu, moves)  # noqa: E731
        return _formats._judge(found, held)

    def bound(self, model, found, **options):
        reloads = _derive.Reloads(model, self.cpu, found.moves)
        derived = _derive.Derived([reloads.step, *(step.step for step in found.steps.values())])
        copies = record(model, self.specs, self.cpu, ["late.both"], {}, found.moves, reloads, **options)
        return reloads, derived, copies

    def commit(self, model, found, reloads, copies, weights):
        """What a commit does: elements go where copies say."""
        commit([*model.parameters(), *reloads.weights.values(), *found.kept()], copies, weights)

    def test_versions_are_those_of_a_load(self):
        first = self.weights(1)
        model = self.loaded(first)
        before = {name: (tensor, tensor.clone()) for name, tensor in model.named_parameters()}
        found = self.learn(model, first)
        self.assertEqual(found.layers, {"layer": None})
        self.assertEqual(sorted(name for name, move in found.moves.items() if move.kept), ["layer.scale"])
        self.assertEqual(found.derived(), ["layer.scale", "layer.table"])
        reloads, derived, copies = self.bound(model, found)
        self.assertEqual((sorted(reloads.weights), reloads.places), (["gate", "log"], ("decay", "gate")))
        self.assertEqual(len(copies), 4)
        reloads.fill(first.items())
        self.assertEqual((reloads.fresh, derived.wrong()), (set(), []))
        for name, (tensor, value) in before.items():
            self.assertIs(dict(model.named_parameters())[name], tensor)
            self.assertTrue(torch.equal(tensor, value), name)
        places = [tensor.data_ptr() for tensor in (*model.parameters(), model.layer.table)]
        for seed in (2, 3, 1):
            weights = self.weights(seed)
            self.commit(model, found, reloads, copies, weights)
            derived.run()
            self.same(model, self.loaded(weights))
        self.assertEqual(places, [tensor.data_ptr() for tensor in (*model.parameters(), model.layer.table)])

    def test_the_engine_is_the_judge(self):
        first = self.weights(1)
        for name in ("layer.codes", "layer.scale", "layer.table", "decay", "gate"):
            with self.subTest(name):
                model = self.loaded(first)
                tensor = self.get(model, name)
                tensor.view(-1)[1] = 77
                found = self.learn(model, first)
                if name.startswith("layer"):
                    self.assertIn("no move explains them", str(found.layers["layer"]))
                    self.assertEqual((found.moves, found.steps), ({}, {}))
                    continue
                reloads, derived, _ = self.bound(model, found)
                reloads.fill(first.items())
                self.assertEqual(derived.wrong(), [name])

    def test_what_is_too_large_is_refused(self):
        model = self.loaded(self.weights(1))
        found = self.learn(model, self.weights(1))
        with mock.patch.object(_derive.Reloads, "limit", 19), self.assertRaisesRegex(weft.TensorError, "gate|log"):
            self.bound(model, found)
        with mock.patch.object(_formats, "FEW", 15), self.assertRaisesRegex(Untold, "^scale"):
            _formats._traced(model.layer, model.metas, framework(model.process))

    def test_a_step_that_fails_leaves_what_was(self):
        first = self.weights(1)
        model = self.loaded(first)
        found = self.learn(model, first)
        reloads, derived, copies = self.bound(model, found)
        self.commit(model, found, reloads, copies, self.weights(2))
        with mock.patch.object(model, "load_weights", side_effect=KeyError("planted")):
            with self.assertRaisesRegex(KeyError, "planted"):
                derived.run()
        for name in ("layer.table", "layer.scale", "decay", "gate"):
            self.assertTrue(torch.equal(self.get(model, name), self.get(self.loaded(first), name)), name)

    def test_a_step_that_fails_in_the_middle(self):
        live = torch.zeros(2)

        def step():
            yield _derive.Remade("live", live, torch.ones(2))
            raise KeyError("planted")

        with self.assertRaisesRegex(KeyError, "planted"):
            _derive.Derived([step]).run()
        self.assertFalse(bool(live.any()))

    def test_a_loader_that_writes_elsewhere_later(self):
        first = self.weights(1)
        model = self.loaded(first)
        reloads, derived, _ = self.bound(model, self.learn(model, first))
        model.load_weights = lambda weights: [model.late.both.data.fill_(1) for _ in weights]
        with self.assertRaisesRegex(weft.TensorError, "late.both.*a loader writes to it"):
            derived.run()
        self.assertFalse(bool(model.late.both.any()))

    def test_a_computed_tensor_lands_in_a_packed_layer(self):
        """A scale that its loader converts, which the layer then clamps."""
        self.specs = [spec._replace(dtype="BF16") if spec.name == "scale" else spec for spec in self.specs]
        narrow = lambda weights: {**weights, "scale": weights["scale"].to(torch.bfloat16)}  # noqa: E731
        first = narrow(self.weights(1))
        model = self.loaded(first)
        found = self.learn(model, first)
        self.assertEqual(found.layers, {"layer": None})
        reloads, derived, copies = self.bound(model, found)
        self.assertEqual(reloads.places, ("decay", "gate", "layer.scale"))
        reloads.fill(first.items())
        self.assertEqual(derived.wrong(), [])
        second = narrow(self.weights(2))
        self.commit(model, found, reloads, copies, second)
        derived.run()
        self.same(model, self.loaded(second))

    def test_a_tensor_that_lands_in_several_places(self):
        """Its own bits, twice: versions have one place for each element, so the loaders run again."""
        self.specs = [spec._replace(dtype="F32") if spec.name == "gate" else spec for spec in self.specs]
        first, second = ({**own, "gate": own["gate"].float()} for own in (self.weights(1), self.weights(2)))
        model = self.loaded(first)
        found = self.learn(model, first)
        reloads, derived, copies = self.bound(model, found)
        self.assertEqual(reloads.places, ("decay", "gate"))
        reloads.fill(first.items())
        self.assertEqual(derived.wrong(), [])
        self.commit(model, found, reloads, copies, second)
        derived.run()
        self.same(model, self.loaded(second))

    def attention(self, process):
        """A module that computes `both` of another layer's codes, as attention does after all layers."""
        model = self.loaded(self.weights(1))
        kind = type("Attention", (torch.nn.Module,), {"process_weights_after_loading": process})
        late = kind()
        late.layer, late.small = model.layer, torch.ones(1)
        late.__dict__["small_one"] = torch.nn.Parameter(torch.ones(2), False)
        late.W_UV = torch.nn.Parameter(torch.zeros(6, 4), False)
        late.process_weights_after_loading(torch.float32)
        model.late = late
        found = _formats.Formats({}, {}, {})
        _formats._attention(model, found, framework(computed=frozenset(("W_UV",)), dtype=torch.float32))
        return model, found

    def test_attention_computes_again(self):
        def process(late, dtype):
            late.small.add_(1)
            late.W_UV = torch.nn.Parameter(late.layer.codes.data.to(dtype) * 2, False)

        model, found = self.attention(process)
        self.assertEqual(found.derived(), ["late.W_UV"])
        home = model.late.W_UV
        model.layer.codes.data.add_(3)
        _derive.Derived([found.steps["late"].step]).run()
        self.assertIs(model.late.W_UV, home)
        self.assertTrue(torch.equal(home, model.layer.codes.data.float() * 2))
        self.assertEqual(float(model.late.small), 2)

    def test_two_that_a_loader_computes_with_in_one_place(self):
        model = self.loaded(self.weights(1))
        own = model.load_weights
        model.load_weights = lambda weights: own(
            ("log", one) if name == "tied" else (name, one) for name, one in weights
        )
        self.specs = [self.specs[2], self.specs[2]._replace(name="tied")]
        with self.assertRaisesRegex(weft.TensorError, "lands in decay where another tensor lands"):
            self.bound(model, _formats.Formats({}, {}, {}))

    def test_what_only_moves_is_left_out_of_a_step(self):
        """A step that makes scales of scales does not move the codes again. One that makes a table of both does."""
        first, second = self.weights(1), self.weights(2)
        for table in (False, True):
            kind = type("Model", (Scaled,), {} if table else {"process": staticmethod(clamped)})
            with mock.patch(f"{__name__}.Scaled", kind), mock.patch.object(_derive, "FEW", 0):
                model = self.loaded(first)
                found = self.learn(model, first)
                self.assertEqual(found.derived(), ["layer.scale", "layer.table"] if table else ["layer.scale"])
                self.assertEqual(found.steps["layer"].light, not table)
                reloads, derived, copies = self.bound(model, found)
                self.commit(model, found, reloads, copies, second)
                with mock.patch.object(_derive, "model_of", wraps=_derive.model_of) as filled:
                    derived.run()
                names = [call.args[0].name for call in filled.call_args_list]
                self.assertEqual(names, ["codes", "scale"] if table else ["scale"])
                dense = self.loaded(second)
                for name in ("layer.codes", "layer.scale", *(("layer.table",) if table else ())):
                    self.assertTrue(torch.equal(self.get(model, name), self.get(dense, name)), name)

    def test_what_a_loader_computes_and_puts_nowhere(self):
        model = self.loaded(self.weights(1))
        own = model.load_weights

        def load(weights):
            for name, one in weights:
                if name == "lost":
                    model.lost = one.float() * 2
                else:
                    own([(name, one)])

        model.load_weights = load
        self.specs = [self.specs[2], self.specs[2]._replace(name="lost")]
        with self.assertRaisesRegex(weft.TensorError, "lost.*no parameter has what comes of that"):
            self.bound(model, _formats.Formats({}, {}, {}))

    def test_a_largest_element_is_computed_again(self):
        """A parameter that is alike after two fillings, though each version may change that."""
        model = Scaled()
        model.layer.most = torch.nn.Parameter(torch.zeros(700), False)
        metas = {**model.metas, "most": torch.empty(700, device="meta")}

        def process(layer):
            model.process(layer)
            layer.most = torch.nn.Parameter(layer.most.data.max(), False)

        process(model.layer)
        found = Trace(model.layer, metas, [], (__name__,), process).trace()
        self.assertEqual(sorted(found.made), [".most", ".scale", ".table"])

    def test_copies_of_all_layers_have_one_bound(self):
        model = self.loaded(self.weights(1))
        found = _formats.Formats({}, {}, {})
        traced = Trace(model.layer, model.metas, [], (__name__,), model.process).trace()
        of = framework(model.process)
        with mock.patch.object(_formats, "LIMIT", 31):
            _formats._add("one", model.layer, model.metas, traced, found, of)
            with self.assertRaisesRegex(Untold, "with it weft would keep"):
                _formats._add("two", model.layer, model.metas, traced, found, of)

    def test_processing_that_others_would_wait_in(self):
        model = self.loaded(self.weights(1))
        recording = Recording(model, self.cpu)
        with self.assertRaisesRegex(weft.TensorError, "all_gather.* waits for other processes"), guarded(recording):
            gather()

    def test_what_would_write_to_the_engine(self):
        """Tensors too large to copy, parameters outside of a layer's own, and functions that know other layers."""
        for size, text in ((4, None), (1 << 19, "big.*does 'copy_' with this parameter")):
            model = Packed()
            model.layer.big = torch.zeros(size)

            def pack(layer, weight, text=text):
                layer.big.copy_(weight.reshape(-1)[0].expand(len(layer.big)))
                return packed(weight)

            model.layer.method.__class__ = type("Other", (Method,), {"pack": lambda _, *a, pack=pack: pack(*a)})
            recording = Recording(model, self.cpu)
            of = framework(model.process, left_out=frozenset(("bias",)))
            found = _formats._tried(model.layer, {"w": model.meta}, recording, of)
            self.assertFalse(bool(model.layer.big.any()))
            self.assertEqual(isinstance(found, Exception), text is not None, found)
            self.assertRegex(str(found), text or ".big")
        method = types.SimpleNamespace(process_weights_after_loading=lambda layer: None)
        of = Framework(packer=lambda layer: method)
        found = _formats._tried(model.layer, {"w": model.meta}, Recording(model, self.cpu), of)
        self.assertIn("was replaced by a function", str(found))

    def test_attention_that_computes_nothing_again_is_not_taken(self):
        def keeps(late, dtype):
            late.W_UV.data.mul_(1)

        def other(late, dtype):
            late.small.add_(1)
            late.W_UV = torch.nn.Parameter(late.layer.codes.data.to(dtype) * late.small, False)

        def shows(late, dtype):
            late.W_UV = late.small_one  # the engine's own

        def alias(late, dtype):
            late.W_UV = torch.nn.Parameter(late.layer.codes.data.view(4, 6), False)

        def once(late, dtype):
            if "W_UV" in late._parameters:  # at the load; later what is there stays
                del late.W_UV
                late.W_UV = late.layer.codes.data.to(dtype) * 2

        for process in (keeps, other, shows, alias, once):
            with self.subTest(process.__name__):
                self.assertEqual(self.attention(process)[1].steps, {})


if __name__ == "__main__":
    support.main()
