#!/usr/bin/env bash
# Standard output and standard error that nobody reads, or whose reader is gone, hold up neither the fleet nor its end:
# what is not taken is dropped whole, and counted where somebody reads.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
models "$work/m" 4
full=(python3 "$support/full_pipe.py")

holds() # holds NAME VERSION: a rollout's JSON says that it committed the version
{
    grep -q "\"version\":$2,\|\"version\": $2," "$work/$1.out"
}

within() # within SECONDS NAME CODE: it ends in that time
{
    local end=$((SECONDS + $1))
    while kill -0 "${started[$2]}" 2>/dev/null; do
        [ $SECONDS -lt $end ] || fail "$2 does not end"
        sleep 0.1
    done
    finish "$2" "$3"
}

rollout=("$weft" rollout "$work/site.ini" --model "$work/m/v0.safetensors" --json)
trainer=("$weft" trainer "$work/site.ini" --model "$work/m/v0.safetensors" --json --log debug)

# Neither stream of the trainer and of one rollout is read: versions come to both rollouts, strangers change nothing,
# and a signal ends them in time.
site "$work/site.ini" a b
mkdir "$work/in"
start trainer "${full[@]}" "$work/t" out,err "${trainer[@]}" --follow "$work/in"
start a "$weft" rollout "$work/site.ini" --model "$work/m/v0.safetensors" --json --peer a
start b "${full[@]}" "$work/b" out,err "${rollout[@]}" --peer b --save "$work/b.safetensors"
for v in 1 2; do
    appear $v
    await holds a $v
done
python3 - "$port" <<'PYTHON' || fail "no strangers"
import os, socket, sys
for i in range(800):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 30) as one:
        try:
            one.sendall(os.urandom(100))
        except OSError:
            pass
PYTHON
for v in 3 4; do
    appear $v
    await holds a $v
done
said a 'lost|away|silent' && fail "a lost its trainer"
interrupt b TERM
within 30 b 0
same "$work/b.safetensors" "$work/m/v4.safetensors"
# the reader comes back: whole lines, and few of them about the strangers
touch "$work/t.read"
await grep -q 'goodbye: b' "$work/t.err"
interrupt trainer TERM
within 30 trainer 0
within 30 a 0 # the trainer said goodbye
[ "$(grep -c 'no weft end does that\|a connection was closed' "$work/t.err")" -le 20 ] || fail "strangers filled the log"
grep -q 'more like it\|more lines like' "$work/t.err" || fail "strangers were not counted"
json t "[o['target'] for o in lines if 'target' in o] == [1, 2, 3, 4] and 'updates' in lines[-1]"

# More lines than wait: the first come when somebody reads, the others are counted on standard error.
models "$work/many" 2 1 8
site "$work/site.ini" a
mapfile -t versions < <(for _ in {1..1000}; do printf '%s\n' "$work/many/v1.safetensors" "$work/many/v2.safetensors"; done)
start trainer "${full[@]}" "$work/d" out "$weft" trainer "$work/site.ini" --model "$work/many/v0.safetensors" --json \
    --log error --versions "${versions[@]}"
start a "$weft" rollout "$work/site.ini" --model "$work/many/v0.safetensors" --peer a --until 2000 --log error
await grep -q 'nobody reads standard output' "$work/d.err"
touch "$work/d.read"
finish a 0
finish trainer 0
[ "$(grep -c 'nobody reads standard output' "$work/d.err")" = 1 ] || fail "the drops were not told once"
dropped=$(sed -nE 's/.*is read again: ([0-9]+) lines were dropped/\1/p' "$work/d.err")
[ "${dropped:-0}" -gt 0 ] || fail "the drops were not counted"
json d "[o['target'] for o in lines if 'target' in o][:100] == list(range(1, 101))"
json d "sum('target' in o for o in lines) + $dropped >= 2000"

# A reader that goes after one line: the fleet stays, and its exit code is its own.
gone() # gone NAME COMMAND...: nobody reads what the command writes when NAME.gone is there
{
    local name=$1
    shift
    # shellcheck disable=SC2016
    start "$name" bash -c 'set -o pipefail
        { echo $BASHPID >"$1.pid"; exec "${@:2}"; } | { head -n 1; exec 0<&-; touch "$1.gone"; }' gone "$work/$name" "$@"
}
site "$work/site.ini" a
rm "$work"/in/*
gone trainer "$weft" trainer "$work/site.ini" --model "$work/m/v0.safetensors" --json --follow "$work/in"
gone a "$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors" --json --until 4 --save "$work/a.safetensors"
await said trainer 'joined: a'
appear 1
for name in trainer a; do
    await test -e "$work/$name.gone"
done
for v in 2 3 4; do
    appear $v
done
finish a 0
same "$work/a.safetensors" "$work/m/v4.safetensors"
interrupt trainer TERM
finish trainer 0
for name in trainer a; do
    json "$name" "len(lines) == 1"
    [ "$(grep -c 'standard output cannot be written: Broken pipe' "$work/$name.err")" = 1 ] || fail "$name did not say it once"
done
echo "what nobody reads holds nobody up"
