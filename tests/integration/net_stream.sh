#!/usr/bin/env bash
# Rollouts that nobody can reach: the trainer has no way to their network, and what leads out of it is a forwarder for
# one port. Provider stream serves them, plain and under tls, and also where that way is slow; tcp cannot, and says so.
# shellcheck source=tests/net/net.sh
. "$(dirname "$0")/../net/net.sh"
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$support_folder/cli.sh"
net_open
net_namespace gate && net_namespace inner || net_skip "no namespace to be had"
ip -n core link add port-gate type veth peer name eth0 netns gate && net_plug gate &&
    ip -n gate address add 10.77.0.9/24 dev eth0 || net_skip "no veth to be had"
ip -n gate link add eth1 type veth peer name eth0 netns inner && ip -n gate address add 10.78.0.1/24 dev eth1 &&
    ip -n gate link set eth1 up && ip -n inner address add 10.78.0.2/24 dev eth0 && ip -n inner link set eth0 up ||
    net_skip "no veth to be had"
models "$work/m" 3
net_site "$work/site.ini" atlas borealis </dev/null
sed -i 's/^provider = tcp/provider = stream/' "$work/site.ini"
port=$(sed -n 's/^listen = .*://p' "$work/site.ini")

cat >"$work/forward.py" <<'PYTHON'
import asyncio, sys

seen = open(sys.argv[4], "ab", buffering=0)

async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            seen.write(data)
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    writer.close()

async def forward(reader, writer):
    other = await asyncio.open_connection(sys.argv[2], int(sys.argv[3]))
    await asyncio.gather(copy(reader, other[1]), copy(other[0], writer))

async def main():
    server = await asyncio.start_server(forward, sys.argv[1], int(sys.argv[3]))
    print("ready", flush=True)
    await server.serve_forever()

asyncio.run(main())
PYTHON
start forward nsenter --net=/run/netns/gate python3 "$work/forward.py" 10.78.0.1 "$net_trainer" "$port" "$work/seen"
await said forward ready
net_in trainer bash -c 'exec 3<>/dev/tcp/10.78.0.2/9' 2>"$work/way.err" && fail "the trainer reaches the inner network"
grep -qi 'unreachable' "$work/way.err" || fail "the trainer has a way to the inner network: $(cat "$work/way.err")"

# What a forwarder has seen of weights, their names and the peers': of each kind whether any of it.
seen()
{
    python3 - "$work/seen" "$work/m/v0.safetensors" <<'PYTHON'
import json, sys
seen = open(sys.argv[1], "rb").read()
model = open(sys.argv[2], "rb").read()
size = int.from_bytes(model[:8], "little")
names = [name for name in json.loads(model[8:8 + size]) if name != "__metadata__"]
data = model[8 + size:]
parts = [data[at:at + 16] for at in range(0, len(data) - 16, 997)]
print("names", any(name.encode() in seen for name in names), "weights",
      any(part in seen for part in parts if len(set(part)) > 8), "peers", b"atlas" in seen or b"borealis" in seen)
PYTHON
}

# serve NAME [SET]...: two rollouts in the inner network get all versions; of_trainer and of_peer, whose PEER is the name,
# are options of one end
of_trainer=() of_peer=()
serve()
{
    local name=$1 peer
    shift
    mkdir "$work/$name"
    start "trainer.$name" nsenter --net=/run/netns/trainer "$weft" trainer "$work/site.ini" --model "$work/m/v0.safetensors" \
        --follow "$work/$name" --json "$@" "${of_trainer[@]}"
    await said "trainer.$name" 'peers may join'
    : >"$work/seen"
    for peer in atlas borealis; do
        [ "$peer" = atlas ] && holds=(--model "$work/m/v0.safetensors") || holds=(--empty)
        start "$name.$peer" nsenter --net=/run/netns/inner "$weft" rollout "$work/site.ini" --peer "$peer" \
            "${holds[@]}" --set peers.snapshot_coding=verbatim --until 3 --save "$work/$name.$peer.safetensors" --json \
            --set "trainer.listen=10.78.0.1:$port" "$@" "${of_peer[@]//PEER/$peer}"
        await said "trainer.$name" "joined: $peer from 10.77.0.9"
    done
    [ -z "$(net_in inner ss -Hltn 2>/dev/null)" ] || fail "a rollout listens"
    for version in 1 2 3; do
        appear "$version" "v$version" "$work/$name"
    done
    for peer in atlas borealis; do
        finish "$name.$peer" 0
        same "$work/$name.$peer.safetensors" "$work/m/v3.safetensors"
    done
    stop "trainer.$name"
}

echo "one outbound port is enough"
serve plain --set peer.borealis.streams=3 --set peers.snapshot_coding=verbatim
[ "$(seen)" = "names True weights True peers True" ] ||
    fail "the search finds nothing where everything is plain: $(seen)"
echo "auto takes it where no way leads from the address to the port, and says so before it joins"
serve auto --set peer.borealis.provider=auto --set peer.borealis.address=127.0.0.1
run auto_check 0 nsenter --net=/run/netns/inner "$weft" check "$work/site.ini" --set peer.borealis.provider=auto \
    --set peer.borealis.address=127.0.0.1 --set "trainer.listen=10.78.0.1:$port"
says auto_check 'provider stream \(auto\) for borealis: taken on this host, .*127\.0\.0\.1 is not reached from 10\.'
says auto.borealis 'provider auto: taken stream.*address = 127\.0\.0\.1 is not reached from 10\.78\.0\.1'
if [ -n "${WEFT_TLS:-}" ]; then
    echo "under tls too"
    mkdir "$work/keys"
    for peer in atlas borealis; do
        run "key_$peer" 0 "$weft" key "$work/keys/$peer"
    done
    serve tls --set peers.snapshot_coding=verbatim --set security.mode=tls --set "peers.key_file=$work/keys/*"
    says trainer.tls 'messages and weights are secret'
    [ "$(seen)" = "names False weights False peers True" ] || fail "the way saw other than names of keys: $(seen)"
    if command -v openssl >/dev/null; then
        echo "with certificates the way sees no name of a peer either"
        bash "$support/certificates.sh" "$work/c" atlas borealis ||
            fail "no certificates: $(tail -n 3 "$work/c/made.log")"
        of_trainer=(--set "security.certificate=$work/c/trainer.pem" --set "security.key=$work/c/trainer.key")
        of_peer=(--set "security.certificate=$work/c/PEER.pem" --set "security.key=$work/c/PEER.key")
        serve certificates --set peers.snapshot_coding=verbatim --set security.mode=tls \
            --set "security.ca=$work/c/ca.pem"
        [ "$(seen)" = "names False weights False peers False" ] || fail "the way saw what is secret: $(seen)"
    fi
fi
