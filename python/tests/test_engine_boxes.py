"""The placement of weft.vllm: copies of loaders become boxes that name each element's place; recorded tables."""

import json
import unittest
from math import prod
from pathlib import Path

import numpy as np

import support
import weft_fabric as weft
from weft_fabric.engine import _boxes, _moves, _placement
from weft_fabric.engine._boxes import Copy

TABLES = Path(__file__).with_name("vllm_tables.json")


def strides(array):
    return tuple(stride // array.itemsize for stride in array.strides)


def copy_of(shape, source, memory, target, name="w"):
    """A copy of a view of element numbers to a view of memory."""
    base = memory.__array_interface__["data"][0]
    first = int(source.reshape(-1)[0]) if source.size else 0
    at = target.__array_interface__["data"][0]
    return Copy(name, first, source.shape, strides(source), base + (at - base), strides(target), memory.itemsize, "p")


def walk(box, columns, item):
    """Pairs of element and address of a box, by the rule of weft_block."""
    down = box.row_strides or ((box.rows, box.columns * item),)
    across = box.column_strides or ((box.columns, item),)

    def offset(index, parts):
        bytes_ = 0
        for extent, stride in reversed(parts):
            bytes_ += index % extent * stride
            index //= extent
        return bytes_

    for row in range(box.rows):
        for column in range(box.columns):
            element = (box.row + row) * columns + box.column + column
            yield element, box.data + offset(row, down) + offset(column, across)


def view_of(random, array):
    """A view as loaders make them: a part of a dimension, two exchanged, one parted in two or two as one."""
    for _ in range(random.integers(0, 4)):
        dim = int(random.integers(0, array.ndim))
        act = int(random.integers(0, 4))
        size = array.shape[dim]
        if act == 0 and size > 1:
            first = int(random.integers(0, size))
            array = np.take(array, 0, dim) if array.ndim > 1 and random.random() < 0.2 else array[
                (slice(None),) * dim + (slice(first, int(random.integers(first, size)) + 1),)
            ]  # fmt: skip
        elif act == 1 and array.ndim > 1:
            array = np.swapaxes(array, dim, int(random.integers(0, array.ndim)))
        elif act == 2 and size % 2 == 0 and size:
            array = array[(slice(None),) * dim + (slice(int(random.integers(0, 2)), None, 2),)]
        elif act == 3:
            joined = array.reshape(-1)
            if np.shares_memory(joined, array):
                array = joined
    return array


class Boxes(unittest.TestCase):
    def check(self, shape, copy, pairs):
        columns = _boxes._columns_of(shape)
        found = []
        for box in _boxes.boxes(copy, shape):
            self.assertLessEqual(max(len(box.row_strides), len(box.column_strides)), 3)
            self.assertEqual(prod(extent for extent, _ in box.row_strides or ((box.rows, 0),)), box.rows)
            found += walk(box, columns, copy.item)
        self.assertEqual(sorted(found), sorted(pairs))

    def test_made_up_copies(self):
        """Views of element numbers, copied to memory with gaps and exchanged dimensions."""
        random = np.random.default_rng(7)
        seen = refused = 0
        for _ in range(3000):
            shape = tuple(int(n) for n in random.integers(1, 7, random.integers(1, 5)))
            numbers = np.arange(prod(shape), dtype=np.int64).reshape(shape)
            try:
                source = view_of(random, numbers)
                if source.base is None and source is not numbers:
                    continue
            except ValueError:
                continue
            if not np.shares_memory(source, numbers) or not source.size:
                continue
            order = random.permutation(source.ndim)
            memory = np.zeros(tuple(source.shape[i] + int(random.integers(0, 2)) for i in order), np.uint16)
            target = memory[tuple(slice(0, source.shape[i]) for i in order)].transpose(np.argsort(order))
            copy = copy_of(shape, source, memory, target)
            at = target.__array_interface__["data"][0]
            pairs = []
            for index in np.ndindex(source.shape):
                pairs.append((int(source[index]), at + sum(i * s for i, s in zip(index, target.strides))))
            try:
                self.check(shape, copy, pairs)
                seen += 1
            except weft.TensorError as error:
                self.assertRegex(str(error), "no boxes")
                refused += 1
        print(f"{seen} copies are boxes, {refused} are refused")
        self.assertGreater(seen, 10 * refused / 3)

    def test_what_is_no_box_is_named(self):
        with self.assertRaisesRegex(weft.TensorError, "tensor 'w': its elements in p are no boxes"):
            list(_boxes.boxes(Copy("w", 1, (3, 3), (5, 1), 0, (3, 1), 2, "p"), (4, 4)))

    def test_a_range_of_elements_is_three_boxes(self):
        got = [tuple(box[:4]) for box in _boxes.boxes(Copy("w", 5, (20,), (1,), 0, (1,), 2, "p"), (8, 8))]
        self.assertEqual(got, [(0, 1, 5, 3), (1, 2, 0, 8), (3, 1, 0, 1)])


class Moves(unittest.TestCase):
    """Copies into a model format that an engine packs, held against the packing itself, element by element."""

    def copy_into(self, random, count):
        """A copy of elements 5, 6, ... to a part of the model format, and where each lands there."""
        rows = int(random.choice([n for n in range(1, count + 1) if count % n == 0]))
        model = np.arange(count).reshape(rows, count // rows)
        begin = [int(random.integers(0, n)) for n in model.shape]
        target = model[begin[0] :: int(random.integers(1, 3)), begin[1] :: int(random.integers(1, 3))]
        target = target[: int(random.integers(1, 9))]
        target = target.T if random.random() < 0.3 else target
        source = np.arange(5, 5 + target.size).reshape(target.shape)
        return Copy("w", 5, source.shape, strides(source), 2 * int(target.flat[0]), strides(target), 2, "p"), target

    def proved(self, index, digits):
        """Whether each element that lies somewhere lies where digits say."""
        if digits is None:
            return False
        places = np.flatnonzero(index >= 0)
        told = sum(index[places] // digit.unit % digit.extent * digit.target for digit in digits)
        return bool((_moves.begin_of(digits) + told == places).all())

    def test_made_up_packings(self):
        """Some have an axis that counts down, and some padding at the end of one."""
        random = np.random.default_rng(3)
        whole, padded = 0, 0
        for _ in range(4000):
            sizes = [int(n) for n in random.integers(1, 7, random.integers(1, 5))]
            back = np.flatnonzero(random.random(len(sizes)) < 0.2)
            rest = [int(random.integers(2, n + 1)) if n > 3 and random.random() < 0.2 else n for n in sizes]
            order, model = random.permutation(len(sizes)), np.arange(prod(sizes)).reshape(sizes)
            lies = np.full(sizes, -1)
            lies[tuple(map(slice, rest))] = model[tuple(map(slice, rest))]
            full, index = (np.flip(one, back).transpose(order).reshape(-1) for one in (model, lies))
            digits = _moves.digits_of(lambda place, index=index: int(index[place]), len(index))
            if rest != sizes and not self.proved(index, digits):
                continue  # such as where padding comes first
            self.assertIsNotNone(digits)
            copy, target = self.copy_into(random, len(index))
            place, hidden = np.argsort(full), set(model.reshape(-1)) - set(index)
            padded += rest != sizes
            copied = dict(enumerate(target.reshape(-1), 5))
            wanted = {5 + number: 1000 + 2 * int(place[at]) for number, at in enumerate(target.reshape(-1))}
            found, parts = {}, list(_moves.through(copy, digits, 1000))
            for part in parts:
                for at in np.ndindex(*part.sizes):
                    element = part.first + int(np.dot(at, part.source))
                    self.assertNotIn(element, found)
                    found[element] = part.data + 2 * int(np.dot(at, part.target))
            self.assertEqual(len(set(found.values())), len(wanted))
            for element in wanted:
                self.assertTrue(found[element] == wanted[element] or copied[element] in hidden)
            whole += len(parts) == 1
        print(f"{whole} copies are whole, {padded} have padding")
        self.assertGreater(whole, 1000)
        self.assertGreater(padded, 300)

    def test_what_is_no_packing(self):
        for index in ([], [0, 0], [0, 2], [0, 1, 3, 2], [-1, 1, 2, 3], [1, 2, 3, 4], [0, 2, 1, 4, 3, 5]):
            self.assertIsNone(_moves.digits_of(index.__getitem__, len(index)), index)
        self.assertEqual(_moves.digits_of([0, 2, 4, 1, 3, 5].__getitem__, 6), ((2, 1, 3), (3, 2, 1)))
        self.assertEqual(_moves.digits_of([1, 0].__getitem__, 2), ((2, 1, -1),))
        self.assertEqual(_moves.digits_of([0, 1, 2, -1].__getitem__, 4), ((4, 1, 1),))
        self.assertEqual(_moves.digits_of([2, 3, 0, -1].__getitem__, 4), ((2, 1, 1), (2, 2, -2)))


class Tables(unittest.TestCase):
    """What the real loaders did, as tests/test_vllm_engine.py --record wrote it."""

    def test_recorded_tables(self):
        recorded = json.loads(TABLES.read_text())
        self.assertGreater(len(recorded["models"]), 2)
        for model in recorded["models"]:
            layout = weft.Layout.of((name, dtype, shape) for name, dtype, shape in model["layout"])
            every = []
            for rank, rows in enumerate(model["ranks"]):
                with self.subTest(model["name"], rank=rank):
                    copies = [Copy(*row[:2], *map(tuple, row[2:4]), row[4], tuple(row[5]), *row[6:]) for row in rows]
                    blocks = _placement.place(layout, copies, "cpu")
                    slices = blocks.slices
                    elements = int((slices["rows"] * slices["columns"]).sum())
                    self.assertEqual(elements, sum(prod(copy.sizes) for copy in copies))
                    self.assertLessEqual(len(blocks), 2 * len(copies))
                    every.append(slices)
            _placement.check_cover(layout, every, [])
            whole = [sum(prod(spec.shape) for spec in layout.tensors)]
            self.assertEqual(_placement.is_whole(layout, blocks), elements == whole[0])
            with self.assertRaisesRegex(weft.TensorError, "puts it nowhere|no process of the engine"):
                _placement.check_cover(layout, [slices[slices["tensor"] != 0] for slices in every], [])
            _placement.check_cover(layout, [s[s["tensor"] != 0] for s in every], [layout.tensors[0].name])
            if len(every) > 1:
                with self.assertRaisesRegex(weft.TensorError, "no process of the engine has some"):
                    _placement.check_cover(layout, every[:1], [])


if __name__ == "__main__":
    support.main()
