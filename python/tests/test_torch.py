"""torch models: bound in place, published after each step, followed by another model."""

import contextlib
import copy
import ctypes
import io
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
import weakref
from pathlib import Path
from unittest import mock

import numpy as np

import support
from support import BOUND, quiet, site

try:
    import torch
except ImportError:
    support.skip("torch is missing (tools/run-tests installs it)")

import weft_fabric as weft  # noqa: E402
import weft_fabric.torch  # noqa: E402
from weft_fabric import _dtypes, _tensors  # noqa: E402


class Model(torch.nn.Module):
    def __init__(self, seed=0, dtype=torch.bfloat16):
        super().__init__()
        torch.manual_seed(seed)
        self.embed = torch.nn.Embedding(32, 16, dtype=dtype)
        self.norm = torch.nn.BatchNorm1d(16)
        self.head = torch.nn.Linear(16, 32, bias=False, dtype=dtype)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.embed(tokens))


def bits(model):
    return {
        name: bytes(t.detach().reshape(-1).contiguous().view(torch.uint8).numpy())
        for name, t in model.state_dict().items()
    }


def saved(what):
    file = io.BytesIO()
    torch.save(what, file)
    return file.getvalue()


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.arange(32)).float().square().mean().backward()
    optimizer.step()


class Training(unittest.TestCase):
    def test_a_model_follows_another_after_each_step(self):
        model, served = Model(), Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        self.assertEqual(list(weft.torch.named_tensors(model)), [n for n in model.state_dict() if n != "head.weight"])
        with weft.torch.publish_after(optimizer, model, site(), log=quiet) as publisher:
            with weft.torch.follow(served, site(publisher.trainer), "a", log=quiet) as follower:
                self.assertIsNone(follower.update())
                self.assertIsNone(follower.away)
                for version in (1, 2, 3):
                    step(model, optimizer)
                    self.assertEqual((publisher.version, publisher.last.target.number), (version, version))
                    self.assertGreater(publisher.last.changed, 0)
                    self.assertNotEqual(bits(model), bits(served))
                    follower.until(version, BOUND)
                    self.assertEqual((follower.version, bits(model)), (version, bits(served)))
                publisher.wait(BOUND)
                self.assertEqual(follower.label, publisher.trainer.held.label)
                self.assertRegex(follower.label, "^[0-9a-f]+:3:[0-9a-f]{16}$")
                self.assertTrue(torch.equal(model(torch.arange(32)), served(torch.arange(32))))
                with self.assertRaises(weft.TimeoutExpired):
                    follower.until(4, 0.1)
        step(model, optimizer)  # publishes no more
        self.assertEqual(publisher.version, 3)

    def test_every_so_many_steps(self):
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        with weft.torch.publish_after(optimizer, model, site(), every=2, first_version=10, log=quiet) as publisher:
            for _ in range(5):
                step(model, optimizer)
            self.assertEqual(publisher.version, 12)
        self.assertRaises(ValueError, weft.torch.publish_after, optimizer, model, site(), every=0)

    def test_optimizers_that_have_no_hook(self):
        """torch before 2.0."""

        class Old:
            def step(self, closure=None):
                return closure()

        old, calls = Old(), []
        remove = weft.torch._after_step(old, lambda: calls.append("published"))
        self.assertEqual((old.step(lambda: 5), calls), (5, ["published"]))
        remove()
        self.assertEqual((old.step(closure=lambda: 6), calls), (6, ["published"]))

    def test_a_model_that_moved_is_published_where_it_is(self):
        """The bits change on the way: the optimizer steps what was offloaded, and a router's bias is assigned."""
        model, served = Model(), Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        with weft.torch.publish_after(optimizer, model, site(), log=quiet) as publisher:
            with weft.torch.follow(served, site(publisher.trainer), "a", log=quiet) as follower:
                for version in range(1, 5):
                    for parameter in model.parameters():
                        parameter.data = parameter.data.clone()
                    model.norm.running_mean = model.norm.running_mean + version
                    step(model, optimizer)
                    self.assertGreater(publisher.last.changed, 16)
                    follower.until(version, BOUND)
                    self.assertEqual(bits(model), bits(served))

    def test_tensors_that_take_the_place_of_bound_ones_are_published(self):
        """load_state_dict(assign=True) does so: what was bound stays where it is, and the module has another."""
        model, served = Model(), Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

        def replace(module, factor):
            module.norm.weight = torch.nn.Parameter(module.norm.weight.detach() * factor)

        with weft.torch.publish_after(optimizer, model, site(), log=quiet) as publisher:
            with weft.torch.follow(served, site(publisher.trainer), "a", log=quiet) as follower:
                replace(model, 3)
                step(model, optimizer)
                replace(served, 1)
                with self.assertRaisesRegex(weft.TensorError, "another tensor .* call rebind") as caught:
                    follower.until(1, BOUND)
                self.assertEqual(caught.exception.tensor, "norm.weight")
                follower.rebind()
                follower.until(1, BOUND)
                self.assertEqual(bits(model), bits(served))
                replace(model, 1)
                self.assertEqual(publisher.publish().changed, 0)

    def test_a_model_without_memory_is_refused_by_name(self):
        """A step while the weights are away: nothing is published, and the next one with weights goes on."""
        model, served = Model(), Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        with weft.torch.publish_after(optimizer, model, site(), log=quiet) as publisher:
            with weft.torch.follow(served, site(publisher.trainer), "a", log=quiet) as follower:
                weight = model.embed.weight
                kept, weight.data = weight.data.clone(), weight.data.clone()
                weight.data.storage().resize_(0)
                with self.assertRaisesRegex(weft.TensorError, "memory was given away .* bring it back") as caught:
                    publisher.publish()
                self.assertEqual((caught.exception.tensor, publisher.version), ("embed.weight", 0))
                weight.data.storage().resize_(kept.numel())
                weight.data.copy_(kept * 2)
                self.assertGreater(publisher.publish().changed, 0)
                follower.until(1, BOUND)
                self.assertEqual(bits(model), bits(served))

    def test_memory_that_was_given_up_is_not_read(self):
        weight = torch.nn.Parameter(torch.zeros(1 << 16))
        with weft.Trainer(site(), {"w": weight}, log=quiet) as trainer:
            weight.data = torch.ones(1 << 16)
            self.assertRaisesRegex(weft.TensorError, "moved since bind", trainer.publish, 1)
            trainer.bind({"w": weight})
            weight.data[5] = 0
            self.assertEqual(trainer.publish(1).changed, (1 << 16) - 1)

    def test_a_trainer_holds_no_memory_that_its_tensors_gave_away(self):
        """numpy's array says when torch's storage over it is gone."""
        for cast in (None, "bf16"):
            array = np.zeros(1 << 16, np.float32)
            weight, gone = torch.nn.Parameter(torch.from_numpy(array)), weakref.ref(array)
            del array
            with weft.Trainer(site(), {"w": weight}, cast=cast, log=quiet):
                weight.data = torch.empty(0)
                self.assertIsNone(gone())

    def test_an_unbound_model_is_free_and_bound_by_the_next_publish(self):
        """Modules that are replaced, too."""
        model, served = Model(), Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        with weft.torch.publish_after(optimizer, model, site(), log=quiet) as publisher:
            with weft.torch.follow(served, site(publisher.trainer), "a", log=quiet) as follower:
                step(model, optimizer)
                array = np.zeros(16, np.float32)
                gone = weakref.ref(array)
                model.norm.running_mean = torch.from_numpy(array)
                del array
                publisher.publish()
                publisher.unbind()
                model.norm.running_mean = torch.ones(16)
                self.assertIsNone(gone())
                with self.assertRaisesRegex(weft.CallError, "call bind first"):
                    publisher.trainer.publish(3)
                follower.until(2, BOUND)  # served from the shadow
                step(model, optimizer)
                follower.until(3, BOUND)
                self.assertEqual(bits(model), bits(served))

    def test_boxes_are_asked_for_their_memory_when_they_are_bound(self):
        weight = torch.nn.Parameter(torch.zeros(4, 4))
        blocks = weft.Blocks(0, 0, 4, 0, 4, weight.data_ptr())
        blocks._watched = [("w", weight.data_ptr, weight.data_ptr())]
        weight.data = torch.ones(4, 4)
        with self.assertRaisesRegex(weft.TensorError, "'w': moved since bind"):
            weft.Trainer(site(), blocks, layout=weft.Layout({"w": weight}), log=quiet)


