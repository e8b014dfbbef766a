"""7: a trainer that is slow to load 600 MiB (stopped for nine tenths of 20 s) while empty rollouts wait, with a
connect_deadline of 6 s; then a peer of the site that never comes."""
import signal
import subprocess
import threading
import time

from fleet import WEFT, Fleet, first, now, print_row, seconds, wait_for


def slow(process, for_s):
    """It runs for a tenth of the time."""
    end = now() + for_s
    while now() < end and not process.ended:
        process.kill(signal.SIGSTOP)
        time.sleep(0.18)
        process.kill(signal.SIGCONT)
        time.sleep(0.02)


def slow_start():
    fleet = Fleet(peers="a b c", site="join_deadline = 30s\n", mib=600, count=2)
    trainer = fleet.run_trainer("--model", fleet.models[0], "--versions", fleet.models[1])
    threading.Thread(target=slow, args=(trainer, 20), daemon=True).start()
    short = ("--empty", "--until", "1", "--set", "session.connect_deadline=6s")
    empty = [fleet.run_rollout(name, *short) for name in "ab"]
    model = fleet.run_rollout("c", "--until", "1", "--set", "session.connect_deadline=60s")
    wait_for(lambda: all(process.ended for process in (trainer, model, *empty)), 90)

    def came(rollout):
        held = min((when for when, line in rollout.lines if "target" in line), default=None)
        return f"exit {rollout.finish(1)}, a version after {seconds(held and held - rollout.started)}"

    print_row("7a a trainer slow to load 600 MiB, connect_deadline 6 s",
              *(f"empty {rollout.name}: {came(rollout)}" for rollout in empty),
              f"c with its model and 60 s: {came(model)}", f"trainer: exit {trainer.finish(1)}",
              f"log of a: {first(empty[0].said())}")
    fleet.close()


def never_comes(*words):
    fleet = Fleet(peers="a ghost", site="join_deadline = 3s\n")
    trainer = fleet.run_trainer("--model", fleet.models[0], "--versions", fleet.models[1], *words)
    fleet.run_rollout("a", "--until", "1")
    code = trainer.finish(30)
    fleet.close()
    return code, first(trainer.said("without") or trainer.said("never"))


slow_start()
code, log = never_comes()
allows = "--allow-missing" in subprocess.run([WEFT, "trainer", "--help"], capture_output=True, text=True).stdout
allowed = f"with --allow-missing: exit {never_comes('--allow-missing')[0]}" if allows else "there is no --allow-missing"
print_row("7b --versions and a listed peer that never comes", f"exit {code}", allowed,
          f"log: {log}")
