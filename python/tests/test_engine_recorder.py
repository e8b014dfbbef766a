"""Recording loaders of torch, held against the same loaders with real tensors of element numbers."""

import sys
import types
import unittest
from unittest import mock

import support

try:
    import torch
except ImportError:
    support.skip("torch is missing (tools/run-tests installs it)")

import weft_fabric as weft  # noqa: E402
from weft_fabric.engine import _placement  # noqa: E402
from weft_fabric.engine._recorder import StandIn, record  # noqa: E402

SHAPES = {
    "embed": (10, 6),
    "q": (8, 6),
    "k": (4, 6),
    "v": (4, 6),
    "o": (6, 8),
    "gate_up": (16, 6),
    "norm": (6,),
    "conv": (4, 1, 3),
    **{f"experts.{e}.{n}": (4, 6) if n != "down" else (6, 4) for e in range(4) for n in ("gate", "up", "down")},
    "stacked": (2, 6, 8),
    "scalar": (),
}


class Model(torch.nn.Module):
    """Loaders as engines write them, for one of `size` processes that have rows, columns or experts."""

    def __init__(self, rank=0, size=1):
        super().__init__()
        self.rank, self.size = rank, size
        shapes = {
            "embed": (16 // size, 6),
            "qkv": (16 // size, 6),
            "o": (6, 8 // size),
            "gate_up": (16 // size, 6),
            "norm": (6,),
            "conv": (3, 4),
            "w13": (4 // size, 8, 6),
            "w2": (4 // size, 6, 4),
            "stacked": (2, 8, 6),
            "scalar": (1,),
        }
        for name, shape in shapes.items():
            self.register_parameter(name, torch.nn.Parameter(torch.full(shape, -1, dtype=torch.int32), False))

    def rows(self, target, loaded):
        size = target.shape[0]
        target.copy_(loaded.narrow(0, self.rank * size, size))

    def load_weights(self, weights):
        for name, loaded in weights:
            self.load(name, loaded)

    def load(self, name, loaded):
        if name == "embed":
            first = self.rank * self.embed.shape[0]
            size = max(0, min(loaded.shape[0] - first, self.embed.shape[0]))
            loaded = loaded.narrow(0, min(first, loaded.shape[0]), size)
            self.embed[: loaded.shape[0]].data.copy_(loaded)
            self.embed[loaded.shape[0] :].data.fill_(0)
        elif name in ("q", "k", "v"):
            at = {"q": 0, "k": 8, "v": 12}[name] // self.size
            self.rows(self.qkv.data.narrow(0, at, loaded.shape[0] // self.size), loaded)
        elif name == "o":
            self.o.data.copy_(loaded[:, self.rank * self.o.shape[1] :][:, : self.o.shape[1]].contiguous())
        elif name == "gate_up":
            half = self.gate_up.shape[0] // 2
            for number, part in enumerate(loaded.chunk(2, dim=0)):
                self.rows(self.gate_up.data[number * half : (number + 1) * half], part.to("cpu"))
        elif name.startswith("experts"):
            expert = int(name.split(".")[1]) - self.rank * self.w13.shape[0]
            if 0 <= expert < self.w13.shape[0]:
                self.expert(expert, name, loaded)
        elif name == "conv":
            self.conv.data.copy_(loaded.squeeze(1).t())
        elif name == "stacked":
            for number, one in enumerate(loaded):
                self.stacked[number] = one.transpose(0, 1)
        else:
            parameter = getattr(self, name)
            parameter.data.copy_(loaded.view(parameter.shape))

    def expert(self, expert, name, loaded):
        if name.endswith("down"):
            self.w2.data[expert].copy_(loaded)
        else:
            self.w13.data[expert].narrow(0, 4 if name.endswith("up") else 0, 4).copy_(loaded.detach().clone())


def layout_of(shapes, dtype="I32"):
    return weft.Layout.of((name, dtype, shape) for name, shape in shapes.items())


def recorded(model, shapes=None, ignore=(), dtype="I32"):
    return record(model, layout_of(SHAPES if shapes is None else shapes, dtype).tensors, torch.device("cpu"), ignore)


class Recorder(unittest.TestCase):
    def test_each_element_lands_where_the_loader_puts_it(self):
        layout = layout_of(SHAPES)
        for size in (1, 2):
            every = []
            for rank in range(size):
                model = Model(rank, size)
                before = [parameter.clone() for parameter in model.parameters()]
                copies = recorded(model)
                self.assertTrue(all(torch.equal(a, b) for a, b in zip(before, model.parameters())), "a weight changed")
                numbers, first = {}, 0
                for name, shape in SHAPES.items():
                    count = torch.Size(shape).numel()
                    numbers[name] = torch.arange(first, first + count, dtype=torch.int32).view(shape)
                    first += count
                model.load_weights(iter(numbers.items()))
                memory = {
                    p.data_ptr() + 4 * i: int(p.view(-1)[i]) for p in model.parameters() for i in range(p.numel())
                }
                blocks = _placement.place(layout, copies, "cpu")
                every.append(blocks.slices)
                self.check(layout, blocks, memory, numbers)
            _placement.check_cover(layout, every, [])

    def check(self, layout, blocks, memory, numbers):
        """Each address of a block has the number of its element, and all others have what no tensor has."""
        for block in blocks.table:
            tensor, row, rows, column, columns = block["slice"].tolist()
            flat = numbers[layout.tensors[tensor].name].reshape(-1)
            width = layout.tensors[tensor].shape[-1] if len(layout.tensors[tensor].shape) > 1 else len(flat)
            down, across = block["row"].tolist(), block["column"].tolist()
            for r in range(rows):
                for c in range(columns):
                    address = int(block["data"]) + self.offset(r, down, columns * 4) + self.offset(c, across, 4)
                    self.assertEqual(memory.pop(address), int(flat[(row + r) * width + column + c]))
        self.assertLessEqual(set(memory.values()), {0})  # the vocabulary's padding

    def offset(self, index, parts, plain):
        if not any(extent for extent, _ in parts):
            return index * plain
        offset = 0
        for extent, stride in reversed([part for part in parts if part[0]]):
            offset += index % extent * stride
            index //= extent
        return offset

    def test_a_version_lands_by_what_was_recorded(self):
        """The same by weft itself: an engine of two processes takes a snapshot, an update, and both."""
        shapes = {name: shape for name, shape in SHAPES.items() if name != "scalar"}
        trained = {name: torch.randint(0, 1 << 30, shape, dtype=torch.int32) for name, shape in shapes.items()}
        with weft.Trainer(support.site(), trained, log=support.quiet) as trainer:
            model = Model()
            copies = recorded(model, shapes, ["scalar"])
            layout = layout_of(shapes)
            blocks = _placement.place(layout, copies, "cpu", list(model.parameters()))
            self.assertTrue(_placement.is_whole(layout, blocks))
            site = support.site(trainer)
            with weft.Rollout(site, "a", blocks, layout=layout, empty=True, log=support.quiet) as rollout:
                for version in (0, 1, 2):
                    if version:
                        for tensor in trained.values():
                            tensor.view(-1)[:: 1 + version] += 1
                        trainer.publish(version)
                    support.take(rollout, version)
                    dense = Model()
                    dense.load_weights(iter(trained.items()))
                    for (name, one), other in zip(dense.named_parameters(), model.parameters()):
                        if name not in ("scalar", "embed"):
                            self.assertTrue(torch.equal(one, other), name)
                    self.assertTrue(torch.equal(dense.embed[:10], model.embed[:10]))


class Refusals(unittest.TestCase):
    """Loaders that do what no placement can stand for."""

    def refuse(self, text, load, shapes=None, parameters=None, ignore=(), dtype="F32"):
        class Other(torch.nn.Module):
            def __init__(self):
                super().__init__()
                for name, shape in (parameters or {"p": (4, 4)}).items():
                    self.register_parameter(name, torch.nn.Parameter(torch.ones(shape)))

            def load_weights(self, weights):
                for name, loaded in weights:
                    load(self, name, loaded)

        model = Other()
        with self.assertRaisesRegex(weft.TensorError, text) as caught:
            recorded(model, shapes or {"w": (4, 4)}, ignore, dtype)
        self.assertTrue(all(bool((p == 1).all()) for p in model.parameters()), "a weight changed")
        return caught.exception.tensor

    def test_what_changes_elements(self):
        for text, act in (
            ("does 'add' with it", lambda w: w + 1),
            ("does 'mul' with it", lambda w: w * 2),
            ("does 'exp' with it", lambda w: -torch.exp(w)),
            ("does 'add_' with it", lambda w: w.add_(1)),
            ("does 'item' with it", lambda w: w[0, 0].item()),
            ("does 'cat' with it", lambda w: torch.cat([w[2:], w[:2]])),
            ("does 'reshape' with it", lambda w: w.t().reshape(16).view(4, 4)),
            ("does 'index_select' with it", lambda w: w.index_select(0, torch.tensor([1, 0, 3, 2]))),
            ("converts torch.float32 to torch.bfloat16", lambda w: w.to(torch.bfloat16)),
            ("converts torch.float32 to torch.float64", lambda w: w.to(torch.float64)),
            ("does 'float' with it", lambda w: w.float()),
            ("does '__getitem__' with it", lambda w: w[torch.tensor([0, 1])]),
        ):
            with self.subTest(text):
                name = self.refuse(text, lambda model, name, w, act=act: model.p.data.copy_(act(w)))
                self.assertEqual(name, "w")

    def test_places(self):
        self.assertEqual(self.refuse("no parameter of the model", lambda m, n, w: torch.empty(4, 4).copy_(w)), "w")
        self.refuse("writes over the checkpoint tensor", lambda m, n, w: w[:2].copy_(w[2:]))
        self.refuse("repeated in p", lambda m, n, w: m.p.data.copy_(w), {"w": (1, 4)})
        self.refuse("copies .3, 4. to .4, 4. of p", lambda m, n, w: m.p.data.copy_(w), {"w": (3, 4)})
        self.refuse(
            "the trainer has it as torch.bfloat16, and p is torch.float32",
            lambda m, n, w: m.p.data.copy_(w),
            dtype="BF16",
        )
        both = {"p": (4, 4), "q": (4, 4)}
        self.refuse("lands in q and elsewhere", lambda m, n, w: (m.p.data.copy_(w), m.q.data.copy_(w)), parameters=both)
        where = {"a": (4, 4), "b": (4, 4)}
        self.assertEqual(self.refuse("where another tensor lands", lambda m, n, w: m.p.data.copy_(w), where), "b")
        self.assertEqual(self.refuse("does 'add_' with this parameter", lambda m, n, w: m.p.data.add_(1)), "p")
        self.assertEqual(self.refuse("does 'copy_' with this", lambda m, n, w: m.p.data.copy_(torch.zeros(4, 4))), "p")
        self.refuse("incompatible tensor type", lambda m, n, w: setattr(m.p, "data", w))

    def test_what_is_left_out(self):
        both = {"p": (4, 4), "other": (3,)}
        load = lambda m, n, w: m.p.data.copy_(w)  # noqa: E731
        self.assertEqual(self.refuse("fills 3 of its 3 elements", load, parameters=both), "other")
        self.assertEqual(self.refuse("fills 8 of its 16", lambda m, n, w: m.p.data[:2].copy_(w[:2])), "p")
        with self.assertRaises(AssertionError):
            self.refuse("fills", load, parameters=both, ignore=["oth*"])

    def test_what_was_computed_shows_what_is_written(self):
        """As multi-head latent attention has views of kv_b_proj. A copy, and what is left out of it, would be old."""

        class Other(torch.nn.Module):
            def __init__(self):
                super().__init__()
                for name in ("p", "kept"):
                    self.register_parameter(name, torch.nn.Parameter(torch.ones(4, 6), False))
                self.buffer = torch.ones(4, 6)

            def load_weights(self, weights):
                for name, loaded in weights:
                    getattr(self, name).data.copy_(loaded)

        model = Other()
        wide = torch.ones(5, 6)
        model.p.data = wide[:4]
        for tensor, missing in (
            (model.p.data.view(4, 2, 3)[:, 1].transpose(0, 1), 0),
            (model.kept.data.t(), 0),
            (wide.t(), 6),
            (model.p.data.clone(), 24),
            (model.p.data[:, :4].view(torch.int32), 16),
            (model.buffer, 24),
        ):
            model.register_parameter("made", torch.nn.Parameter(tensor, False))
            made, layout = {"made": model.made}, layout_of({"p": (4, 6)}, "F32").tensors
            with self.subTest(missing, shape=tuple(tensor.shape)):
                if not missing:
                    self.assertEqual(len(record(model, layout, torch.device("cpu"), ["kept"], made)), 1)
                    continue
                with self.assertRaisesRegex(weft.TensorError, f"computed .* and {missing} of its") as caught:
                    record(model, layout, torch.device("cpu"), ["kept", "made"], made)
                self.assertEqual(caught.exception.tensor, "made")

    def test_loaders_that_fail(self):
        def fail(model, name, loaded):
            raise KeyError(name)

        self.refuse("the model's loader fails on the trainer's names or shapes: KeyError: 'w'", fail)

    def test_what_is_read_of_a_stand_in(self):
        seen = []

        class Reader(torch.nn.Module):
            def load_weights(self, weights):
                for name, w in weights:
                    seen.extend(
                        [
                            name,
                            w.shape,
                            w.ndim,
                            w.numel(),
                            w.dtype,
                            w.size(0),
                            w.device.type,
                            w.is_contiguous(),
                            len(w),
                            isinstance(w, StandIn),
                            w.stride(),
                        ]
                    )

        record(Reader(), layout_of({"w": (4, 3)}, "BF16").tensors, torch.device("cpu"))
        self.assertEqual(seen, ["w", (4, 3), 2, 12, torch.bfloat16, 4, "cpu", True, 4, True, (3, 1)])


if __name__ == "__main__":
    support.main()
