"""The loop of rl_loop.py under Ray: the trainer and the rollouts are actors, and one rollout is killed and comes back.

python3 ray_loop.py --versions 12 --out plots

Ray carries tokens and log-probabilities, weft alone carries weights. The trainer makes what each rollout made again,
with a dense copy of the rollout's version, and stops at the first bit that differs. A rollout is killed in the middle.
The trainer goes on without it, Ray starts it anew, and it joins by a snapshot. With --out, ray.json is written there.
"""

import argparse
import json
import os
import pathlib
import time

import ray
import torch
import weft_fabric as weft
import weft_fabric.torch
from rl_loop import SITE, Policy, compare, copy_to, generate, learn

KILLED = "b"
AWAY = 2  # versions that the trainer publishes without the rollout that was killed
BOUND = 120  # seconds that no call takes


@ray.remote(num_cpus=0)
class Trainer:
    """Trains the policy and publishes it. Has dense copies of the last versions to judge the rollouts by."""

    def __init__(self, rate):
        torch.manual_seed(0)
        torch.set_num_threads(1)  # sums in one order, so that equal weights give equal bits
        self.policy, self.served, self.judge = Policy(), Policy().bfloat16(), Policy().bfloat16()
        self.optimizer = torch.optim.Adam(self.policy.parameters(), rate)
        copy_to(self.served, self.policy)
        self.trainer = weft.Trainer(SITE, weft.torch.named_tensors(self.served))
        self.copies = {}
        self._keep(0)

    def _keep(self, version):
        self.copies[version] = {name: tensor.clone() for name, tensor in self.served.state_dict().items()}
        self.copies.pop(version - AWAY - 2, None)

    def listen(self):
        return self.trainer.stats().listen

    def judged(self, made):
        """Raises unless what a rollout made is, bit for bit, what the dense copy of its version makes."""
        self.judge.load_state_dict(self.copies[made["version"]])
        dense = generate(self.judge, made["seed"])
        compare(made["name"], made["version"], (made["tokens"], made["chosen"]), dense)

    def step(self, version, *batches):
        """Judges the batches, learns from them and publishes a version. Returns its figures."""
        for made in batches:
            self.judged(made)
        gained = learn(self.policy, self.optimizer, torch.cat([torch.tensor(made["tokens"]) for made in batches]))
        copy_to(self.served, self.policy)
        self._keep(version)
        update = self.trainer.publish(version)
        return {"version": version, "reward": gained, "bytes": update.bytes, "dense_bytes": update.dense_bytes}

    def close(self):
        self.trainer.close()


@ray.remote(num_cpus=0, max_restarts=1, max_task_retries=-1)
class Rollout:
    """Generates texts, with weights that come through weft alone. Ray makes it again by the same arguments."""

    def __init__(self, name, listen):
        torch.set_num_threads(1)
        self.name, self.policy = name, Policy().bfloat16()
        named = weft.torch.named_tensors(self.policy)
        self.rollout = weft.Rollout(weft.Site(SITE, {"trainer.listen": listen}), name, named, empty=True)

    def batch(self, version, seed):
        """Takes that version, or a later one, and generates with it."""
        kinds, began = [], time.monotonic()
        while self.rollout.held is None or self.rollout.held.number < version:
            if time.monotonic() - began > BOUND:
                raise TimeoutError(f"rollout {self.name}: version {version} did not come in {BOUND} s")
            staged = self.rollout.staged(timeout=1.0)
            if staged:
                with torch.no_grad():
                    self.rollout.commit(staged)
                kinds.append(staged.kind)
        tokens, chosen = generate(self.policy, seed)
        return {"name": self.name, "process": os.getpid(), "version": self.rollout.held.number, "seed": seed,
                "kinds": kinds, "tokens": tokens, "chosen": chosen}  # fmt: skip

    def close(self):
        self.rollout.close()


class Asked:
    """Calls of the rollouts that have not come back. Each rollout has one at most."""

    def __init__(self, rollouts):
        self.rollouts, self.calls = rollouts, {}
        self.count = 0

    def ask(self, version):
        """Asks each rollout that is free for a batch of a version."""
        for name, rollout in self.rollouts.items():
            if name not in self.calls:
                self.count += 1
                self.calls[name] = rollout.batch.remote(version, self.count)

    def take(self, without=()):
        """Waits for the batches of all rollouts but some, of which only those that are there are taken."""
        needed = [call for name, call in self.calls.items() if name not in without]
        ready, late = ray.wait(needed, num_returns=len(needed), timeout=BOUND)
        if late:
            raise TimeoutError(f"{len(late)} rollouts made nothing in {BOUND} s")
        others = [call for call in self.calls.values() if call not in ready]
        ready += ray.wait(others, num_returns=len(others), timeout=0)[0] if others else []
        self.calls = {name: call for name, call in self.calls.items() if call not in ready}
        return ready


def loop(versions, rate, kill_at):
    """Trains for so many versions. Returns a row of figures for each."""
    trainer = Trainer.remote(rate)
    listen = ray.get(trainer.listen.remote(), timeout=BOUND)
    rollouts = {name: Rollout.remote(name, listen) for name in ("a", KILLED)}
    asked, rows = Asked(rollouts), []
    for version in range(1, versions + 1):
        asked.ask(version - 1)
        if version == kill_at:
            ray.kill(rollouts[KILLED], no_restart=False)
        batches = asked.take(without=[KILLED] if kill_at <= version < kill_at + AWAY else [])
        row = ray.get(trainer.step.remote(version, *batches), timeout=BOUND)
        row["batches"] = [{key: made[key] for key in ("name", "process", "version", "kinds")}
                          for made in ray.get(batches, timeout=BOUND)]  # fmt: skip
        rows.append(row)
    asked.ask(versions)
    ray.get([trainer.judged.remote(made) for made in asked.take()], timeout=BOUND)
    ray.get([actor.close.remote() for actor in (*rollouts.values(), trainer)], timeout=BOUND)
    return rows


def came_back(rows):
    """The first batch of the rollout that was killed by its new process."""
    made = [batch for row in rows for batch in row["batches"] if batch["name"] == KILLED]
    return next(batch for batch in made if batch["process"] != made[0]["process"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", type=int, default=12, help="versions to publish, from 6 on")
    parser.add_argument("--rate", type=float, default=1e-3, help="Adam's learning rate: a small one changes fewer bits")
    parser.add_argument("--out", type=pathlib.Path, help="a folder for ray.json")
    options = parser.parse_args()
    kill_at = options.versions // 2
    if kill_at + AWAY >= options.versions:
        parser.error(f"--versions {options.versions}: at least 6, so that the rollout comes back before the end")
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=True)
    try:
        rows = loop(options.versions, options.rate, kill_at)
    finally:
        ray.shutdown()
    for row in rows:
        made = ", ".join(f"{batch['name']} with version {batch['version']}" for batch in row["batches"])
        print(f"version {row['version']}: reward {row['reward']:.3f}, {row['bytes']} of {row['dense_bytes']} bytes, "
              f"from {made}")  # fmt: skip
    back = came_back(rows)
    print(f"rollout {KILLED} was killed before version {kill_at}, and came back with version {back['version']} "
          f"by a {back['kinds'][0]}")  # fmt: skip
    print(f"{len(rows) + 1} versions: tokens and log-probabilities of {len(rows[0]['batches'])} rollouts are the dense "
          "copy's")  # fmt: skip
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "ray.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
