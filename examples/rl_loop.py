"""A small transformer learns by policy gradient, and two generator processes get its weights through weft alone.

python3 rl_loop.py --versions 40 --out plots

Each generator says which tokens and log-probabilities it made, and with which version. The trainer makes them again
with a dense copy of that version, and stops at the first bit that differs. Generators write while the trainer learns,
so a batch may be one version old. Where vLLM is installed, generator b is vLLM (rl_vllm.py), and the dense copies of b
are checkpoints that a second engine loads. With --out, figures.json and, where matplotlib is, loop.png are written.
"""

import argparse
import importlib.util
import json
import multiprocessing
import multiprocessing.connection
import pathlib
import time

import torch
import weft_fabric as weft
import weft_fabric.torch

WORDS, PROMPT, LENGTH = 16, 2, 16  # words that the vocabulary, a prompt and a text have
BATCH = 32  # texts that a batch has
WIDTH, HEADS, DEPTH = 64, 4, 2
PRETRAINED = 40  # steps before version 0
KEPT = 3  # dense copies kept: a batch is never older
GENERATORS = ("a", "b")
ENGINE = "b"  # the generator that may be vLLM
LATE = 600  # seconds that nothing takes: an engine starts in a minute
SITE = """
[trainer]
listen = 127.0.0.1:0
[peers]
provider = tcp
[peer.a]
[peer.b]
"""


class Block(torch.nn.Module):
    """Attention over what came before, then two linear layers."""

    def __init__(self):
        super().__init__()
        self.before, self.between = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        texts, words, _ = x.shape
        heads = self.qkv(self.before(x)).view(texts, words, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        scores = heads[0] @ heads[1].transpose(-1, -2) * (WIDTH // HEADS) ** -0.5
        later = torch.ones(words, words, dtype=torch.bool).triu(1)
        seen = scores.masked_fill(later, float("-inf")).softmax(-1) @ heads[2]
        x = x + self.out(seen.transpose(1, 2).reshape(texts, words, WIDTH))
        return x + self.down(torch.nn.functional.gelu(self.up(self.between(x))))


class Policy(torch.nn.Module):
    """Says how likely each next word is."""

    def __init__(self):
        super().__init__()
        self.word, self.place = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Embedding(LENGTH, WIDTH)
        self.blocks = torch.nn.Sequential(*(Block() for _ in range(DEPTH)))
        self.norm, self.head = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.word(tokens) + self.place(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x))).float().log_softmax(-1)


@torch.no_grad()
def generate(policy, seed):
    """Texts, and the log-probability of each word in them that the policy chose. The same bits for the same weights."""
    random = torch.Generator().manual_seed(seed)
    tokens = torch.randint(WORDS, (BATCH, PROMPT), generator=random)
    chosen = []
    while tokens.shape[1] < LENGTH:
        likely = policy(tokens)[:, -1]
        word = torch.multinomial(likely.exp(), 1, generator=random)
        chosen.append(likely.gather(1, word))
        tokens = torch.cat((tokens, word), 1)
    return tokens.numpy(), torch.cat(chosen, 1).numpy()


def generator(site, listen, name, pipe, make):
    """A process that generates: it takes each version between two batches, and tells at once what it makes with it."""
    torch.set_num_threads(1)
    policy = make().bfloat16()
    named = weft.torch.named_tensors(policy)
    with weft.Rollout(weft.Site(site, {"trainer.listen": listen}), name, named, empty=True) as rollout:
        while True:
            staged = rollout.staged(timeout=0.002)
            if staged:
                began = time.perf_counter()
                with torch.no_grad():
                    held = rollout.commit(staged)
                pause = 1000 * (time.perf_counter() - began)
                pipe.send(("version", held.number, held.number, pause, *generate(policy, held.number)))
            if pipe.poll():
                seed = pipe.recv()
                if seed is None:
                    return
                pipe.send(("batch", rollout.held.number, seed, 0.0, *generate(policy, seed)))


def compare(name, version, made, dense):
    """Raises unless a generator's tokens and log-probabilities are, bit for bit, those of the dense copy."""
    for what, one, other in zip(("tokens", "log-probabilities"), made, dense):
        if one.shape != other.shape or one.tobytes() != other.tobytes():
            raise AssertionError(f"generator {name}, version {version}: {what} differ from the dense copy's")