class Resumes(unittest.TestCase):
    """A trainer that goes on from a checkpoint."""

    def begun(self, **options):
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        return model, optimizer, weft.torch.publish_after(optimizer, model, site(), log=quiet, **options)

    def test_a_resumed_trainer_goes_on_in_a_later_run(self):
        model, optimizer, publisher = self.begun()
        with publisher:
            for _ in range(5):
                step(model, optimizer)
                if publisher.version == 3:
                    kept = copy.deepcopy(model.state_dict()), publisher.state_dict()
                    there = publisher.trainer.held
            later = publisher.trainer.held
        kept = torch.load(io.BytesIO(saved(kept)))
        self.assertEqual(kept[1], {"run": there.run, "number": 3, "root": there.root, "steps": 0, "branches": []})
        model, served = Model(1), Model(2)
        model.load_state_dict(kept[0])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
        resumed = weft.torch.publish_after(optimizer, model, site(), resume=kept[1], log=quiet)
        with resumed, weft.torch.follow(served, site(resumed.trainer), "a", empty=True, log=quiet) as follower:
            self.assertEqual((resumed.version, resumed.trainer.held.root), (3, there.root))
            step(model, optimizer)
            follower.until(4, BOUND)
            self.assertEqual(bits(model), bits(served))
            self.assertEqual(resumed.branches, [there])
            held = follower.rollout.held
            self.assertEqual((held.run, held.number), (resumed.run, 4))
            self.assertGreater(held, later, "version 4 is fresher than version 5 of the run before")
            state = resumed.state_dict()
            self.assertEqual((state["number"], state["branches"]), (4, [tuple(there)]))

    def test_a_publisher_that_loads_a_state_stays_where_rollouts_know_it(self):
        """Back to a version of its own, too: no number comes twice in one run. The clock was put back meanwhile."""
        model, optimizer, publisher = self.begun()
        with publisher, weft.torch.follow(Model(), site(publisher.trainer), "a", log=quiet) as follower:
            step(model, optimizer)
            kept, state = copy.deepcopy(model.state_dict()), publisher.state_dict()
            step(model, optimizer)
            follower.until(2, BOUND)
            before, listens = publisher.trainer.held, publisher.trainer.stats().listen
            model.load_state_dict(kept)
            with mock.patch.object(weft.torch.time, "time_ns", lambda: 5):
                publisher.load_state_dict(state)
            self.assertEqual((publisher.version, publisher.run), (1, before.run + 1))
            self.assertEqual((publisher.trainer.stats().listen, publisher.trainer.held.root), (listens, state["root"]))
            step(model, optimizer)
            end = time.monotonic() + BOUND
            # By way of version 1, if that comes before the step.
            while follower.rollout.held[:2] != (before.run + 1, 2) and time.monotonic() < end:
                with contextlib.suppress(weft.PeerError):
                    follower.update(timeout=0.05)
            publisher.wait(BOUND)
            self.assertEqual((follower.version, bits(model)), (2, bits(follower.model)))

    def test_steps_since_the_last_version_count(self):
        model, optimizer, publisher = self.begun(every=3)
        with publisher:
            for _ in range(5):
                step(model, optimizer)
            state = publisher.state_dict()
            self.assertEqual((state["number"], state["steps"]), (1, 2))
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # the weights are ahead of the version, and that is right
                publisher.load_state_dict(state)
            step(model, optimizer)
            self.assertEqual(publisher.version, 2)

    def test_other_weights_and_an_early_run_are_told(self):
        model, optimizer, publisher = self.begun()
        with publisher:
            step(model, optimizer)
            state = publisher.state_dict()
            model.norm.bias.data.add_(1)
            with self.assertWarnsRegex(
                UserWarning, "weights are not those of version 1 .* load the model's checkpoint"
            ):
                publisher.load_state_dict(state)
            state = publisher.state_dict()
        with self.assertRaisesRegex(ValueError, "run=7: a resumed trainer has a later run"):
            weft.torch.publish_after(optimizer, model, site(), resume=state, run=7, log=quiet)
        last = state["run"] + 9
        with weft.torch.publish_after(optimizer, model, site(), resume=state, run=last, log=quiet) as given:
            self.assertEqual(given.trainer.held[:2], (last, 1))
            for wrong, why in (
                (given.state_dict(), f"run={last}: a resumed trainer"),
                ({"run": 1}, "lacks number, root"),
            ):
                with self.assertRaisesRegex(ValueError, why):
                    given.load_state_dict(wrong)
            self.assertIsNotNone(given.publish())  # the session is open as before


