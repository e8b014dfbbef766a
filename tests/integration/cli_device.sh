#!/usr/bin/env bash
# The command's reports of accelerators: of none, of those that the tests' drivers emulate, and of a session that asks
# for one that cannot be had: one message, exit code 2.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
weft=$WEFT_BIN fakes=$WEFT_BUILD/fake_gpu
fabric tcp
models "$work/m" 1
site "$work/site.ini" a
model=$work/m/v0.safetensors

run info 0 "$weft" info --json
json info "{'host', 'cuda', 'hip'} <= {b['backend'] for b in lines[0]['backends']}"
json info "all(b['usable'] or b['detail'] for b in lines[0]['backends'])"

[ -e "$fakes/libcuda.so.1" ] || { echo "skipped: the drivers of the tests are not built here" && exit 77; }
with() # with DEVICES COMMAND...: the tests' drivers with so many devices each
{
    env WEFT_FAKE_DEVICES="$1" LD_LIBRARY_PATH="$fakes${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "${@:2}"
}
export -f with
export fakes

run none 0 bash -c 'with 0 "$@"' - "$weft" info --json
json none "all(not b['usable'] and 'no device' in b['detail'] for b in lines[0]['backends'] if b['backend'] in ('cuda', 'hip'))"
run two 0 bash -c 'with 2 "$@"' - "$weft" info --json
json two "[(b['device'], b['name'], b['memory_bytes']) for b in lines[0]['backends'] if b['backend'] == 'hip'] == [(i, f'emulated {i}', 4 << 30) for i in (0, 1)]"
json two "all('driver 12.8' in b['detail'] and 'image' in b['detail'] for b in lines[0]['backends'] if b['backend'] == 'cuda')"
json two "all(b['detail'].split('image ')[1].split(',')[0] in lines[0]['images'][b['backend']]['names'] for b in lines[0]['backends'] if b['usable'] and b['device'] == 0 and b['backend'] != 'host')"
WEFT_FAKE_VERSION=11080 run old 0 bash -c 'with 1 "$@"' - "$weft" info --json
json old "all('ptx75, which the driver compiles' in b['detail'] for b in lines[0]['backends'] if b['backend'] == 'cuda') or 'ptx75' not in lines[0]['images']['cuda']['names']"
run two_lines 0 bash -c 'with 2 "$@"' - "$weft" info
says two_lines 'cuda +1  emulated 1: .*capability 9\.0, driver 12\.8'

for backend in cuda hip; do
    run "check_$backend" 0 bash -c 'with 2 "$@"' - "$weft" check "$work/site.ini" --set trainer.backend=$backend \
        --set peers.backend=$backend --set peers.device=7
    says "check_$backend" "backend $backend for trainer: .*emulated 0, "
    says "check_$backend" "backend $backend device 7 for a: MISSING, no device 7 here"
    run "check_none_$backend" 0 bash -c 'with 0 "$@"' - "$weft" check "$work/site.ini" --json --set peers.backend=$backend
    json "check_none_$backend" "[(b['usable'], b['ends'], 'no device' in b['text']) for b in lines[0]['backends']] == [(False, ['a'], True)]"
    run "trainer_$backend" 2 bash -c 'with 0 "$@"' - "$weft" trainer "$work/site.ini" --model "$model" --versions "$model" \
        --set trainer.backend=$backend
    says "trainer_$backend" "backend $backend: .*no device"
    [ "$(grep -c . "$work/trainer_$backend.err")" = 1 ] || fail "trainer_$backend: one message was wanted"
    run "rollout_$backend" 2 bash -c 'with 0 "$@"' - "$weft" rollout "$work/site.ini" --peer a --model "$model" --json \
        --set peers.backend=$backend
    json "rollout_$backend" "len(lines) == 1 and lines[0]['error']['status'] == 'missing'"
    run "number_$backend" 2 bash -c 'with 2 "$@"' - "$weft" rollout "$work/site.ini" --peer a --model "$model" \
        --set peers.backend=$backend --set peers.device=7
    says "number_$backend" "device = 7: $backend devices here are 0 to 1"
done
echo "accelerators are told, and what cannot be had is refused in one message"
