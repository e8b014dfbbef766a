"""What weft learns of vLLM's own layers, built on the host with the kernels of devices that no test has.

Layers, methods, kernels and their process_weights_after_loading are vLLM's and FlashInfer's. Each is loaded with one
model, learned, and given a second one as a version: then it must hold, bit for bit, what the same layer holds that
loaded the second. Patched is what needs a device:

  which backend is chosen, whether a kernel is supported, torch.accelerator.current_device_index, Tensor.cuda
  AITER's shuffle_weight, FlashInfer's block_scale_interleave, DeepGEMM's transform_sf_into_required_layout, and
  scaled_fp8_quant: by the layouts that they are documented to make
"""

import contextlib
import importlib.util
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

import support

if importlib.util.find_spec("vllm") is None:
    support.skip("vllm is missing (tools/run-vllm installs a CPU build)")
FLASHINFER = importlib.util.find_spec("flashinfer") is not None

import vllm_engine  # noqa: E402

with tempfile.TemporaryDirectory() as own:
    os.environ.update(vllm_engine.environment(own), TORCHDYNAMO_DISABLE="1")

import torch  # noqa: E402
from engine_copies import commit  # noqa: E402
from vllm import _custom_ops  # noqa: E402
from vllm.config import set_current_vllm_config  # noqa: E402
from vllm.distributed import init_distributed_environment, initialize_model_parallel  # noqa: E402
from vllm.engine.arg_utils import EngineArgs  # noqa: E402
from vllm.model_executor.kernels import linear  # noqa: E402
from vllm.model_executor.layers.fused_moe import unquantized_fused_moe_method  # noqa: E402
from vllm.model_executor.layers.fused_moe.layer import FusedMoEFactory  # noqa: E402
from vllm.model_executor.layers.fused_moe.oracle import fp8 as fp8_oracle  # noqa: E402
from vllm.model_executor.layers.fused_moe.oracle import mxfp4 as mxfp4_oracle  # noqa: E402
from vllm.model_executor.layers.fused_moe.oracle import nvfp4 as nvfp4_oracle  # noqa: E402
from vllm.model_executor.layers.fused_moe.oracle import unquantized  # noqa: E402
from vllm.model_executor.layers.linear import MergedColumnParallelLinear  # noqa: E402
from vllm.model_executor.layers.quantization import fp8, modelopt, mxfp4  # noqa: E402
from vllm.model_executor.layers.quantization.compressed_tensors.compressed_tensors import (  # noqa: E402
    CompressedTensorsConfig,
)
from vllm.model_executor.layers.quantization.utils import fp8_utils  # noqa: E402
from vllm.model_executor.model_loader.reload.layerwise import record_metadata_for_reloading  # noqa: E402

import weft_fabric as weft  # noqa: E402
from weft_fabric import _dtypes  # noqa: E402
from weft_fabric.engine import _derive, _formats  # noqa: E402
from weft_fabric.engine._boxes import boxes  # noqa: E402
from weft_fabric.engine._recorder import record  # noqa: E402
from weft_fabric.engine._objects import tensors  # noqa: E402
from weft_fabric.engine._trace import is_same  # noqa: E402
from weft_fabric.vllm import _framework  # noqa: E402

CPU = torch.device("cpu")
KERNELS = "vllm.model_executor.kernels.linear.scaled_mm"
FP8 = "F8_E4M3"


class Model(torch.nn.Module):
    """A model of one layer. Its checkpoint has a tensor for each expert, and one for each half of w13."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        record_metadata_for_reloading(self)  # as vLLM does before it loads
        self.metas = {name: tensor.data.to("meta") for name, tensor in layer.named_parameters()}
        own = getattr(layer, "moe_config", None)
        self.sizes = (
            (own.intermediate_size_per_partition, own.intermediate_size_per_partition_unpadded) if own else (0, 0)
        )
        for tensor in layer.parameters():
            tensor.data.view(torch.uint8).fill_(0x5A)  # what padding has that no loader fills

    def filled(self, part):
        """What loaders fill of an expert's tensor: its backend may pad the inner size."""
        padded, inner = self.sizes
        dims = [dim for dim, size in enumerate(part.shape) if size == padded > inner]
        return part.narrow(dims[0], 0, inner) if dims else part

    def load_weights(self, weights):
        for name, loaded in weights:
            parameter, *place = name.split("/")
            target = self.layer._parameters[parameter].data
            for at in place:
                target = target.chunk(2)[int(at[1:])] if at[0] == "h" else target[int(at)]
            self.filled(target).copy_(loaded)

    def weights(self, seed):
        """A checkpoint: any bits, but for float32, which are scales: positive, and some next to nothing."""
        generator, made = torch.Generator().manual_seed(seed), {}
        for name, meta in self.metas.items():
            codes = torch.randint(0, 256, (meta.nbytes,), generator=generator, dtype=torch.uint8)
            whole = codes.view(meta.dtype).view(meta.shape)
            if meta.dtype == torch.float32:
                whole = torch.rand(meta.shape, generator=generator, dtype=torch.float32)
                whole *= 10.0 ** torch.randint(-13, 2, meta.shape, generator=generator)
            experts = enumerate(whole) if meta.dim() == 3 else ()
            made.update({name: whole} if meta.dim() != 3 else {})
            for expert, one in experts:
                halves = enumerate(one.chunk(2)) if name.startswith("w13") else ()
                made.update({f"{name}/{expert}/h{half}": self.filled(part).clone() for half, part in halves})
                made.update({f"{name}/{expert}": self.filled(one).clone()} if not name.startswith("w13") else {})
        return made

    def loaded(self, seed):
        self.load_weights(self.weights(seed).items())
        self.layer.quant_method.process_weights_after_loading(self.layer)
        return self