# Upper halves that floats find special, and lower halves at and beside the tie.
HIGHS = (0x0000, 0x0001, 0x007F, 0x0080, 0x3F80, 0x3F81, 0x7F7F, 0x7F80, 0x7F81, 0x7FC1, 0x7FFF)
LOWS = (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)


CASTS = {"bf16": torch.bfloat16, "fp16": torch.float16}


def masters():
    """Float32 of every kind but NaN, which torch rounds to several ones."""
    patterns = [sign << 31 | high << 16 | low for sign in (0, 1) for high in HIGHS for low in LOWS]
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    ties = np.append(halves[:-1] + np.diff(halves) / 2, np.float32(65520))  # of float16
    edges = np.concatenate([ties, np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(1e9)), halves])
    special = torch.tensor([p - (p >> 31 << 32) for p in patterns], dtype=torch.int32).view(torch.float32)
    special = special[~special.isnan()]
    return {"special": special, "halves": torch.from_numpy(np.concatenate([edges, -edges])),
            "matrix": torch.randn(130, 70), "scalar": torch.tensor(0.1), "count": torch.arange(5)}  # fmt: skip


def rounded(named, to=torch.bfloat16):
    return {n: t.to(to) if t.dtype == torch.float32 else t.clone() for n, t in named.items()}


