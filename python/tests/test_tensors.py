"""What can be bound, and the errors that name a tensor."""

import array
import ctypes
import gc
import mmap
import os
import tempfile
import pickle
import time
import unittest
import weakref

import numpy as np

import support
import weft_fabric as weft
from support import change, pair, quiet, site, take
from weft_fabric import _binding, _dlpack, _dtypes, _layout, _library, _session, _tensors


class Cuda:
    """An array of a device, as far as its maker tells: nothing reads its memory here."""

    def __init__(self, **facts):
        self.__cuda_array_interface__ = {
            "shape": (2, 3),
            "typestr": "<f4",
            "data": (4096, False),
            "version": 3,
            **facts,
        }


class Packed:
    """A tensor that offers DLPack alone, with its own type code, device and strides."""

    def __init__(self, shape, dtype=(2, 32, 1), device=(1, 0), strides=None, offset=0):
        self.memory = (ctypes.c_uint8 * 4096)()
        self.device = device
        self.shape = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        self.strides = (ctypes.c_int64 * len(shape))(*strides) if strides else None
        self.tensor = _dlpack._Tensor(ctypes.addressof(self.memory), device, len(shape), dtype, self.shape,
                                      self.strides, offset)  # fmt: skip

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, stream=None):
        assert stream == (None if self.device[0] == 1 else -1)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


class Readers(unittest.TestCase):
    def read(self, tensor):
        view = _tensors.read("t", tensor)
        return view.dtype, tuple(view.shape), view.device

    def test_numpy(self):
        for name, dtype in _dtypes._OTHERS.items():
            if name != "bool" and hasattr(np, name):
                self.assertEqual(self.read(np.zeros((3, 2), name)), (dtype, (3, 2), "cpu"))
        self.assertEqual(self.read(np.float32(1).reshape(())), ("F32", (), "cpu"))

    def test_arrays_with_a_dtype_that_numpy_lacks(self):
        self.assertEqual(self.read(weft.Typed(np.zeros((4, 2), np.uint16), "bfloat16")), ("BF16", (4, 2), "cpu"))
        self.assertEqual(self.read(weft.Typed(bytearray(6), "F8_E5M2")), ("F8_E5M2", (6,), "cpu"))
        self.assertEqual(self.read(weft.Typed(np.zeros(8, np.uint8), "F4", (4, 4))), ("F4", (4, 4), "cpu"))
        self.assertRaisesRegex(ValueError, "choose one of", weft.Typed, bytearray(2), "BF17")

    def test_every_dtype_has_its_size(self):
        self.assertEqual(_dtypes.BITS.keys(), _dtypes.NUMBERS.keys())
        for name in _dtypes.NUMBERS:
            self.assertEqual(weft.Layout.of([("t", name, (8, 4))]).bytes, _dtypes.bytes_of(name, 32), name)
        self.assertTrue(set(_dtypes._DLPACK.values()) <= _dtypes.NUMBERS.keys())

    def test_buffers(self):
        with mmap.mmap(-1, 4096) as memory:
            self.assertEqual(self.read(memoryview(memory).cast("f")), ("F32", (1024,), "cpu"))
        self.assertEqual(self.read(bytearray(5)), ("U8", (5,), "cpu"))
        self.assertEqual(self.read(array.array("d", [1, 2])), ("F64", (2,), "cpu"))
        self.assertEqual(self.read(memoryview(bytearray(24)).cast("i", (2, 3))), ("I32", (2, 3), "cpu"))
        held = bytearray(8)
        view = _tensors.read("t", held)
        self.assertRaises(BufferError, held.extend, b"more")  # bound memory cannot be taken away
        self.assertEqual(view.bytes, 8)

    def test_dlpack(self):
        x = Packed((2, 3), offset=64)
        view = _tensors.read("t", x)
        self.assertEqual((view.dtype, view.shape, view.address), ("F32", (2, 3), ctypes.addressof(x.memory) + 64))
        self.assertEqual(self.read(Packed((2, 3), (4, 16, 1), strides=(3, 1))), ("BF16", (2, 3), "cpu"))
        self.assertEqual(self.read(Packed((), (10, 8, 1))), ("F8_E4M3", (), "cpu"))
        self.assertEqual(self.read(Packed((2,), device=(2, 1))), ("F32", (2,), "cuda:1"))
        self.assertEqual(self.read(Packed((2,), device=(10, 0))), ("F32", (2,), "cuda:0"))
        self.assertRaisesRegex(weft.TensorError, "strides", self.read, Packed((2, 3), strides=(1, 2)))

        class Refusing(Packed):
            def __dlpack__(self, stream=None):
                raise BufferError("it is read-only")

        self.assertRaisesRegex(weft.TensorError, "'t': .* it is read-only", self.read, Refusing((2, 3)))
        self.assertRaisesRegex(weft.TensorError, "lanes 4", self.read, Packed((2,), (2, 32, 4)))
        self.assertRaisesRegex(weft.TensorError, "does not know", self.read, Packed((2,), device=(15, 0)))

    def test_cuda_arrays(self):
        self.assertEqual(self.read(Cuda()), ("F32", (2, 3), "cuda"))
        self.assertEqual(self.read(Cuda(strides=(12, 4))), ("F32", (2, 3), "cuda"))
        self.assertRaisesRegex(weft.TensorError, "strides", self.read, Cuda(strides=(4, 8)))