def experts(module, select, oracle, kind, backend, count=3, hidden=256, inner=256, **more):
    """A layer of experts, whose method is made for a backend."""
    backend = getattr(oracle, kind)[backend]
    chosen = (backend, oracle.backend_to_kernel_cls(backend)[-1])
    prefix = f"layer{next(NUMBERS)}.experts"
    with mock.patch.object(module, select, return_value=chosen):
        made = FusedMoEFactory(
            num_experts=count, top_k=2, hidden_size=hidden, intermediate_size=inner, prefix=prefix, **more
        )
    return made.routed_experts


def bf16(backend, **more):
    select = "select_unquantized_moe_backend"
    return experts(unquantized_fused_moe_method, select, unquantized, "UnquantizedMoeBackend", backend, **more)


def block(**more):
    return fp8.Fp8Config(True, **{"activation_scheme": "dynamic", "weight_block_size": [128, 128], **more})


def e8m0():
    """Blocks whose scales are powers of two in the checkpoint."""
    config = block()
    config.is_scale_e8m0 = True
    return config


def fp8_experts(backend, **more):
    return experts(fp8, "select_fp8_moe_backend", fp8_oracle, "Fp8MoeBackend", backend, quant_config=block(**more))


def nvfp4_experts(backend):
    config = modelopt.ModelOptNvFp4Config("NVFP4", True, None, [], 16)
    return experts(modelopt, "select_nvfp4_moe_backend", nvfp4_oracle, "NvFp4MoeBackend", backend, quant_config=config)


def mxfp4_experts(backend):
    return experts(mxfp4, "select_mxfp4_moe_backend", mxfp4_oracle, "Mxfp4MoeBackend", backend, has_bias=True,
                   quant_config=mxfp4.GptOssMxfp4Config(), activation="swigluoai")  # fmt: skip