class Casts(unittest.TestCase):
    """Float32 masters that are published as bfloat16 and float16."""

    def setUp(self):
        torch.manual_seed(5)

    def test_masters_are_published_as_torch_rounds_them(self):
        for cast, dtype in CASTS.items():
            named = masters()
            served = {name: torch.zeros_like(tensor) for name, tensor in rounded(named, dtype).items()}
            with weft.Trainer(site(), named, cast=cast, log=quiet) as trainer:
                of = {"bf16": "BF16", "fp16": "F16"}[cast]
                self.assertEqual([s.dtype for s in trainer.layout.tensors], [of, of, of, of, "I64"])
                self.assertEqual(trainer.layout, weft.Layout(named, cast=dtype))
                self.assertEqual(trainer.layout, weft.Layout(served))
                with weft.Rollout(site(trainer), "a", served, empty=True, log=quiet) as rollout:
                    for version in (1, 2, 3):
                        named["matrix"].add_(torch.randn(130, 70) * 10.0**-version)
                        named["special"].copy_(named["special"].flip(0))
                        trainer.publish(version)
                        support.take(rollout, version)
                        for name, tensor in rounded(named, dtype).items():
                            self.assertTrue(torch.equal(served[name], tensor), f"{cast}, version {version}: {name}")

    def test_nan_becomes_one_nan(self):
        for cast, dtype in CASTS.items():
            patterns = torch.tensor([0x7F800001, -1, 0x7FFFFFFF, -0x7FFFFF], dtype=torch.int32)
            served = {"w": torch.zeros(4, dtype=dtype)}
            with weft.Trainer(site(), {"w": patterns.view(torch.float32)}, cast=cast, log=quiet) as trainer:
                with weft.Rollout(site(trainer), "a", served, empty=True, log=quiet) as rollout:
                    support.take(rollout, 0)
            self.assertEqual(served["w"].view(torch.int16).tolist(), [0x7FC0 if cast == "bf16" else 0x7E00] * 4)

    def test_numpy_rounds_to_float16_so_too(self):
        """Another judge, of one pattern in 4,093."""
        patterns = np.arange(0, 1 << 32, 4093, dtype=np.uint32).view(np.float32)
        patterns = patterns[~np.isnan(patterns)]
        served = {"w": np.zeros(len(patterns), np.float16)}
        with weft.Trainer(site(), {"w": patterns}, cast="fp16", log=quiet) as trainer:
            with weft.Rollout(site(trainer), "a", served, empty=True, log=quiet) as rollout:
                support.take(rollout, 0)
        with np.errstate(over="ignore"):
            wanted = patterns.astype(np.float16)
        self.assertTrue((served["w"].view(np.uint16) == wanted.view(np.uint16)).all())

    def test_updates_are_those_of_the_mirror(self):
        """The files that both write into a store are equal, byte for byte."""
        named = masters()
        mirror = rounded(named)
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            places = [Path(folder) / name for name in ("masters", "mirror")]
            trainers = [
                stack.enter_context(weft.Trainer(site(trainer__store=str(place)), tensors, run=9, log=quiet, **options))
                for place, tensors, options in zip(places, (named, mirror), ({"cast": "bf16"}, {}))
            ]
            for version in range(1, 8):  # the eighth would bring a merge, whose base depends on what is done by then
                named["matrix"].add_(torch.randn(130, 70) * 2.0**-version)
                for name, tensor in rounded(named).items():
                    mirror[name].copy_(tensor)
                updates = [trainer.publish(version) for trainer in trainers]
                self.assertEqual(updates[0].target, updates[1].target)
                self.assertEqual((updates[0].changed, updates[0].bytes), (updates[1].changed, updates[1].bytes))
            for trainer in trainers:
                trainer.close()
            files = [
                {p.relative_to(place): p.read_bytes() for p in place.rglob("*") if p.is_file()} for place in places
            ]
            self.assertGreater(len(files[0]), 7)
            self.assertEqual(files[0].keys(), files[1].keys())
            for path in files[0]:
                self.assertEqual(files[0][path], files[1][path], path)

    def test_a_layout_says_what_is_cast(self):
        layout = weft.Layout.of([("kept", "F32", (4, 4)), ("cast", "BF16", (4, 4)), ("parts", "BF16", (3, 5))])
        half = weft.Layout.of([("w", "F16", (4,))])
        with weft.Trainer(site(), {"w": torch.ones(4)}, layout=half, cast="fp16", log=quiet) as trainer:
            self.assertEqual(trainer.publish(1).changed, 0)
        flat = torch.randn(15)
        named = {"kept": torch.randn(4, 4), "cast": torch.randn(4, 4), "parts": [flat[:7].clone(), flat[7:].clone()]}
        served = {name: torch.zeros(spec.shape, dtype=torch.float32 if spec.dtype == "F32" else torch.bfloat16)
                  for name, spec in zip(named, layout.tensors)}  # fmt: skip
        with weft.Trainer(site(), named, layout=layout, cast="bf16", log=quiet) as trainer:
            with weft.Rollout(site(trainer), "a", served, empty=True, log=quiet) as rollout:
                support.take(rollout, 0)
        self.assertTrue(torch.equal(served["kept"], named["kept"]))
        self.assertTrue(torch.equal(served["cast"], named["cast"].bfloat16()))
        self.assertTrue(torch.equal(served["parts"].reshape(-1), flat.bfloat16()))

    def test_refusals_name_tensor_and_option(self):
        layout = weft.Layout.of([("w", "BF16", (4,))])
        with self.assertRaisesRegex(
            weft.TensorError, 'elements are F32, the layout has BF16; .* cast="bf16"'
        ) as caught:
            weft.Trainer(site(), {"w": torch.zeros(4)}, layout=layout, log=quiet)
        self.assertEqual(caught.exception.tensor, "w")
        with self.assertRaises(weft.TensorError) as caught:
            weft.Trainer(site(), {"w": torch.zeros(4, dtype=torch.float16)}, layout=layout, cast="bf16", log=quiet)
        self.assertIn("elements are F16", str(caught.exception))
        with self.assertRaises(weft.TensorError) as caught:
            weft.Rollout(site(), "a", {"w": torch.zeros(4)}, layout=layout, log=quiet)
        self.assertNotIn("cast", str(caught.exception))
        with self.assertRaisesRegex(weft.TensorError, 'elements are F32, the layout has BF16; .* cast="bf16"'):
            weft.Trainer(site(), {"w": torch.zeros(4)}, layout=layout, cast="fp16", log=quiet)
        with self.assertRaisesRegex(weft.TensorError, 'elements are F32, the layout has F16; .* cast="fp16"'):
            weft.Trainer(site(), {"w": torch.zeros(4)}, layout=weft.Layout.of([("w", "F16", (4,))]), log=quiet)
        with self.assertRaisesRegex(ValueError, "float32 can be read as bf16 or fp16 alone"):
            weft.Trainer(site(), {"w": torch.zeros(4)}, cast="fp8", log=quiet)
        with self.assertRaisesRegex(ValueError, "float32 can be read as bf16 or fp16 alone"):
            weft.Trainer(site(), {"w": torch.zeros(4)}, layout=weft.Layout.of([("w", "F32", (4,))]), cast="int8")
        with self.assertRaisesRegex(weft.CallError, "a Linear is neither a mapping .* weft.torch takes models"):
            weft.Trainer(site(), torch.nn.Linear(2, 2), log=quiet)
        master = torch.zeros(4)
        blocks = weft.Blocks(0, 0, 1, 0, 4, master.data_ptr(), memory="F32", keep=master)
        with self.assertRaisesRegex(weft.CallError, "memory F32 under a layout of BF16 is read by trainers alone"):
            weft.Rollout(site(), "a", blocks, layout=layout, log=quiet)

    def test_a_model_of_masters_is_followed(self):
        model, served = Model(dtype=torch.float32), Model(seed=1).to(torch.bfloat16)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        with weft.torch.publish_after(optimizer, model, site(), cast="bf16", log=quiet) as publisher:
            with weft.torch.follow(served, site(publisher.trainer), "a", empty=True, log=quiet) as follower:
                for version in (1, 2, 3):
                    step(model, optimizer)
                    follower.until(version, BOUND)
                    for name, tensor in model.state_dict().items():
                        self.assertTrue(
                            torch.equal(served.state_dict()[name], tensor.to(served.state_dict()[name].dtype))
                        )
                model.embed.weight.data = model.embed.weight.data.clone()
                self.assertEqual(publisher.publish().changed, 0)


