"""8: a peer that only answers PING, silent connections, a replayed HELLO, garbage. Arguments: which of a b c d; all."""
import os
import signal
import subprocess
import sys

from fleet import HERE, Fleet, die_with_parent, first, now, seconds, strangers, wait_for


def proxy(fleet, mode):
    """The port of a proxy before the trainer, and the file that it records to."""
    path = os.path.join(fleet.folder, "hello")
    child = subprocess.Popen([sys.executable, os.path.join(HERE, "proxy.py"), str(fleet.port), mode, path],
                             stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
    return f"trainer.listen=127.0.0.1:{child.stdout.readline().strip()}", path


def came(fleet, rollout):
    """How long it took from its start to the first version it held."""
    when = min(fleet.held(rollout).values(), default=None)
    return seconds(when and when - rollout.started)


def end(fleet, title, **more):
    fleet.drain()
    fleet.trainer.kill(signal.SIGTERM)
    fleet.report(title, **more, exit=fleet.trainer.finish())
    fleet.close()


def only_pings(title, pinger, newcomer, **site):
    """One holds nothing and accepts nothing; once it has for 20 s, a peer wants its name or its place, again and again."""
    fleet = Fleet(**site)
    fleet.run()
    way, _ = proxy(fleet, "ping")
    patience = ("--set", "commit.deadline=3600s", "--set", "session.io_deadline=3600s")
    fleet.run_rollout(pinger, "--empty", "--set", way, *patience)
    fleet.publish(60, "quiet")
    fleet.publish(75, "start")
    begin, tries, held = now(), [], None
    while held is None and now() - begin < 25:
        if not tries or tries[-1].ended:
            tries.append(fleet.run_rollout(newcomer))
        fleet.publish(5, "fault")
        held = min((when for rollout in tries for when in fleet.held(rollout).values()), default=None)
    log = [line for rollout in tries for line in rollout.said("refuse") or rollout.said("live")]
    end(fleet, title, newcomer_holds_after=f"{seconds(held and held - begin)}, {len(tries)} starts",
        its_log=first(log))


def silent():
    fleet = Fleet(peers="a b c d e")
    fleet.run()
    fleet.publish(60, "quiet")
    attack = strangers("silent", fleet.port, 2000, 130)
    fleet.publish(10, "fault")
    newcomers = []
    for name in "cde":
        newcomers.append(fleet.run_rollout(name))
        fleet.publish(20, "fault")
    fleet.publish(30, "fault")
    wait_for(lambda: all(fleet.held(rollout) or rollout.ended for rollout in newcomers), 25)
    attack.kill()
    end(fleet, "8b 2,000 silent connections in 15 s, 100 at once",
        new_peers_hold_after=", ".join(came(fleet, rollout) for rollout in newcomers))


def replayed():
    fleet = Fleet(peers="a b")
    fleet.run_trainer()
    way, path = proxy(fleet, "record")
    wait_for(lambda: fleet.port in fleet.trainer.ports(), 10)
    fleet.run_rollout("a", "--set", way, healthy=True)
    fleet.run_rollout("b", healthy=True)
    fleet.settle()
    fleet.publish(60, "quiet")
    attack = strangers("replay", fleet.port, 0, 47, path)
    fleet.publish(60, "fault")
    attack.kill()
    recovered = fleet.recover()
    lost = fleet.trainer.said("new connection")
    end(fleet, "8c a's HELLO replayed 47 times a second", HELLO=f"{os.path.getsize(path)} bytes",
        held_again=seconds(recovered), a_lost=f"{len(lost)} times")


def garbage():
    fleet = Fleet(peers="a b c")
    fleet.run()
    newcomer = None
    for _ in range(4):
        fleet.publish(20, "quiet")
        attack = strangers("garbage", fleet.port, 0, 200)
        newcomer = newcomer or fleet.run_rollout("c")
        fleet.publish(20, "fault")
        attack.kill()
    end(fleet, "8d 200 garbage handshakes a second", new_peer_holds_after=came(fleet, newcomer),
        lines_of_the_log=len(fleet.trainer.log))


scenarios = {"a": lambda: (only_pings("8a a peer that only PINGs, its name", "c", "c", peers="a b c"),
                           only_pings("8a a peer that only PINGs, its place", "x1", "x2", peers="a b x*",
                                      site="max_peers = 3\n")),
             "b": silent, "c": replayed, "d": garbage}
for letter in sys.argv[1:] or scenarios:
    scenarios[letter]()
