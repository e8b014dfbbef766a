#!/usr/bin/env bash
# Wires that are bad or get worse: one loses frames, one falls to a tenth of its rate while updates go by; the trainer's
# estimate follows it, nobody is lost, and all end with the trainer's bits.
# shellcheck source=tests/net/net.sh
. "$(dirname "$0")/../net/net.sh"
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$support_folder/cli.sh"
net_open
net_peer worse rate=200
net_peer lossy loss=5 delay=1
fabric tcp
models "$work/m" 8 1 4000
net_site "$work/site.ini" lossy worse <<<'level = pairs'
mkdir "$work/in"

give() # give VERSION: to the trainer that follows the folder; until worse has it
{
    appear "$1"
    await said worse "\"target\":$1"
}

net_start trainer trainer --model "$work/m/v0.safetensors" --follow "$work/in" --json
net_start worse rollout --peer worse --model "$work/m/v0.safetensors" --until 8 --save "$work/worse.safetensors" --json
net_start lossy rollout --peer lossy --empty --until 8 --save "$work/lossy.safetensors" --json
await said trainer '"name":"worse".*|worse.*holds the newest'
give 1
give 2
net_rate worse 20
for version in 3 4 5 6 7 8; do
    give $version
done
finish worse 0
finish lossy 0
stop trainer
same "$work/worse.safetensors" "$work/m/v8.safetensors"
same "$work/lossy.safetensors" "$work/m/v8.safetensors"
json lossy "lines[0]['kind'] == 'snapshot'"
said trainer 'lost: ' && fail "a peer was lost"
# 20 Mbit/s are 2.5 MB/s, and were 25; six updates of one bucket each went by since
json trainer "[p['rate_bytes_s'] for p in lines[-1]['peers'] if p['name'] == 'worse'][0] < 25e6 / 4"
echo "a lossy and a slackening link end with the trainer's bits"