class Adapted(torch.nn.Module):
    """A linear layer that is frozen, and an adapter of low rank beside it, as LoRA has them."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.base = torch.nn.Linear(64, 48, bias=False, dtype=torch.bfloat16).requires_grad_(False)
        self.lora_a = torch.nn.Parameter(torch.randn(4, 64).bfloat16())
        self.lora_b = torch.nn.Parameter(torch.zeros(48, 4, dtype=torch.bfloat16))

    def forward(self, x):
        return self.base(x) + x @ self.lora_a.T @ self.lora_b.T

    def step(self, optimizer):
        optimizer.zero_grad()
        self(torch.ones(2, 64, dtype=torch.bfloat16)).float().sub(1).square().mean().backward()
        optimizer.step()


def adapters(model):
    return {name: tensor for name, tensor in model.named_parameters() if tensor.requires_grad}


class Adapters(unittest.TestCase):
    def test_adapters_alone_are_published(self):
        model, served = Adapted(), Adapted(1)
        served.base.load_state_dict(model.base.state_dict())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with weft.torch.publish_after(optimizer, adapters(model), site(), log=quiet) as publisher:
                self.assertEqual([spec.name for spec in publisher.trainer.layout.tensors], ["lora_a", "lora_b"])
                there = site(publisher.trainer)
                with weft.torch.follow(adapters(served), there, "a", empty=True, log=quiet) as follower:
                    for version in (1, 2, 3):
                        model.step(optimizer)
                        follower.until(version, BOUND)
                        self.assertEqual(bits(model), bits(served))
                        x = torch.randn(5, 64).bfloat16()
                        self.assertTrue(torch.equal(model(x), served(x)))

    def warned(self, optimizer, bound, step, count=8):
        with weft.torch.publish_after(optimizer, bound, site(), log=quiet) as publisher:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                said = []
                for _ in range(count):
                    step()
                    said.append([str(one.message) for one in caught if "changed nothing" in str(one.message)])
            self.assertEqual(publisher.version, count)
        self.assertEqual([len(texts) for texts in said], [0, 0] + [1] * (count - 2))
        return said[-1][0]

    def test_versions_that_change_nothing_are_warned_of_once(self):
        """The base instead of the adapters, frozen weights, steps too small for bf16."""
        model = Adapted()
        optimizer = torch.optim.SGD(list(adapters(model).values()), lr=0.1)
        text = self.warned(optimizer, model.base, lambda: model.step(optimizer))
        self.assertIn("3 versions in a row changed nothing, up to 3: the optimizer steps none of the tensors", text)

        optimizer = torch.optim.SGD([model.base.weight], lr=0.1)
        self.assertIn("frozen", self.warned(optimizer, model.base, lambda: optimizer.step()))

        small = Adapted()
        small.step(torch.optim.SGD(adapters(small).values(), lr=0.1))
        optimizer = torch.optim.SGD(adapters(small).values(), lr=1e-30)
        self.assertIn("masters of float32", self.warned(optimizer, adapters(small), lambda: small.step(optimizer)))

    def test_one_version_that_changes_something_begins_the_count_anew(self):
        model = Adapted()
        optimizer = torch.optim.SGD(adapters(model).values(), lr=0.0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with weft.torch.publish_after(optimizer, adapters(model), site(), log=quiet) as publisher:
                for version in range(1, 9):
                    with torch.no_grad():
                        model.lora_b[0, 0] += version % 3 == 0
                    publisher.publish()


class DistributedDataParallel(torch.nn.Module):
    """torch's by its name, for a torch without processes."""

    def __init__(self, module):
        super().__init__()
        self.module = module


def wrapped(model):
    """DDP over torch.compile, and a compiled layer within."""
    model.norm = compiled(model.norm)
    return DistributedDataParallel(compiled(model))


def compiled(module):
    if hasattr(torch, "compile"):
        return torch.compile(module)
    holder = torch.nn.Module()
    holder._orig_mod = module
    return holder