@torch.no_grad()
def distance(policy, made):
    """How far the log-probabilities of a text are from those of a policy, at most."""
    tokens, chosen = map(torch.from_numpy, made)
    likely = policy(tokens[:, :-1])[:, PROMPT - 1 :].gather(2, tokens[:, PROMPT:, None])[..., 0]
    return (likely - chosen).abs().max().item()


class Fleet:
    """The generator processes, and dense copies of the last versions to judge them by. `engines`: those of vLLM."""

    def __init__(self, listen, make, engines):
        context = multiprocessing.get_context("spawn")
        self.pipes, self.processes, self.copies = {}, [], {}
        self.judge, self.engines = make().bfloat16(), engines
        self.pauses = {}  # milliseconds a commit took, by name and version
        self.distances = {}  # of log-probabilities from those of torch, by name and version
        self.batches = 0
        for name in GENERATORS:
            here, there = context.Pipe()
            if engines and name == ENGINE:
                target, arguments = engines.target(SITE, listen, name, there)
            else:
                target, arguments = generator, (SITE, listen, name, there, make)
            process = context.Process(target=target, args=arguments, daemon=True)
            process.start()
            there.close()
            self.pipes[here] = name
            self.processes.append(process)

    def keep(self, version, served):
        """Keeps a dense copy of a version, made by torch alone."""
        self.copies[version] = {name: tensor.clone() for name, tensor in served.state_dict().items()}
        self.copies.pop(version - KEPT, None)
        if self.engines:
            self.engines.keep(version, served)

    def ask(self):
        """Asks each generator for a batch that nobody asked for yet."""
        for pipe in self.pipes:
            self.batches += 1
            pipe.send(1_000_000 + self.batches)

    def _take(self, pipe):
        name = self.pipes[pipe]
        try:
            kind, version, seed, pause, *made = pipe.recv()
        except EOFError:
            raise RuntimeError(f"generator {name} ended") from None
        self.judge.load_state_dict(self.copies[version])
        by_engine = self.engines and name == ENGINE
        compare(name, version, made, self.engines.generate(version, seed) if by_engine else generate(self.judge, seed))
        if kind == "version":
            self.pauses[name, version], self.distances[name, version] = pause, distance(self.judge, made)
            return None
        return version, torch.from_numpy(made[0])

    def batch(self):
        """One batch of each generator with its version. What comes meanwhile is judged, too."""
        batches, waiting = [], set(self.pipes)
        while waiting:
            for pipe in multiprocessing.connection.wait(list(waiting), timeout=LATE) or self._late():
                batch = self._take(pipe)
                if batch:
                    batches.append(batch)
                    waiting.discard(pipe)
        return batches

    def judged(self, version):
        """Waits until each generator told what it made with a version."""
        while any((name, version) not in self.pauses for name in GENERATORS):
            late = [pipe for pipe, name in self.pipes.items() if (name, version) not in self.pauses]
            for pipe in multiprocessing.connection.wait(late, timeout=LATE) or self._late():
                if self._take(pipe):
                    raise RuntimeError(f"generator {self.pipes[pipe]} sent a batch that nobody waits for")

    @staticmethod
    def _late():
        raise TimeoutError(f"no generator said anything in {LATE} s")

    def close(self):
        for pipe in self.pipes:
            try:
                pipe.send(None)
            except OSError:
                pass  # a generator that ended
        for process in self.processes:
            process.join(30)


def reward(tokens):
    """For each word that was chosen, whether it follows the one before it."""
    return (tokens[:, PROMPT:] == (tokens[:, PROMPT - 1 : -1] + 1) % WORDS).float()


def learn(policy, optimizer, tokens):
    """One step of policy gradient. Returns the mean reward."""
    gained = reward(tokens)
    likely = policy(tokens[:, :-1])[:, PROMPT - 1 :].gather(2, tokens[:, PROMPT:, None])[..., 0]
    optimizer.zero_grad()
    (-(gained - gained.mean()) * likely).mean().backward()
    optimizer.step()
    return gained.mean().item()


def copy_to(served, policy):
    """Rounds the masters to bfloat16, in place where weft reads them."""
    with torch.no_grad():
        for bits, master in zip(served.parameters(), policy.parameters()):
            bits.copy_(master)


def pretrain(policy, steps=PRETRAINED):
    """Stands for the model that RL begins with: steps at a rate that no RL of large models has."""
    optimizer = torch.optim.Adam(policy.parameters(), 1e-3)
    for step in range(steps):
        learn(policy, optimizer, torch.from_numpy(generate(policy, 2_000_000 + step)[0]))


