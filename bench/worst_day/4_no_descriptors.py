"""4: the trainer that follows a folder has no descriptor left for 3 s while a peer wants to join; then the folder is
away for a second."""
import os
import resource
import signal
import time

from fleet import Fleet, first, seconds


def lowest_free(process):
    """Of several looks, since a file or the folder may be open at one: below it everything is taken."""
    found = []
    for _ in range(30):
        used = set(process.descriptors())
        found.append(next(number for number in range(1 << 20) if number not in used))
        time.sleep(0.003)
    return min(found)


def finish(fleet, title, **more):
    recovered = None if fleet.trainer.ended else fleet.recover()
    fleet.drain()
    ended = fleet.trainer.ended
    fleet.trainer.kill(signal.SIGTERM)
    fleet.report(title, held_again=seconds(recovered), trainer="ended by itself" if ended else "lives",
                 exit=fleet.trainer.finish(), **more,
                 log=first(fleet.trainer.said("oo many") or fleet.trainer.said("cannot be read")))
    fleet.close()


def no_descriptors():
    fleet = Fleet(peers="a b c")
    fleet.run()
    fleet.publish(40, "quiet")
    pid = fleet.trainer.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest_free(fleet.trainer), limits[1]))
    newcomer = fleet.run_rollout("c")
    fleet.publish(20, "fault")
    if not fleet.trainer.ended:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    fleet.publish(20, "fault")
    came = min(fleet.held(newcomer).values(), default=None)
    finish(fleet, "4a --follow without descriptors for 3 s", peer_that_came_meanwhile_holds_after=seconds(
        came and came - newcomer.started))


def folder_away():
    fleet = Fleet()
    fleet.run()
    fleet.publish(40, "quiet")
    os.rename(fleet.follow, fleet.follow + "-away")
    time.sleep(1)
    os.rename(fleet.follow + "-away", fleet.follow)
    fleet.publish(20, "fault")
    finish(fleet, "4b the folder away for 1 s")


no_descriptors()
folder_away()
