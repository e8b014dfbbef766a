#!/usr/bin/env bash
# M1 to M3: memory of both ends beyond the weights, and allocations per update.
. "$(dirname "$0")/common.sh"
net_peer a rate=1000
program memory bench_memory --peer a@a --rounds "${1:-20}" --set trainer.journal=64MiB
tables
