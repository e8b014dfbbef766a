"""What weft adds to SGLang's processes, over a model and a scheduler made up here. SGLang's own small parts are taken
where it is installed, else stand-ins of what weft uses of SGLang 0.5.23 (PyPI), under sglang/srt/:

    managers/scheduler_components/weight_updater.py, line 232: SchedulerWeightUpdaterManager.update_weights_from_tensor
    managers/tokenizer_control_mixin.py, line 563: TokenizerControlMixin.update_weights_from_tensor
    managers/communicator.py, line 13: FanOutCommunicator
    managers/io_struct.py, line 2050: UpdateWeightsFromTensorReqOutput
    model_loader/utils.py: set_default_torch_dtype; model_loader/loader.py, line 315: post_load_weights
    plugins/hook_registry.py, line 84: HookRegistry.register; line 376: hooks of type AROUND
    distributed/parallel_state.py, line 2228: get_tp_group; utils/common.py, line 3060: MultiprocessingSerializer
"""

import asyncio
import base64
import contextlib
import enum
import http.server
import importlib
import importlib.util
import json
import pickle
import pkgutil
import re
import sys
import tempfile
import threading
import time
import types
import unittest
import urllib.error
from pathlib import Path
from unittest import mock

import support

try:
    import torch
except ImportError:
    support.skip("torch is missing (tools/run-tests installs it)")

import weft_fabric as weft  # noqa: E402
import weft_fabric.sglang  # noqa: E402
from weft_fabric.sglang import _framework, _process  # noqa: E402

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
UPDATER = "sglang.srt.model_executor.model_runner_components.weight_updater"
WIDTH, HEADS, KV, INNER = 16, 8, 4, 24  # rows of hidden, q, k and v, gate and up
EXPERTS, NOPE, VALUE = 4, 3, 2  # experts; rows that a head of MLA has in w_kc and w_vc
FLOAT = {"dtype": torch.bfloat16}


def module(name, **members):
    made = types.ModuleType(name)
    made.__path__ = []
    vars(made).update(members)
    sys.modules[name] = made


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    yield
    torch.set_default_dtype(before)


class Registry:
    hooks = {}

    @classmethod
    def register(cls, target, hook, hook_type):
        cls.hooks[target] = hook


class Serializer:
    serialize, deserialize = staticmethod(pickle.dumps), staticmethod(pickle.loads)


class FanOutCommunicator:
    merge_results = staticmethod(lambda results: (results[0].success, results[0].message))


def stand_in():
    module("sglang")
    for name in ("", ".plugins", ".managers", ".model_loader", ".model_executor"):
        module(f"sglang.srt{name}")
    module("sglang.srt.distributed", get_tp_group=None)
    module("sglang.srt.runtime_context", get_model=None, get_exec=None)
    module("sglang.srt.utils", MultiprocessingSerializer=Serializer)
    module("sglang.srt.model_loader.utils", set_default_torch_dtype=default_dtype)
    module("sglang.srt.model_executor.model_runner_components")
    module(UPDATER, _unsupported_derived_weight_cache_error=lambda model: None)
    module("sglang.srt.managers.communicator", FanOutCommunicator=FanOutCommunicator)
    module("sglang.srt.managers.io_struct", UpdateWeightsFromTensorReqOutput=types.SimpleNamespace)
    around = enum.Enum("HookType", {"AROUND": "around"})
    module("sglang.srt.plugins.hook_registry", HookRegistry=Registry, HookType=around)


class UnquantizedLinearMethod:
    def process_weights_after_loading(self, layer):
        pass


class HiddenMethod:
    def process_weights_after_loading(self, layer):
        layer.kernel = threading.Lock()  # an object that nobody can look into


class UnquantizedFusedMoEMethod:
    """Has gate and up in turns, as SGLang has them for one of its kernels."""

    w13_swiglu_interleaved = True

    def process_weights_after_loading(self, layer):
        turns = torch.arange(2 * INNER).view(2, INNER).t().reshape(-1)
        layer.w13_weight.data.copy_(layer.w13_weight.data[:, turns].clone())


def parameter(tensor):
    return torch.nn.Parameter(tensor, requires_grad=False)


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kv_b_proj = linear(HEADS * (NOPE + VALUE))
        self.w_kc = self.w_vc = None


