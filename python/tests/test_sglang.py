"""SGLang's loader brings versions in place, and tells its errors; in SGLang's own classes where it is installed.

Else in stand-ins of what the adapter uses of SGLang 0.5.23 (PyPI), under sglang/srt/:

    model_executor/model_runner_components/weight_updater.py, line 343: WeightUpdater.update_weights_from_tensor
    managers/scheduler_components/weight_updater.py, lines 232, 309 and 323: the session around it
    plugins/hook_registry.py, line 84: HookRegistry.register; line 376: hooks of type AROUND
    distributed/parallel_state.py, line 2228: get_tp_group
"""

import contextlib
import enum
import importlib
import importlib.util
import re
import sys
import tempfile
import time
import types
import unittest
from pathlib import Path
from unittest import mock

import support

try:
    import torch
except ImportError:
    support.skip("torch is missing (tools/run-tests installs it)")

import weft_fabric as weft  # noqa: E402

UPDATER = "sglang.srt.model_executor.model_runner_components.weight_updater"
SITE = """
[trainer]
listen = 127.0.0.1:0
[session]
connect_deadline = 60s
close_deadline = 2s
[peers]
provider = loop
heartbeat = 60s
[peer.a]
"""
WIDTH, HEADS, KV, INNER = 16, 8, 4, 24  # rows of hidden, q, k and v, gate and up


def module(name, **members):
    made = types.ModuleType(name)
    made.__path__ = []
    vars(made).update(members)
    sys.modules[name] = made


def stand_in():
    class HookType(enum.Enum):
        AROUND = "around"

    class HookRegistry:
        hooks = {}

        @classmethod
        def register(cls, target, hook, hook_type):
            cls.hooks[target] = hook

        @classmethod
        def apply_hooks(cls):
            for target, hook in cls.hooks.items():
                owner, name = getattr(sys.modules[UPDATER], target.split(".")[-2]), target.split(".")[-1]
                original = getattr(owner, name)
                setattr(owner, name, lambda *args, **kwargs: hook(original, *args, **kwargs))
            cls.hooks = {}

    class WeightUpdater:
        def __init__(self, **fields):
            vars(self).update(fields)

        def update_weights_from_tensor(self, named_tensors, load_format=None):
            if load_format not in self.custom_weight_loaders:
                raise NotImplementedError(f"Unknown load_format={load_format}")
            name, member = load_format.rsplit(".", 1)
            getattr(importlib.import_module(name), member)(self.get_model(), named_tensors)
            return True, "Success"

    parts = UPDATER.split(".")
    for depth in range(1, len(parts)):
        module(".".join(parts[:depth]))
    module("sglang.srt.distributed", get_tp_group=None)
    module("sglang.srt.plugins")
    module("sglang.srt.plugins.hook_registry", HookRegistry=HookRegistry, HookType=HookType)
    module(UPDATER, WeightUpdater=WeightUpdater, get_parallel=None, get_model=None)


class UnquantizedLinearMethod:
    pass


class Fp8LinearMethod:
    pass


class Model(torch.nn.Module):
    """Fused as SGLang's models are: checkpoint tensors are parts of a runtime tensor."""

    FUSED = {"q_proj": ("qkv_proj", 0), "k_proj": ("qkv_proj", HEADS), "v_proj": ("qkv_proj", HEADS + KV),
             "gate_proj": ("gate_up_proj", 0), "up_proj": ("gate_up_proj", INNER)}  # fmt: skip

    def __init__(self):
        super().__init__()
        for name, rows in (("qkv_proj", HEADS + 2 * KV), ("gate_up_proj", 2 * INNER), ("o_proj", WIDTH)):
            linear = torch.nn.Linear(WIDTH, rows, bias=False, dtype=torch.bfloat16)
            linear.quant_method = UnquantizedLinearMethod()
            self.add_module(name, linear.requires_grad_(False))

    def load_weights(self, weights):
        parameters = dict(self.named_parameters())
        for name, tensor in weights:
            layer = name.split(".")[0]
            fused, row = self.FUSED.get(layer, (layer, 0))
            parameters[f"{fused}.weight"].data.narrow(0, row, tensor.shape[0]).copy_(tensor)


