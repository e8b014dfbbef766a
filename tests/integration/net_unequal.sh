#!/usr/bin/env bash
# Three peers behind wires of 100, 400 and 2000 Mbit/s at once: one takes updates alone, one begins with a snapshot, one
# is repaired from a wrong base; all end with the trainer's bits.
# shellcheck source=tests/net/net.sh
. "$(dirname "$0")/../net/net.sh"
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$support_folder/cli.sh"
net_open
net_peer slow rate=100
net_peer middle rate=400
net_peer fast rate=2000
fabric tcp
models "$work/m" 6 1 4000
models "$work/other" 0 7 4000
net_site "$work/site.ini" slow middle fast </dev/null

net_start slow rollout --peer slow --model "$work/m/v0.safetensors" --until 6 --save "$work/slow.safetensors" --json
net_start middle rollout --peer middle --empty --until 6 --save "$work/middle.safetensors" --json
net_start fast rollout --peer fast --model "$work/other/v0.safetensors" --until 6 --save "$work/fast.safetensors" --json
net_start trainer trainer --model "$work/m/v0.safetensors" --versions "$work"/m/v{1,2,3,4,5,6}.safetensors --json
for name in slow middle fast trainer; do
    finish "$name" 0
done
for name in slow middle fast; do
    same "$work/$name.safetensors" "$work/m/v6.safetensors"
done
json trainer "sorted(p['name'] for p in lines[-1]['peers']) == ['fast', 'middle', 'slow']"
json trainer "all(p['held'] == 6 and p['provider'] == 'tcp' for p in lines[-1]['peers'])"
json slow "all(o['kind'] == 'update' for o in lines)"
json middle "lines[0]['kind'] == 'snapshot'"
echo "three peers on unequal links hold version 6 bit for bit"
