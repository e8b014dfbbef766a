#!/usr/bin/env bash
# weft bench fabric: between two processes here and between a --serve and its --join; what it recommends is among what it
# measured; wrong use and what is missing are one message.
# shellcheck source=tests/support/cli.sh
source "$(dirname "$0")/../support/cli.sh"
fabric tcp
site "$work/site.ini" a
printf '[peer.b]\nprovider = tcp-rxm\n[peer.c]\nprovider = verbs\n[peer.d]\nprovider = loop\n[peer.e]\nprovider = auto\n' \
    >>"$work/site.ini"

run here 0 "$WEFT_BIN" bench fabric "$work/site.ini" --megabytes 1 --runs 1 --json
json here "lines[0]['provider'] == 'tcp' and lines[0]['fabric'] in ('net', 'tcp') and lines[0]['address'] == '127.0.0.1'"
json here "len(lines[0]['rates']) == 20 and all(r['bytes_s'] > 0 for r in lines[0]['rates'])"
json here "lines[0]['raw_tcp']['bytes_s'] > 0 and lines[0]['latency_us'] > 0 and lines[0]['woken_us'] > 0"
json here "all(r['ms'] > 0 for r in lines[0]['registration'])"
json here "lines[0]['worth'] == (lines[0]['why'] is None) == (lines[0]['keys'] is not None) == (lines[0]['enough'] is not None)"

# The keys are ones that a site takes. The machine may do more than this test: then no keys are told, again and again.
keys=
for attempt in {1..3}; do
    run here 0 "$WEFT_BIN" bench fabric "$work/site.ini" --megabytes 1 --runs 1 --json
    run table 0 "$WEFT_BIN" bench fabric "$work/site.ini" --megabytes 1 --runs 1
    says table 'raw TCP between the same ends'
    grep -q '"worth":true' "$work/here.out" && grep -q '^\[provider' "$work/table.out" && keys=yes && break
done
if [ -n "$keys" ]; then
    json here "lines[0]['keys']['bucket_min'] == lines[0]['keys']['chunk'] * lines[0]['keys']['depth']"
    json here "(lines[0]['keys']['chunk'], lines[0]['keys']['depth']) in {(r['bytes'], r['in_flight']) for r in lines[0]['rates']}"
    json here "len(lines[0]['enough']) == 4"
sed -n '/^\[provider/,$p' "$work/table.out" | sed '/^\[peers\]$/d; /^bucket_min/d' >>"$work/site.ini"
run valid 0 "$WEFT_BIN" check "$work/site.ini" --set "peers.$(sed -n 's/ = /=/; /^bucket_min/p' "$work/table.out")" \
    --set peers.bucket_max=256MiB
else
    echo "not run: keys of a quiet machine (this one is busy)"
fi

# Both ends on one processor, with a third that wants it: the figures are of that, and nothing is recommended.
one=$(taskset -pc $$ | sed 's/.*: //; s/[-,].*//')
start spinner taskset -c "$one" bash -c 'while :; do :; done'
run busy 0 taskset -c "$one" "$WEFT_BIN" bench fabric "$work/site.ini" --megabytes 1 --runs 1 --json
run busy_table 0 taskset -c "$one" "$WEFT_BIN" bench fabric "$work/site.ini" --megabytes 1 --runs 1
interrupt spinner KILL
wait "${started[spinner]}"
unset "started[spinner]"
json busy "not lines[0]['worth'] and lines[0]['keys'] is None and lines[0]['noise']['waited_here'] > 0.1"
json busy "'waited for a processor' in lines[0]['why'] and lines[0]['latency_us'] > 0"
says busy_table 'these figures are worth nothing: .* waited for a processor'
! grep -q '^\[provider\|^chunk' "$work/busy_table.out" || fail "settings are recommended by a busy machine"

# Ports are those that the site allows: both ends are here, each takes one.
ports=$((20000 + $$ % 20000))
run ranged 0 "$WEFT_BIN" bench fabric "$work/site.ini" --megabytes 1 --runs 1 --json \
    --set "provider.tcp.ports=$ports-$((ports + 15))"
run narrow 1 "$WEFT_BIN" bench fabric "$work/site.ini" --megabytes 1 --runs 1 --set "provider.tcp.ports=$ports-$ports"
says narrow "every port of $ports-$ports .*is taken; widen \[provider.tcp\] ports"

# Two hosts.
start measuring "$WEFT_BIN" bench fabric "$work/site.ini" --peer b --serve --megabytes 1 --runs 1 --json
await said measuring 'waiting on'
run obeying 0 "$WEFT_BIN" bench fabric "$work/site.ini" --peer b --join
finish measuring 0
json measuring "lines[0]['provider'] == 'tcp-rxm' and lines[0]['other'] == 'b'"

