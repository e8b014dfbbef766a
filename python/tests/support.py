"""What the package's tests share. Each test is a program: 0 passed, 77 skipped with the reason as its last line."""

import atexit
import contextlib
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FULL = bool(os.environ.get("WEFT_FULL"))
FABRIC = os.environ.get("WEFT_FABRIC", "1") == "1"
BOUND = 60.0  # seconds that no wait on a busy machine takes


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


try:
    import cffi  # noqa: F401
    import numpy as np
except ImportError as missing:
    skip(f"{missing.name} for {sys.executable} is missing (Debian: python3-cffi, python3-numpy)")

import weft_fabric as weft  # noqa: E402


def _own_folder():
    """A folder for temporary files that goes with this process, because torch leaves folders behind. Processes that it
    starts share the folder, because sockets have no room for long paths."""
    if "WEFT_OWN_FOLDER" in os.environ:
        return
    folder, process = tempfile.mkdtemp(), os.getpid()
    os.environ["WEFT_OWN_FOLDER"] = os.environ["TMPDIR"] = tempfile.tempdir = folder
    atexit.register(lambda: os.getpid() == process and shutil.rmtree(folder, ignore_errors=True))


_own_folder()

SITE = """
[trainer]
listen = 127.0.0.1:0
journal = 16MiB
join_deadline = 60s
[session]
connect_deadline = 60s
close_deadline = 2s
[peers]
provider = {provider}
staging = 16MiB
heartbeat = 60s
[peer.a]
[peer.b]
"""


def site(trainer=None, provider="loop", **keys):
    """A site on loopback; `trainer` is the one to join. Keys are written with __ for the dot."""
    overrides = {key.replace("__", "."): value for key, value in keys.items()}
    if trainer is not None:
        overrides["trainer.listen"] = trainer.stats().listen
    return weft.Site(SITE.format(provider=provider), overrides)


def quiet(level, line):
    """A log that nobody reads."""


def weights(seed=0):
    """A small model of several dtypes; an element is never the same in two seeds."""
    random = np.random.default_rng(seed)
    return {
        "embed": random.standard_normal((64, 96), np.float32),
        "norm": weft.Typed(random.integers(0, 1 << 15, 96, np.uint16), "BF16"),
        "fp8": weft.Typed(random.integers(0, 120, (32, 32), np.uint8), "F8_E4M3"),
        "count": np.array(seed, np.int64),
        "none": np.zeros((0, 4), np.float32),
    }


def arrays(named):
    return {name: tensor.array if isinstance(tensor, weft.Typed) else tensor for name, tensor in named.items()}


def change(named, version):
    """A step of an optimizer that changes a few elements of each tensor."""
    random = np.random.default_rng(version)
    for array in arrays(named).values():
        if array.size:
            where = random.integers(0, array.size, 1 + array.size // 50)
            array.reshape(-1)[where] += array.dtype.type(1)


def same(one, other):
    one, other = arrays(one), arrays(other)
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)


@contextlib.contextmanager
def pair(trained=None, served=None, provider="loop", **options):
    """A trainer and a rollout that has joined, over one provider."""
    trained = weights() if trained is None else trained
    served = weights() if served is None else served
    with weft.Trainer(site(provider=provider), trained, log=quiet) as trainer:
        with weft.Rollout(site(trainer, provider), "a", served, log=quiet, **options) as rollout:
            yield trainer, rollout


def take(rollout, version, timeout=BOUND):
    """Commits until the rollout holds that version, which a join alone may bring, too."""
    end = time.monotonic() + timeout
    while rollout.held is None or rollout.held.number < version:
        if time.monotonic() > end:
            raise AssertionError(f"version {version} did not come in {timeout} s")
        staged = rollout.staged(timeout=0.1)
        if staged is not None:
            rollout.commit(staged)
    return rollout.held


def free_port():
    """Of those that the system does not give to anybody by itself."""
    port = 10240 + os.getpid() * 16 % 20000
    while True:
        try:
            with socket.socket() as tried:
                tried.bind(("127.0.0.1", port))
            return port
        except OSError:
            port += 1


def await_port(port, timeout=BOUND):
    """Returns when somebody listens there."""
    end = time.monotonic() + timeout
    while True:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        if time.monotonic() > end:
            raise AssertionError(f"nobody listens on port {port}")
        time.sleep(0.05)


def colliding(test, call, others):
    """Makes a call whose progress callback makes each of the others, on a thread of its own: they are refused."""
    refused = []

    def one(other):
        try:
            other()
            refused.append("it was not refused")
        except weft.Error as error:
            refused.append(str(error))

    def progress(done, total):
        for other in [] if refused else others:
            thread = threading.Thread(target=one, args=(other,))
            thread.start()
            thread.join()

    call(progress)
    test.assertEqual(len(refused), len(others))
    for text in refused:
        test.assertRegex(
            text, "^the (store|update file): a call on another thread is running; (one thread|close after)"
        )


def main():
    """Runs the tests of a program. Those that are passed over are told as cmocka's are, so that runs count them."""
    program = unittest.main(verbosity=1, exit=False)
    for test, _ in program.result.skipped:
        print(f"[  SKIPPED ] {test.id().split('.')[-1]}")
    sys.exit(not program.result.wasSuccessful())
