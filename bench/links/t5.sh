#!/usr/bin/env bash
# T5: three peers on 100, 400 and 2000 Mbit/s at once, each beside itself alone; level pairs, so that the wires and not
# the cores decide.
. "$(dirname "$0")/common.sh"
net_peer slow rate=100
net_peer middle rate=400
net_peer fast rate=2000
each=(--mib 128 --rounds "${1:-7}" --set peers.level=pairs)
for name in slow middle fast; do
    program "alone" bench_updates --peer $name@$name "${each[@]}"
done
program "together" bench_updates --peer slow@slow --peer middle@middle --peer fast@fast "${each[@]}"
tables
