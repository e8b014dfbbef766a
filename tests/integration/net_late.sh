#!/usr/bin/env bash
# A rollout joins with nothing over a slow wire: its snapshot takes seconds, and the live peer takes version after version
# meanwhile. Both end with the trainer's bits.
# shellcheck source=tests/net/net.sh
. "$(dirname "$0")/../net/net.sh"
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$support_folder/cli.sh"
net_open
net_peer live rate=1000
net_peer late rate=1
fabric tcp
models "$work/m" 6 1 4000
net_site "$work/site.ini" live late </dev/null
mkdir "$work/in"

give() # give VERSION: to the trainer that follows the folder; until live has it
{
    appear "$1"
    await said live "\"target\":$1"
}

net_start trainer trainer --model "$work/m/v0.safetensors" --follow "$work/in" --json
net_start live rollout --peer live --model "$work/m/v0.safetensors" --until 6 --save "$work/live.safetensors" --json
give 1
before=$(net_received late)
net_start late rollout --peer late --empty --until 6 --save "$work/late.safetensors" --json
under_way() # its snapshot: 200 kB of 4 MB are there
{
    [ "$(net_received late)" -gt $((before + 200000)) ]
}
await under_way
for version in 2 3 4; do
    give $version
done
said late '"target"' && fail "the snapshot was over before the versions were"
net_rate late 100
await said late '"target"'
give 5
give 6
finish live 0
finish late 0
stop trainer
json live "[o['target'] for o in lines] == [1, 2, 3, 4, 5, 6]"
json late "lines[0]['kind'] == 'snapshot'"
same "$work/live.safetensors" "$work/m/v6.safetensors"
same "$work/late.safetensors" "$work/m/v6.safetensors"
echo "a late joiner on a slow link holds nobody back"