def linear(rows):
    made = torch.nn.Linear(WIDTH, rows, bias=False, **FLOAT).requires_grad_(False)
    made.quant_method = UnquantizedLinearMethod()
    return made


class Model(torch.nn.Module):
    """Fused as SGLang's models are: checkpoint tensors are parts of a runtime tensor. Attention has copies of its own
    of one, as DeepSeek's has."""

    FUSED = {"q_proj": ("qkv_proj", 0), "k_proj": ("qkv_proj", HEADS), "v_proj": ("qkv_proj", HEADS + KV),
             "gate_proj": ("gate_up_proj", 0), "up_proj": ("gate_up_proj", INNER)}  # fmt: skip

    def __init__(self):
        super().__init__()
        for name, rows in (("qkv_proj", HEADS + 2 * KV), ("gate_up_proj", 2 * INNER), ("o_proj", WIDTH)):
            self.add_module(name, linear(rows))
        self.experts = torch.nn.Module()
        self.experts.quant_method = UnquantizedFusedMoEMethod()
        self.experts.w13_weight = parameter(torch.zeros(EXPERTS, 2 * INNER, WIDTH, **FLOAT))
        self.layers = torch.nn.ModuleList([Attention(), Attention()])

    def load_weights(self, weights):
        parameters, names = dict(self.named_parameters()), []
        for name, tensor in weights:
            layer, names = name.rpartition(".")[0], [*names, name]
            if layer.startswith("experts."):
                _, expert, half = layer.split(".")
                parameters["experts.w13_weight"].data[int(expert)].narrow(0, int(half) * INNER, INNER).copy_(tensor)
                continue
            fused, row = self.FUSED.get(layer, (layer, 0))
            parameters[f"{fused}.weight"].data.narrow(0, row, tensor.shape[0]).copy_(tensor)
        self.post_load_weights(weight_names=names)

    def post_load_weights(self, weight_names=None):
        for number in {int(name.split(".")[1]) for name in weight_names if "kv_b_proj" in name}:
            layer = self.layers[number]
            rows = layer.kv_b_proj.weight.unflatten(0, (-1, NOPE + VALUE)).split([NOPE, VALUE], dim=1)
            for name, tensor in zip(("w_kc", "w_vc"), rows):
                tensor = tensor.transpose(1, 2).contiguous()
                if getattr(layer, name) is None:
                    setattr(layer, name, tensor)
                else:
                    getattr(layer, name).copy_(tensor)


def loaded(model, named):
    """As SGLang loads a model."""
    model.load_weights(named.items())
    for layer in model.modules():
        if hasattr(layer, "quant_method"):
            layer.quant_method.process_weights_after_loading(layer)
    return model


def checkpoint(seed):
    random = torch.Generator().manual_seed(seed)
    rows = {"q_proj": HEADS, "k_proj": KV, "v_proj": KV, "gate_proj": INNER, "up_proj": INNER, "o_proj": WIDTH}
    rows.update({f"experts.{expert}.{half}": INNER for expert in range(EXPERTS) for half in (0, 1)})
    rows.update({f"layers.{number}.kv_b_proj": HEADS * (NOPE + VALUE) for number in (0, 1)})
    return {f"{name}.weight": torch.randn(count, WIDTH, generator=random).to(torch.bfloat16)
            for name, count in rows.items()}  # fmt: skip


def dense(named):
    """Bits of a model that was loaded whole."""
    return bits(loaded(Model(), named))


def tensors(model):
    yield from model.named_parameters()
    for number, layer in enumerate(model.layers):
        yield from ((f"{number}.{name}", getattr(layer, name)) for name in ("w_kc", "w_vc"))


def bits(model):
    return {name: bytes(p.detach().contiguous().view(torch.uint8).numpy()) for name, p in tensors(model)}


class Manager:
    """The scheduler's part of an update: SchedulerWeightUpdaterManager, without its models."""

    def __init__(self):
        self._session, self.offload_tags, self.flushed, self.runs = None, set(), 0, False
        self.memory_saver_adapter = types.SimpleNamespace(enabled=False)

    def record_weight_version_after_update(self, version):
        self.version = version

    def flush_cache_after_weight_update(self, request, success, said):
        self.flushed += request.flush_cache
        return (False, "requests run: not flushed") if request.flush_cache and self.runs else (success, said)


