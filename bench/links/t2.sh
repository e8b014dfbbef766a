#!/usr/bin/env bash
# t2.sh [ROUNDS [PROVIDER]] - T2: a snapshot over wires of 100 Mbit/s and 1 Gbit/s, beside raw TCP; verbatim, so that
# bytes on the wire are dense, and five seconds long, so that TCP's start does not count.
. "$(dirname "$0")/common.sh"
net_peer a rate=100
net_peer b rate=1000
program 100 bench_snapshot --peer a@a --mib 64 --rounds "${1:-5}" --provider "${2:-tcp}" --set peers.snapshot_coding=verbatim
program 1000 bench_snapshot --peer a@b --mib 512 --rounds "${1:-5}" --provider "${2:-tcp}" --set peers.snapshot_coding=verbatim
tables
