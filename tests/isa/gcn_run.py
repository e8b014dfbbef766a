"""Runs a kernel of a gfx9 code object: blocks of waves in random turns, on memory in regions."""
from gcn_compile import BARRIER, END, Unknown, made, translate
from gcn_memory import Fault, Memory, Region, Shared
from gcn_words import M32, M64

ARGUMENTS = 0x1000 # where the argument lies: below all memory that a test gives
STEPS = 20_000_000 # of one launch: more is a wave that never ends


class Program:
    """The translated instructions of one kernel, and how often each ran."""

    def __init__(self, image, name):
        if name not in image.kernels:
            raise KeyError(f"{image.path} has no kernel {name}")
        self.kernel = image.kernels[name]
        self.instructions = image.code_of(self.kernel)
        while self.instructions[-1].name in ("s_nop", "s_code_end"): # what pads the code
            self.instructions.pop()
        self.index = {one.address: at for at, one in enumerate(self.instructions)}
        self.acts, unknown = [], []
        for at, one in enumerate(self.instructions):
            try:
                self.acts.append(self.later(at, translate(one)))
            except Unknown as said:
                unknown.append(f"{image.device} {name}: {one.text}: {said}")
        if unknown:
            raise Unknown("\n".join(unknown))
        self.counts = [0] * len(self.acts)

    def later(self, at, text):
        """An instruction that becomes a function when it is first reached: most never are."""
        def first(wave):
            self.acts[at] = made(text)
            return self.acts[at](wave)
        return first

    def ran(self, prefixes=("",)):
        """Wave-instructions so far whose names begin so."""
        return sum(n for n, one in zip(self.counts, self.instructions) if one.name.startswith(prefixes))


class Wave:
    __slots__ = ("s", "v", "x", "lanes", "scc", "memory", "shared", "at", "state", "cache")

    def __init__(self, program, memory, shared, first_thread, block, rng, cache):
        kernel = program.kernel
        self.memory, self.shared, self.at, self.state, self.cache = memory, shared, 0, "ready", cache
        noise = rng.getrandbits(32)
        self.s = [noise ^ i for i in range(128)]
        self.v = [[noise ^ i] * 64 for i in range(256)]
        self.scc = noise & 1
        self.s[kernel.kernarg_word], self.s[kernel.kernarg_word + 1] = ARGUMENTS & M32, ARGUMENTS >> 32
        if kernel.id_words[0]:
            self.s[kernel.user_words] = block
        self.v[0] = [first_thread + lane for lane in range(64)]
        self.x = M64
        self.lanes = self.held()

    def held(self):
        """The lanes that exec holds."""
        found = self.cache.get(self.x)
        if found is None:
            found = self.cache[self.x] = [lane for lane in range(64) if self.x >> lane & 1]
        return found

    def turn(self, program, most):
        """Runs until a barrier, the end, or so many instructions; returns how many it ran."""
        acts, counts, index, at = program.acts, program.counts, program.index, self.at
        try:
            for ran in range(most):
                counts[at] += 1
                to = acts[at](self)
                if to is None:
                    at += 1
                elif to >= 0:
                    at = index[to]
                else:
                    at += 1
                    self.state = "ended" if to == END else "waits"
                    return ran + 1
            return most
        finally:
            self.at = at


def arguments(kernel, argument, blocks, threads):
    """The argument and those that the compiler hides after it."""
    data = bytearray(kernel.resources["kernarg_segment_size"])
    hidden = {"hidden_block_count_x": blocks, "hidden_block_count_y": 1, "hidden_block_count_z": 1,
              "hidden_group_size_x": threads, "hidden_group_size_y": 1, "hidden_group_size_z": 1, "hidden_grid_dims": 1}
    given = iter([argument])
    for one in kernel.resources["args"]:
        kind, at, size = one[".value_kind"], one[".offset"], one[".size"]
        value = next(given) if not kind.startswith("hidden_") else hidden.get(kind, 0)
        data[at:at + size] = value.to_bytes(size, "little")
    return data


def launch(program, memory, blocks, argument, rng, threads=256, resident=3):
    """Runs all blocks, a few at a time, their waves in random turns. Raises Fault where a wave leaves memory."""
    kernel = program.kernel
    given = arguments(kernel, argument, blocks, threads)
    memory = Memory(memory.regions + [Region(ARGUMENTS, len(given), {0: given})])
    waiting, live, steps, cache = list(range(blocks)), [], 0, {}
    rng.shuffle(waiting)
    while waiting or live:
        while waiting and len(live) < resident:
            block = waiting.pop()
            shared = Shared(bytearray(rng.randbytes(kernel.lds_bytes)))
            live.append([Wave(program, memory, shared, first, block, rng, cache) for first in range(0, threads, 64)])
        waves = rng.choice(live)
        ready = [wave for wave in waves if wave.state == "ready"]
        if ready:
            wave = rng.choice(ready)
            try:
                steps += wave.turn(program, rng.randrange(1, 500))
            except Fault as fault:
                raise Fault(f"{kernel.name}: {program.instructions[wave.at].text}: {fault}") from None
            if steps > STEPS:
                raise Fault(f"{kernel.name}: no end after {STEPS} instructions")
        elif all(wave.state == "ended" for wave in waves):
            live.remove(waves)
        else: # a barrier lets go once all waves that still run are there
            for wave in waves:
                if wave.state == "waits":
                    wave.state = "ready"
    return steps
