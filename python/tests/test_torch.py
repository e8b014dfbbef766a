"""torch models: bound in place, published after each step, followed by another model."""

import sys
import unittest

import support
from support import BOUND, quiet, site

try:
    import torch
except ImportError:
    support.skip("torch is missing (Debian: python3-torch)")

import weft  # noqa: E402
import weft.torch  # noqa: E402
from weft import _dtypes, _tensors  # noqa: E402


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
                for version in (1, 2, 3):
                    step(model, optimizer)
                    self.assertEqual((publisher.version, publisher.last.target.number), (version, version))
                    self.assertGreater(publisher.last.changed, 0)
                    self.assertNotEqual(bits(model), bits(served))
                    follower.until(version, BOUND)
                    self.assertEqual((follower.version, bits(model)), (version, bits(served)))
                publisher.wait(BOUND)
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

    def test_a_model_that_moved_is_named_and_bound_again(self):
        model, served = Model(), Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        with weft.torch.publish_after(optimizer, model, site(), log=quiet) as publisher:
            with weft.torch.follow(served, site(publisher.trainer), "a", log=quiet) as follower:
                model.embed.weight.data = model.embed.weight.data.clone()
                with self.assertRaisesRegex(weft.TensorError, "moved since bind") as caught:
                    step(model, optimizer)
                self.assertEqual(caught.exception.tensor, "embed.weight")
                with self.assertRaises(weft.VersionError):
                    publisher.rebind()  # other bits by now: a rebind takes the same ones
                self.assertEqual(publisher.version, 0)
                served.norm.weight.data = served.norm.weight.data.clone()
                follower.rebind()
            self.assertFalse(publisher.trainer.closed)

    def test_memory_that_was_given_up_is_not_read(self):
        weight = torch.nn.Parameter(torch.zeros(1 << 16))
        with weft.Trainer(site(), {"w": weight}, log=quiet) as trainer:
            weight.data = torch.ones(1 << 16)
            self.assertRaisesRegex(weft.TensorError, "moved since bind", trainer.publish, 1)
            weight.data = torch.zeros(1 << 16)
            trainer.bind({"w": weight})
            weight.data[5] = 1
            self.assertEqual(trainer.publish(1).changed, 1)


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

        code = "import sys, weft; sys.exit('torch' in sys.modules)"
        self.assertEqual(subprocess.run([sys.executable, "-B", "-c", code]).returncode, 0)


if __name__ == "__main__":
    support.main()
