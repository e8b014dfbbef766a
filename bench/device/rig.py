"""What the programs of this folder share: a model of the shapes of Llama 3 8B on a device of torch, the steps of its
optimizer, sessions, checks of bits, and a table of medians. Exit code 77: torch, or a device for it, is missing."""

import argparse
import contextlib
import statistics
import sys
import time


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


try:
    import torch

    import weft_fabric as weft
except ImportError as missing:
    skip(f"no {missing.name} for {sys.executable}")

CHUNK = 1 << 26  # elements that torch works on at once, because its masks and sums are wider than bf16
SITE = """
[trainer]
listen = {listen}
backend = {backend}
join_deadline = 60s
[session]
connect_deadline = 60s
[peers]
provider = {provider}
backend = {backend}
level = {level}
[peer.a]
[log]
level = warn
"""


def parser(doc):
    read = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    read.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="torch's name of it: cuda on AMD, too")
    read.add_argument("--small", action="store_true", help="6 M parameters in place of 8 G, and fewer rounds")
    read.add_argument("--level", default="auto", help="as [peers] level")
    return read


class Rig:
    """A trainer's weights on the device, and how things are measured there."""

    def __init__(self, options):
        self.device, self.level, self.cuda = options.device, options.level, options.device == "cuda"
        if self.cuda and not torch.cuda.is_available():
            skip("torch sees no device")
        self.backend = "host" if not self.cuda else "hip" if torch.version.hip else "cuda"
        self.warm, self.rounds = (1, 2) if options.small else (2, 5)
        self.version, self.times = 0, {}
        torch.manual_seed(0)
        shapes = self._shapes(*((256, 2) if options.small else (4096, self._layers())))
        self.weights = {name: torch.randn(s, device=self.device, dtype=torch.bfloat16) * 0.02 for name, s in shapes}
        self.bytes = 2 * sum(tensor.numel() for tensor in self.weights.values())

    def _layers(self):
        """All where the device has room for four models: of two processes, a shadow, and what batches take."""
        return 32 if not self.cuda or torch.cuda.get_device_properties(0).total_memory > 70e9 else 4

    def _shapes(self, hidden, layers):
        wide, narrow, words = hidden * 7 // 2, hidden // 4, hidden * 501 // 16
        layer = {"q": (hidden, hidden), "k": (narrow, hidden), "v": (narrow, hidden), "o": (hidden, hidden),
                 "gate": (wide, hidden), "up": (wide, hidden), "down": (hidden, wide), "norm": (2, hidden)}  # fmt: skip
        yield from {"embed": (words, hidden), "head": (words, hidden)}.items()
        yield from ((f"layers.{i}.{name}", shape) for i in range(layers) for name, shape in layer.items())

    def site(self, listen="127.0.0.1:0", provider="loop", level=None):
        """Of a trainer, or to join the one that listens there."""
        level = level or self.level
        return weft.Site(SITE.format(listen=listen, backend=self.backend, provider=provider, level=level))

    def step(self, delta=2.5e-7):
        """What a step of an optimizer does to bf16: the smaller an element, the sooner its last bit moves."""
        for part in chunks(self.weights):
            odds = delta * torch.exp2(8 - torch.frexp(part.float()).exponent.float())
            sign = torch.randint(0, 2, part.shape, device=self.device, dtype=torch.int16) * 2 - 1
            bits(part).add_(sign * (torch.rand_like(odds) < odds))
        self.version += 1
        self.wait()

    def publish(self, free="publish: until the weights are free"):
        begin = time.perf_counter()
        return self.trainer.publish(self.version, weights_free=lambda: self.add(free, time.perf_counter() - begin))

    @contextlib.contextmanager
    def joined(self, alone, level=None):
        """A trainer, and after `alone` a rollout in this process, too."""
        self.served = {name: tensor.clone() for name, tensor in self.weights.items()}
        with weft.Trainer(self.site(level=level), self.weights, first_version=self.version) as self.trainer:
            alone()
            copy(self.weights, self.served)
            there = self.site(self.trainer.stats().listen, level=level)
            with weft.Rollout(there, "a", self.served) as self.rollout:
                live(self.trainer)
                yield

    def prove(self, what):
        """Ends the program where an element of the rollout differs."""
        wrong = [
            name for name, tensor in self.weights.items() if not torch.equal(bits(tensor), bits(self.served[name]))
        ]
        if wrong:
            sys.exit(f"{what}, version {self.version}: {len(wrong)} tensors differ, first {wrong[0]}")

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    @contextlib.contextmanager
    def timed(self, row):
        """Adds the time until the device is done to a row of the table."""
        self.wait()
        begin = time.perf_counter()
        yield
        self.wait()
        self.add(row, time.perf_counter() - begin)

    def add(self, row, seconds):
        self.times.setdefault(row, []).append(1000 * seconds)

    def table(self, title):
        """Without the first rounds of each row, because those take memory."""
        name = torch.cuda.get_device_name() if self.cuda else "the host"
        print(f"\n{title}: {self.bytes / 1e9:.2f} GB of bf16, torch {torch.__version__}, {name}")
        print(f"{'milliseconds':64} {'median':>9} {'least':>9} {'most':>9}  rounds")
        for row, every in self.times.items():
            ms = every[self.warm :] or every
            print(f"{row:64} {statistics.median(ms):9.2f} {min(ms):9.2f} {max(ms):9.2f} {len(ms):7}")
        print(f"every bit of the rollout was the trainer's in {self.version} versions", flush=True)


def chunks(weights):
    for tensor in weights.values():
        yield from tensor.view(-1).split(CHUNK)


def bits(tensor):
    return tensor.view(torch.int16)


def copy(weights, to):
    for name, tensor in weights.items():
        to[name].copy_(tensor)


def sums(weights):
    """A sum of each chunk, for another process. Each element has an odd factor, so that one that differs changes the
    sum, and nothing of weft's takes part."""
    room = min(CHUNK, max(tensor.numel() for tensor in weights.values()))
    factors = torch.arange(room, device=next(iter(weights.values())).device) * -0x61C8864680B583EA | 1
    return [int((bits(part).long() * factors[: part.numel()]).sum()) for part in chunks(weights)]


def told(update):
    share = 100 * update.changed / update.elements
    return f"version {update.target.number}: {share:.2f} % changed, {update.bytes} bytes at level {update.level}"


def live(trainer, seconds=120):
    """Returns when the rollout has joined."""
    end = time.monotonic() + seconds
    while not any(peer.state == "live" for peer in trainer.peers()):
        assert time.monotonic() < end, "no rollout joins"
        time.sleep(0.01)
