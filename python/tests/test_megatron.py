"""weft.megatron finds each process's elements by the export, and refuses an export that computes.

The maps are those that Megatron-Bridge 0.3.1 has in megatron/bridge/models/conversion/param_mapping.py: by rows
(line 838) and by columns (line 931), query groups of qkv (line 1354), gate and up in one matrix (line 2034), replicas
(line 997) and experts (line 614). Here a bridge of the tests applies them to the parameters of four processes: tensor
parallel 2, expert parallel 2, data parallel 2.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
import unittest
from unittest import mock

import support

try:
    import torch
except ImportError:
    support.skip("torch is missing (tools/run-tests installs it)")

import weft_fabric as weft  # noqa: E402
import weft_fabric.megatron  # noqa: E402

RECORDED = support.ROOT / "python" / "tests" / "megatron_bridge_0.3.1.json"
WORLD = 4
HIDDEN, HEADS, GROUPS, WIDTH, INNER, WORDS, EXPERTS = 4, 4, 2, 2, 6, 7, 4


@dataclasses.dataclass
class Task:
    """What is used of Megatron-Bridge's WeightConversionTask (model_bridge.py, line 89)."""

    param_name: str
    mapping: object
    param_weight: torch.Tensor | None


def rows(name, keep=None):
    return lambda here: [(name, torch.cat(here.tensor_parallel())[:keep])]


def columns(name):
    return lambda here: [(name, torch.cat(here.tensor_parallel(), 1))]


def replica(name):
    return lambda here: [(name, here.own)]


