#!/usr/bin/env bash
# A site without any IPv4: addresses by IP, by interface and by none, what `weft check` says of it on either host; and a
# host with both families whose interface leads to the other one, told once with the mend.
# shellcheck source=tests/net/net.sh
. "$(dirname "$0")/../net/net.sh"
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$support_folder/cli.sh"
net_open
net_peer a
fabric tcp
models "$work/m" 1
net_site "$work/site.ini" a </dev/null
sed -i 's/^listen = .*/listen = [fd77::1]:7117/' "$work/site.ini"
for host in trainer a; do
    ip -n "$host" -4 address flush dev eth0
    # a host that has had its addresses for long has none that is still tried
    ip -n "$host" address add "fd77::$([ $host = trainer ] && echo 1 || echo 11)/64" dev eth0 nodad ||
        net_skip "no IPv6 to be had"
done


pair() # pair ADDRESS: the rollout by this address holds version 1
{
    net_start trainer trainer --model "$work/m/v0.safetensors" --versions "$work/m/v1.safetensors"
    net_start a rollout --peer a --model "$work/m/v0.safetensors" --save "$work/a.safetensors" --until 1 \
        --set peer.a.address="$1"
    finish a 0
    finish trainer 0
    same "$work/a.safetensors" "$work/m/v1.safetensors"
    rm "$work/a.safetensors"
}

pair fd77::11
pair eth0
pair ''
run there 0 nsenter --net=/run/netns/a "$weft" check "$work/site.ini" --set peer.a.address=eth0 --json
json there "[f['missing'] for f in lines[0]['fabrics'] if 'a' in f['peers']] == ['nothing']"
json there "[c['address'] for f in lines[0]['fabrics'] for c in f['candidates'] if c['verdict'] == 'taken'] == ['fd77::11']"
run here 0 nsenter --net=/run/netns/trainer "$weft" check "$work/site.ini" --json
json here "[f['missing'] for f in lines[0]['fabrics'] if 'trainer' in f['peers']] == ['nothing']"

# The interface of a host with both leads to IPv4 first.
ip -n a address add 10.77.0.11/24 dev eth0
net_start trainer trainer --model "$work/m/v0.safetensors" --versions "$work/m/v1.safetensors"
run both 1 nsenter --net=/run/netns/a "$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors" \
    --until 1 --set peer.a.address=eth0 --set session.connect_deadline=5s
says both "one family in \[trainer\] address and \[peer"
await said trainer "one family" # the line leaves by a thread of its own
[ "$(grep -c "one family" "$work/both.err") $(grep -c "one family" "$work/trainer.err")" = "1 1" ] || fail "not said once at either end"
interrupt trainer
finish trainer 1
echo "a site of IPv6 alone"
