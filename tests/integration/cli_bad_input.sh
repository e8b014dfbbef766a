#!/usr/bin/env bash
# Faults at the edges: one clear message, the right exit code, nothing left running, nothing half-written.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
models "$work/m" 2
site "$work/site.ini" a b
v=$work/m

# Nobody there.
run unreachable 1 "$weft" rollout "$work/site.ini" --peer a --model "$v/v0.safetensors" --json --set session.connect_deadline=1s
json unreachable "lines[-1]['error']['status'] == 'unreachable' and lines[-1]['error']['scope'] == 'peer'"
says unreachable "127.0.0.1:$port"
run unreachable_empty 1 "$weft" rollout "$work/site.ini" --peer a --empty --set session.connect_deadline=1s
says unreachable_empty "127.0.0.1:$port"
run alone 1 "$weft" trainer "$work/site.ini" --model "$v/v0.safetensors" --versions "$v/v1.safetensors" --set trainer.join_deadline=1s
says alone "no rollout joined within"

# Wrong names and files before any work.
run stranger 2 "$weft" rollout "$work/site.ini" --peer z --model "$v/v0.safetensors"
says stranger "z"
run no_model 2 "$weft" rollout "$work/site.ini" --peer a --model "$work/none.safetensors"
run no_version 2 "$weft" trainer "$work/site.ini" --model "$v/v0.safetensors" --versions "$work/none.safetensors"
says no_version "none.safetensors"
run no_follow 2 "$weft" trainer "$work/site.ini" --model "$v/v0.safetensors" --follow "$work/none"
# An option that would do nothing.
run no_versions 2 "$weft" trainer "$work/site.ini" --model "$v/v0.safetensors" --follow "$v" --allow-missing
says no_versions "^weft: .*--allow-missing goes with --versions"
run not_followed 2 "$weft" trainer "$work/site.ini" --model "$v/v0.safetensors" --versions "$v/v1.safetensors" --follow-all
says not_followed "^weft: .*--follow-all goes with --follow"
run no_save 2 "$weft" rollout "$work/site.ini" --peer a --model "$v/v0.safetensors" --save "$work/none/a.safetensors"
says no_save "--save .*/none/a.safetensors: cannot be created in .*/none: No such file"
run long_save 2 "$weft" rollout "$work/site.ini" --peer a --empty --save "$work/$(printf '%0300d' 7)"
says long_save "--save .*: File name too long"
run dot_save 2 env -C "$(mktemp -d -p "$work")" "$weft" rollout "$work/site.ini" --peer a --empty --save .
says dot_save "--save \.: exists and is not a file"
run save_folder 2 "$weft" rollout "$work/site.ini" --peer a --model "$v/v0.safetensors" --save "$v" --set session.connect_deadline=1s
says save_folder "--save"
head -c 100000 "$v/v0.safetensors" >"$work/short.safetensors"
run short 2 "$weft" trainer "$work/site.ini" --model "$work/short.safetensors" --versions "$v/v1.safetensors"
says short "short.safetensors"
printf 'not a model' >"$work/text.safetensors"
run text 2 "$weft" rollout "$work/site.ini" --peer a --model "$work/text.safetensors" --json
json text "len(lines) == 1 and lines[0]['error']['status'] in ('layout', 'file')"

# A signal while the name of a host is waited for, which is a whole connect_deadline.
if bounded getent ahosts host.invalid >"$work/known"; then
    echo "not run: a wait for a name (this name server knows every name)"
else
    start nameless "$weft" rollout "$work/site.ini" --peer a --model "$v/v0.safetensors" --set security.mode=open \
        --set trainer.listen=host.invalid:7117 --set trainer.address=127.0.0.1
    await said nameless 'looking up host.invalid:7117'
    interrupt nameless TERM
    finish nameless 1
    says nameless '^weft: interrupted$'
fi

