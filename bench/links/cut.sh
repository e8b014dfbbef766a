#!/usr/bin/env bash
# cut.sh [ROUNDS]: two rails of 200 Mbit/s, the second of which is cut in the middle of an update and mended after the
# next one; a rail that stands still is given up after a quarter of io_deadline (DEADLINES names others).
. "$(dirname "$0")/common.sh"
net_peer a
net_rail a 1 200
net_rail a 2 200
for deadline in ${DEADLINES:-10s 2s}; do
    program "$deadline" bench_cut --peer a@a --rounds "${1:-5}" --set peers.level=pairs \
        --set trainer.address=eth1,eth2 --set peers.address=eth1,eth2 --set session.io_deadline="$deadline" \
        --cut "ip -n core link set port-a-2 down" --mend "ip -n core link set port-a-2 up"
done
tables
