"""3: 3,000 TCP connects to data ports of the trainer and of a rollout, closed without a word; then a peer joins.

Arguments: the limits of descriptors of each process, soft and hard."""
import signal
import sys

from fleet import Fleet, first, seconds, strangers, wait_for

soft, hard = int(sys.argv[1]), int(sys.argv[2])
fleet = Fleet(peers="a b c", seconds=200)
fleet.run_trainer(limit=(soft, hard))
for name in "ab":
    fleet.run_rollout(name, healthy=True, limit=(soft, hard))
fleet.settle()
fleet.publish(30, "quiet")
targets = [(process, port) for process in (fleet.trainer, fleet.healthy[0]) for port in process.ports()
           if port != fleet.port]
before = [len(process.descriptors()) for process in (fleet.trainer, fleet.healthy[0])]
attacks = []
for process, port in targets:
    shared = sum(other is process for other, _ in targets)
    attacks.append(strangers("bare", port, 3000 // shared, 200 // shared))
while any(attack.poll() is None for attack in attacks):
    fleet.publish(5, "fault")
after = [len(process.descriptors()) if not process.ended else "ended" for process in (fleet.trainer, fleet.healthy[0])]
newcomer = fleet.run_rollout("c", limit=(soft, hard))
fleet.publish(30, "fault")
wait_for(lambda: fleet.held(newcomer) or newcomer.ended, 10)
joined = min(fleet.held(newcomer).values(), default=None)
fleet.drain()
fleet.trainer.kill(signal.SIGTERM)
told = [line for process in fleet.processes for line in process.said("descriptor") + process.said("open files")]
fleet.report(f"3 3,000 bare connects to data ports of trainer and rollout, limits {soft} and {hard}",
             descriptors=" and ".join(f"{a} -> {b}" for a, b in zip(before, after)),
             new_peer_holds_a_version_after=seconds(joined and joined - newcomer.started),
             exit=fleet.trainer.finish(), log_of_descriptors=first(told))
