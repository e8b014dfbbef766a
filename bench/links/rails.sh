#!/usr/bin/env bash
# One rail of 200 Mbit/s, two of them, and two of 300 and 100: updates and a snapshot, beside raw TCP over the first.
. "$(dirname "$0")/common.sh"
net_peer a
net_rail a 1 200
net_rail a 2 200
one=(--set trainer.address=eth1 --set peers.address=eth1)
two=(--set trainer.address=eth1,eth2 --set peers.address=eth1,eth2)
update=(bench_updates --peer a@a --mib 128 --rounds "${1:-5}" --set peers.level=pairs)
snapshot=(bench_snapshot --peer a@a --mib 48 --rounds "${1:-3}" --set peers.snapshot_coding=verbatim)
program "one of 200" "${update[@]}" "${one[@]}"
program "two of 200" "${update[@]}" "${two[@]}"
program "one of 200" "${snapshot[@]}" "${one[@]}"
program "two of 200" "${snapshot[@]}" "${two[@]}"
net_rate a 300 1
net_rate a 100 2
program "300 and 100" "${update[@]}" "${two[@]}"
program "300 and 100" "${snapshot[@]}" "${two[@]}"
tables
