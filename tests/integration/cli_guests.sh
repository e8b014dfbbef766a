#!/usr/bin/env bash
# Connections that have not said who they are: so many of one address, so long, and so many bytes. And the name of a live
# peer, which a second proof takes over only where the site says so.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
models "$work/m" 1
cd "$work" || exit 1
site site.ini a
sed -i 's/^provider = tcp/provider = stream/' site.ini
mkdir in

echo "one address has so many, for so long"
start trainer "$weft" trainer site.ini --model m/v0.safetensors --follow in --set security.guests_per_address=3 \
    --set security.guest_deadline=2s
await said trainer 'peers may join'
python3 - "$port" <<'PYTHON' || fail "limits of guests do not hold"
import select, socket, sys, time
begun = time.monotonic()
lines = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(8)]

def closed_within(seconds):
    ended = 0
    for line in lines:
        line.settimeout(seconds)
        try:
            ended += line.recv(1) == b""
        except ConnectionError:
            ended += 1
        except TimeoutError:
            pass
    return ended

early = closed_within(0.1)
in_time = time.monotonic() - begun < 2
late = closed_within(60)
sys.exit(0 if (early == 5 or not in_time) and late == 8 and time.monotonic() - begun >= 2 else f"{early} {late}")
PYTHON
await said trainer 'guests_per_address have not said who they are'
run a 0 "$weft" rollout site.ini --peer a --model m/v0.safetensors --until 0
stop trainer

echo "a relay has so many at one time, for so long"
relay=$(free_port)
start trainer_relay "$weft" trainer site.ini --model m/v0.safetensors --follow in
await said trainer_relay 'peers may join'
start relay "$weft" rollout site.ini --peer a --model m/v0.safetensors --set peer.a.relay=127.0.0.1:"$relay" \
    --set security.guests=2 --set security.guest_deadline=1s
await said trainer_relay 'joined: a '
python3 - "$relay" <<'PYTHON' || fail "limits of guests do not hold at a relay"
import socket, sys, time
begun, lines = time.monotonic(), []
for _ in range(6):
    lines.append(socket.create_connection(("127.0.0.1", int(sys.argv[1]))))
    time.sleep(0.05)

def ended(line, seconds):
    line.settimeout(seconds)
    try:
        return line.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False

early = sum(ended(line, 0.1) for line in lines)
in_time = time.monotonic() - begun < 1
late = sum(ended(line, 60) for line in lines)
spent = time.monotonic() - begun
sys.exit(0 if (early == 4 or not in_time) and late == 6 and 1 <= spent < 9 else f"{early} {late} {spent}")
PYTHON
stop relay trainer_relay

echo "a name is replaced by proof alone"
run plain 2 "$weft" check site.ini --set security.replace=yes
says plain 'only .security. mode = tls asks for proof of a name'
[ -n "${WEFT_TLS:-}" ] || exit 0

run key 0 "$weft" key key
tls=(--set security.mode=tls --set security.key_file=key)
for replace in no yes; do
    start "trainer_$replace" "$weft" trainer site.ini --model m/v0.safetensors --follow in "${tls[@]}" --set \
        security.replace=$replace --set security.guest_bytes=8KiB
    await said "trainer_$replace" 'peers may join'
    start "first_$replace" "$weft" rollout site.ini --peer a --model m/v0.safetensors --until 1 "${tls[@]}"
    await said "trainer_$replace" 'joined: a '
    if [ $replace = no ]; then
        echo "a second proof is refused"
        run second 1 "$weft" rollout site.ini --peer a --model m/v0.safetensors --until 1 "${tls[@]}"
        says second 'a peer named a is live already'
    else
        echo "a second proof takes the name, and the first does not get it back"
        start second_yes "$weft" rollout site.ini --peer a --model m/v0.safetensors --until 1 "${tls[@]}"
        finish first_yes 1
        says first_yes 'a peer named a is live already'
        kill -0 "${started[second_yes]}" || fail "the second has lost the name"
    fi
    echo "who proves nothing may say little"
    python3 - "$port" <<'PYTHON' || fail "a long beginning was not cut"
import socket, struct, sys
line = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
line.settimeout(60)
hello = struct.pack(">B", 1) + (100000).to_bytes(3, "big") + b"\x03\x03" + bytes(100000)
sent = 0
try:
    for at in range(0, 100000, 4096):
        part = hello[at:at + 4096]
        line.sendall(struct.pack(">BHH", 22, 0x0301, len(part)) + part)
        sent += len(part)
    while line.recv(4096):
        pass
except ConnectionError:
    pass
PYTHON
    await said "trainer_$replace" 'refused: .* it sent more than guest_bytes \(8192\)'
    appear 1 v1 in
    [ $replace = no ] && finish first_no 0 || finish second_yes 0
    stop "trainer_$replace"
    rm in/*
done
