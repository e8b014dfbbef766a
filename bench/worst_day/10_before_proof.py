"""10: strangers at a port of mode = tls, with weights by stream: 1,000 idle connections, 200 garbage handshakes a second,
hellos of TLS that come byte by byte; and a peer that proves its name, and then asks for digests without end, lies and
joins again, or sends KeyUpdates of TLS without end (bench_liar and weft_flood beside the command). Arguments: which of a
to f, all; and a number: MiB of the model, 8. The strangers have one core, which a process that only spins has while
nobody attacks."""
import os
import signal
import socket
import statistics
import subprocess
import sys
import time

from fleet import WEFT, Fleet, die_with_parent, now, seconds

CORE = max(os.sched_getaffinity(0))
# The beginning of a record that says it has a ClientHello of 16 KiB.
HELLO = b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03" + bytes(64)


def dial(port):
    line = socket.socket()
    line.bind(("127.0.0.9", 0))
    line.setblocking(False)
    try:
        line.connect(("127.0.0.1", port))
    except BlockingIOError:
        pass
    return line


def is_over(line):
    try:
        return line.recv(4096) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def attack(kind, port):
    """Goes on until the process is killed."""
    lines, made, begin = [], 0, now()
    most = {"idle": 1000, "garbage": 100, "slow": 200}[kind]
    while True:
        lines = [line for line in lines if not is_over(line) or line.close()]
        if kind == "garbage" and len(lines) >= most:
            lines.pop(0).close()
        while len(lines) < most and (kind != "garbage" or made < (now() - begin) * 200):
            lines.append(dial(port))
            made += 1
            if kind == "garbage":
                break
        for line in lines if kind == "slow" else lines[-1:] if kind == "garbage" else []:
            try:
                line.send(HELLO[:1] if kind == "slow" else b"\x16\x03\x01\x00\x64" + os.urandom(100))
            except OSError:
                pass
        time.sleep({"idle": 0.05, "garbage": 0.004, "slow": 0.02}[kind])


def on_the_core(*words, program=sys.executable):
    return subprocess.Popen(["taskset", "-c", str(CORE), program, *words], preexec_fn=die_with_parent,
                            stderr=subprocess.DEVNULL)


def set_loose(kind, fleet):
    if kind == "keys":
        return on_the_core(fleet.site, "d", program=os.path.join(os.path.dirname(WEFT), "weft_flood"))
    if kind in ("ask", "lie"):
        return on_the_core(fleet.site, "d", kind, program=os.path.join(os.path.dirname(WEFT), "bench_liar"))
    return on_the_core(os.path.abspath(__file__), "attack", kind, str(fleet.port))


def publish_ms(fleet, phase):
    """The median of what publishing took in the phase, without the peers."""
    found = [line["diff_ms"] + line["encode_ms"] for _, line in list(fleet.trainer.lines)
             if "target" in line and fleet.offered[line["target"] - 1][1] == phase]
    return statistics.median(found)


def sealed(provider, **how):
    """A fleet of mode = tls, with one key for all."""
    fleet = Fleet(peers="a b c d", peer_keys=f"provider = {provider}\n", seconds=250, **how)
    key = os.path.join(fleet.folder, "key")
    subprocess.run([WEFT, "key", key], check=True, stdout=subprocess.DEVNULL)
    with open(fleet.site) as file:
        text = file.read().replace("mode = open\n", f"mode = tls\nkey_file = {key}\n")
    with open(fleet.site, "w") as file:
        file.write(text)
    return fleet


def key_updates(title, mib):
    """100 files in 20 s under one and three of them, by stream and by tcp: what went out, and what was lost."""
    for provider in ("stream", "tcp"):
        for count in (1, 3):
            fleet = sealed(provider, period=0.2, mib=mib)
            fleet.run()
            fleet.publish(25, "quiet")
            strangers = [set_loose("keys", fleet) for _ in range(count)]
            time.sleep(1)
            begin = now()
            fleet.publish(100, "fault")
            published = sum(begin <= when <= begin + 20.5 for when in fleet.began().values())
            for stranger in strangers:
                stranger.kill()
            lost = [line for name in "ab" for line in fleet.trainer.said(f"lost: {name} ")]
            again = fleet.recover()
            fleet.drain()
            fleet.trainer.kill(signal.SIGTERM)
            fleet.report(f"{title}, {count} by {provider}", published_of_100_in_20_s=published, peers_lost=len(lost),
                         held_again=seconds(again), lines_of_the_log=len(fleet.trainer.log),
                         of_it=len(fleet.trainer.said("after its proof")), exit=fleet.trainer.finish())
            fleet.close()


def scenario(kind, title, mib):
    if kind == "keys":
        return key_updates(title, mib)
    fleet = sealed("stream", mib=mib)
    fleet.run()
    memory, most = [fleet.trainer.status("VmRSS")], 0
    strangers = set_loose(kind, fleet)
    time.sleep(1)
    newcomer = fleet.run_rollout("c")
    fleet.publish(10, "newcomer")
    strangers.kill()
    time.sleep(0.5)
    for _ in range(4):
        spinner = on_the_core("-c", "while True: pass")
        fleet.publish(25, "quiet")
        spinner.kill()
        strangers = set_loose(kind, fleet)
        time.sleep(1)
        fleet.publish(25, "fault")
        memory.append(fleet.trainer.status("VmRSS"))
        most = max(most, len(fleet.trainer.descriptors()))
        strangers.kill()
        time.sleep(0.5)
    fleet.recover()
    memory.append(fleet.trainer.status("VmRSS"))
    held = min(fleet.held(newcomer).values(), default=None)
    fleet.drain()
    fleet.trainer.kill(signal.SIGTERM)
    quiet, fault = publish_ms(fleet, "quiet"), publish_ms(fleet, "fault")
    fleet.report(f"{title}, {mib} MiB", publish=f"{quiet:.2f} ms quiet, {fault:.2f} with the fault (x{fault / quiet:.2f})",
                 new_peer_holds_after=seconds(held and held - newcomer.started),
                 trainer_MB_before_during_after=f"{memory[0] / 1e3:.1f}, {max(memory[1:-1]) / 1e3:.1f}, "
                                                f"{memory[-1] / 1e3:.1f}",
                 descriptors_during=most, lines_of_the_log=len(fleet.trainer.log),
                 losses_of_the_liar=len(fleet.trainer.said("lost: d ")), exit=fleet.trainer.finish())
    fleet.close()


TITLES = {"a": ("idle", "10a 1,000 idle connections"), "b": ("garbage", "10b 200 garbage handshakes a second"),
          "c": ("slow", "10c 200 hellos that come byte by byte"),
          "d": ("ask", "10d a proved peer that asks for digests without end"),
          "e": ("lie", "10e a proved peer that lies, is dropped, and joins again"),
          "f": ("keys", "10f KeyUpdates without end, after proof")}
if sys.argv[1:2] == ["attack"]:
    attack(sys.argv[2], int(sys.argv[3]))
size = next((int(word) for word in sys.argv[1:] if word.isdigit()), 8)
for letter in [word for word in sys.argv[1:] if not word.isdigit()] or TITLES:
    scenario(*TITLES[letter], size)