class Wrappers(unittest.TestCase):
    """What frameworks put around a model."""

    def test_names_are_those_of_the_model_within(self):
        plain = list(weft.torch.named_tensors(Model()))
        self.assertEqual(list(weft.torch.named_tensors(wrapped(Model()))), plain)
        self.assertEqual(list(weft.torch.named_tensors({"base._orig_mod.w": torch.ones(2)})), ["base.w"])
        own = torch.nn.Module()
        own.module = torch.nn.Linear(2, 2)  # a name that a model gave is its own
        self.assertEqual(list(weft.torch.named_tensors(own)), ["module.weight", "module.bias"])
        own._orig_mod = torch.nn.Module()
        own._orig_mod.module = torch.nn.Linear(2, 2)
        with self.assertRaisesRegex(weft.TensorError, "without the wrappers it is named module.weight"):
            weft.torch.named_tensors(own)

    def test_a_wrapped_model_is_followed_by_a_plain_one(self):
        model, served = Model(), Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        with weft.torch.publish_after(optimizer, wrapped(model), site(), log=quiet) as publisher:
            with weft.torch.follow(served, site(publisher.trainer), "a", log=quiet) as follower:
                for version in (1, 2):
                    step(model, optimizer)
                    follower.until(version, BOUND)
                    self.assertTrue(torch.equal(served.embed.weight, model.embed.weight))

    def test_of_replicas_rank_0_publishes(self):
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        with mock.patch.object(weft.torch._dtensor, "rank", lambda: 1):
            with weft.torch.publish_after(optimizer, wrapped(model), site(), log=quiet) as publisher:
                step(model, optimizer)
                self.assertEqual((publisher.trainer, publisher.last, publisher.version), (None, None, 1))
                publisher.wait(0)
                publisher.load_state_dict(publisher.state_dict())
            with weft.torch.publish_after(optimizer, model, site(), log=quiet) as publisher:
                self.assertIsNotNone(publisher.trainer)  # nobody said that it is a replica

    def test_processes_count_alike_after_one_of_them_failed(self):
        """Else a source publishes under a number what the others have under the next one, and rollouts mix both."""
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        with weft.torch.publish_after(optimizer, model, site(), log=quiet) as publisher:
            with mock.patch.object(weft.torch._dtensor, "rank", lambda: 1):
                other = weft.torch.publish_after(optimizer, wrapped(Model()), site(), log=quiet)
            with mock.patch.object(publisher.trainer, "publish", side_effect=weft.TensorError("w", "away")):
                self.assertRaises(weft.TensorError, step, model, optimizer)
            self.assertEqual(publisher.version, 0)
            other._on_step()  # the error came before its hook
            step(model, optimizer)
            self.assertEqual((publisher.version, publisher.trainer.held.number, other.version), (2, 2, 2))

    def test_optimizers_within_optimizers(self):
        """accelerate's wrapper is a torch optimizer by its class alone, and steps the inner one now and then."""

        class Accelerated(torch.optim.Optimizer):
            def __init__(self, optimizer):
                self.optimizer = optimizer

            def step(self, closure=None):
                return None

        model = Model()
        inner = torch.optim.SGD(model.parameters(), lr=0.5)
        outer = Accelerated(inner)
        with weft.torch.publish_after(outer, model, site(), log=quiet) as publisher:
            outer.step()
            self.assertEqual(publisher.version, 0)
            step(model, inner)
            self.assertEqual(publisher.version, 1)

    def test_without_an_optimizer_the_caller_publishes(self):
        model = Model()
        with weft.torch.publish_after(None, model, site(), log=quiet) as publisher:
            step(model, torch.optim.SGD(model.parameters(), lr=0.5))
            self.assertEqual(publisher.version, 0)
            self.assertGreater(publisher.publish().changed, 0)

    def test_flat_parameters_are_refused_by_name(self):
        model = Model()
        for name, parameter in model.named_parameters():
            parameter.ds_shape = parameter.shape  # as DeepSpeed's ZeRO-3 marks them
            parameter.data = torch.empty(0)
        with self.assertRaisesRegex(weft.TensorError, "ZeRO-3.* stage 1 or 2.*GatheredParameters") as caught:
            weft.torch.publish_after(None, model, site(), log=quiet)
        self.assertEqual(caught.exception.tensor, "embed.weight")
        with self.assertRaisesRegex(weft.TensorError, "ZeRO-3"):
            weft.Layout(model.named_parameters())

        class FullyShardedDataParallel(torch.nn.Module):
            def __init__(self, module):
                super().__init__()
                self.module = module

            def state_dict(self, **options):
                raise AssertionError("gathers copies, and waits for the other processes")

        model = torch.nn.Sequential(FullyShardedDataParallel(Model()))
        with self.assertRaisesRegex(weft.TensorError, "FSDP1.* fully_shard") as caught:
            weft.torch.publish_after(None, model, site(), log=quiet)
        self.assertEqual(caught.exception.tensor, "0.module.embed.weight")
        flat = torch.nn.Parameter(torch.zeros(8))
        flat._fsdp_flattened = True
        with self.assertRaisesRegex(weft.TensorError, "'w': of FullyShardedDataParallel"):
            weft.Trainer(site(), {"w": flat}, log=quiet)

    def test_fsdp1_itself_is_refused(self):
        if not hasattr(torch, "compile") or not torch.distributed.is_available():
            self.skipTest("no FSDP1 for host tensors in this torch")
        from torch.distributed.fsdp import FullyShardedDataParallel

        torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
        try:
            for original in (True, False):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = FullyShardedDataParallel(
                        torch.nn.Linear(4, 4), use_orig_params=original, device_id=torch.device("cpu")
                    )
                with self.assertRaisesRegex(weft.TensorError, "FSDP1"):
                    weft.torch.publish_after(None, model, site(), log=quiet)
                with self.assertRaisesRegex(weft.TensorError, "FSDP1"):
                    weft.Trainer(site(), model.named_parameters(), log=quiet)
        finally:
            torch.distributed.destroy_process_group()


class Tied(unittest.TestCase):
    """Model's head is tied to its embedding."""

    def untied(self):
        served = Model(1)
        served.head.weight = torch.nn.Parameter(torch.zeros_like(served.embed.weight))
        return served

    def test_an_engine_with_a_tensor_of_each_name_gets_both(self):
        model, served = Model(), self.untied()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        with weft.torch.publish_after(optimizer, model, site(), tied="all", log=quiet) as publisher:
            self.assertEqual(publisher.tied, {})
            with weft.torch.follow(served, site(publisher.trainer), "a", empty=True, log=quiet) as follower:
                for version in (1, 2):
                    step(model, optimizer)
                    follower.until(version, BOUND)
                    self.assertEqual(bits(model), bits(served))
                model.embed.weight.data = model.embed.weight.data * 2
                publisher.publish()
                follower.until(3, BOUND)
                self.assertEqual(bits(model), bits(served))

    def test_names_that_are_left_out_are_told_once(self):
        lines = []
        with weft.torch.publish_after(None, Model(), site(), log=lambda *line: lines.append(line)) as publisher:
            publisher.publish()
            publisher.rebind()
        self.assertEqual(publisher.tied, {"head.weight": "embed.weight"})
        self.assertEqual([line for line in lines if "left out" in line[1]], [("info", mock.ANY)])
        text = next(line for _, line in lines if "left out" in line)
        self.assertIn('tied="all" publishes each: left out: head.weight (embed.weight)', text)

    def test_a_mapping_names_each_of_its_tensors(self):
        weight = torch.randn(4, 4)
        named = {"one": weight, "other": weight, "part": weight[:2]}
        served = {name: torch.zeros_like(tensor) for name, tensor in named.items()}
        with weft.torch.publish_after(None, named, site(), log=quiet) as publisher:
            with weft.torch.follow(served, site(publisher.trainer), "a", empty=True, log=quiet) as follower:
                follower.until(0, BOUND)
        for name, tensor in named.items():
            self.assertTrue(torch.equal(served[name], tensor), name)
        self.assertEqual(list(weft.torch.named_tensors(named, "first")), ["one", "part"])
        with self.assertRaisesRegex(weft.TensorError, "'other': shares memory with tensor 'one'"):
            weft.torch.follow(named, site(), "a", log=quiet)
        with self.assertRaisesRegex(ValueError, "tied='none'"):
            weft.torch.publish_after(None, named, site(), tied="none")


