"""9: what the defaults of staging, journal, slabs and slots come to. Arguments: which of a b c; all.

a  two updates at 3 % of 1,600 MiB of fp8, 50 million changes: at 6 bytes each more than 256 MiB
b  what a model of 1 MiB takes at each end, in turn
c  what `weft check --model` says of 8 G elements of bf16 (a hole in place of weights)"""
import os
import re
import signal
import subprocess
import sys

from fleet import WEFT, Fleet, first, models, now, print_row, seconds, wait_for

DEFAULTS = {"peer_keys": "# staging is the default\n"}


def shorter(lines):
    return [re.sub(r"/[^ ]*worst-day[^ ]*/", "", line)[:250] for line in lines]


def large():
    fleet = Fleet(peers="a", mib=1600, count=2, changed=0.03, dtype="F8_E4M3", period=1, seconds=290, **DEFAULTS)
    trainer = fleet.run_trainer()
    rollout = fleet.run_rollout("a", "--set", "session.connect_deadline=120s")
    held = []
    for number in (1, 2):
        wait_for(lambda: trainer.said("joined: a"), 90)
        begin = now()
        fleet.publish(1, "quiet")
        wait_for(lambda: number in fleet.held(rollout), 60)
        when = fleet.held(rollout).get(number)
        kind = next((line["kind"] for _, line in rollout.lines if line.get("target") == number), "nothing")
        held.append(f"{kind}, held {seconds(when and when - begin)} after its file was there")
    made = {line["target"]: f"{line['changed'] / 1e6:.0f} M changes, {line['bytes'] / 1e6:.0f} MB"
            for _, line in trainer.lines if "target" in line}
    trainer.kill(signal.SIGTERM)
    print_row("9a an update at 3 % of 1,600 MiB of fp8, default staging", *(
        f"update {n}: {made.get(n, 'not published')}, arrives as {text}" for n, text in enumerate(held, 1)),
        f"log: {first(trainer.said('staging') or trainer.said('warn'))}")
    fleet.close()


def small():
    found = []
    for end in ("trainer", "a"):
        fleet = Fleet(peers="a", mib=1, **DEFAULTS)
        fleet.run("a")
        fleet.publish(10, "quiet")
        process = fleet.trainer if end == "trainer" else fleet.healthy[0]
        found.append(f"{'rollout' if end == 'a' else end} {process.status('VmHWM') / 1024:.0f} MiB resident, "
                     f"{process.status('VmData') / 1024:.0f} MiB of data taken")
        fleet.close()
    print_row("9b a model of 1 MiB", *found)


def check():
    fleet = Fleet(peers="a", mib=1, **DEFAULTS)
    path = models.sparse(os.path.join(fleet.folder, "hole.safetensors"), 8 << 30)
    done = subprocess.run([WEFT, "check", fleet.site, "--model", path], capture_output=True, text=True)
    told = [line.strip() for line in (done.stdout + done.stderr).splitlines()
            if re.search("staging|journal|slab|slot|model|snapshot", line)]
    print_row("9c weft check --model, 8 G elements of bf16", f"exit {done.returncode}", *shorter(told)[:8])
    fleet.close()


for letter in sys.argv[1:] or "abc":
    {"a": large, "b": small, "c": check}[letter]()
