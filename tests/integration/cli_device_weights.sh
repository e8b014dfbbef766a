#!/usr/bin/env bash
# The main job on devices, over the tests' drivers: a trainer whose weights lie on one vendor's device, rollouts whose
# lie on another's, on another device of the same, and in host memory, all end with the trainer's file.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fakes=$WEFT_BUILD/fake_gpu
[ -e "$fakes/libcuda.so.1" ] || { echo "skipped: the drivers of the tests are not built here" && exit 77; }
fabric tcp
weft=(env WEFT_FAKE_DEVICES=2 LD_LIBRARY_PATH="$fakes${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$WEFT_BIN")
run info 0 "${weft[@]}" info --json
usable="{b['backend'] for b in lines[0]['backends'] if b['usable']}"
python3 -c "import json, sys; lines = [json.load(open(sys.argv[1]))]; sys.exit(not {'cuda', 'hip'} <= $usable)" "$work/info.out" ||
    { echo "skipped: this build has no image for the tests' devices (Debian: clang-22, lld-22)" && exit 77; }
models "$work/m" 4 1 80
models "$work/other" 0 7 80
m=$work/m

rollout() # rollout NAME BACKEND DEVICE ARGUMENTS...: until version 4
{
    start "$1" "${weft[@]}" rollout "$work/site.ini" --peer "$1" --until 4 --save "$work/$1.safetensors" --json \
        --set "peers.backend=$2" --set "peers.device=$3" "${@:4}"
}

trainer() # trainer BACKEND SHADOW
{
    start trainer "${weft[@]}" trainer "$work/site.ini" --model "$m/v0.safetensors" --json --versions "$m"/v{1,2,3,4}.safetensors \
        --set "trainer.backend=$1" --set "trainer.shadow=$2"
}

together() # together NAME...: all end well, with the trainer's last file and digest
{
    local name
    for name in "$@" trainer; do
        finish "$name" 0
    done
    json trainer "[o['target'] for o in lines if 'target' in o] == [1, 2, 3, 4]"
    json trainer "len(lines[-1]['peers']) == $# and all(p['held'] == 4 for p in lines[-1]['peers'])"
    want=$(sha256sum <"$m/v4.safetensors")
    for name in "$@"; do
        [ "$(sha256sum <"$work/$name.safetensors")" = "$want" ] || fail "$name: other bytes than the trainer's"
        rm "$work/$name.safetensors"
    done
}

# The shadow beside the weights: updates, a join from other bits, one from nothing.
site "$work/site.ini" a b c
trainer cuda device
rollout a hip current --model "$m/v0.safetensors"
rollout b cuda 1 --model "$work/other/v0.safetensors"
rollout c host current --empty
together a b c
json trainer "all(p['backend'].startswith(b) for p, b in zip(sorted(lines[-1]['peers'], key=lambda p: p['name']), ('hip/gfx', 'cuda/', 'host/')))"
json a "all(o['kind'] == 'update' for o in lines)"
json b "lines[0]['kind'] == 'snapshot'"
says trainer 'backend cuda/'

# The other way round, with the shadow in host memory; the model comes to the device by a snapshot alone.
site "$work/site.ini" a b
trainer hip host
rollout a cuda 0 --empty --set commit.snapshot=staged
rollout b auto current --model "$m/v0.safetensors" # of a process that works with no device: host
together a b
json a "lines[0]['kind'] == 'snapshot'"
json trainer "sorted(p['backend'].split('/')[0] for p in lines[-1]['peers']) == ['cuda', 'host']"
# The demo finds both, and gives each rollout another backend.
run mixed 0 "${weft[@]}" demo --mixed --peers 4 --params 100K --updates 2 --json
json mixed "lines[0]['identical'] is True and len({r['backend'].split('/')[0] for r in lines[0]['rollouts']}) == 3"
says mixed 'mixed: near on (cuda|hip), mid on (cuda|hip), far on host'
said mixed 'stand in' && fail "the demo says that something stands in for a device that is there"
echo "weights on devices are those of the files, bit for bit"