class Engine:
    """What sglang.Engine does as it loads a model and as it is asked for an update, in one process."""

    is_draft_worker = False

    def __init__(self, model, named, **args):
        self.manager = Manager()
        self.model_config, self.load_config = types.SimpleNamespace(**FLOAT), types.SimpleNamespace(load_format="auto")
        self.server_args = types.SimpleNamespace(**args)
        self.loader = types.SimpleNamespace(_get_all_weights=lambda config, model: named.items())
        before = {name: tensor.clone() for name, tensor in named.items()}
        self.model = _framework.remember(lambda: model)
        _process.learn(lambda runner: loaded(runner.model, before), self)

    def update_weights_from_tensor(self, named_tensors, load_format=None, flush_cache=True):
        from sglang.srt.utils import MultiprocessingSerializer

        payload = [MultiprocessingSerializer.serialize(named_tensors)]
        request = types.SimpleNamespace(serialized_named_tensors=payload, load_format=load_format)
        request.flush_cache, request.weight_version = flush_cache, None
        done = _process.answer(self.own, self.manager, request)
        return done.success, done.message

    def own(self, manager, request):
        raise NotImplementedError(f"Unknown load_format={request.load_format}")

    def release(self, discard, tags=None):
        manager = self.manager

        def own(manager, request):
            manager.offload_tags |= set(request.tags or ["weights", "kv_cache"])
            for _, tensor in tensors(self.model) if discard else ():
                tensor.data.fill_(0)

        manager.memory_saver_adapter.enabled = discard
        features = types.SimpleNamespace(features=types.SimpleNamespace(enable_weights_cpu_backup=False))
        with mock.patch("sglang.srt.runtime_context.get_exec", lambda: features):
            _process.let_go(own, manager, types.SimpleNamespace(tags=tags))


