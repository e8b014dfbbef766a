#!/usr/bin/env bash
# A fleet of protocol 2 becomes one of protocol 3. WEFT_BIN is the command of today, WEFT_OLD the one before. Ends of two
# protocols refuse each other by name and at once, in both directions and behind a relay; files go both ways; and the
# order of docs/OPERATIONS.md leads from the one fleet to the other.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
old=${WEFT_OLD:-} new=$WEFT_BIN
[ -x "$old" ] || { echo "WEFT_OLD is not set to a command weft of protocol 2" && exit 1; }
fabric tcp
models "$work/m" 3
site "$work/site.ini" a b
v=$work/m
mkdir "$work/in" "$work/in2"

publish() # publish VERSION: the trainer's folder gets it, whole
{
    cp "$v/v$1.safetensors" "$work/in/part" && mv "$work/in/part" "$work/in/v$1.safetensors"
}

# ---- a fleet of protocol 2 has version 1
start trainer "$old" trainer "$work/site.ini" --model "$v/v0.safetensors" --follow "$work/in"
start engine "$old" rollout "$work/site.ini" --peer a --model "$v/v0.safetensors" --save "$work/engine.safetensors"
await said trainer 'joined: a'
publish 1
await said engine 'version 1 '

# ---- a rollout that is upgraded before its trainer is refused, at once and for good
run early 1 "$new" rollout "$work/site.ini" --peer b --model "$v/v0.safetensors" --until 1
says early 'the trainer refuses b \(protocol\): .*speaks protocols 3 to 3, this one 2 to 2'

# ---- the trainer is upgraded: an engine of before keeps its weights, and is refused by name
interrupt trainer KILL # without a goodbye, after which the command's rollout would end
finish trainer 137
rm "$work"/in/*
start trainer2 "$new" trainer "$work/site.ini" --model "$v/v1.safetensors" --first-version 1 --follow "$work/in"
await said trainer2 'a speaks protocol 2, this end 3; update the weft of one of them'
finish engine 1
says engine 'a speaks protocol 2, this end 3'
same "$work/engine.safetensors" "$v/v1.safetensors"
publish 2

# ---- then the engines, each when it may rest
start engine2 "$new" rollout "$work/site.ini" --peer a --model "$work/engine.safetensors" --until 2 --save "$work/engine2.safetensors"
finish engine2 0
same "$work/engine2.safetensors" "$v/v2.safetensors"
interrupt trainer2 TERM
finish trainer2 0

# ---- a relay of today refuses a rollout of before by name, and the other way round both say so
port=$(free_ports 1)
printf '[trainer]\nlisten = 127.0.0.1:%s\n[peers]\nprovider = tcp\n[peer.a]\nrelay = 127.0.0.1:%s\n[peer.b]\nvia = a\n' \
    "$(free_ports 1)" "$port" >"$work/relay.ini"
start trainer3 "$new" trainer "$work/relay.ini" --model "$v/v0.safetensors" --follow "$work/in2" --set trainer.join_deadline=60s
start relay "$new" rollout "$work/relay.ini" --peer a --model "$v/v0.safetensors"
await said trainer3 'joined: a'
run behind 1 "$old" rollout "$work/relay.ini" --peer b --model "$v/v0.safetensors" --until 1
says behind 'b speaks protocol 2, this end 3'
says relay 'b speaks protocol 2, this end 3'
interrupt relay TERM
interrupt trainer3 TERM
wait

# ---- files: what either wrote, the other reads
run diff_old 0 "$old" diff "$v/v0.safetensors" "$v/v1.safetensors" -o "$work/old.weft"
run diff_new 0 "$new" diff "$v/v0.safetensors" "$v/v1.safetensors" -o "$work/new.weft"
same "$work/old.weft" "$work/new.weft"
run apply_new 0 "$new" apply "$v/v0.safetensors" "$work/old.weft" -o "$work/new.safetensors"
run apply_old 0 "$old" apply "$v/v0.safetensors" "$work/new.weft" -o "$work/old.safetensors"
same "$work/new.safetensors" "$v/v1.safetensors"
same "$work/old.safetensors" "$v/v1.safetensors"
run put_old 0 "$old" put "$work/store" "$v/v0.safetensors"
run put_new 0 "$new" put "$work/store" "$v/v1.safetensors"
run put_again 0 "$old" put "$work/store" "$v/v2.safetensors"
for bin in "$old" "$new"; do
    run get 0 "$bin" get "$work/store" --version 3 -o "$work/got.safetensors"
    same "$work/got.safetensors" "$v/v2.safetensors"
done
echo "protocol 2 and 3 refuse each other by name, and an upgraded fleet goes on"
