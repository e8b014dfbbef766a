#!/usr/bin/env bash
# Bits that a rollout holds before their label has come are told as bits of no version, by both ends and in both forms;
# "version 0" would be the model that the trainer began with.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
models "$work/m" 3
site "$work/site.ini" b
printf 'rate_limit = 3Mbit/s\n' >>"$work/site.ini" # what is published overtakes the snapshot

# overtaken NAME ARGUMENT...: a rollout that is empty, while three versions with other headers are published
overtaken()
{
    local name=$1
    shift
    mkdir "$work/$name"
    start "trainer_$name" "$weft" trainer "$work/site.ini" --model "$work/m/v0.safetensors" --follow "$work/$name" "$@"
    start "$name" "$weft" rollout "$work/site.ini" --peer b --empty --until 3 "$@"
    await said "trainer_$name" 'joined: b '
    for v in 1 2 3; do
        appear $v "v$v" "$work/$name"
    done
    finish "$name" 0
    stop "trainer_$name"
}
overtaken lines
says lines '^bits without a version yet digest [0-9a-f]{16}: snapshot'
says trainer_lines '^  b holds bits without a version yet'
says trainer_lines '^  b holds version 3'
said lines '^version 0 ' && fail "the rollout told version 0, which it never held"
said trainer_lines 'b holds version 0' && fail "the trainer told version 0, which b never held"
overtaken objects --json
json objects "lines[0]['target'] is None and lines[-1]['target'] == 3 and all(o['base'] != 0 for o in lines)"
json trainer_objects "[o['held'] for o in lines if 'name' in o][0] is None"
json trainer_objects "[o['held'] for o in lines if 'name' in o][-1] == 3"
echo "bits without a label are told as such"
