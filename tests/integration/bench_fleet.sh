#!/usr/bin/env bash
# bench_fleet: fleets in one process and of processes, each figure there.
# shellcheck source=tests/support/cli.sh
source "$(dirname "$0")/../support/cli.sh"
export TMPDIR=$work

run loop 0 "$WEFT_BUILD/bench_fleet" --peers 12 --updates 2
json loop "[l['peers'] for l in lines] == [1, 10, 12] and all(l['fabric'] == 'loop' for l in lines)"
json loop "all(l['bytes'] > 256 and l['peer_bytes'] > 0 and l['rollout_bytes'] > 0 for l in lines)"
json loop "all(l[k] > 0 for l in lines for k in ('publish_cpu_ms', 'together_us', 'alone_us', 'join_us', 'held_ms'))"
run none 1 "$WEFT_BUILD/bench_fleet" --peers 0
run many 1 "$WEFT_BUILD/bench_fleet" --updates 1000

fabric tcp
run processes 0 "$WEFT_BUILD/bench_fleet" --peers 3 --updates 2 --processes
json processes "[l['peers'] for l in lines] == [1, 3] and all(l['fabric'] == 'tcp' for l in lines)"
json processes "all(l['together_us'] > 0 and l['held_ms'] > 0 and l['alone_us'] == 0 for l in lines)"
[ -z "$(find "$work" -maxdepth 1 -name 'weft-*')" ] || fail "files are left behind"
