"""What the scenarios share: a real fleet on loopback that is watched from outside.

The trainer follows a folder into which files are renamed at a steady pace; each rollout says by --json when it holds a
version. Latency is from the start of a publish (the trainer's line less the times that it names) to the rollout's line,
or from the rename where nobody reads the trainer's lines. Everything ends with the scenario, whatever ends that."""
import atexit
import ctypes
import fcntl
import glob
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import models

HERE = os.path.dirname(os.path.abspath(__file__))
WEFT = os.environ.get("WEFT", "weft")
LATE_S = 1
now = time.monotonic
prctl = ctypes.CDLL(None).prctl


def die_with_parent():
    prctl(1, signal.SIGKILL)


class Process:
    """A process whose lines are read, with the time of each, unless reading is stopped."""

    def __init__(self, name, words, limit=None, files=None):
        self.name, self.started, self.lines, self.log, self.ended = name, now(), [], [], None
        self.reading = {"out": threading.Event(), "err": threading.Event()}
        self.leave = ""  # "out": the reader goes away after the next line

        def prepare():
            die_with_parent()
            if limit:
                resource.setrlimit(resource.RLIMIT_NOFILE, limit)

        self.child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      preexec_fn=prepare, close_fds=True)
        self.pid = self.child.pid
        for key, pipe, take in (("out", self.child.stdout, self.take_line), ("err", self.child.stderr, self.take_log)):
            self.reading[key].set()
            threading.Thread(target=self.read, args=(key, pipe, take), daemon=True).start()
        threading.Thread(target=self.wait, daemon=True).start()

    def wait(self):
        self.child.wait()
        self.ended = now()

    def read(self, key, pipe, take):
        rest = b""
        while self.reading[key].wait():
            data, when = os.read(pipe.fileno(), 65536), now()
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                take(when, line.decode(errors="replace"))
            if not data or key == self.leave:
                pipe.close()
                return

    def take_line(self, when, line):
        try:
            self.lines.append((when, json.loads(line)))
        except ValueError:
            pass

    def take_log(self, when, line):
        if line:
            self.log.append((when, line))

    def stop_reading(self, key, fill=True):
        """From now on the pipe is nobody's; filled, nothing more fits in. The read under way takes one more line."""
        self.reading[key].clear()
        if fill:
            self.fill(key)

    def fill(self, key):
        end = os.open(f"/proc/{self.pid}/fd/{1 if key == 'out' else 2}", os.O_WRONLY | os.O_NONBLOCK)
        refused = 0
        while refused < 10:  # the reader's last read may still empty it
            try:
                os.write(end, b"\n" * (512 if refused == 0 else 1))
            except BlockingIOError:
                refused += 1
                time.sleep(0.01)
        os.close(end)

    def said(self, *texts):
        """The lines of its log in which all of these stand, without the scenario's folder and not too long."""
        return [re.sub(r"/[^ ]*worst-day-[^ /]*/?", "", line)[:220] for _, line in list(self.log)
                if all(text in line for text in texts)]

    def code(self):
        return self.child.returncode if self.ended else None

    def kill(self, number):
        if self.child.returncode is None:
            os.kill(self.pid, number)

    def finish(self, seconds=10):
        """Its exit code, as a word: what it took to end."""
        wait_for(lambda: self.ended, seconds)
        if not self.ended:
            self.kill(signal.SIGKILL)
            return "none (killed)"
        return str(self.code())

    def status(self, key):
        with open(f"/proc/{self.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(key + ":"))

    def descriptors(self):
        return sorted(int(name) for name in os.listdir(f"/proc/{self.pid}/fd"))

    def ports(self):
        """Local TCP ports that the process listens on."""
        mine = set()
        for link in glob.glob(f"/proc/{self.pid}/fd/*"):
            try:
                mine.add(os.readlink(link))
            except OSError:
                pass
        with open(f"/proc/{self.pid}/net/tcp") as file:
            rows = [line.split() for line in list(file)[1:]]
        return sorted({int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in mine})


def wait_for(ready, seconds):
    """Waits until ready() is true; the seconds that took, or None."""
    begin = now()
    while not ready():
        if now() - begin > seconds:
            return None
        time.sleep(0.005)
    return now() - begin


def free_port():
    while True:
        port = random.randrange(10240, 30000)
        try:
            socket.socket().bind(("127.0.0.1", port))
            return port
        except OSError:
            pass


class Fleet:
    def __init__(self, peers="a b", period=0.15, site="", host="127.0.0.1", peer_keys="", sections=None, seconds=150, **model):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        signal.signal(signal.SIGALRM, lambda *_: sys.exit("the scenario takes too long"))
        signal.alarm(seconds)
        memory = model.get("mib", 0) < 100 and os.access("/dev/shm", os.W_OK)  # a busy disk holds up a rename
        self.folder = tempfile.mkdtemp(prefix="worst-day-", dir="/dev/shm" if memory else None)
        atexit.register(self.close)
        self.models = models.write(self.folder, **model)
        self.follow = os.path.join(self.folder, "in")
        os.mkdir(self.follow)
        self.port, self.period, self.peers = free_port(), period, {}
        self.processes, self.offered, self.healthy = [], [], []
        self.site = os.path.join(self.folder, "site.ini")
        staging = "" if "staging" in peer_keys else "staging = 32MiB\n"
        with open(self.site, "w") as file:
            file.write(f"[trainer]\nlisten = {host}:{self.port}\n{site}"
                       f"[security]\nmode = open\n[peers]\n{staging}{peer_keys}")
            file.write("".join(f"[peer.{name}]\n{(sections or {}).get(name, '')}\n" for name in peers.split()))

    def close(self):
        for process in self.processes:
            process.kill(signal.SIGCONT)
            process.kill(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, name, words, before=(), **how):
        process = Process(name, [*before, *words], **how)
        self.processes.append(process)
        return process

    def run_trainer(self, *words, **how):
        words = words or ("--model", self.models[0], "--follow", self.follow)
        self.trainer = self.start("trainer", [WEFT, "trainer", self.site, *words, "--json"], **how)
        return self.trainer

    def run_rollout(self, name, *words, healthy=False, **how):
        given = words if "--empty" in words else ("--model", self.models[0], *words)
        rollout = self.start(name, [WEFT, "rollout", self.site, "--peer", name, *given, "--json"], **how)
        if healthy:
            self.healthy.append(rollout)
        return rollout

    def run(self, healthy="a b"):
        """The trainer and its healthy peers, until these hold what is published."""
        self.run_trainer()
        for name in healthy.split():
            self.run_rollout(name, healthy=True)
        self.settle()

    def settle(self, seconds=20):
        """Publishes until every healthy peer has held a version; what was published so far is not counted."""
        end = now() + seconds
        wait_for(lambda: self.trainer.ended or self.port in self.trainer.ports(), seconds)
        while not all(self.held(rollout) for rollout in self.healthy):
            if now() > end:
                for process in self.processes:
                    sys.stderr.writelines(f"{process.name}: {line}\n" for _, line in process.log[-3:])
                sys.exit("the fleet does not come together")
            self.publish(1, "start")
        self.publish(5, "start")

    def publish(self, count, phase):
        """So many files at the pace, each a version."""
        for _ in range(count):
            number = len(self.offered) + 1
            part = os.path.join(self.follow, ".part")
            os.link(self.models[number % len(self.models)], part)
            self.offered.append((now(), phase))
            try:
                os.rename(part, os.path.join(self.follow, f"v{number:06}.safetensors"))
            except OSError:
                pass
            time.sleep(max(0, self.offered[-1][0] + self.period - now()))

    def held(self, rollout):
        """When the rollout held each version, by number."""
        times = {}
        for when, line in list(rollout.lines):
            if "target" in line:
                times.setdefault(line["target"], when)
        return times

    def recover(self, seconds=20):
        """Publishes on until every healthy peer holds a version offered from now on; the seconds, or None."""
        begin, first = now(), len(self.offered) + 1
        while now() - begin < seconds:
            self.publish(1, "after")
            times = [min((t for v, t in self.held(r).items() if v >= first), default=None) for r in self.healthy]
            if all(times):
                return max(times) - begin
        return None

    def drain(self, seconds=5):
        last = len(self.offered)
        wait_for(lambda: all(last in self.held(rollout) for rollout in self.healthy), seconds)

    def began(self):
        """When each publish began, as the trainer's lines tell."""
        return {line["target"]: when - (line["diff_ms"] + line["encode_ms"]) / 1e3
                for when, line in list(self.trainer.lines) if "target" in line}

    def latencies(self, phase, from_offer):
        began, found = self.began(), []
        for rollout in self.healthy:
            held = self.held(rollout)
            for number, (offered, of) in enumerate(self.offered, 1):
                begin = offered if from_offer else began.get(number)
                if of == phase and number in held and begin:
                    found.append(1e3 * (held[number] - begin))
        return sorted(found)

    def stall(self, phase):
        """The worst time from a file to its version held, in ms."""
        return max(self.latencies(phase, True), default=float("nan"))

    def report(self, title, from_offer=False, **more):
        """Prints the scenario's line."""
        counted = {number: at for number, (at, phase) in enumerate(self.offered, 1) if phase in ("quiet", "fault")}
        held = {r.name: self.held(r) for r in self.healthy}
        missed = " ".join(f"{name} {len(set(counted) - set(times))}" for name, times in held.items())
        late = " ".join(f"{name} {sum(times.get(n, at) > at + LATE_S for n, at in counted.items())}"
                        for name, times in held.items())
        words = [f"versions {len(counted)}, missed: {missed}, later than {LATE_S} s: {late}"]
        quiet, fault = self.latencies("quiet", from_offer), self.latencies("fault", from_offer)
        if min(len(quiet), len(fault)) > 9:
            def figures(values):
                return statistics.median(values), values[int(0.95 * (len(values) - 1))]
            (a, b), (c, d) = figures(quiet), figures(fault)
            words.append(f"held after {'offer' if from_offer else 'publish'}, median/95th: {a:.1f}/{b:.1f} ms quiet, "
                         f"{c:.1f}/{d:.1f} with the fault (x{c / a:.2f}/x{d / b:.2f})")
            words.append(f"worst offer to held {self.stall('quiet'):.0f}, {self.stall('fault'):.0f} ms")
        words += [f"{key.replace('_', ' ')}: {value}" for key, value in more.items()]
        print_row(title, *words)


def print_row(title, *words):
    print(f"{title} | {'; '.join(words)}", flush=True)


def first(lines):
    return f"{len(lines)} lines, first '{lines[0]}'" if lines else "nothing of it"


def seconds(value):
    return "never" if value is None else f"{value:.1f} s"


def strangers(*words):
    """strangers.py with these words, in a process of its own."""
    return subprocess.Popen([sys.executable, os.path.join(HERE, "strangers.py"), *map(str, words)],
                            preexec_fn=die_with_parent, stdout=subprocess.PIPE, text=True)
