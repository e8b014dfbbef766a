"""5: the link of an end that starts is not up yet; its cable is put in after 2 s. Three namespaces of its own: the
trainer 10.9.0.1, peer a 10.9.0.2 and peer b 10.9.0.3, each with a veth into a bridge; its port there is the cable."""
import os
import signal
import subprocess
import sys
import time

from fleet import Fleet, first, print_row, seconds

if "inside" not in sys.argv:
    os.execvp("unshare", ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
                          sys.executable, sys.argv[0], "inside"])


def ip(words):
    subprocess.run(["ip", *words.split()], check=True)


def cable(name, state):
    ip(f"link set port-{name} {state}")


def build():
    subprocess.run("mount -t tmpfs none /run && mkdir /run/netns && ip link set lo up", shell=True, check=True)
    ip("link add bridge type bridge")
    ip("link set bridge up")
    for host, name in enumerate(("trainer", "a", "b"), 1):
        ip(f"netns add {name}")
        ip(f"link add port-{name} type veth peer name eth0 netns {name}")
        ip(f"link set port-{name} master bridge")
        ip(f"-n {name} link set lo up")
        ip(f"-n {name} addr add 10.9.0.{host}/24 dev eth0")
        ip(f"-n {name} link set eth0 up")
        cable(name, "up")


def run(title, late):
    fleet = Fleet(host="10.9.0.1", seconds=100)
    inside = {name: ["nsenter", f"--net=/run/netns/{name}"] for name in ("trainer", "a", "b")}
    begin = {"trainer": lambda: fleet.run_trainer(before=inside["trainer"]),
             "a": lambda: fleet.run_rollout("a", before=inside["a"]),
             "b": lambda: fleet.run_rollout("b", before=inside["b"], healthy=True)}
    cable(late, "down")
    processes = {name: begin[name]() for name in ("trainer", "b", "a") if name != late}
    time.sleep(1)
    starter = processes[late] = begin[late]()
    fleet.publish(13, "start")
    cable(late, "up")
    up = time.monotonic()
    gave_up = starter.ended and starter.ended - starter.started
    fleet.publish(60, "start")
    came = {name: min((t for t in fleet.held(process).values() if t > up), default=None)
             for name, process in processes.items() if name != "trainer"}
    code = starter.code()
    processes["trainer"].kill(signal.SIGTERM)
    print_row(title, f"exit {code} after {gave_up:.2f} s" if gave_up else "waits" if code is None else f"exit {code}",
              *(f"{name} holds a version {seconds(at and at - up)} after the link is up" for name, at in came.items()),
              f"log: {first(starter.said())}")
    fleet.close()


build()
run("5a trainer whose link is not up for 2 s", "trainer")
run("5b rollout whose link is not up for 2 s", "a")