@unittest.skipUnless(support.FABRIC, "this build knows no libfabric")
class Processes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not importlib.util.find_spec("sglang"):
            stand_in()

    def setUp(self):
        group = types.SimpleNamespace(rank_in_group=0, world_size=1, cpu_group=None)
        refused = f"{UPDATER}._unsupported_derived_weight_cache_error"
        chosen = types.SimpleNamespace(custom_weight_loader=[weft.sglang.LOADER])
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.enter_context(mock.patch("sglang.srt.distributed.get_tp_group", lambda: group))
        stack.enter_context(mock.patch("sglang.srt.runtime_context.get_model", lambda: chosen))
        stack.enter_context(mock.patch.object(_process, "_process", None))
        stack.enter_context(mock.patch.object(_framework, "KNOWN", {"Model.post_load_weights"}))
        self.refused = stack.enter_context(mock.patch(refused, return_value=None))
        self.named, self.model = checkpoint(1), Model()
        self.trainer = stack.enter_context(weft.Trainer(SITE, self.named, log=support.quiet))
        self.overrides = {"trainer.listen": self.trainer.stats().listen}

    def engine(self, **args):
        return Engine(self.model, self.named, **args)

    def follow(self, engine, **options):
        follower = weft.sglang.follow(engine, SITE, "a", overrides=self.overrides, **options)
        self.addCleanup(lambda: _process._process and _process._process.core.close())
        return follower

    def step(self, version):
        self.named["k_proj.weight"][1, 2:4] += 0.5
        self.named["experts.1.1.weight"][version] += 0.5
        self.named["layers.1.kv_b_proj.weight"][version] *= -1
        self.named["o_proj.weight"][version] *= -1
        return self.trainer.publish(version)

    def test_each_version_is_what_a_dense_load_makes(self):
        engine = self.engine()
        places = [p.data_ptr() for _, p in tensors(self.model)]
        follower = self.follow(engine)
        for version in range(5):
            if version:
                self.step(version)
            said = follower.update(version)
            self.assertIn(str(version), said)
            self.assertEqual(said, follower.version)
            self.assertEqual(bits(self.model), dense(self.named))
        self.assertEqual([p.data_ptr() for _, p in tensors(self.model)], places)
        self.assertEqual(engine.manager.flushed, 5)

    def test_a_model_of_made_up_weights_joins_by_a_snapshot(self):
        engine = Engine(self.model, checkpoint(2))
        follower = self.follow(engine, empty=True)
        follower.update(0)
        self.assertEqual(bits(self.model), dense(self.named))

    def test_an_engine_that_holds_other_bits_than_it_was_loaded_with(self):
        engine = self.engine()
        self.model.layers[1].w_kc[0, 0, 0] += 1
        with self.assertRaisesRegex(weft.CallError, "w_kc': the engine has other bits than its own code"):
            self.follow(engine)

    def test_loaders_of_weft_stay_in_its_thread(self):
        said = [_framework.is_async(lambda weight: True, None)]
        with _framework._as_at_load(self.model, torch.bfloat16):
            said.append(_framework.is_async(lambda weight: True, None))
        self.assertEqual([*said, _framework.is_async(lambda weight: True, None)], [True, False, True])
        self.assertNotIn("post_load_weights", vars(self.model))

    def test_copies_that_nobody_can_make_for_one_layer(self):
        def for_all(model, weight_names=None):
            Model.post_load_weights(model, ["layers.0.kv_b_proj", "layers.1.kv_b_proj"])

        for_all.__qualname__ = "Model.post_load_weights"
        self.model.__class__ = type("Model", (Model,), {"post_load_weights": for_all})
        engine = self.engine()
        before = bits(self.model)
        with self.assertRaisesRegex(weft.CallError, "layers.0.w_kc': it was computed from weights at load"):
            self.follow(engine)
        self.assertEqual(bits(self.model), before)

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
        follower = self.follow(self.engine())
        follower.update(0)
        before = bits(self.model)
        with self.assertRaisesRegex(weft.TimeoutExpired, "version 9 did not come in 0.5 s: .*process 0: "):
            follower.update(9, timeout=0.5)
        with self.assertRaisesRegex(weft.CallError, "commit: "):
            follower._send("commit", version=9, timeout=0.2)
        self.assertEqual(bits(self.model), before)
        self.step(1)
        follower.update(1)
        self.assertEqual(bits(self.model), dense(self.named))

    def test_a_cache_that_is_not_flushed(self):
        """The weights moved, and the follower knows that."""
        engine = self.engine()
        follower = self.follow(engine)
        follower.update(0)
        self.step(1)
        engine.manager.runs = True
        with self.assertRaisesRegex(weft.CallError, "commit: requests run: not flushed"):
            follower.update(1)
        self.assertIn(":1:", follower.version)
        self.assertEqual(bits(self.model), dense(self.named))
        engine.manager.runs = False
        self.assertEqual(follower.update(1), follower.version)

    def test_the_page(self):
        """The program of docs/ADAPTERS.md, with this engine in place of sglang.Engine."""
        page = (support.ROOT / "docs" / "ADAPTERS.md").read_text()
        (program,) = re.findall(r"^```python\n(# sglang_rollout.py.*?)^```", page, re.M | re.S)
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
            real = {name: one for name, one in sys.modules.items() if name.startswith("sglang.")}
            with (
                mock.patch.dict(sys.modules, {"sglang": made, **real}),
                mock.patch.object(sys, "argv", ["", str(path), "model"]),
            ):
                exec(compile(program, "sglang_rollout.py", "exec"), {})
        self.assertEqual(said, [("one two", True)] * 3)

    def test_weights_that_moved_are_bound_where_they_are(self):
        follower = self.follow(self.engine())
        follower.update(0)
        for tensor in self.model.parameters():
            tensor.data = tensor.data.clone()
        self.step(1)
        follower.update(1)
        self.assertEqual(bits(self.model), dense(self.named))

    def test_memory_that_is_released(self):
        engine = self.engine()
        follower = self.follow(engine)
        follower.update(0)
        for version, discard in ((1, False), (2, True)):
            engine.release(discard, ["kv_cache"])
            self.assertTrue(_process._process.core.held)
            engine.release(discard)
            self.assertEqual(_process._process.core.is_discarded, discard)
            self.step(version)
            for ask in (follower.update, lambda version: self.follow(engine)):
                with self.assertRaisesRegex(weft.CallError, "released its weights: resume_memory_occupation first"):
                    ask(version)
            if discard:
                self.assertNotEqual(bits(self.model), dense(self.named))
            engine.manager.offload_tags.clear()
            follower.update(version)
            self.assertEqual(bits(self.model), dense(self.named))

    def test_what_is_not_taken_is_refused_by_name(self):
        self.model.o_proj.quant_method = HiddenMethod()
        text = "nobody can say how: kernel, a lock, was made at load.*choose another backend.*layer o_proj"
        with self.assertRaisesRegex(weft.CallError, text):
            self.follow(self.engine())
        self.model = Model()
        del self.model.o_proj.quant_method
        self.model.o_proj.use_intel_amx_backend = True
        with self.assertRaisesRegex(weft.CallError, "its weights are packed for AMX.*layer o_proj"):
            self.follow(self.engine())
        for option, text in (("speculative_algorithm", "has a draft model"), ("pp_size", "the stages of a pipeline")):
            self.model = Model()
            with self.assertRaisesRegex(weft.CallError, f"{option} .*{text}"):
                self.follow(self.engine(**{option: 2}))
        self.model = Model()
        _process._process = None
        self.follow(self.engine(speculative_algorithm="NGRAM")).close()  # which has no draft model
        self.model, self.refused.return_value = Model(), "SGLang's own reason"
        with self.assertRaisesRegex(weft.CallError, "SGLang's own reason"):
            self.follow(self.engine(weight_cache_mode="off", offload_group_size=-1))

    def test_what_a_model_computes_in_ways_that_weft_does_not_know(self):
        """Of numbers, of tensors in a tuple, and by code that is none of SGLang's for DeepSeek."""

        def scale(model, weight_names=None):
            Model.post_load_weights(model, weight_names)
            model.o_proj.scale = 1.0 + float(model.o_proj.weight.sum())

        def pair(model, weight_names=None):
            Model.post_load_weights(model, weight_names)
            model.o_proj.pair = (model.o_proj.weight * 2, 1)

        def other(model, weight_names=None):
            Model.post_load_weights(model, weight_names)
            model.o_proj.weight.data.mul_(2)

        for act, text in (
            (scale, "scale of .* was computed as weights came"),
            (pair, "pair of .* was computed as weights came"),
            (other, "other computes from weights, in a way that weft does not know"),
        ):
            act.__qualname__ = "other" if act is other else "Model.post_load_weights"
            self.model = Model()
            self.model.__class__ = type("Model", (Model,), {"post_load_weights": act})
            engine = self.engine()
            before = bits(self.model)
            with self.subTest(text), self.assertRaisesRegex(weft.CallError, text):
                self.follow(engine)
            self.assertEqual(bits(self.model), before)

    def test_the_version_that_was_staged_is_the_one_that_comes(self):
        """Another may come in between. An answer that was lost leaves no wrong label."""
        engine = self.engine()
        follower = self.follow(engine)
        follower.update(0)
        self.step(1)
        send, own = follower._send, engine.update_weights_from_tensor

        def and_newer(verb, **body):
            if verb == "commit":
                self.step(2)
            return send(verb, **body)

        end = time.monotonic() + support.BOUND
        while not follower._send("stage", version=1).startswith("staged 1") and time.monotonic() < end:
            pass
        with mock.patch.object(follower, "_send", and_newer):
            self.assertIn(":1:", follower.update())
        for held, label in ((True, ":2:"), (False, "^$")):

            def lost(named, held=held, **options):
                answer = own(named, **options)
                if '"commit"' in named[0][1] or ('"held"' in named[0][1] and not held):
                    raise TimeoutError("planted")
                return answer

            with mock.patch.object(engine, "update_weights_from_tensor", lost), self.assertRaises(TimeoutError):
                follower.update(2)
            self.assertRegex(follower.version, label)

    def test_what_is_remembered_and_what_computes(self):
        """A parameter keeps its class and its loader on the device meta. Of two modules around a layer the inner one
        computes."""
        own = type("Own", (torch.nn.Parameter,), {})
        layer = torch.nn.Module()
        layer.weight = own(torch.ones(2), False)
        layer.weight.weight_loader = "loader"
        meta = _framework._Before(layer).metas[layer]["weight"]
        self.assertEqual((meta.is_meta, type(meta), meta.weight_loader), (True, own, "loader"))
        around = type("Around", (torch.nn.Module,), {"post_load_weights": lambda self, weight_names=None: None})
        outer, inner = around(), around()
        outer.inner, inner.layer = inner, layer
        self.assertIs(_framework._finish(outer, "inner.layer").args[0], inner)

    def test_calls_that_are_none_of_its_own(self):
        engine = self.engine()
        for wrong in ([], [("weight", 3)], [("weft", "[]")], [("weft", '["other", {}]')]):
            success, text = engine.update_weights_from_tensor(wrong, load_format=weft.sglang.LOADER)
            self.assertFalse(success)
            self.assertIn("takes what weft.sglang.message makes", text)
        commit = weft.sglang.message("commit", version=1)
        success, text = engine.update_weights_from_tensor(commit, load_format=weft.sglang.LOADER)
        self.assertEqual((success, "the engine has not joined: call follow" in text), (False, True))
        engine.manager._session = object()
        success, text = engine.update_weights_from_tensor(commit, load_format=weft.sglang.LOADER)
        self.assertEqual((success, "a weight-update session is open" in text), (False, True))
        self.assertEqual(engine.manager.flushed, 0)
        with self.assertRaises(NotImplementedError):  # SGLang's own calls stay what they are
            engine.update_weights_from_tensor([], load_format="other")

    def test_an_engine_without_the_loader_and_a_draft_model(self):
        with mock.patch.object(Engine, "is_draft_worker", True):
            self.engine()
        self.assertIsNone(_process._process)
        with mock.patch("sglang.srt.runtime_context.get_model", lambda: types.SimpleNamespace(custom_weight_loader=[])):
            with self.assertRaisesRegex(weft.CallError, "was started without custom_weight_loader"):
                self.follow(self.engine())
        self.assertIsNone(_process._process)

    def test_without_the_plug_in_it_says_so(self):
        with self.assertRaisesRegex(weft.CallError, "name it in SGLANG_PLUGINS"):
            weft.sglang.load(self.model, weft.sglang.message("open"))

    def test_requests_go_on_while_a_version_is_asked_for(self):
        from sglang.srt.managers.io_struct import UpdateWeightsFromTensorReqOutput
        from sglang.srt.utils import MultiprocessingSerializer

        async def communicator(request):
            return [UpdateWeightsFromTensorReqOutput(success=True, message="staged")]

        takes = types.SimpleNamespace(auto_create_handle_loop=lambda: None)
        takes.update_weights_from_tensor_communicator = communicator
        for verb, loader in (("stage", weft.sglang.LOADER), ("commit", weft.sglang.LOADER), ("stage", "other")):
            payload = [MultiprocessingSerializer.serialize(weft.sglang.message(verb))]
            request = types.SimpleNamespace(serialized_named_tensors=payload, load_format=loader)
            said = _process.ask(lambda *given: "SGLang's own, which waits", takes, request)
            if (verb, loader) == ("stage", weft.sglang.LOADER):
                self.assertEqual(asyncio.run(said), (True, "staged"))
            else:
                self.assertEqual(said, "SGLang's own, which waits")

    def test_hooks_are_of_what_sglang_has(self):
        registry = importlib.import_module("sglang.srt.plugins.hook_registry").HookRegistry
        with mock.patch.object(registry, "register") as register, mock.patch.object(weft.sglang, "_registered", False):
            weft.sglang.register()
            weft.sglang.register()
        self.assertEqual([call.args[0] for call in register.call_args_list], [*_process.HOOKS])
        for target in _process.HOOKS if registry is not Registry else ():
            self.assertTrue(callable(pkgutil.resolve_name(target)), target)


