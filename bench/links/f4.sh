#!/usr/bin/env bash
# F4: what a rejoining peer receives beside the merged update, after 1, 4 and 16 missed versions, on 100 Mbit/s.
. "$(dirname "$0")/common.sh"
net_peer a rate=100
program fast bench_rejoin --peer a@a --rounds "${1:-3}" --set peers.level=fast
program tight bench_rejoin --peer a@a --rounds "${1:-3}" --set peers.level=tight
tables
