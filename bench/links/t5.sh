#!/usr/bin/env bash
# T5: three peers on 100, 400 and 2000 Mbit/s at once, each beside itself alone; level pairs and 4 % changed (CHANGED),
# so that the wires and not the cores decide. With frames of 1500 bytes (FRAMES) these wires are more work for the kernel
# than one core can do.
. "$(dirname "$0")/common.sh"
frames=frames=${FRAMES:-9000}
net_peer slow rate=100 "$frames"
net_peer middle rate=400 "$frames"
net_peer fast rate=2000 "$frames"
each=(--mib 128 --rounds "${1:-7}" --changed "${CHANGED:-4}" --set peers.level=pairs)
for name in slow middle fast; do
    program "alone" bench_updates --peer $name@$name "${each[@]}"
done
program "together" bench_updates --peer slow@slow --peer middle@middle --peer fast@fast "${each[@]}"
tables