def checkpoint(seed):
    random = torch.Generator().manual_seed(seed)
    rows = {"q_proj": HEADS, "k_proj": KV, "v_proj": KV, "gate_proj": INNER, "up_proj": INNER, "o_proj": WIDTH}
    return {f"{name}.weight": torch.randn(count, WIDTH, generator=random).to(torch.bfloat16)
            for name, count in rows.items()}  # fmt: skip


def dense(named):
    """Bits of a model that was loaded whole."""
    model = Model()
    model.load_weights(named.items())
    return bits(model)


def bits(model):
    return {name: bytes(p.data.view(torch.uint8).numpy()) for name, p in model.named_parameters()}


class Engine:
    """What sglang.Engine does with an update, in one process: the session, and the updater of each model."""

    def __init__(self, models, updater):
        self.open = False
        self.flushed = 0
        self.updaters = [
            updater(tp_rank=0, device="cpu", gpu_id=0, model_config=None, get_model=lambda model=model: model,
                    custom_weight_loaders=["weft_fabric.adapters.sglang.load"], update_model_fields=None,
                    recapture_cuda_graph=None, get_model_runner=None) for model in models
        ]  # fmt: skip

    def begin_weight_update(self):
        if self.open:
            return False, "a weight-update session is already open"
        self.open = True
        return True, "Success"

    def end_weight_update(self):
        self.open = False
        return True, "Success"

    def update_weights_from_tensor(self, named_tensors, load_format=None, flush_cache=True):
        assert self.open
        for updater in self.updaters:
            success, message = updater.update_weights_from_tensor(named_tensors=named_tensors, load_format=load_format)
            if not success:
                return success, message
        self.flushed += flush_cache
        return success, message


