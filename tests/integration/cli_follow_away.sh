#!/usr/bin/env bash
# weft trainer --follow goes on serving while its folder is away, is replaced, or no descriptor can be had, says each once
# and goes on publishing afterwards; checkpoints older than a model that lies elsewhere are published when told to alone.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
models "$work/m" 6
site "$work/site.ini" a
mkdir "$work/in"

limit() # limit NAME DESCRIPTORS: of a process that runs, the soft one
{
    python3 -c 'import resource, sys
pid, soft = int(sys.argv[1]), int(sys.argv[2])
resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))' \
        "$(cat "$work/$1.pid")" "$2"
}

watched() # watched NAME: the process watches the folder that is there now
{
    grep -qs "ino:$(printf '%x' "$(stat -c %i "$work/in")") " "/proc/$(cat "$work/$1.pid")/fdinfo/"*
}

times() # times COUNT TEXT: as often as that the trainer said it
{
    [ "$(grep -c -e "$2" "$work/trainer.err")" = "$1" ] || fail "the trainer did not say $1 times: $2"
}

# v3 and v4 are past by their numbers, v6 is not
for version in 3 4; do appear 6 v$version; done
appear 1 v6
touch -d '1 minute ago' "$work"/in/v6.safetensors
cp "$work/m/v0.safetensors" "$work/v5.safetensors"
start trainer "$weft" trainer "$work/site.ini" --model "$work/v5.safetensors" --follow "$work/in" --json
start a "$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors" --until 4 \
    --save "$work/a.safetensors" --json
await said a '"target":1'
says trainer 'left alone: 2 of 3 checkpoints in .*--follow-all'

# away, and back with more in it
mv "$work/in" "$work/moved"
await said trainer 'in cannot be read: No such file or directory; weft looks again'
sleep 0.5
mv "$work/moved" "$work/in"
appear 2 v7
await said a '"target":2'
times 1 'in cannot be read'
times 1 'in can be read again'
await watched trainer

# replaced by another folder
rm -r "$work/in"
await said trainer 'in cannot be read: .*'
mkdir "$work/in"
await watched trainer
appear 3 v8
await said a '"target":3'

# no descriptor to be had, not even those kept for that
limit trainer 0
await said trainer 'in cannot be read: Too many open files'
mv "$work/in" "$work/moved" && mv "$work/moved" "$work/in"
appear 4 v9
sleep 0.5
limit trainer 1024
await said a '"target":4'
finish a 0
same "$work/a.safetensors" "$work/m/v4.safetensors"
said trainer 'lost: a' && fail "a was lost"
stop trainer
json trainer "[o['file'].split('/')[-1].split('.')[0] for o in lines if 'target' in o] == 'v6 v7 v8 v9'.split()"

# told to, older ones are published too
rm "$work"/in/*
appear 5 v3
appear 6 v5
start trainer "$weft" trainer "$work/site.ini" --model "$work/v5.safetensors" --follow "$work/in" --follow-all --json
start a "$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors" --until 2 --save "$work/b.safetensors"
finish a 0
same "$work/b.safetensors" "$work/m/v6.safetensors"
stop trainer
echo "a folder that was away was followed again"