def channel():
    """compressed-tensors: a scale for each row."""
    both = {"num_bits": 8, "type": "float", "symmetric": True, "group_size": None, "block_structure": None}
    parts = {"weights": {**both, "strategy": "channel", "dynamic": False},
             "input_activations": {**both, "strategy": "token", "dynamic": True}}  # fmt: skip
    groups = {"group_0": {"targets": ["Linear"], "output_activations": None, **parts}}
    return CompressedTensorsConfig.from_config(
        {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": groups, "ignore": []}
    )


def fused(module, kernel, config, sizes=(256, 128)):
    """A linear layer of fused parts, whose method is made for a kernel."""
    kind = getattr(importlib.import_module(f"{KERNELS}.{module}"), kernel)
    yes = staticmethod(lambda *_: (True, None))
    with mock.patch.object(linear, "choose_scaled_mm_linear_kernel", return_value=kind):
        with mock.patch.object(kind, "is_supported", yes), mock.patch.object(kind, "can_implement", yes):
            return MergedColumnParallelLinear(
                256, [*sizes], bias=False, quant_config=config, prefix=f"layer{next(NUMBERS)}"
            )


NUMBERS = iter(range(1 << 30))  # because vLLM knows each layer by its name


def shuffle_weight(weight, layout=(16, 16)):
    """AITER's: tiles of 16 rows and 32 columns one after the other, in a tile 16 bytes of each row in turn."""
    rows, columns = layout[0], 2 * layout[1]
    lane = 16 // weight.element_size()
    tiles = weight.view(-1, weight.shape[-2] // rows, rows, weight.shape[-1] // columns, columns // lane, lane)
    shuffled = tiles.permute(0, 1, 3, 4, 2, 5).contiguous().view(weight.shape)
    shuffled.is_shuffled = True
    return shuffled


def block_scale_interleave(scales):
    """FlashInfer's, as cuBLAS documents: tiles of 128 rows and 4 columns, in a tile row r at r % 32 * 16 + r // 32 * 4."""
    tiles = scales.view(torch.uint8).reshape(-1, scales.shape[-2] // 128, 4, 32, scales.shape[-1] // 4, 4)
    return tiles.permute(0, 1, 4, 3, 2, 5).reshape(-1).view(scales.dtype)


def scaled_fp8_quant(values, scale=None, **_):
    return (values.float() / scale.float()).clamp(-448, 448).to(torch.float8_e4m3fn), scale


@contextlib.contextmanager
def without_device():
    """What stands in for a device."""
    with contextlib.ExitStack() as stack:
        aiter = {"aiter": types.ModuleType("aiter"), "aiter.ops": types.ModuleType("aiter.ops")}
        aiter["aiter.ops.shuffle"] = types.SimpleNamespace(shuffle_weight=shuffle_weight)
        stack.enter_context(mock.patch.dict(sys.modules, aiter))
        for place, name, value in (
            (torch.accelerator, "current_device_index", lambda: "cpu"),
            (torch.Tensor, "cuda", lambda tensor, *_: tensor),
            (_custom_ops, "scaled_fp8_quant", scaled_fp8_quant),
            (mxfp4_oracle, "_validate_mxfp4_experts_config", lambda *_: None),
            (fp8_utils, "transform_sf_into_required_layout", lambda sf, **_: sf),
        ):
            stack.enter_context(mock.patch.object(place, name, value))
        for place in ("flashinfer", "flashinfer.fp4_quantization") if FLASHINFER else ():
            for name in ("nvfp4_block_scale_interleave", "block_scale_interleave"):
                module = importlib.import_module(place)
                stack.enter_context(mock.patch.object(module, name, block_scale_interleave))
        yield


class Classes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        vllm_engine.config_of("moe").save_pretrained(holder.name)
        cls.config = EngineArgs(
            model=holder.name,
            skip_tokenizer_init=True,
            dtype="bfloat16",
            enforce_eager=True,
            max_model_len=128,
        ).create_engine_config()
        cls.enterClassContext(set_current_vllm_config(cls.config))
        init_distributed_environment(1, 0, f"file://{holder.name}/join", 0, "gloo")
        initialize_model_parallel(1, 1)
        cls.addClassCleanup(torch.set_default_dtype, torch.get_default_dtype())
        torch.set_default_dtype(torch.bfloat16)
        cls.enterClassContext(without_device())

    def learned(self, build):
        """A layer that was loaded, and what weft learns of it."""
        model = Model(build()).loaded(1)
        of = _framework.framework(model, self.config)
        of = of._replace(checkpoint=lambda: iter(model.weights(1).items()), dummy=None)
        return model, of, _formats.learn(model, of, CPU)

    def check(self, build, moved, kept="", blocks=None):
        """What is moved and what is computed again is as said, and a version makes what a load makes.

        blocks  how many for all tensors; None: one for each
        """
        model, of, found = self.learned(build)
        self.assertEqual(found.layers, {"layer": None})
        names = {name.partition(".")[2]: move.kept for name, move in found.moves.items()}
        self.assertEqual({name for name in names if not names[name]}, set(moved.split()))
        self.assertEqual({name for name in names if names[name]}, set(kept.split()))
        second = model.weights(2)
        layout = weft.Layout.of((n, _dtypes.required(t.dtype), tuple(t.shape)) for n, t in second.items())
        reloads = _derive.Reloads(model, CPU, found.moves)
        made = {name: tensor for name, tensor in _formats.computed(model, of) if name not in found.derived()}
        copies = record(model, layout.tensors, CPU, found.derived(), made, found.moves, reloads)
        self.assertEqual(
            sum(1 for copy in copies for _ in boxes(copy, tuple(second[copy.tensor].shape))), blocks or len(second)
        )
        derived = _derive.Derived([reloads.step, *(step.step for step in found.steps.values())], of.context)
        before = {name: tensor.clone() for name, tensor in tensors(model.layer, of.owned, "", set())}
        commit([*model.parameters(), *found.kept()], copies, second)
        derived.run()
        fresh = Model(build()).loaded(2)
        held = dict(tensors(model.layer, of.owned, "", set()))
        for name, tensor in tensors(fresh.layer, of.owned, "", set()):
            self.assertTrue(is_same(held[name], tensor), name)
        self.assertEqual(len(held), len(before))
        for name in names:
            self.assertFalse(is_same(held[f".{name}"], before[f".{name}"]), name)  # so the comparison can fail
        return found

    def refused(self, build, text):
        found = self.learned(build)[2]
        self.assertEqual((found.moves, found.steps), ({}, {}))
        self.assertRegex(found.layers["layer"], text)

    def place(self, digits, number):
        """Where an element of the model format lies, by the digits of its parameter."""
        begin = sum((1 - digit.extent) * digit.target for digit in digits if digit.target < 0)
        return begin + sum(number // digit.unit % digit.extent * digit.target for digit in digits)

    @unittest.skipUnless(FLASHINFER, "flashinfer is missing")
    def test_experts_in_bfloat16_by_flashinfer(self):
        for backend in ("FLASHINFER_CUTLASS", "FLASHINFER_TRTLLM"):
            with self.subTest(backend):
                self.check(lambda: bf16(backend), "w13_weight w2_weight")
                biased = "w13_weight w13_bias w2_weight w2_bias"
                self.check(lambda: bf16(backend, has_bias=True), biased)
        self.check(lambda: bf16("FLASHINFER_TRTLLM", hidden=2048, inner=768), "w13_weight w2_weight")

    @unittest.skipUnless(FLASHINFER, "flashinfer is missing")
    def test_where_trtllm_has_an_element(self):
        """w3 and w1 row by row, 32 rows as 4 columns of 8, and of all rows 64 columns of w13 after the other."""
        digits = self.learned(lambda: bf16("FLASHINFER_TRTLLM"))[2].moves["layer.w13_weight"].digits
        for expert, row, column in ((0, 0, 0), (0, 256, 1), (1, 255, 64), (2, 300, 200), (2, 511, 255)):
            turned = 2 * (row % 256) + (row < 256)
            turned = turned // 32 * 32 + turned % 32 % 4 * 8 + turned % 32 // 4
            want = ((expert * 4 + column // 64) * 512 + turned) * 64 + column % 64
            self.assertEqual(self.place(digits, (expert * 512 + row) * 256 + column), want)

    def test_experts_in_bfloat16_by_aiter(self):
        found = self.check(lambda: bf16("AITER"), "w13_weight w2_weight")
        digits = found.moves["layer.w2_weight"].digits
        for expert, row, column in ((0, 0, 8), (1, 17, 33), (2, 255, 255)):
            tile = row // 16 * 8 + column // 32
            want = expert * 65536 + tile * 512 + column % 32 // 8 * 128 + row % 16 * 8 + column % 8
            self.assertEqual(self.place(digits, (expert * 256 + row) * 256 + column), want)

    def test_experts_that_a_backend_pads(self):
        """To 256 and 128 of the inner size."""
        for backend, inner in (("FLASHINFER_TRTLLM", 192), ("AITER", 96)):
            if FLASHINFER or backend == "AITER":
                self.check(lambda: bf16(backend, hidden=512, inner=inner), "w13_weight w2_weight")

    def test_experts_in_block_fp8(self):
        bulk, scales = "w13_weight w2_weight", "w13_weight_scale_inv w2_weight_scale_inv"
        for backend in ("AITER", "TRITON", "VLLM_CUTLASS", "HPC"):
            with self.subTest(backend):
                self.check(lambda: fp8_experts(backend), f"{bulk} {scales}")
        for backend in ("FLASHINFER_CUTLASS", "FLASHINFER_TRTLLM") if FLASHINFER else ():
            with self.subTest(backend):
                self.check(lambda: fp8_experts(backend), bulk, scales)  # which it clamps

    def test_linear_layers_in_block_fp8(self):
        """Some kernels compute with powers of two as float32; XPU repeats scales of a block that parts do not fill."""
        for module, kernel, wide in (
            ("cutlass", "CutlassFp8BlockScaledMMKernel", False),
            ("triton", "TritonFp8BlockScaledMMKernel", False),
            ("flashinfer", "FlashInferFp8BlockScaledMMKernel", False),
            ("b12x", "B12xFp8BlockScaledMMKernel", True),
            ("aiter", "AiterFp8BlockScaledMMKernel", True),
            ("pytorch", "BlockWiseTorchFP8ScaledMMLinearKernel", False),
            ("xpu", "XPUFp8BlockScaledMMKernel", False),
        ):
            with self.subTest(kernel):
                self.check(lambda: fused(module, kernel, block()), "weight weight_scale_inv")
                names = ("weight", "weight_scale_inv")
                self.check(lambda: fused(module, kernel, e8m0()), *(names if wide else [" ".join(names)]))
        kernel = "XPUFp8BlockScaledMMKernel"
        self.check(lambda: fused("xpu", kernel, block(), (256, 64)), "weight", "weight_scale_inv")

    @unittest.skipUnless(hasattr(torch.ops._C, "convert_weight_packed"), "vLLM has no such operation for this CPU")
    def test_block_fp8_by_the_cpu(self):
        """Packed by vLLM's own operations."""
        bulk, scales = "w13_weight w2_weight", ("w13_weight_scale_inv", "w2_weight_scale_inv")
        self.check(lambda: fused("cpu", "CPUFp8BlockScaledMMKernel", block()), "weight weight_scale_inv")
        self.check(lambda: fused("cpu", "CPUFp8W8A8BlockScaledMMKernel", block()), "weight", "weight_scale_inv")
        self.check(lambda: fp8_experts("CPU"), " ".join([bulk, *scales]))
        self.check(lambda: fp8_experts("CPU_W8A8"), f"{bulk} {scales[1]}", scales[0])

    def test_linear_layers_by_deep_gemm(self):
        """On Hopper that leaves scales as they are. With powers of two, vLLM rounds anew what has other scales."""
        build = lambda config: fused("deep_gemm", "DeepGemmFp8BlockScaledMMKernel", config)  # noqa: E731
        deep_gemm = importlib.import_module(f"{KERNELS}.deep_gemm")
        with mock.patch.object(deep_gemm, "is_deep_gemm_supported", return_value=True):
            with mock.patch.object(deep_gemm, "is_deep_gemm_e8m0_used", return_value=False):
                self.check(lambda: build(block()), "weight weight_scale_inv")
            with mock.patch.object(deep_gemm, "is_deep_gemm_e8m0_used", return_value=True):
                self.refused(lambda: build(block()), "weight is packed in no regular way")
                self.check(lambda: build(e8m0()), "weight", "weight_scale_inv")

    def test_linear_layers_with_a_scale_for_each_row(self):
        for module, kernel in (
            ("cutlass", "CutlassFP8ScaledMMLinearKernel"),
            ("aiter", "AiterHipbMMPerTokenFp8ScaledMMLinearKernel"),
            ("aiter", "AiterPreshuffledPerTokenFp8ScaledMMLinearKernel"),
            ("aiter", "AiterPerTokenFp8ScaledMMLinearKernel"),
        ):
            with self.subTest(kernel):
                self.check(lambda: fused(module, kernel, channel()), "weight weight_scale")

    def test_one_scale_for_fused_parts_is_refused(self):
        """vLLM takes the largest, and rounds codes anew."""
        one = {"weight_block_size": None}
        for scheme in ("dynamic", "static"):
            config = block(activation_scheme=scheme, **one)
            why = "weight_scale is of shape .*; weight has padding other than zeros"
            self.refused(lambda: fused("cutlass", "CutlassFP8ScaledMMLinearKernel", config), why)
        for backend in ("TRITON", "VLLM_CUTLASS"):
            self.refused(lambda: fp8_experts(backend, **one), "w13_weight_scale is of shape .*; w13_weight ")

    def test_experts_in_nvfp4(self):
        bulk, scales = "w13_weight w2_weight w13_weight_scale w2_weight_scale", "w13_weight_scale_2 w2_weight_scale_2"
        self.check(lambda: nvfp4_experts("VLLM_CUTLASS"), f"{bulk} w2_input_scale", f"{scales} w13_input_scale")
        for backend, blocks in (("FLASHINFER_CUTLASS", None), ("FLASHINFER_TRTLLM", 43)) if FLASHINFER else ():
            with self.subTest(backend):
                self.check(lambda: nvfp4_experts(backend), bulk, f"{scales} w13_input_scale w2_input_scale", blocks)

    @unittest.skipUnless(FLASHINFER, "flashinfer is missing")
    def test_experts_of_gpt_oss_in_mxfp4(self):
        """w1 and w3 lie row by row in the checkpoint. Those whose order turns around have a block for each row."""
        bulk, scales = "w13_weight w2_weight", "w13_weight_scale w2_weight_scale"
        rows = 3 * 512 + 14
        self.check(lambda: mxfp4_experts("FLASHINFER_TRTLLM_MXFP4_MXFP8"), bulk, f"{scales} w13_bias w2_bias", rows)
        cutlass = f"{bulk} {scales} w2_bias"
        self.check(lambda: mxfp4_experts("FLASHINFER_CUTLASS_MXFP4_MXFP8"), cutlass, "w13_bias", 2 * 3 * 512 + 8)


if __name__ == "__main__":
    support.main()
