#!/usr/bin/env bash
# Two rails of real tcp, one of which is cut in the middle of an update, and with WEFT_FULL in the middle of a snapshot:
# the other one brings the rest, nobody is lost, publishing does not wait, and the rail is used again when it is back.
# shellcheck source=tests/net/net.sh
. "$(dirname "$0")/../net/net.sh"
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$support_folder/cli.sh"
net_open
net_peer a
net_rail a 1 20
net_rail a 2 20
fabric tcp
models "$work/m" 4 1 6000
# an update in several buckets, which the rails share; one alone would go by either
net_site "$work/site.ini" a <<'SITE'
level = pairs
address = eth1, eth2
bucket = 64KiB
SITE
mkdir "$work/in"
# a rail that stands still for a quarter of io_deadline is done with
rails=(--set trainer.address=eth1,eth2 --set session.io_deadline=6s)

reached() # reached RAIL BYTES: so many came by it
{
    [ "$(net_received a "$1")" -ge "$2" ]
}

begin() # begin UNTIL ARGUMENT...: the trainer at version 0 and the rollout
{
    rm -f "$work"/in/*
    net_start trainer trainer --model "$work/m/v0.safetensors" --follow "$work/in" --json "${rails[@]}"
    net_start a rollout --peer a --until "$1" --save "$work/a.safetensors" --json "${rails[@]}" "${@:2}"
    await said trainer 'joined: a'
}

# cut RAIL BYTES COMMAND...: in the middle of what the command sets under way
cut()
{
    local until=$(($(net_received a "$1") + $2))
    "${@:3}"
    await reached "$1" "$until"
    net_cut a "$1"
}

# Failed and carrying, as often as that was said of a rail.
failed() # failed PLACE TIMES
{
    [ "$(grep -c "rail $1 by .* failed" "$work/trainer.err")" -ge "$2" ]
}

carries() # carries PLACE TIMES
{
    [ "$(grep -c "rail $1 by .* carries again" "$work/trainer.err")" -ge "$2" ]
}

ended() # ended VERSION RAILS-TEST
{
    finish a 0
    await said trainer 'goodbye: a'
    stop trainer
    same "$work/a.safetensors" "$work/m/v$1.safetensors"
    said trainer 'lost: a' && fail "the peer was lost though a rail was left"
    json trainer "any(o.get('name') == 'a' and o['held'] == $1 and $2 for o in lines)"
}

# ---- an update
begin 4 --model "$work/m/v0.safetensors"
net_rate a 1 1
net_rate a 1 2
cut 1 30000 appear 1
appear 2
await failed 0 1
await said a '"target":2'
carries 0 1 && fail "a rail that is cut carries"
net_rate a 20 1
net_rate a 20 2
before=$(net_received a 1)
net_mend a 1
await carries 0 1
appear 3
await said a '"target":3'
reached 1 $((before + 15000)) || fail "the rail that is back carries nothing"
net_cut a 2
appear 4
ended 4 "o['rails'][0]['failures'] >= 1 and o['rails'][0]['resent_bytes'] + o['rails'][1]['resent_bytes'] > 0"
net_mend a 2

# ---- a snapshot, and the other rail
if [ -n "${WEFT_FULL:-}" ]; then
    net_rate a 10 1
    net_rate a 10 2
    cut 2 400000 begin 1 --empty
    await failed 1 1
    net_mend a 2
    await carries 1 1
    appear 1
    ended 1 "o['rails'][1]['failures'] >= 1"
fi
echo "a peer with two rails takes every version while either is cut"
