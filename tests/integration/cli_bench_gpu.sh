#!/usr/bin/env bash
# weft bench gpu over the drivers of the tests: every pass has its row, what the device makes is what the host makes, and
# wrong use and absent devices are one message.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
weft=$WEFT_BIN fakes=$WEFT_BUILD/fake_gpu
[ -e "$fakes/libcuda.so.1" ] || { echo "skipped: the drivers of the tests are not built here" && exit 77; }
export LD_LIBRARY_PATH=$fakes${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# ---- wrong use, and no device
export WEFT_FAKE_DEVICES=0
run nothing 2 "$weft" bench gpu
says nothing 'no device'
run absent 2 "$weft" bench gpu hip --json
json absent "lines[0]['error']['status'] == 'missing'"
run other 2 "$weft" bench gpu host
says other "cuda or hip, not 'host'"
run many 2 "$weft" bench gpu cuda hip
for wrong in --runs=0 --runs=100 --params=9999 --changed=0 --changed=101 --megabytes=0; do
    run wrong 2 "$weft" bench gpu "$wrong"
done

# ---- devices
export WEFT_FAKE_DEVICES=1
run info 0 "$weft" info --json
for backend in cuda hip; do
    python3 -c 'import json, sys
sys.exit(not any(b["backend"] == sys.argv[1] and b["usable"] for b in json.load(open(sys.argv[2]))["backends"]))' \
        $backend "$work/info.out" || { echo "skipped: this build has no image for $backend" && exit 77; }
    run $backend 0 "$weft" bench gpu $backend --params 40K --runs 2 --json
    json $backend "(lines[0]['backend'], lines[0]['name'], lines[0]['runs'], lines[0]['equal']) == ('$backend', 'emulated 0', 2, True)"
    json $backend "lines[0]['elements'] * 2 == lines[0]['dense_bytes'] and 30000 < lines[0]['elements'] < 60000"
    json $backend "0.007 < lines[0]['changed'] / lines[0]['elements'] < 0.013"
    json $backend "lines[0]['changed'] / 16 < lines[0]['sectors'] <= lines[0]['changed']"
    json $backend "[l['level'] for l in lines[0]['levels']] == ['fast', 'tight'] and all(l['frames'] and l['bits_per_change'] > 6 for l in lines[0]['levels'])"
    json $backend "[p['mark'] for p in lines[0]['passes']] == ['G1', 'G1h', None, 'G2', 'G2', 'G3', None]"
    json $backend "[p['bar'] for p in lines[0]['passes']] == [0.8, 0.85, None, 0.65, 0.45, 2.0, None]"
    json $backend "all(p['ms'] > 0 and p['ratio'] > 0 and (p['holds'] is None) == (p['bar'] is None) for p in lines[0]['passes'])"
    json $backend "len(lines[0]['yardsticks']) == 3 and all(y['gb_s'] > 0 for y in lines[0]['yardsticks'])"
done
python3 - "$work/cuda.out" "$work/hip.out" <<'PYTHON' || fail "the two devices made other frames"
import json, sys
a, b = (json.load(open(path)) for path in sys.argv[1:])
sys.exit(any(a[k] != b[k] for k in ("levels", "changed", "sectors")))
PYTHON
run table 0 "$weft" bench gpu --params 40K --runs 1 --changed 8 --megabytes 500
says table '^cuda device 0, emulated 0, image '
says table "are the host's to the byte"
says table '^  diff, the bitmap pass +G1 .*; bar 0\.80: (holds|missed)$'
says table '^  decode \+ apply fast +G3 .*two reads of the touched sectors; bar 2\.00: .*apply [0-9.]+ ms$'
run little 2 "$weft" bench gpu --params 40K --megabytes 100
says little 'device_memory'
WEFT_FAKE_IDLE=1 run idle 3 "$weft" bench gpu --params 40K --runs 1 --json
json idle "lines[0]['error']['status'] == 'target'"
echo "the passes of emulated devices are measured, and make the bytes of the host"
