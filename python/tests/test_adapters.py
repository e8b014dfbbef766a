"""The adapters exchange weights bit for bit, in the framework's own base class or, without it, in a stand-in.

A stand-in has what the real file demands of an engine, and no more:

    verl 0.9.1     verl/checkpoint_engine/base.py, lines 50 to 236 (PyPI)
    NeMo-RL        nemo_rl/utils/checkpoint_engines/base.py, lines 40 to 110, commit 7ea279a of NVIDIA-NeMo/RL
"""

import abc
import asyncio
import importlib
import importlib.util
import re
import sys
import types
import unittest
import warnings
from unittest import mock

import support

try:
    import torch
except ImportError:
    support.skip("torch is missing (tools/run-tests installs it)")

import weft_fabric as weft  # noqa: E402

SITE = """
[trainer]
listen = 127.0.0.1:{port}
[session]
connect_deadline = 60s
close_deadline = 2s
[peers]
provider = loop
heartbeat = 60s
[peer.rollout-*]
"""
PAGE = support.ROOT / "docs" / "ADAPTERS.md"
BUCKET = 5000  # bytes: less than the model has


def module(name, **members):
    made = types.ModuleType(name)
    made.__path__ = []
    vars(made).update(members)
    sys.modules[name] = made
    return made


def abstract(*names):
    return {name: abc.abstractmethod(lambda self: None) for name in names}


def stand_in_for_verl():
    registered = {}

    class Registry:
        @staticmethod
        def register(backend):
            return lambda engine: registered.setdefault(backend, engine)

        @staticmethod
        def new(backend, *args, **kwargs):
            return registered[backend](*args, **kwargs)

    methods = abstract("prepare", "init_process_group", "finalize", "send_weights", "receive_weights")
    methods["build_topology"] = classmethod(abc.abstractmethod(lambda cls: None))
    engine = abc.ABCMeta("CheckpointEngine", (), {"wire_format": "named_tensors", **methods})
    module("verl")
    module("verl.checkpoint_engine", CheckpointEngine=engine, CheckpointEngineRegistry=Registry)


def stand_in_for_nemo_rl():
    def create_checkpoint_engine(backend, *, bucket_size_bytes, engine_kwargs):
        name, engine = backend.split(":", 1)
        return getattr(importlib.import_module(name), engine)(bucket_size=bucket_size_bytes, **engine_kwargs)

    methods = abstract("prepare", "init_policy_process_group", "init_rollout_process_group", "send_weights",
                       "receive_weight_batches")  # fmt: skip
    engine = abc.ABCMeta(
        "CheckpointEngine", (), {"shard_expert_weights": False, **methods, "finalize": lambda self: None}
    )
    for name in ("nemo_rl", "nemo_rl.utils", "nemo_rl.utils.checkpoint_engines"):
        module(name)
    module("nemo_rl.utils.checkpoint_engines.base", CheckpointEngine=engine,
           create_checkpoint_engine=create_checkpoint_engine)  # fmt: skip


def model(seed):
    random = torch.Generator().manual_seed(seed)
    return {
        "embed.weight": torch.randn(64, 48, generator=random).to(torch.bfloat16),
        "norm.weight": torch.randn(48, generator=random),
        "count": torch.tensor(seed),
        "none": torch.zeros(0, 4),
    }


def adapters(seed):
    random = torch.Generator().manual_seed(seed)
    return {"lora_a": torch.randn(4, 48, generator=random), "lora_b": torch.zeros(64, 4)}


def step(named):
    """A step of an optimizer, and a bit pattern that a comparison of numbers would not see."""
    named["embed.weight"][3:5] += 0.25
    named["norm.weight"][7] = -0.0
    named["count"] += 1


def gathered(named):
    """Tensors as a framework gives them: made one after the other, and gone with the next one."""
    for name, tensor in named.items():
        shown = tensor.clone()
        yield name, shown
        shown.fill_(7)


def bits(named):
    return {name: (tensor.dtype, tensor.shape, bytes(tensor.reshape(-1).view(torch.uint8).numpy()))
            for name, tensor in named.items()}  # fmt: skip