def loop(versions, rate, make=Policy, engines=None):
    """Trains for so many versions. Returns a row of figures for each."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # sums in one order, so that equal weights give equal bits
    policy, served, rows = make(), make().bfloat16(), []
    pretrain(policy)
    optimizer = torch.optim.Adam(policy.parameters(), rate)
    copy_to(served, policy)
    with weft.Trainer(SITE, weft.torch.named_tensors(served)) as trainer:
        fleet = Fleet(trainer.stats().listen, make, engines)
        try:
            fleet.keep(0, served)
            fleet.judged(0)
            fleet.ask()
            for version in range(1, versions + 1):
                batches = fleet.batch()
                if version < versions:
                    fleet.ask()  # generators write on while the trainer learns
                gained = learn(policy, optimizer, torch.cat([tokens for _, tokens in batches]))
                copy_to(served, policy)
                fleet.keep(version, served)
                update = trainer.publish(version)
                rows.append({
                    "version": version, "reward": gained, "bytes": update.bytes, "dense_bytes": update.dense_bytes,
                    "changed": update.changed, "elements": update.elements,
                    "staleness": [version - 1 - used for used, _ in batches],
                })  # fmt: skip
                trainer.wait(version, GENERATORS, timeout=LATE)  # no version is passed over, so each one is judged
            fleet.judged(versions)
        finally:
            fleet.close()
    for row in rows:
        row["pause_ms"] = [fleet.pauses[name, row["version"]] for name in GENERATORS]
        row["distance"] = [fleet.distances[name, row["version"]] for name in GENERATORS]
    return rows


def loop_with_vllm(versions, rate):
    """loop() where generator b is vLLM."""
    import rl_vllm

    engines = rl_vllm.Engines(KEPT)
    try:
        return loop(versions, rate, rl_vllm.Policy, engines)
    finally:
        engines.close()


def plot(rows, path, kinds):
    """Draws pause, bytes, staleness and reward by version. False: matplotlib is missing."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(4, 1, sharex=True, figsize=(7, 9))
    at = [row["version"] for row in rows]
    for place, name in enumerate(GENERATORS):
        axes[0].plot(at, [row["pause_ms"][place] for row in rows], label=f"generator {name} ({kinds[place]})")
    axes[0].set_ylim(bottom=0)
    axes[0].legend()
    axes[1].plot(at, [row["bytes"] for row in rows], label="weft")
    axes[1].plot(at, [row["dense_bytes"] for row in rows], label="dense")
    axes[1].set_yscale("log")
    axes[1].legend()
    axes[2].plot(at, [max(row["staleness"]) for row in rows])
    axes[3].plot(at, [row["reward"] for row in rows])
    axes[3].set_ylim(0, 1)
    for axis, title in zip(axes, ("pause (ms)", "bytes of an update", "oldest batch (versions)", "mean reward")):
        axis.set_ylabel(title)
    axes[3].set_xlabel("version")
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", type=int, default=40, help="versions to publish")
    parser.add_argument("--rate", type=float, default=1e-6, help="Adam's learning rate: a small one changes fewer bits")
    parser.add_argument("--engine", choices=("torch", "vllm"), help="what generator b is: vLLM where it is installed",
                        default="vllm" if importlib.util.find_spec("vllm") else "torch")  # fmt: skip
    parser.add_argument("--out", type=pathlib.Path, help="a folder for figures.json and loop.png")
    options = parser.parse_args()
    kinds = ("torch", options.engine)
    rows = (loop_with_vllm if options.engine == "vllm" else loop)(options.versions, options.rate)
    for row in rows:
        print(f"version {row['version']}: reward {row['reward']:.3f}, {row['bytes']} of {row['dense_bytes']} bytes, "
              f"staleness {max(row['staleness'])}, pause {max(row['pause_ms']):.2f} ms")  # fmt: skip
    same = f"tokens and log-probabilities of {len(GENERATORS)} generators ({', '.join(kinds)}) are the dense copy's"
    print(f"{len(rows) + 1} versions: {same}")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "figures.json").write_text(json.dumps(rows, indent=1))
        drawn = plot(rows, options.out / "loop.png", kinds)
        print(f"wrote {options.out}/figures.json" + (" and loop.png" if drawn else "; no plot, matplotlib is missing"))


if __name__ == "__main__":
    main()