class Readers(unittest.TestCase):
    def test_every_dtype_of_torch(self):
        seen = set()
        for name, wanted in _dtypes._OTHERS.items():
            dtype = getattr(torch, name, None)
            if isinstance(dtype, torch.dtype):
                seen.add(name)
                view = _tensors.read("t", torch.empty((2, 3), dtype=dtype))
                self.assertEqual((view.dtype, view.bytes), (wanted, 6 * torch.empty((), dtype=dtype).element_size()))
        self.assertLessEqual({"bfloat16", "float32", "float16", "int64", "bool"}, seen)
        print("dtypes:", *sorted(seen))

    def test_refusals_name_the_tensor(self):
        zeros = torch.zeros((2, 3))
        for text, tensor in (
            ("not contiguous: shape .3, 2., strides .1, 3.", zeros.t()),
            ("on the device meta", torch.empty(3, device="meta")),
            ("only dense tensors", zeros.to_sparse()),
            ("conjugates", torch.zeros(3, dtype=torch.complex64).conj()),
            ("no dtype for torch.complex128", torch.zeros(3, dtype=torch.complex128)),
        ):
            with self.assertRaisesRegex(weft.TensorError, text) as caught:
                weft.Layout({"layer.w": tensor})
            self.assertEqual(caught.exception.tensor, "layer.w")
        tied = torch.zeros(4)
        with self.assertRaisesRegex(weft.TensorError, "shares memory with tensor 'a'"):
            weft.Rollout(site(trainer__listen="127.0.0.1:1"), "a", {"a": tied, "b": tied.view(2, 2)}, log=quiet)

    def test_fp8_and_dlpack(self):
        if hasattr(torch, "float8_e4m3fn"):
            self.assertEqual(_tensors.read("t", torch.zeros(4, dtype=torch.float8_e4m3fn)).dtype, "F8_E4M3")
        tensor = torch.arange(6, dtype=torch.bfloat16).view(2, 3)

        class Other:
            __dlpack__ = tensor.__dlpack__
            __dlpack_device__ = tensor.__dlpack_device__

        view = _tensors.read("t", Other())
        self.assertEqual((view.dtype, view.shape, view.address), ("BF16", (2, 3), tensor.data_ptr()))

    def test_torch_is_imported_only_where_it_is_used(self):
        import subprocess

        code = "import sys, weft_fabric; sys.exit('torch' in sys.modules)"
        self.assertEqual(subprocess.run([sys.executable, "-B", "-c", code]).returncode, 0)


def placed(full, rank, mesh, placements):
    """A DTensor of a process of a made-up group: its part of `full`, by chunks as torch makes them."""
    from torch.distributed.tensor import DTensor

    local = full
    for dim, placement in enumerate(placements):
        if placement.is_shard():
            chunks = torch.chunk(local, mesh.size(dim), placement.dim)
            at = mesh.get_coordinate()[dim]
            local = chunks[at] if at < len(chunks) else local.narrow(placement.dim, 0, 0)
    local = local.clone().contiguous()
    return DTensor.from_local(local, mesh, placements, run_check=False, shape=full.shape, stride=full.stride())


class Holder(torch.nn.Module):
    def __init__(self, tensors):
        super().__init__()
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)


def has_dtensor():
    try:
        import torch.distributed.tensor  # noqa: F401
    except ImportError:
        return False
    return torch.distributed.is_available()