def query_groups(prefix):
    """A group has its query heads, a key head and a value head, one after the other."""

    def export(here):
        full = torch.cat(here.tensor_parallel())
        grouped = full.view(GROUPS, HEADS // GROUPS + 2, WIDTH, *full.shape[1:])
        heads = {"q": grouped[:, :-2], "k": grouped[:, -2], "v": grouped[:, -1]}
        return [(f"{prefix}.{name}", part.reshape(-1, *full.shape[1:])) for name, part in heads.items()]

    return export


def gated(prefix):
    """Each process has its part of gate, and then that of up."""

    def export(here):
        halves = [part.chunk(2) for part in here.tensor_parallel()]
        return [(f"{prefix}.{name}", torch.cat(half)) for name, half in zip(("gate", "up"), zip(*halves))]

    return export


def expert(local):
    return lambda here: [(f"experts.{place * EXPERTS // 2 + local}", part)
                         for place, part in enumerate(here.expert_parallel())]  # fmt: skip


def tied(*names):
    return lambda here: [(name, torch.cat(here.tensor_parallel()).clone()) for name in names]


@dataclasses.dataclass
class Here:
    """The tensors of one parameter in all processes, seen from one."""

    rank: int
    every: list

    @property
    def own(self):
        return self.every[self.rank]

    def tensor_parallel(self):
        first = self.rank // 2 * 2
        return self.every[first : first + 2]

    def expert_parallel(self):
        first = self.rank // 2 * 2
        return self.every[first : first + 2]


class Bridge:
    """Exports as megatron.bridge.AutoBridge does, for one of several processes that are all in this one."""

    def __init__(self, rank, every):
        self.rank, self.every = rank, every

    def get_conversion_tasks(self, models):
        return self.every[self.rank]

    def export_hf_weights(self, models, cpu, show_progress, conversion_tasks, merge_adapter_weights):
        (task,) = conversion_tasks
        place = next(i for i, one in enumerate(self.every[self.rank]) if one.param_name == task.param_name)
        parameters = [tasks[place].param_weight for tasks in self.every]
        probes = parameters
        if task.param_weight.dtype == torch.int64:
            plain = [weft.megatron._numbered(one, rank) for rank, one in enumerate(parameters)]
            mixed = [weft.megatron._mixed(one) for one in plain]
            probes = plain if torch.equal(task.param_weight, plain[self.rank]) else mixed
        return iter(task.mapping(Here(self.rank, probes)))


def fleet(mappings):
    """The tasks of each process. `mappings` has name, mapping, shape and what makes two processes' weights the same."""
    every = []
    for rank in range(WORLD):
        tasks = []
        for number, (name, mapping, shape, same) in enumerate(mappings):
            seed = {"tensor": rank % 2, "expert": rank % 2, "all": 0}[same]
            random = torch.Generator().manual_seed(100 * number + seed)
            tasks.append(Task(name, mapping, torch.randn(shape, generator=random).to(torch.bfloat16)))
        every.append(tasks)
    return every


def recorded(exports):
    """An export as Megatron-Bridge 0.3.1 made it: of each element the process and the place that it came from."""

    def export(here):
        flat = [tensor.reshape(-1) for tensor in here.every]
        return [(name, torch.stack([flat[owner][at] for owner, at in zip(owners, places)]).view(shape))
                for name, shape, owners, places in exports]  # fmt: skip

    return export


MODEL = [
    ("embedding", rows("embed", WORDS), ((WORDS + 1) // 2, HIDDEN), "tensor"),
    ("qkv.weight", query_groups("attention.weight"), ((HEADS + 2 * GROUPS) * WIDTH // 2, HIDDEN), "tensor"),
    ("qkv.bias", query_groups("attention.bias"), ((HEADS + 2 * GROUPS) * WIDTH // 2,), "tensor"),
    ("proj", columns("attention.out"), (HIDDEN, HEADS * WIDTH // 2), "tensor"),
    ("fc1", gated("mlp"), (INNER, HIDDEN), "tensor"),
    ("norm", replica("norm"), (HIDDEN,), "all"),
    *((f"expert{local}", expert(local), (INNER, HIDDEN), "expert") for local in range(EXPERTS // 2)),
]


def holdings(every):
    """Layout and blocks of each process. The processes are threads, which meet where processes exchange."""
    here, meeting, slots, results = threading.local(), threading.Barrier(WORLD), [None] * WORLD, [None] * WORLD

    def exchange(own, world):
        slots[here.rank] = own
        meeting.wait(support.BOUND)
        found = list(slots)
        meeting.wait(support.BOUND)
        return found

    def process(rank):
        here.rank = rank
        try:
            results[rank] = weft.megatron.holding(Bridge(rank, every), object())
        except weft.Error as error:
            results[rank] = error

    with mock.patch.object(weft.megatron, "_rank", lambda: (here.rank, WORLD)):
        with mock.patch.object(weft.megatron, "_every", exchange):
            threads = [threading.Thread(target=process, args=(rank,)) for rank in range(WORLD)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    return results


def dense(every):
    """What the export makes of the weights themselves, by all processes together."""
    full = {}
    for rank in range(WORLD):
        bridge = Bridge(rank, every)
        for task in every[rank]:
            full.update(bridge.export_hf_weights(None, True, False, [task], False))
    return full


def put_together(every, found):
    """The tensors that the blocks of all processes make, and how often each element was there."""
    layout = found[0][0]
    made = {spec.name: torch.zeros(spec.shape, dtype=torch.bfloat16) for spec in layout.tensors}
    times = {name: torch.zeros(tensor.shape) for name, tensor in made.items()}
    parameters = [task.param_weight for tasks in every for task in tasks]
    for _, blocks in found:
        for block in blocks.table:
            number, row, height, column, width = block["slice"].tolist()
            name = layout.tensors[number].name
            at = int(block["data"])
            own = next(p for p in parameters if 0 <= at - p.data_ptr() < p.numel() * p.element_size())
            pitch = int(block["row"]["stride"][0]) // 2 or width
            part = own.as_strided((height, width), (pitch, 1), (at - own.data_ptr()) // 2)
            for whole, value in ((made[name], part), (times[name], times[name].new_ones(height, width))):
                matrix = whole.view(-1, whole.shape[-1])
                matrix[row : row + height, column : column + width] += value
    return made, times


class Holding(unittest.TestCase):
    def test_every_element_is_contributed_once_with_the_bits_of_the_export(self):
        every = fleet(MODEL)
        found = holdings(every)
        full = dense(every)
        made, times = put_together(every, found)
        self.assertEqual(made.keys(), full.keys())
        for name, tensor in full.items():
            self.assertTrue(bool((times[name] == 1).all()), name)
            self.assertEqual(bytes(made[name].view(torch.uint8).numpy()),
                             bytes(tensor.contiguous().view(torch.uint8).numpy()), name)  # fmt: skip
        self.assertEqual(len({layout.hash for layout, _ in found}), 1)
        self.assertEqual([len(blocks) for _, blocks in found[2:]], [0, 0])  # replicas of data parallel
        self.assertEqual(found[0][0].tensors[0], weft.TensorSpec("embed", "BF16", (WORDS, HIDDEN)))

    def test_maps_recorded_of_megatron_bridge(self):
        """Its own mappings in four processes of gloo (tensor parallel 2, expert parallel 2), with a stub of Transformer
        Engine: embedding of a padded vocabulary, qkv with biases, proj, fc1, fc2, a norm, and four experts."""
        every = []
        for rank, process in enumerate(json.loads(RECORDED.read_text())):
            tasks = []
            for number, (name, one) in enumerate(process.items()):
                seed = number if "layernorm" in name else 100 * (1 + rank % 2) + number  # replicas have equal weights
                weight = torch.randn(one["shape"], generator=torch.Generator().manual_seed(seed))
                tasks.append(Task(name, recorded(one["exports"]), weight.to(torch.bfloat16)))
            every.append(tasks)
        found, full = holdings(every), dense(every)
        made, times = put_together(every, found)
        self.assertEqual(len(full), 24)
        self.assertEqual([len(blocks) for _, blocks in found], [18, 17, 0, 0])
        for name, tensor in full.items():
            self.assertTrue(bool((times[name] == 1).all()), name)
            self.assertTrue(torch.equal(made[name], tensor), name)

    def test_boxes_are_few(self):
        every = fleet([("fc1", gated("mlp"), (600, 64), "tensor"), ("proj", columns("out"), (300, 32), "tensor")])
        for _, blocks in holdings(every)[:2]:
            self.assertEqual(len(blocks), 3)  # gate, up, and columns with a stride

    @unittest.skipUnless(support.FABRIC, "this build knows no libfabric")
    def test_the_holdings_are_sources_that_a_rollout_joins(self):
        every = fleet(MODEL)
        found = holdings(every)
        layout = found[0][0]
        site = "[peers]\nprovider = loop\nheartbeat = 60s\n[peer.a]\n"
        served = {spec.name: torch.zeros(spec.shape, dtype=torch.bfloat16) for spec in layout.tensors}
        with contextlib.ExitStack() as stack:
            sources = []
            for _, blocks in found:
                if len(blocks):
                    place = weft.Site(site, {"trainer.listen": "127.0.0.1:0"})
                    trainer = stack.enter_context(
                        weft.Trainer(place, blocks, layout=layout, holding=True, run=7, log=support.quiet)
                    )
                    sources.append((trainer, blocks))
            rollout = stack.enter_context(
                weft.Rollout(weft.Site(site), "a", served, layout=layout, empty=True, log=support.quiet,
                             sources=[(trainer.stats().listen, blocks) for trainer, blocks in sources])
            )  # fmt: skip
            for version in (0, 1, 2):
                if version:
                    for tasks in every:
                        for task in tasks:
                            task.param_weight[0] *= -1
                    for trainer, _ in sources:
                        trainer.publish(version)
                support.take(rollout, version)
                for name, tensor in dense(every).items():
                    self.assertEqual(bytes(served[name].view(torch.uint8).numpy()),
                                     bytes(tensor.contiguous().view(torch.uint8).numpy()), name)  # fmt: skip

    def one_process(self, weight):
        task = Task("fc1", lambda here: [("gate", here.own[:3]), ("up", here.own[3:])], weight)
        return weft.megatron.holding(Bridge(0, [[task]]), object())

    def test_one_process_needs_no_group(self):
        weight = torch.randn(6, 4)
        layout, blocks = self.one_process(weight)
        self.assertEqual([spec.name for spec in layout.tensors], ["gate", "up"])
        self.assertEqual([int(at) - weight.data_ptr() for at in blocks.table["data"]], [0, 48])

    def test_a_parameter_that_got_other_memory_is_named(self):
        weight = torch.randn(6, 4)
        layout, blocks = self.one_process(weight)
        site = weft.Site("[trainer]\nlisten = 127.0.0.1:0\n[peers]\nprovider = loop\n[peer.a]\n")
        with weft.Trainer(site, blocks, layout=layout, holding=True, run=7, log=support.quiet) as trainer:
            trainer.publish(1)
            weight.data = weight.data.clone()
            with self.assertRaisesRegex(weft.TensorError, "'gate': moved since bind"):
                trainer.publish(2)
            trainer.bind(self.one_process(weight)[1])
            self.assertEqual(trainer.publish(2).changed, 0)

    def test_of_tied_tensors_the_first_name_stands(self):
        found = holdings(fleet([("embedding", tied("embed", "lm_head"), (4, HIDDEN), "tensor")]))
        self.assertEqual([spec.name for spec in found[0][0].tensors], ["embed"])

    def test_an_export_that_computes_is_refused_by_name_in_every_process(self):
        for what, export in (
            ("a sum", lambda here: here.own + here.own.flip(0)),
            ("a mean", lambda here: (here.own + here.own.flip(0)) // 2),
            ("one more", lambda here: here.own + 1),
            ("twice", lambda here: here.own * 2),
            ("zeros", lambda here: torch.zeros_like(here.own)),
            ("a constant", lambda here: torch.ones_like(here.own)),
            ("a cast", lambda here: here.own.float()),
        ):
            with self.subTest(what):
                mapping = lambda here, export=export: [("w", export(here))]  # noqa: E731
                for error in holdings(
                    fleet([("norm", replica("norm"), (4,), "all"), ("w", mapping, (3, 4), "tensor")])
                ):
                    self.assertIsInstance(error, weft.TensorError)
                    self.assertEqual(error.tensor, "w")
                    self.assertRegex(str(error), "the export (computes|casts)")

    def test_what_one_process_alone_finds_wrong_is_raised_in_all(self):
        every = fleet(MODEL)
        weight = every[1][4].param_weight
        every[1][4].param_weight = torch.zeros(HIDDEN, INNER, dtype=weight.dtype).T
        for error in holdings(every):
            self.assertRegex(str(error), "its parameter is not contiguous")

    def test_transposed_storage_is_refused(self):
        every = fleet([("w", lambda here: [("w", here.own.T)], (128, 128), "all")])
        for error in holdings(every):
            self.assertRegex(str(error), "transposed or mixed")


if __name__ == "__main__":
    support.main()