@unittest.skipUnless(support.FABRIC, "this build knows no libfabric")
class Exchange:
    """What both engines are to do. `steps(versions)` gives what two rollouts got in each step."""

    ends = ()

    def setUp(self):
        self.site = SITE.format(port=support.free_port())
        self.addCleanup(lambda: [end.close() for end in reversed(self.ends)])

    async def exchange(self, senders, receivers, named, **step):
        got = asyncio.gather(*(self.receive(receiver, **step) for receiver in receivers))
        await asyncio.sleep(0)
        for sender in senders:
            await sender.send_weights(gathered(named), **step)
        return await got

    def check(self, got, named):
        for one in got:
            self.assertEqual(bits(one), bits(named))


@unittest.skipUnless(support.FABRIC, "this build knows no libfabric")
class Verl(Exchange, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not importlib.util.find_spec("verl"):
            stand_in_for_verl()
        cls.base = importlib.import_module("verl.checkpoint_engine")
        importlib.import_module("weft_fabric.adapters.verl")

    def new(self, **options):
        end = self.base.CheckpointEngineRegistry.new("weft", bucket_size=1 << 20, site=self.site, **options)
        self.assertIsInstance(end, self.base.CheckpointEngine)
        self.ends = (*self.ends, end)
        return end

    @staticmethod
    async def receive(end, global_steps):
        return {name: tensor.clone() async for name, tensor in end.receive_weights(global_steps=global_steps)}

    def update_weights(self, actor, rollout, named, global_steps):
        """What verl's manager does with its workers in each step."""
        ends = [*actor, *rollout]
        told = type(actor[0]).build_topology(len(actor), len(rollout), [end.prepare() for end in ends])
        for group, kwargs in zip((actor, rollout), told):
            for place, end in enumerate(group):
                self.assertTrue(all(len(values) == len(group) for values in kwargs.values()))
                end.init_process_group(**{key: values[place] for key, values in kwargs.items()})
        got = asyncio.run(self.exchange(actor, rollout, named, global_steps=global_steps))
        for end in ends:
            end.finalize()
        return got

    def test_every_rollout_gets_every_bit_in_each_step(self):
        actor = [self.new(is_master=True), self.new(is_master=False)]
        rollout = [self.new(), self.new()]
        named = model(1)
        for global_steps in (0, 1, None, 1, 9):  # verl may give none, and the same one again
            self.check(self.update_weights(actor, rollout, named, global_steps), named)
            step(named)
        late = [self.new()]  # replicas are added while it runs
        self.check(self.update_weights(actor, rollout[:1] + late, named, 10), named)

    def test_the_page(self):
        """The keys of docs/ADAPTERS.md choose this engine, and its site admits the rollouts."""
        page = PAGE.read_text()
        keys = dict(re.findall(r"rollout\.checkpoint_engine\.([a-z_.]+)=(\S+)", page))
        self.assertEqual(keys["custom_backend_module"], "weft_fabric.adapters.verl")
        importlib.import_module(keys["custom_backend_module"])
        (path,) = (value for key, value in keys.items() if key == f"engine_kwargs.{keys['backend']}.site")
        self.assertTrue(path.endswith(".ini"))
        (text,) = re.findall(r"^```ini\n(.*?)^```", page, re.M | re.S)
        end = self.base.CheckpointEngineRegistry.new(keys["backend"], bucket_size=1, site=text)
        self.ends = (*self.ends, end)
        self.assertEqual(weft.Site(text).get("peer.provider", "rollout-3-a1b2c3d4"), "stream")

    def test_figures_tell_that_only_changes_were_sent(self):
        master = self.new(is_master=True)
        named = model(1)
        self.assertEqual(asyncio.run(master.send_weights(gathered(named), 1)), {})
        named["norm.weight"][3] += 1
        master.init_process_group(rank=0, turn=master.prepare())
        figures = asyncio.run(master.send_weights(gathered(named), 2))
        self.assertEqual(figures["weft/changed"], 1)
        self.assertLess(figures["weft/bytes"], figures["weft/dense_bytes"] // 10)

    def test_tensors_of_another_shape_are_refused_by_name(self):
        master = self.new(is_master=True)
        named = model(1)
        asyncio.run(master.send_weights(gathered(named), 1))
        other, cast = dict(named), dict(named)
        other["norm.weight"] = torch.zeros(47)
        cast["norm.weight"] = named["norm.weight"].half()
        for wrong, name, why in (
            (other, "norm.weight", r"was torch.float32 of \(48,\), and is torch.float32 of \(47,\)"),
            (cast, "norm.weight", "is torch.float16"),
        ):
            master.init_process_group(rank=0, turn=master.prepare())
            with self.assertRaisesRegex(weft.TensorError, why) as caught:
                asyncio.run(master.send_weights(gathered(wrong), None))
            self.assertEqual(caught.exception.tensor, name)
        rollout = self.new()
        self.check(self.update_weights([master], [rollout], named, 20), named)

    def test_a_base_once_and_then_adapters_alone(self):
        """Rollouts hand on what was sent, and each of these sets of tensors changes by itself."""
        actor, rollout = [self.new(is_master=True)], [self.new(), self.new()]
        base, lora = model(1), adapters(2)
        self.check(self.update_weights(actor, rollout, base, 1), base)
        for global_steps in (2, 3, 4):
            self.check(self.update_weights(actor, rollout, lora, global_steps), lora)
            lora["lora_a"][0] += 1
        late = [self.new()]  # its engine lacks the base
        got = self.update_weights(actor, rollout + late, lora, 5)
        self.check(got[:2], lora)
        self.check(got[2:], {**base, **lora})
        step(base)
        self.check(self.update_weights(actor, rollout + late, base, 6), base)
        self.check(self.update_weights(actor, rollout + late, {**lora, **base}, 7), {**lora, **base})
        (held,) = {end._receiver._rollout.held.root for end in rollout + late}
        self.assertEqual(held, actor[0]._sender._trainer.held.root)
        self.assertEqual(rollout[0]._receiver._rollout.stats().snapshot_bytes, 0)  # it joined anew with what it had

    def test_a_rollout_that_passed_over_a_version_gets_all(self):
        actor, rollout = [self.new(is_master=True)], [self.new(), self.new()]
        base, lora = model(1), adapters(2)
        self.check(self.update_weights(actor, rollout, {**base, **lora}, 1), {**base, **lora})
        step(base)
        self.check(self.update_weights(actor, rollout[:1], base, 2), base)
        lora["lora_a"][0] += 1
        got = self.update_weights(actor, rollout, lora, 3)
        self.check(got[:1], lora)
        self.check(got[1:], {**base, **lora})

    def test_a_send_that_failed_half_way_counts_with_the_next_one(self):
        actor, rollout = [self.new(is_master=True)], [self.new()]
        base, lora = model(1), adapters(2)
        self.check(self.update_weights(actor, rollout, base, 1), base)

        def half():
            yield from lora.items()
            yield "norm.weight", torch.zeros(3)  # another shape than before

        actor[0].init_process_group(rank=0, turn=actor[0].prepare())
        with self.assertRaises(weft.TensorError):
            asyncio.run(actor[0].send_weights(half(), 2))
        step(base)
        self.check(self.update_weights(actor, rollout, base, 3), {**lora, **base})

    def test_the_same_bits_again_and_again_are_warned_of_once(self):
        master, named = self.new(is_master=True), model(1)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for number in range(7):
                master.init_process_group(rank=0, turn=master.prepare())
                asyncio.run(master.send_weights(gathered(named), number))
        (one,) = [str(warning.message) for warning in said if "versions in a row" in str(warning.message)]
        self.assertIn("3 versions in a row changed nothing, up to 3: the framework gives the bits", one)

    def test_a_trainer_that_is_away_is_an_error_and_no_hang(self):
        rollout = self.new(timeout=0.5)
        with self.assertRaises((weft.PeerError, weft.TimeoutExpired)):
            asyncio.run(self.receive(rollout, 1))

    def test_a_version_that_does_not_come_is_an_error_and_no_hang(self):
        master, rollout = self.new(is_master=True), self.new()
        named = model(1)
        self.check(self.update_weights([master], [rollout], named, 1), named)
        with mock.patch.object(rollout, "_timeout", 0.5):
            with self.assertRaisesRegex(weft.TimeoutExpired, "version 2 did not come in 0.5 s"):
                asyncio.run(self.receive(rollout, 2))

    def test_a_trainer_that_comes_again_at_an_older_step_counts(self):
        master, rollout = self.new(is_master=True), [self.new()]
        named = model(1)
        self.check(self.update_weights([master], rollout, named, 8), named)
        master.close()
        named = model(2)  # an older checkpoint
        self.check(self.update_weights([self.new(is_master=True)], rollout, named, 5), named)


@unittest.skipUnless(support.FABRIC, "this build knows no libfabric")
class NemoRl(Exchange, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not importlib.util.find_spec("nemo_rl"):
            stand_in_for_nemo_rl()
        cls.base = importlib.import_module("nemo_rl.utils.checkpoint_engines.base")

    def new(self, **options):
        end = self.base.create_checkpoint_engine(
            "weft_fabric.adapters.nemo_rl:WeftCheckpointEngine",
            bucket_size_bytes=BUCKET,
            engine_kwargs={"site": self.site, "release_after_refit": False, **options},
        )
        self.assertIsInstance(end, self.base.CheckpointEngine)
        self.ends = (*self.ends, end)
        return end

    async def receive(self, end):
        got = {}
        async for batch in end.receive_weight_batches():
            self.assertTrue(
                len(batch) == 1 or sum(tensor.numel() * tensor.element_size() for _, tensor in batch) <= BUCKET
            )
            got.update((name, tensor.clone()) for name, tensor in batch)
        return got

    def connect(self, policy, rollout):
        sizes = {"train_world_size": len(policy), "rollout_world_size": len(rollout)}
        metadata = [{**end.prepare(), "rank": rank} for group in (policy, rollout) for rank, end in enumerate(group)]
        for rank, end in enumerate(policy):
            end.init_policy_process_group(worker_rank=rank, metadata=metadata, **sizes)
        for rank, end in enumerate(rollout):
            end.init_rollout_process_group(rollout_rank=rank, metadata=metadata, **sizes)

    def test_every_rollout_gets_every_bit_in_each_refit(self):
        policy, rollout = [self.new(), self.new()], [self.new(), self.new()]
        named = model(1)
        for connected in (True, False, False, True, False):  # once for many refits, or anew
            if connected:
                self.connect(policy, rollout)
            self.check(asyncio.run(self.exchange(policy, rollout, named)), named)
            step(named)
        for end in (*policy, *rollout):
            end.finalize()

    def test_a_base_once_and_then_adapters_alone(self):
        policy, rollout = [self.new()], [self.new()]
        self.connect(policy, rollout)
        base, lora = model(1), adapters(2)
        self.check(asyncio.run(self.exchange(policy, rollout, base)), base)

        def failing():
            yield from list(gathered(lora))[:1]
            raise RuntimeError("a collective failed")

        with self.assertRaisesRegex(RuntimeError, "a collective failed"):
            asyncio.run(policy[0].send_weights(failing()))
        rollout[0]._next()  # its refit failed, too
        for _ in range(3):
            self.check(asyncio.run(self.exchange(policy, rollout, lora)), lora)
            lora["lora_b"][1] -= 1

    def test_the_page(self):
        """The names of docs/ADAPTERS.md make this engine."""
        names = re.findall(r'"(weft_fabric\.adapters\.nemo_rl:\w+)"', PAGE.read_text())
        self.assertEqual(len(names), 2)
        for name in names:
            end = self.base.create_checkpoint_engine(name, bucket_size_bytes=1, engine_kwargs={"site": self.site})
            self.ends = (*self.ends, end)

    def test_a_refit_that_failed_is_not_taken_for_the_next_one(self):
        """Both ends count on, so a rollout never takes the version before for the one to come."""
        policy, rollout = [self.new()], [self.new()]
        self.connect(policy, rollout)
        named = model(1)
        self.check(asyncio.run(self.exchange(policy, rollout, named)), named)

        def failing():
            yield from list(gathered(named))[:1]
            raise RuntimeError("a collective failed")

        with self.assertRaisesRegex(RuntimeError, "a collective failed"):
            asyncio.run(policy[0].send_weights(failing()))
        with mock.patch.object(rollout[0], "_timeout", 0.5), self.assertRaises(weft.TimeoutExpired):
            asyncio.run(self.receive(rollout[0]))
        step(named)
        self.check(asyncio.run(self.exchange(policy, rollout, named)), named)


if __name__ == "__main__":
    support.main()
