#!/usr/bin/env bash
# weft bench fleet: fleets in one process and of processes, each figure there.
# shellcheck source=tests/support/cli.sh
source "$(dirname "$0")/../support/cli.sh"
export TMPDIR=$work

run loop 0 "$WEFT_BIN" bench fleet --peers 12 --params 20K --updates 2 --json
json loop "[l['peers'] for l in lines] == [1, 10, 12] and all(l['fabric'] == 'loop' for l in lines)"
json loop "all(l['bytes'] > 256 and l['peer_bytes'] > 0 and l['rollout_bytes'] > 0 for l in lines)"
json loop "all(l[k] > 0 for l in lines for k in ('publish_cpu_ms', 'together_us', 'alone_us', 'join_us', 'held_ms'))"
run table 0 "$WEFT_BIN" bench fleet --peers 2 --params 20K --updates 1
says table "bytes/peer"

run none 2 "$WEFT_BIN" bench fleet --peers 0
run many 2 "$WEFT_BIN" bench fleet --updates 1000
says many "--updates must be 1 to"
[ -z "$(find "$work" -maxdepth 1 -name 'weft-bench-*')" ] || fail "folders are left behind"

fabric tcp
run processes 0 "$WEFT_BIN" bench fleet --peers 3 --params 20K --updates 2 --processes --json
json processes "[l['peers'] for l in lines] == [1, 3] and all(l['fabric'] == 'tcp' for l in lines)"
json processes "all(l['together_us'] > 0 and l['held_ms'] > 0 and l['alone_us'] is None for l in lines)"
[ -z "$(find "$work" -maxdepth 1 -name 'weft-bench-*')" ] || fail "folders are left behind"
