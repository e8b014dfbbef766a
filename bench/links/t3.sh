#!/usr/bin/env bash
# T3, T4: one update of a 400 MB model, 1.17 % changed, over 1 Gbit/s and 100 Mbit/s, from publish until it is held;
# beside its slowest stage, and beside the dense model at the rate of raw TCP on the same wire.
. "$(dirname "$0")/common.sh"
net_peer a rate=1000
net_peer b rate=100
for level in ${LEVELS:-auto tight}; do
    program "1000 $level" bench_updates --peer a@a --mib 382 --rounds "${1:-5}" --set peers.level=$level
    program "100 $level" bench_updates --peer a@b --mib 382 --rounds "${1:-5}" --set peers.level=$level
done
tables
