#!/usr/bin/env python3
"""Makes quant_golden.json: what vLLM's and slime's own functions make of some bf16 weights, on a CPU.

    python3 make_quant_golden.py VLLM SLIME COMMIT > quant_golden.json

VLLM is a folder with the package vllm 0.33.0, SLIME one with slime's fp8_kernel.py and quantizer_fp8.py of COMMIT.
Needs torch, triton and what vllm imports. No function is copied: each is imported from its own file and called.

- slime's block cast is a Triton kernel, which Triton's interpreter runs here with an output of float32. torch rounds
  that to e4m3, because the interpreter of Triton 3.9 rounds to e4m3 otherwise than the hardware does.
- vLLM compiles per_block_cast_to_fp8 by torch.compile; on a CPU the bytes are the same with and without.
"""

import base64
import hashlib
import importlib.util
import json
import os
import sys
import types

import numpy as np

os.environ["TRITON_INTERPRET"] = "1"


def bits_of(x):
    """bf16 bits of float32, cut off."""
    return (np.asarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def patterns():
    """Every finite bf16, by magnitude."""
    magnitude = np.arange(0x7F80, dtype=np.uint16)
    return np.stack((magnitude, magnitude | 0x8000), 1).reshape(255, 256)


def bell(rows, columns, seed):
    """About normal, of deviation 0.02. PCG64's raw numbers are the same in every numpy."""
    raw = np.random.PCG64(seed).random_raw(rows * columns)
    parts = (raw[:, None] >> np.arange(0, 64, 16, dtype=np.uint64)) & np.uint64(0xFFFF)
    return bits_of((parts.sum(1).astype(np.float64) / 65536 - 2) * (0.02 * 3**0.5)).reshape(rows, columns)


def small_cases():
    random = np.random.default_rng(21)
    wide = random.choice([-1, 1], (3, 140)) * 2.0 ** random.uniform(-30, 3, (3, 140))
    low = np.repeat([1e-5, 1e-8, 1e-11, 1e-14], 128) * random.uniform(-1, 1, (2, 512))
    steps = np.arange(1, 8) / 512
    ties = np.concatenate([[448], steps, steps / 2, -steps / 4, np.arange(8.0, 16), np.arange(17.0, 32),
                           np.arange(33.0, 64, 2), np.arange(129.0, 256, 2), np.arange(129, 256, 2) / -2])  # fmt: skip
    zeros = np.zeros((2, 130))
    zeros[:, 128:] = [[0.5, -0.25], [-0.0, 0.125]]
    return {
        "bell": bell(130, 20, 5),
        "wide": bits_of(wide),
        "low": bits_of(low),
        "ties": bits_of(ties[None, :]),
        "zeros": bits_of(zeros),
        "signs": np.array([[0x0000, 0x8000, 0x0001, 0x8001, 0x3F80, 0xBF80]], np.uint16),
    }


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def slime(folder):
    """The two modules of slime; what they import of the rest of slime is never called here, and stood in for."""
    package = "slime.backends.megatron_utils"
    for name in ("slime", "slime.backends", package, f"{package}.kernels", f"{package}.megatron_to_hf",
                 f"{package}.megatron_to_hf.processors"):  # fmt: skip
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    engine = types.ModuleType(f"{package}.sglang")
    engine.quant_weight_ue8m0 = engine.should_deepgemm_weight_requant_ue8m0 = engine.transform_scale_ue8m0 = None
    sys.modules[engine.__name__] = engine
    kernel = load(f"{folder}/fp8_kernel.py", f"{package}.kernels.fp8_kernel")
    return kernel, load(f"{folder}/quantizer_fp8.py", f"{package}.megatron_to_hf.processors.quantizer_fp8")


def functions(vllm, slime_folder):
    """By rule, a function of a bf16 matrix that gives codes and scales."""
    import torch

    kernel, quantizer = slime(slime_folder)
    sys.path.insert(0, vllm)
    from vllm.model_executor.layers.quantization.input_quant_fp8 import QuantFP8
    from vllm.model_executor.layers.quantization.online.fp8 import _fp8_scale
    from vllm.model_executor.layers.quantization.utils.quant_utils import GroupShape, weight_amax
    from vllm.utils.deep_gemm import per_block_cast_to_fp8

    def per_tensor(x):
        this = types.SimpleNamespace(is_group_quant=False, static=True, group_shape=GroupShape.PER_TENSOR,
                                     num_token_padding=None)  # fmt: skip
        return QuantFP8.forward_native(this, x, _fp8_scale(weight_amax(x).reshape(1)))

    def per_block(x, power):
        compiled = per_block_cast_to_fp8(x, [128, 128], power)
        plain = per_block_cast_to_fp8._torchdynamo_orig_callable(x, [128, 128], power)
        for one, other in zip(compiled, plain):
            assert torch.equal(one.view(torch.uint8), other.view(torch.uint8))
        return compiled

    def slime_block(x):
        (rows, columns), lowest = x.shape, kernel.fp8_min
        y, scales = torch.empty(x.shape), torch.empty(-(-rows // 128), -(-columns // 128))
        kernel._blockwise_cast_to_fp8_triton[scales.shape](
            x, y, scales, *x.stride(), *y.stride(), *scales.stride(), rows, columns, 1e-10, lowest, -lowest,
            BLOCK_M=128, BLOCK_N=128,
        )  # fmt: skip
        own = kernel.blockwise_cast_to_fp8_triton(x)[1]
        assert torch.equal(own, scales)
        return y.to(torch.float8_e4m3fn), scales

    def slime_tensor(x):
        (_, codes), (_, scale) = quantizer._quantize_param("w.weight", x, None)
        return codes, scale

    return {
        "fp8-block128-f32/1": lambda x: per_block(x, False),
        "fp8-block128-ue8m0/1": lambda x: per_block(x, True),
        "fp8-tensor-f32/1": per_tensor,
        "fp8-block128-slime/1": slime_block,
        "fp8-tensor-slime/1": slime_tensor,
    }


def main():
    import torch
    import triton

    cast = functions(sys.argv[1], sys.argv[2])

    def run(rule, bits):
        codes, scales = cast[rule](torch.from_numpy(bits.view(np.int16).copy()).view(torch.bfloat16))
        return codes.contiguous().view(torch.uint8).numpy(), scales.float().contiguous().numpy()

    def text(array):
        return base64.b64encode(array.tobytes()).decode()

    rows = []
    for name, bits in small_cases().items():
        made = {rule: run(rule, bits) for rule in cast}
        rows.append({"case": name, "shape": bits.shape, "bits": text(bits),
                     "rules": {rule: [text(codes), scales.shape, text(scales)]
                               for rule, (codes, scales) in made.items()}})  # fmt: skip
    for name, bits in (("patterns", patterns()), ("bell 512 520 7", bell(512, 520, 7))):
        made = {rule: run(rule, bits) for rule in cast}
        rows.append({"case": name, "shape": bits.shape, "bits": hashlib.sha256(bits.tobytes()).hexdigest(),
                     "rules": {rule: [hashlib.sha256(codes.tobytes()).hexdigest(), scales.shape, text(scales)]
                               for rule, (codes, scales) in made.items()}})  # fmt: skip
    json.dump({
        "made by": {
            "fp8-block128-f32/1": "vllm 0.33.0: vllm.utils.deep_gemm.per_block_cast_to_fp8(x, [128, 128], False)",
            "fp8-block128-ue8m0/1": "vllm 0.33.0: vllm.utils.deep_gemm.per_block_cast_to_fp8(x, [128, 128], True)",
            "fp8-tensor-f32/1": "vllm 0.33.0: QuantFP8.forward_native(x, online.fp8._fp8_scale(weight_amax(x)))",
            "fp8-block128-slime/1": f"slime {sys.argv[3]}: fp8_kernel._blockwise_cast_to_fp8_triton, by Triton's "
                                    "interpreter with a float32 output that torch rounds to e4m3",
            "fp8-tensor-slime/1": f"slime {sys.argv[3]}: quantizer_fp8._quantize_param(name, x, None)",
        },
        "run by": f"make_quant_golden.py, torch {torch.__version__}, triton {triton.__version__}, on a CPU",
        "cases": rows,
    }, sys.stdout, indent=1)  # fmt: skip
    print()


if __name__ == "__main__":
    main()