class Refused(unittest.TestCase):
    def refused(self, text, named, layout=None, written=True):
        layout = weft.Layout(named) if layout is None else layout
        with self.assertRaisesRegex(weft.TensorError, text) as caught:
            _binding.bind(layout, named, written)
        self.assertEqual(caught.exception.tensor, "w")
        self.assertIn("tensor 'w'", str(caught.exception))
        self.assertEqual(str(pickle.loads(pickle.dumps(caught.exception))), str(caught.exception))

    def test_each_error_names_the_tensor(self):
        layout = weft.Layout.of([("w", "F32", (2, 3)), ("x", "F32", (4,))])
        x = np.zeros(4, np.float32)
        self.refused(
            "not contiguous: shape .2, 3., strides .4, 8.", {"w": np.zeros((3, 2), np.float32).T, "x": x}, layout
        )
        self.refused("F64, the layout has F32", {"w": np.zeros((2, 3)), "x": x}, layout)
        self.refused("shape is .3, 2., the layout has .2, 3.", {"w": np.zeros((3, 2), np.float32), "x": x}, layout)
        self.refused("the layout has it, and it was not given", {"x": x}, layout)
        self.refused("parts hold 5 elements", {"w": [np.zeros(5, np.float32)], "x": x}, layout)
        self.refused("does not have it", {"x": x, "w": x}, weft.Layout.of([("x", "F32", (4,))]))
        for turned in (np.zeros((2, 3), ">f4"), memoryview(np.zeros((2, 3), ">f4")), Cuda(typestr=">f4")):
            self.refused("another order", {"w": turned, "x": x}, layout)
        self.refused("no dtype for complex128", {"w": np.zeros((2, 3), complex), "x": x}, layout)
        self.refused("a dict is no tensor", {"w": {}, "x": x}, layout)
        self.refused("on cuda, and tensor 'v' on cpu", {"v": x, "w": Cuda()})
        self.refused("takes 6 bytes, and the array of U8 has 4", {"w": weft.Typed(bytearray(4), "BF16", (3,))}, layout)

    def test_memory_of_a_device_is_refused_by_a_session_on_the_host(self):
        named = {"v": Cuda(), "w": Cuda(data=(8192, False))}
        text = "'v': on cuda, and this session's backend is host/[a-z0-9]+: let the site's backend be auto"
        with self.assertRaisesRegex(weft.TensorError, text) as caught:
            weft.Trainer(site(trainer__backend="host"), named, log=quiet)
        self.assertEqual(caught.exception.tensor, "v")
        keys = {"trainer__listen": "127.0.0.1:1", "peers__backend": "host"}
        for bound in (named, weft.Blocks(1, 0, 2, 0, 3, 4096, device="cuda:0")):
            with self.assertRaisesRegex(weft.TensorError, "backend is host"):
                weft.Rollout(site(**keys), "a", bound, layout=weft.Layout(named), log=quiet)

    def test_the_session_is_told_of_the_tensors_device(self):
        class On:
            def __init__(self, device):
                self.device = device

        rows = [(None, 0), ({}, 0), ({"w": np.zeros(2)}, 0), ({"w": On("cuda:0"), "x": On("cpu")}, 1), ({"w": On("cuda")}, 0),
                ({"w": On("cuda:11")}, 12), ({"w": On("cpu:3")}, 0), (weft.Blocks(1, 0, 2, 0, 3, 4096, device="cuda:2"), 3)]  # fmt: skip
        for named, wanted in rows:
            self.assertEqual(_session._device_of(named), wanted, named)

    def test_what_weft_writes_is_writable_and_no_other_tensors(self):
        frozen = np.zeros(4, np.float32)
        frozen.flags.writeable = False
        self.refused("read-only", {"w": frozen})
        self.refused("read-only", {"w": memoryview(bytes(8))})
        shared = np.zeros(8, np.float32)
        self.refused("shares memory with tensor 'v': of tied tensors", {"v": shared, "w": shared})
        self.refused("shares memory with tensor 'v'", {"v": shared[:5], "x": np.zeros(3), "w": shared[4:]})
        _binding.bind(weft.Layout({"v": shared, "w": shared}), {"v": shared, "w": shared}, False)
        self.refused(
            "not contiguous", {"v": shared, "w": shared[::2]}, weft.Layout.of([("v", "F32", (8,)), ("w", "F32", (4,))])
        )

    def test_layouts(self):
        self.assertRaisesRegex(weft.CallError, "given twice", weft.Layout, [("w", bytearray(1)), ("w", bytearray(1))])
        self.assertRaises(weft.CallError, weft.Layout, {"": bytearray(1)})
        self.assertRaisesRegex(weft.CallError, "a str is neither", weft.Layout, "model")
        self.assertRaisesRegex(weft.CallError, "a float is neither", weft.Layout, 1.0)
        self.assertRaisesRegex(weft.CallError, "gives its pairs once", weft.Layout, iter(()))
        self.assertRaises(weft.CallError, weft.Trainer, site(), log=quiet)
        one = weft.Layout({"w": np.zeros((2, 3), np.float32)})
        self.assertEqual(one, weft.Layout.of([("w", "float32", (2, 3))]))
        self.assertNotEqual(one, weft.Layout.of([("w", "float32", (3, 2))]))
        self.assertEqual((len(one), one.bytes, one.tensors), (1, 24, (_layout.TensorSpec("w", "F32", (2, 3)),)))
        self.assertEqual(len({one, weft.Layout.of(one.tensors)}), 1)

    def test_strides_are_rows_of_pairs(self):
        for strides in ((4, 256), [(4, 256, 1)], [(1, 1)] * 4):
            with self.assertRaisesRegex(ValueError, "row_strides of shape .* up to three"):
                weft.Blocks([0, 0], [0, 4], 4, 0, 8, 4096, row_strides=strides)
        one = weft.Blocks([0, 0], [0, 4], 4, 0, 8, 4096, row_strides=[(4, 256)]).table
        self.assertEqual(one["row"][1].tolist(), [(4, 256), (0, 0), (0, 0)])

    def test_c_has_the_last_word(self):
        with self.assertRaisesRegex(weft.CallError, "w"):
            weft.Trainer(site(), weft.Pieces(0, 0, 5, 4096), layout=weft.Layout.of([("w", "F32", (6,))]), log=quiet)