@unittest.skipUnless(has_dtensor(), "a torch without torch.distributed.tensor")
class Sharded(unittest.TestCase):
    def setUp(self):
        from torch.distributed.tensor import Replicate, Shard

        torch.manual_seed(3)
        self.full = {
            "rows": torch.randn(10, 6),
            "columns": torch.randn(4, 8),
            "middle": torch.randn(3, 8, 5),
            "both": torch.randn(8, 8),
            "vector": torch.randn(7),
            "scalar": torch.tensor(2.0),
            "plain": torch.randn(5),
        }
        one = {"rows": Shard(0), "columns": Shard(1), "middle": Shard(1), "both": Shard(0), "vector": Shard(0)}
        self.flat = {name: [one.get(name, Replicate())] for name in self.full}
        two = {"rows": (Replicate(), Shard(0)), "columns": (Replicate(), Shard(1)), "both": (Shard(0), Shard(1)),
               "middle": (Shard(0), Shard(1))}  # fmt: skip
        self.square = {name: list(two.get(name, (Replicate(), Replicate()))) for name in self.full}

    def ranks(self, shape, placements, act):
        """What `act` makes of the model of each process."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.testing._internal.distributed.fake_pg import FakeStore

        made, world = [], 1
        for size in shape:
            world *= size
        for rank in range(world):
            torch.distributed.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
            try:
                mesh = init_device_mesh("cpu", shape)
                model = Holder({name: tensor.clone() if name == "plain" else placed(tensor, rank, mesh, placements[name])
                                for name, tensor in self.full.items()})  # fmt: skip
                made.append((model, act(model)))
            finally:
                torch.distributed.destroy_process_group()
        return made

    def check(self, parts, once):
        """The boxes have the bits of the whole tensors, and each element `once`."""
        names = list(self.full)
        seen = {name: torch.zeros(tensor.numel(), dtype=torch.int) for name, tensor in self.full.items()}
        for layout, blocks in parts:
            self.assertEqual([spec.name for spec in layout.tensors], names)
            for block in blocks.table:
                tensor, row, rows, column, columns = block["slice"].tolist()
                name = names[tensor]
                matrix = self.full[name].reshape(-1, self.full[name].shape[-1] if self.full[name].dim() else 1)
                if self.full[name].dim() < 2:
                    matrix = self.full[name].reshape(1, -1)
                for r in range(rows):
                    for c in range(columns):
                        at = (row + r) * matrix.shape[1] + column + c
                        there = ctypes.c_float.from_address(int(block["data"]) + 4 * (r * columns + c))
                        self.assertEqual(there.value, float(matrix.reshape(-1)[at]), name)
                        seen[name][at] += 1
        for name, count in seen.items():
            if once:
                self.assertTrue(bool((count == 1).all()), name)
            else:
                self.assertTrue(bool((count >= 1).all()), name)

    def test_each_element_is_contributed_once(self):
        for shape, placements in (((4,), self.flat), ((2, 2), self.square), ((2, 3), self.square)):
            self.check([part for _, part in self.ranks(shape, placements, weft.torch.holding)], True)
            self.check([part for _, part in self.ranks(shape, placements, weft.torch.view)], False)

    def test_a_part_that_got_other_memory_is_named(self):
        """FSDP2 gives each parameter another local tensor where a model goes to a device or a dtype."""
        for name in ("rows", "plain"):
            ((model, (layout, blocks)),) = self.ranks((1,), self.flat, weft.torch.holding)
            with weft.Trainer(site(), blocks, layout=layout, holding=True, run=7, log=quiet) as trainer:
                trainer.publish(1)
                tensor = getattr(model, name)
                if name == "rows":
                    tensor._local_tensor = tensor._local_tensor.clone()
                else:
                    tensor.data = tensor.data.clone()
                with self.assertRaisesRegex(weft.TensorError, f"'{name}': moved since bind"):
                    trainer.publish(2)

    def test_a_part_whose_memory_was_given_away_is_refused(self):
        def gives(model):
            publisher = weft.torch.publish_after(None, model, site(), run=7, source=0, log=quiet)
            try:
                publisher.unbind()
                self.assertIsNone(publisher.state_dict()["root"])
                model.rows.to_local().untyped_storage().resize_(0)
                with self.assertRaisesRegex(weft.TensorError, "'rows': its memory was given away"):
                    publisher.publish()
            finally:
                publisher.close()

        self.ranks((1,), self.flat, gives)

    def test_partial_sums_are_refused(self):
        from torch.distributed.tensor import Partial

        self.flat["rows"] = [Partial()]
        with self.assertRaises(weft.TensorError) as caught:
            self.ranks((2,), self.flat, weft.torch.holding)
        self.assertIn("partial sum", str(caught.exception))

    def test_a_process_whose_part_is_refused_lets_the_others_go_on(self):
        """The run is told to all before anything of one process alone can fail, so nobody waits for a broadcast."""
        from torch.distributed.tensor import Partial

        self.flat["rows"] = [Partial()]
        drawn = mock.Mock(return_value=7)
        with mock.patch.object(weft.torch, "_run", drawn), self.assertRaises(weft.TensorError):
            self.ranks((2,), self.flat, lambda model: weft.torch.publish_after(None, model, site(), log=quiet))
        drawn.assert_called_once_with(0)

    def test_processes_of_a_sharded_trainer(self):
        for kind, processes in (("fsdp", 2), ("tensor", 4), ("cast", 2)):
            script = Path(__file__).with_name("sharded_process.py")
            done = subprocess.run(
                [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}", "--standalone",
                 str(script), kind],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
            )  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stdout[-4000:])
            self.assertIn(f"{kind}: {processes} sources, equal", done.stdout)

    def test_sources_and_a_whole_rollout(self):
        served = {name: torch.zeros_like(tensor) for name, tensor in self.full.items()}
        ranks = self.ranks((3,), self.flat, weft.torch.holding)
        with contextlib.ExitStack() as stack:
            trainers = [
                stack.enter_context(weft.Trainer(site(), blocks, layout=layout, holding=True, run=7, log=quiet))
                for _, (layout, blocks) in ranks
            ]
            sources = [(trainer.stats().listen, blocks) for trainer, (_, (_, blocks)) in zip(trainers, ranks)]
            rollout = stack.enter_context(weft.Rollout(site(), "a", served, sources=sources, log=quiet))
            with torch.no_grad():
                for model, _ in ranks:
                    for tensor in model.state_dict().values():
                        getattr(tensor, "_local_tensor", tensor).add_(1)
            for trainer in trainers:
                trainer.publish(1)
            staged = rollout.staged(timeout=BOUND)
            rollout.commit(staged)
            for name, tensor in self.full.items():
                self.assertTrue(torch.equal(served[name], tensor + 1), name)


if __name__ == "__main__":
    support.main()