@unittest.skipUnless(support.FABRIC, "this build knows no libfabric")
class Loader(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not importlib.util.find_spec("sglang"):
            stand_in()
        from weft_fabric.adapters import sglang

        cls.weft = sglang
        cls.updater = importlib.import_module(UPDATER)
        sglang.register()
        importlib.import_module("sglang.srt.plugins.hook_registry").HookRegistry.apply_hooks()

    def setUp(self):
        one = types.SimpleNamespace(rank_in_group=0, world_size=1, cpu_group=None, tp_rank=0, weight_cache_mode="off")
        patches = [mock.patch("sglang.srt.distributed.get_tp_group", lambda: one)]
        patches += [mock.patch.object(self.updater, name, lambda: one) for name in ("get_parallel", "get_model")]
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        for patch in patches:
            stack.enter_context(patch)
        self.named, self.model = checkpoint(1), Model()
        self.trainer = stack.enter_context(weft.Trainer(SITE, self.named, log=support.quiet))
        self.overrides = {"trainer.listen": self.trainer.stats().listen}
        self.weft._process = None

    def engine(self, *others):
        return Engine([self.model, *others], self.updater.WeightUpdater)

    def follow(self, engine, **options):
        follower = self.weft.follow(engine, SITE, "a", overrides=self.overrides, empty=True, **options)
        self.addCleanup(follower.close)
        return follower

    def step(self, version):
        self.named["k_proj.weight"][1, 2:4] += 0.5
        self.named["o_proj.weight"][version] *= -1
        return self.trainer.publish(version)

    def test_each_version_is_what_a_dense_load_makes(self):
        places = [p.data_ptr() for p in self.model.parameters()]
        engine = self.engine()
        follower = self.follow(engine)
        for version in range(5):
            if version:
                self.step(version)
            said = follower.update(version)
            self.assertIn(str(version), said)
            self.assertEqual(said, follower.version)
            self.assertEqual(bits(self.model), dense(self.named))
        self.assertEqual([p.data_ptr() for p in self.model.parameters()], places)
        self.assertEqual(engine.flushed, 5)
        self.assertFalse(engine.open)

    def test_the_newest_version_comes_without_a_number(self):
        follower = self.follow(self.engine())
        follower.update()
        for version in (1, 2, 3):
            self.step(version)
        end = time.monotonic() + support.BOUND
        while bits(self.model) != dense(self.named) and time.monotonic() < end:
            follower.update()  # the newest one that the rollout knows of
        self.assertEqual(bits(self.model), dense(self.named))
        self.assertIn(":3:", follower.version)

    def test_a_version_that_is_not_there_leaves_the_weights_and_the_engine(self):
        engine = self.engine()
        follower = self.follow(engine)
        follower.update(0)
        before = bits(self.model)
        with self.assertRaisesRegex(weft.TimeoutExpired, "version 9 did not come in 0.5 s: .*process 0: "):
            follower.update(9, timeout=0.5)
        with self.assertRaisesRegex(weft.CallError, "commit: "):
            follower._send("commit", True, version=9, timeout=0.2)
        self.assertEqual(bits(self.model), before)
        self.assertFalse(engine.open)
        self.step(1)
        follower.update(1)
        self.assertEqual(bits(self.model), dense(self.named))

    def test_the_page(self):
        """The program of docs/ADAPTERS.md, with this engine in place of sglang.Engine."""
        page = (support.ROOT / "docs" / "ADAPTERS.md").read_text()
        (program,) = re.findall(r"^```python\n(# sglang_rollout.py.*?)^```", page, re.M | re.S)
        self.model.load_weights(self.named.items())
        engine, said = self.engine(), []

        def generate(prompt, sampling):
            said.append((prompt, bits(self.model) == dense(self.named)))
            if len(said) < 3:
                self.step(1 + len(said))

        engine.generate = generate
        made = types.SimpleNamespace(Engine=lambda model_path, custom_weight_loader: engine)
        self.step(1)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "site.ini"
            path.write_text(SITE.replace("127.0.0.1:0", self.overrides["trainer.listen"]))
            with (
                mock.patch.dict(sys.modules, {"sglang": made}),
                mock.patch.object(sys, "argv", ["", str(path), "model"]),
            ):
                exec(compile(program, "sglang_rollout.py", "exec"), {})
        self.assertEqual(said, [("one two", True)] * 3)

    def test_weights_that_moved_are_bound_where_they_are(self):
        follower = self.follow(self.engine())
        follower.update(0)
        for parameter in self.model.parameters():
            parameter.data = parameter.data.clone()
        self.step(1)
        follower.update(1)
        self.assertEqual(bits(self.model), dense(self.named))

    def test_what_is_not_taken_is_refused_by_name(self):
        self.model.o_proj.quant_method = Fp8LinearMethod()
        with self.assertRaisesRegex(weft.CallError, "layer o_proj has its weights by Fp8LinearMethod"):
            self.follow(self.engine())
        self.model.o_proj.quant_method = UnquantizedLinearMethod()
        self.model.o_proj.use_intel_amx_backend = True
        with self.assertRaisesRegex(weft.CallError, "layer o_proj has its weights packed for AMX"):
            self.follow(self.engine())
        self.model.o_proj.use_intel_amx_backend = False
        with self.assertRaisesRegex(weft.CallError, "weft takes no draft models"):
            self.follow(self.engine(Model()))

    def test_calls_that_are_none_of_its_own(self):
        engine = self.engine()
        engine.begin_weight_update()
        for wrong in ([], [("weight", torch.zeros(3))]):
            success, text = engine.update_weights_from_tensor(wrong, load_format=self.weft.LOADER)
            self.assertFalse(success)
            self.assertIn("takes one tensor named weft", text)
        said = engine.update_weights_from_tensor(self.weft.message("commit", version=1), load_format=self.weft.LOADER)
        self.assertEqual(said[0], False)
        self.assertIn("the engine has not joined", said[1])
        with self.assertRaises(NotImplementedError):  # SGLang's own errors stay what they are
            engine.update_weights_from_tensor([], load_format="other")

    def test_without_the_plug_in_it_says_so(self):
        with mock.patch.object(self.weft, "_registered", False):
            with self.assertRaisesRegex(weft.CallError, "name it in SGLANG_PLUGINS"):
                self.weft.load(self.model, self.weft.message("open"))


if __name__ == "__main__":
    support.main()