class Bound(unittest.TestCase):
    def test_memory_is_kept_as_long_as_it_is_bound(self):
        for memory in (lambda: np.zeros(1 << 16, np.float32), lambda: [np.zeros(1 << 15, np.float32) for _ in "ab"]):
            tensor = memory()
            alive = [weakref.ref(part) for part in (tensor if isinstance(tensor, list) else [tensor])]
            with weft.Trainer(
                site(), {"w": tensor}, layout=weft.Layout.of([("w", "F32", (1 << 16,))]), log=quiet
            ) as trainer:
                del tensor
                gc.collect()
                self.assertTrue(all(part() is not None for part in alive))
                trainer.publish(1)
            gc.collect()
            self.assertTrue(all(part() is None for part in alive))

    def test_an_array_that_lost_its_memory_is_not_read(self):
        """numpy's own check is off, by refcheck=False, as for code under a debugger."""
        for of in (lambda x: x, lambda x: x[:], memoryview, lambda x: np.asarray(memoryview(x))):  # what has its memory
            owner = np.ones(1 << 16, np.float32)
            tensor = of(owner)
            with weft.Trainer(site(), {"w": tensor}, log=quiet) as trainer:
                owner.resize(1 << 8, refcheck=False)
                with self.assertRaisesRegex(weft.TensorError, "'w': its memory is gone since bind; bind the tensors"):
                    trainer.publish(1)
                owner.resize(1 << 16, refcheck=False)
                trainer.bind({"w": owner})
                trainer.publish(2)

    def test_an_array_that_weft_writes_is_not_resized(self):
        for of in (lambda x: x[:], memoryview):
            owner = np.zeros(1 << 16, np.float32)
            with weft.Rollout(site(), "a", {"w": of(owner)}, log=quiet) as rollout:
                self.assertRaises(ValueError, owner.resize, 1 << 8, refcheck=False)
                rollout.unbind()
                owner.resize(1 << 8, refcheck=False)

    def test_a_mapped_file_that_is_cut_is_not_read(self):
        count = 3 << 12
        with tempfile.NamedTemporaryFile() as file:
            file.write(bytes(4 * (count + 5000)))
            file.flush()
            mapped = np.memmap(file.name, np.float32, "r", 4 * 5000, (count,))
            with mmap.mmap(file.fileno(), 0) as memory:
                layout = weft.Layout({"w": mapped})
                with weft.Trainer(site(), {"w": mapped[:]}, layout=layout, log=quiet) as trainer:
                    trainer.publish(1)
                    os.truncate(file.name, 4 * (count + 5000) - 1)
                    self.assertRaisesRegex(weft.TensorError, "'w': its memory is gone", trainer.publish, 2)
                    for cut in (mapped, np.frombuffer(memory, np.float32), memoryview(memory), mapped[:1]):
                        with self.assertRaisesRegex(weft.TensorError, "'t': its file is shorter than"):
                            _tensors.read("t", cut)
                del cut

    def test_tables_are_quick(self):
        """300,000 pieces, as engines with row cuts have: the bar is 10 ms on a machine that does nothing else."""
        count, best = 300_000, 1.0
        memory = np.zeros(count * 4, np.float32)
        for _ in range(10):
            start = time.process_time()
            table = weft.Pieces(0, np.arange(count) * 4, 4, memory.ctypes.data + np.arange(count) * 16, keep=memory)
            binding = _binding.bind(weft.Layout.of([("w", "F32", (count * 4,))]), table, True)
            best = min(best, time.process_time() - start)
        self.assertEqual(
            (binding.count, binding.c[7].first, int(_library.ffi.cast("uintptr_t", binding.c[7].data))),
            (count, 28, memory.ctypes.data + 112),
        )
        print(f"300,000 pieces in {best * 1e3:.1f} ms of processor time")
        self.assertLess(best, 0.1)

    def test_many_tensors(self):
        named = {f"layer.{i}": np.zeros(4, np.float32) for i in range(2000)}
        with pair(named, {name: tensor.copy() for name, tensor in named.items()}) as (trainer, rollout):
            change(named, 1)
            self.assertEqual(trainer.publish(1).changed, sum(int(tensor.any()) for tensor in named.values()))
            take(rollout, 1)


if __name__ == "__main__":
    support.main()
