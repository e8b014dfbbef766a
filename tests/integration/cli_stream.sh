#!/usr/bin/env bash
# Provider stream by real processes: plain and under tls, several connections a peer, and through relays with stream on
# one side and another provider on the other.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
models "$work/m" 3
cd "$work" || exit 1

echo "a table, and no libfabric behind it"
run info 0 "$weft" info
says info 'yes stream +stream'

# play NAME SITE PEER...: a trainer with three versions, and rollouts of one part of the name each, to the last bit
play()
{
    local name=$1 site=$2 peer
    shift 2
    mkdir "in.$name"
    start "$name" "$weft" trainer "$site" --model m/v0.safetensors --follow "in.$name" --json
    await said "$name" 'peers may join'
    for peer in "$@"; do
        start "$name.$peer" "$weft" rollout "$site" --peer "$peer" --model m/v0.safetensors --until 3 \
            --save "$name.$peer.safetensors" --json
        await said "$name" "joined: $peer "
    done
    for version in 1 2 3; do
        appear "$version" "v$version" "in.$name"
    done
    for peer in "$@"; do
        finish "$name.$peer" 0
        same "$name.$peer.safetensors" m/v3.safetensors
    done
    stop "$name"
}

echo "plain"
site plain.ini a b
sed -i 's/^provider = tcp/provider = stream/; s/^\[peer\.b\]/[peer.b]\nstreams = 4/' plain.ini
play plain plain.ini a b
says plain 'joined: a .* by stream'
says plain.a 'joined the trainer .* by stream'
grep -q '"streams":4' plain.out || says plain 'joined: b .* by stream'

echo "both ends name it, and no other is taken in its place"
start alone "$weft" trainer plain.ini --model m/v0.safetensors --follow in.plain
await said alone 'peers may join'
run mixed 1 "$weft" rollout plain.ini --peer a --model m/v0.safetensors --until 1 --set peer.a.provider=loop
says mixed 'a comes by provider loop, the trainer.s site file names stream'

echo "a connection for a port that is not there is refused, and costs nobody anything"
python3 - "$port" <<'PYTHON' || fail "DUCT of a stranger was not refused"
import socket, struct, sys
line = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
line.settimeout(60)
body = struct.pack("<H", 24) + b"wfstrm1\0" + bytes(16)
line.sendall(struct.pack("<IHH", len(body), 28, 0) + body)
answer = b""
while part := line.recv(4096):
    answer += part
sys.exit(0 if struct.unpack_from("<H", answer, 4)[0] == 3 and b"port that is not here" in answer else 1)
PYTHON
says alone 'DUCT for a port that is not here'
stop alone

if fabric_is_here tcp; then
    for side in up down; do
        echo "through a relay, stream on the way $side, tcp on the other"
        site "relay_$side.ini" r c
        [ "$side" = up ] && ways='stream tcp' || ways='tcp stream'
        read -r first second <<<"$ways"
        sed -i "s/^\[peer\.r\]/[peer.r]\nprovider = $first\nrelay = 127.0.0.1:$(free_port)/; \
            s/^\[peer\.c\]/[peer.c]\nprovider = $second\nvia = r\nlast_resort = none/" "relay_$side.ini"
        play "relay_$side" "relay_$side.ini" r c
        [ "$first" = stream ] || first='(tcp|net)'
        says "relay_$side" "joined: c .* by $first, behind relay r"
        [ "$second" = stream ] || second='(tcp|net)'
        says "relay_$side.c" "joined relay r .* by $second"
    done
fi

[ -n "${WEFT_TLS:-}" ] || exit 0
echo "under tls, through a relay too"
site tls.ini a r c
mkdir keys
for name in a r c; do
    run "key_$name" 0 "$weft" key "keys/$name"
done
sed -i "s/^provider = tcp/provider = stream\nkey_file = keys\/*/; s/^\[peer\.r\]/[peer.r]\nrelay = 127.0.0.1:$(free_port)/; \
    s/^\[peer\.c\]/[peer.c]\nvia = r\nlast_resort = none/" tls.ini
printf '[security]\nmode = tls\n' >>tls.ini
play tls tls.ini a r c
says tls 'joined: c .* by stream, behind relay r'
