"""6: a relay is stopped (SIGSTOP); b and c are behind it, d is not. The heartbeat is 5 s."""
import signal

from fleet import Fleet, first, free_port, now, seconds, wait_for

via = "via = r\nlast_resort = trainer\n"
fleet = Fleet(peers="r b c d", period=0.2, peer_keys="heartbeat = 5s\nrelay_memory = 64MiB\n",
              sections={"r": f"relay = 127.0.0.1:{free_port()}\n", "b": via, "c": via})
fleet.run_trainer()
relay = fleet.run_rollout("r")
fleet.healthy = [fleet.run_rollout("d")]
behind = [fleet.run_rollout(name) for name in "bc"]
fleet.settle()
wait_for(lambda: all(fleet.held(rollout) for rollout in behind), 10)
fleet.publish(40, "quiet")
next_version, stopped = len(fleet.offered) + 1, now()
relay.kill(signal.SIGSTOP)
fleet.publish(75, "fault")
gaps = []
for rollout in behind:
    after = [when for number, when in fleet.held(rollout).items() if number >= next_version]
    gaps.append(min(after) - stopped if after else None)
fleet.drain()
relay.kill(signal.SIGCONT)
fleet.trainer.kill(signal.SIGTERM)
times = {f"{rollout.name}_behind_it_holds_the_next_version_after": seconds(gap) for rollout, gap in zip(behind, gaps)}
fleet.report("6 a stopped relay, heartbeat 5 s", **times,
             exit=fleet.trainer.finish(), log_of_b=first(behind[0].said("relay r")))