class Server(unittest.TestCase):
    """A server of SGLang, as far as a follower sees it."""

    def test_what_goes_over_http(self):
        asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                asked.append((self.path, self.headers["Authorization"],
                              json.loads(self.rfile.read(int(self.headers["Content-Length"])))))  # fmt: skip
                verb = json.loads(pickle.loads(base64.b64decode(asked[-1][2]["serialized_named_tensors"][0]))[0][1])[0]
                code = {"open": 200, "stage": 400, "close": 500}[verb]
                self.send_response(code)
                self.end_headers()
                self.wfile.write(json.dumps({"success": code == 200, "message": f"{verb} it is"}).encode())

            def log_message(self, *args):
                pass

        with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.addCleanup(server.shutdown)
            follower = weft.sglang.follow(f"http://127.0.0.1:{server.server_port}/", "site", "a", key="k")
            self.assertEqual(follower.version, "open it is")
            with self.assertRaisesRegex(weft.CallError, "stage: stage it is"):
                follower.update(1)
            with self.assertRaisesRegex(urllib.error.HTTPError, "500"):
                follower.close()
            server.shutdown()
        self.assertEqual({one[:2] for one in asked}, {("/update_weights_from_tensor", "Bearer k")})
        self.assertEqual({one[2]["load_format"] for one in asked}, {weft.sglang.LOADER})


if __name__ == "__main__":
    support.main()