# A signal while the trainer's answer is waited for: it ends the process, which says so. Until then, too, no library has
# a crash's signals: SIGILL, SIGABRT, SIGBUS and SIGSEGV are not caught (sanitizers catch them themselves).
start silent python3 -c "import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('127.0.0.1', $port)); s.listen(); print('here', flush=True)
kept = []
while True: kept.append(s.accept()); print('asked', flush=True)"
await said silent here
more_than() { [ "$(wc -l <"$work/silent.out")" -gt "$1" ]; }
for signal in INT TERM; do
    before=$(wc -l <"$work/silent.out")
    start fetching "$weft" rollout "$work/site.ini" --peer a --empty --json
    await more_than "$before"
    caught=$((16#$(sed -nE 's/^SigCgt:[[:space:]]*//p' "/proc/$(cat "$work/fetching.pid")/status")))
    [ -n "${WEFT_SANITIZE:-}" ] || [ $((caught & 16#468)) = 0 ] || fail "a library caught the signals of a crash"
    interrupt fetching "$signal"
    finish fetching 1
    says fetching '^weft: interrupted$'
    json fetching "[o['error']['text'] for o in lines] == ['interrupted']"
done
interrupt silent TERM
finish silent 143

# Standard streams that are closed: nothing else gets their numbers, for lines would be written into it.
held() # held NAME: neither is anything else, and the session has descriptors of its own
{
    local open
    open=/proc/$(cat "$work/$1.pid")/fd && [ "$(readlink "$open/1")" = /dev/null ] &&
        [ "$(readlink "$open/2")" = /dev/null ] && readlink "$open"/* | grep -q socket
}
# shellcheck disable=SC2016
start closed bash -c 'exec "$@" >&- 2>&-' closed "$weft" rollout "$work/site.ini" --peer a \
    --model "$v/v0.safetensors" --until 1
await held closed
interrupt closed KILL
finish closed 137

# A port in use.
start squatter python3 -c "import socket, sys, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('127.0.0.1', $port)); s.listen(); print('here', flush=True); time.sleep(600)"
await said squatter here
run port 1 "$weft" trainer "$work/site.ini" --model "$v/v0.safetensors" --versions "$v/v1.safetensors" --json
json port "lines[-1]['error']['status'] == 'system'"
says port "127.0.0.1:$port.*in use"
interrupt squatter TERM
finish squatter 143

# Another layout is refused by the trainer, and so is a second live peer of one name; the first goes on.
mkdir "$work/wide" "$work/in"
python3 "$support/models.py" "$work/wide" 0 1 800
start trainer "$weft" trainer "$work/site.ini" --model "$v/v0.safetensors" --follow "$work/in"
start a "$weft" rollout "$work/site.ini" --peer a --model "$v/v0.safetensors" --until 1 --save "$work/a.safetensors"
await said trainer '\ba\b.*(joined|holds)'
run layout 1 "$weft" rollout "$work/site.ini" --peer b --model "$work/wide/v0.safetensors" --json
json layout "lines[-1]['error']['status'] in ('refused', 'layout')"
says layout "layout"
await said trainer 'refused: b has another layout'
run twin 1 "$weft" rollout "$work/site.ini" --peer a --model "$v/v0.safetensors" --json --until 1
json twin "lines[-1]['error']['status'] == 'refused'"
appear 1
finish a 0
same "$work/a.safetensors" "$v/v1.safetensors"

# A trainer that ends before the version is reached: what was received is saved all the same.
start waiting "$weft" rollout "$work/site.ini" --peer a --model "$v/v0.safetensors" --until 99 --save "$work/part.safetensors"
await said waiting 'version 1 '
stop trainer
finish waiting 1
same "$work/part.safetensors" "$v/v1.safetensors"
says waiting 'part.safetensors: version 1 was written'

# So it is after an interrupt with --until, and after a refusal. A trainer that was killed is waited for, for longer than
# connect_deadline, and its next versions are taken. Of a model that nothing was received for, nothing is written.
lost() # lost NAME ARGUMENT...: a rollout that holds v1 and waits for more
{
    local name=$1
    shift
    rm -rf "$work/in" && mkdir "$work/in"
    start trainer "$weft" trainer "$work/site.ini" --model "$v/v0.safetensors" --follow "$work/in"
    start "$name" "$weft" rollout "$work/site.ini" --peer a --model "$v/v0.safetensors" --until 99 \
        --save "$work/$name.safetensors" --json "$@"
    await said trainer '\ba\b.*(joined|holds)'
    appear 1
    await said "$name" '"target":1,'
}
kept() # kept NAME STATUS
{
    finish "$1" 1
    same "$work/$1.safetensors" "$v/v1.safetensors"
    json "$1" "lines[-1]['error']['status'] == '$2'"
}
lost interrupted
interrupt interrupted
kept interrupted state
stop trainer
lost abandoned --set session.connect_deadline=1s
interrupt trainer KILL
finish trainer 137
await said abandoned 'trainer is away: .*; serving version 1, dialing again'
sleep 2 # twice its connect_deadline
rm -rf "$work/in" && mkdir "$work/in"
start trainer "$weft" trainer "$work/site.ini" --model "$v/v0.safetensors" --follow "$work/in"
await said abandoned '"target":0,'
appear 1
twice() # twice NAME TEXT: the process wrote two lines with TEXT
{
    [ "$(grep -cF -e "$2" "$work/$1.out")" = 2 ]
}
await twice abandoned '"target":1,'
interrupt abandoned
kept abandoned state
stop trainer
lost refused
interrupt trainer KILL
finish trainer 137
start trainer "$weft" trainer "$work/site.ini" --model "$work/wide/v0.safetensors" --follow "$work/m"
kept refused refused
stop trainer
run nothing 1 "$weft" rollout "$work/site.ini" --peer a --model "$v/v0.safetensors" --save "$work/nothing.safetensors" \
    --set session.connect_deadline=1s
absent "$work/nothing.safetensors"

# A version that is another model, and one that is cut short: the trainer says so and ends in order.
site "$work/one.ini" a # the trainer goes on when it is there
for wrong in wide/v0 short; do
    start trainer "$weft" trainer "$work/one.ini" --model "$v/v0.safetensors" \
        --versions "$v/v1.safetensors" "$work/$wrong.safetensors" "$v/v2.safetensors"
    start a "$weft" rollout "$work/one.ini" --peer a --model "$v/v0.safetensors" --save "$work/kept.safetensors"
    finish trainer 1
    says trainer "$wrong.safetensors"
    finish a 0
    same "$work/kept.safetensors" "$v/v1.safetensors"
done

# A full disk at --save: a file size limit stands in for it where no small file system can be mounted.
start trainer "$weft" trainer "$work/one.ini" --model "$v/v0.safetensors" --versions "$v/v1.safetensors"
start limited bash -c 'ulimit -f 64; exec "$@"' limited "$weft" rollout "$work/one.ini" --peer a \
    --model "$v/v0.safetensors" --until 1 --save "$work/full.safetensors"
finish limited 1
finish trainer 0
says limited "full.safetensors"
absent "$work/full.safetensors"

mkdir "$work/disk"
if mount -t tmpfs -o size=64k tmpfs "$work/disk" 2>/dev/null; then
    trap 'umount "$work/disk" 2>/dev/null; cleanup' EXIT
    start trainer "$weft" trainer "$work/one.ini" --model "$v/v0.safetensors" --versions "$v/v1.safetensors"
    start disk "$weft" rollout "$work/one.ini" --peer a --model "$v/v0.safetensors" --until 1 --save "$work/disk/a.safetensors"
    finish disk 1
    finish trainer 0
    says disk "No space left"
    [ -z "$(ls -A "$work/disk")" ] || fail "something was left on the full disk"
    umount "$work/disk"
else
    echo "not run: a full disk on a small tmpfs (may not mount)"
fi
echo "every bad input was told and left nothing behind"
