#!/usr/bin/env bash
# The cable of one peer is pulled in the middle of an update. Back before the heartbeat is due, the update goes on; back
# after it, the peer was lost by name, joins again and is brought to the newest version. The other peer notices nothing.
# shellcheck source=tests/net/net.sh
. "$(dirname "$0")/../net/net.sh"
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$support_folder/cli.sh"
net_open
net_peer near
net_peer far
fabric tcp
models "$work/m" 3 1 6000
net_site "$work/site.ini" near far <<<'level = pairs'
mkdir "$work/in"

reached() # reached BYTES: so many came by far's wire
{
    [ "$(net_received far)" -ge "$1" ]
}

# both at version 0; from now on an update takes far seconds
fleet() # fleet HEARTBEAT: of far
{
    rm -f "$work"/in/*
    net_rate far 100
    net_start trainer trainer --model "$work/m/v0.safetensors" --follow "$work/in" --set peer.far.heartbeat="$1"
    for name in near far; do
        net_start $name rollout --peer $name --model "$work/m/v0.safetensors" --until 3 --save "$work/$name.safetensors" \
            --json --set peer.far.heartbeat="$1"
        await said trainer "\b$name\b.*(joined|holds)"
    done
    net_rate far 1
}

ended() # all hold version 3, and near took every version
{
    finish near 0
    finish far 0
    stop trainer
    same "$work/near.safetensors" "$work/m/v3.safetensors"
    same "$work/far.safetensors" "$work/m/v3.safetensors"
    json near "[o['target'] for o in lines] == [1, 2, 3]"
}

# ---- back in time
fleet 60s
before=$(net_received far)
appear 1
await reached $((before + 40000))
net_cut far
appear 2
await said near '"target":2'
sleep 3
said far '"target":1' && fail "the update was over before the cable was pulled"
net_mend far
net_rate far 100
appear 3
ended
said trainer 'lost: far' && fail "far was lost although it came back in time"

# ---- too late
fleet 1s
before=$(net_received far)
appear 1
await reached $((before + 40000))
net_cut far
appear 2
await said trainer 'lost: far'
said trainer 'lost: near' && fail "near was lost with far"
await said near '"target":2'
net_mend far
net_rate far 100
appear 3
ended
echo "a peer that is cut off for a while ends with the trainer's bits"