# Who joins without --join says nothing that is waited for, and ends nothing.
start plain "$WEFT_BIN" bench fabric "$work/site.ini" --peer a --serve --megabytes 1 --runs 1 --json
await said plain 'waiting on'
python3 -c 'import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(b"GET / HTTP/1.1\r\n\r\n")
s.recv(1)' "$port"
await said plain 'refused: 127.0.0.1: it is no .weft bench fabric SITE.ini --join'
if [ -n "${WEFT_TLS:-}" ]; then
    for key in a b; do
        run "key_$key" 0 "$WEFT_BIN" key "$work/$key.key"
    done
    { cat "$work/site.ini" && printf '[security]\nmode = tls\n'; } |
        sed "s,^\[peers\],[peers]\nkey_file = $work/\*.key," >"$work/tls.ini"
    sed -i '/^\[peer\.[c-e]\]/,/^provider/d' "$work/tls.ini"
    sleep 1.1 # lines that others cause are limited
    run tls_alone 2 "$WEFT_BIN" bench fabric "$work/tls.ini" --peer a --join
    says tls_alone 'speaks without tls: write .security. mode = tls at both ends'
    await said plain 'refused: 127.0.0.1: it comes by tls, and this end speaks without'
fi
run plain_join 0 "$WEFT_BIN" bench fabric "$work/site.ini" --peer a --join
finish plain 0

# By tls: both ends prove who they are, and who does not is told why, while the one that is waited for still comes.
if [ -n "${WEFT_TLS:-}" ]; then
    start proved "$WEFT_BIN" bench fabric "$work/tls.ini" --peer a --serve --megabytes 1 --runs 1 --json
    await said proved 'waiting on'
    run without 1 "$WEFT_BIN" bench fabric "$work/site.ini" --peer a --join
    says without 'the other end says: this end takes nobody who proves no name: write .security. mode = tls'
    await said proved 'refused: 127.0.0.1: .*speaks without tls'
    run wrong 2 "$WEFT_BIN" bench fabric "$work/tls.ini" --peer a --join --set "peer.a.key_file=$work/b.key"
    says wrong 'it does not know key [0-9a-f]{16} of a'
    run another 1 "$WEFT_BIN" bench fabric "$work/tls.ini" --peer b --join
    says another 'the other end says: --peer a is measured, and the other end proves another name'
    run right 0 "$WEFT_BIN" bench fabric "$work/tls.ini" --peer a --join
    finish proved 0
    json proved "lines[0]['provider'] == 'tcp' and lines[0]['other'] == 'a' and lines[0]['raw_tcp']['bytes_s'] > 0"
    run gone 2 "$WEFT_BIN" bench fabric "$work/tls.ini" --peer a --join --set "peer.a.key_file=$work/none.key"
    says gone 'none.key: No such file'
fi

# The peer's process ends in the middle: the one that measures says so.
start alone "$WEFT_BIN" bench fabric "$work/site.ini" --peer a --serve --megabytes 4096 --runs 15
await said alone 'waiting on'
start leaving "$WEFT_BIN" bench fabric "$work/site.ini" --peer a --join
await said alone 'a has come'
sleep 1
interrupt leaving KILL
wait "${started[leaving]}"
unset "started[leaving]"
finish alone 1

# ---- wrong use, and what is not there
run nobody 1 "$WEFT_BIN" bench fabric "$work/site.ini" --peer a --join
says nobody 'is .weft bench fabric SITE.ini --serve. running there'
run none 2 "$WEFT_BIN" bench fabric
says none 'needs a SITE.ini'
run absent 2 "$WEFT_BIN" bench fabric "$work/no.ini"
run two 2 "$WEFT_BIN" bench fabric "$work/site.ini" "$work/site.ini"
run stranger 2 "$WEFT_BIN" bench fabric "$work/site.ini" --peer z
run both 2 "$WEFT_BIN" bench fabric "$work/site.ini" --peer a --serve --join
run nameless 2 "$WEFT_BIN" bench fabric "$work/site.ini" --serve
run runs 2 "$WEFT_BIN" bench fabric "$work/site.ini" --runs 16
run megabytes 2 "$WEFT_BIN" bench fabric "$work/site.ini" --megabytes 0
run loop 2 "$WEFT_BIN" bench fabric "$work/site.ini" --peer d
says loop 'joins no processes'
run auto 2 "$WEFT_BIN" bench fabric "$work/site.ini" --peer e --json
json auto "'name the one' in lines[0]['error']['text']"
if ! fabric_is_here verbs; then
    run verbs 2 "$WEFT_BIN" bench fabric "$work/site.ini" --peer c
    [ "$(wc -l <"$work/verbs.err")" = 1 ] || fail "what is missing is told in one line"
    says verbs 'no RDMA device'
fi
echo "the fabric is measured"
