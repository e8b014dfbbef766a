#!/usr/bin/env bash
# [security] mode = tls by real processes: who proves a name joins, bit for bit, also through a relay and without a model.
# Who does not is told why, ends with 2, and costs nobody else anything. Keys change while the trainer runs.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
command -v openssl >/dev/null || { echo "skipped: the command openssl is missing (Debian: openssl)" && exit 77; }
models "$work/m" 3
cd "$work" || exit 1
mkdir keys theirs in
site keys.ini a b r c
sed -i "s/^\[peers\]/[peers]\nkey_file = keys\/*\nkey_file_next = keys\/*.next/; s/^\[peer\.r\]/[peer.r]\nrelay = 127.0.0.1:$(free_port)/; \
    s/^\[peer\.c\]/[peer.c]\nvia = r\nlast_resort = none/" keys.ini
printf '[security]\nmode = tls\n' >>keys.ini
for name in a b r c; do
    run "key_$name" 0 "$weft" key "keys/$name"
    cp -p "keys/$name" theirs/
done

if [ -z "${WEFT_TLS:-}" ]; then
    run absent 2 "$weft" trainer keys.ini --model m/v0.safetensors --follow in
    says absent 'this build has no tls'
    exit 0
fi

if command -v "${WEFT_CC:-cc}" >/dev/null && [ -z "${WEFT_SANITIZE:-}" ]; then
    echo "a host without OpenSSL 3 says what to install"
    mkdir fake
    echo 'int weft_fake;' | "${WEFT_CC:-cc}" -shared -fPIC -Wl,-soname,libssl.so.3 -o fake/libssl.so.3 -x c - || fail "no stand-in"
    run without 2 env LD_PRELOAD="$work/fake/libssl.so.3" "$weft" trainer keys.ini --model m/v0.safetensors --follow in
    says without 'mode = tls: install OpenSSL 3 .*libssl.so.3 lacks OPENSSL_init_ssl'
    run without_info 0 env LD_PRELOAD="$work/fake/libssl.so.3" "$weft" info
    says without_info '^tls: install OpenSSL 3'
fi

# clock.so: a process that has it preloaded is WEFT_YEARS off.
if command -v "${WEFT_CC:-cc}" >/dev/null && [ -z "${WEFT_SANITIZE:-}" ]; then
    "${WEFT_CC:-cc}" -shared -fPIC -o clock.so -x c - <<'C' || fail "no shim for the clock"
#include <stdlib.h>
#include <time.h>
time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec += atol(getenv("WEFT_YEARS")) * 31557600;
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}
C
fi
echo "a key is its owner's alone, and never written over"
[ "$(stat -c %a keys/a)" = 600 ] || fail "a key has mode $(stat -c %a keys/a)"
run again 2 "$weft" key keys/a
says again 'keys/a exists'
same keys/a theirs/a
cmp -s keys/a keys/b && fail "two keys are equal"

echo "who proves a name joins, also through a relay and without a model"
start trainer "$weft" trainer keys.ini --model m/v0.safetensors --follow in --json
await said trainer 'peers may join'
says trainer 'tls: names are proved by keys'
for name in a r; do
    start "$name" "$weft" rollout keys.ini --peer "$name" --model m/v0.safetensors --until 3 --save "$name.safetensors" --json
    await said trainer "joined: $name "
done
start c "$weft" rollout keys.ini --peer c --empty --until 3 --save c.safetensors --json
await said trainer 'joined: c '
says trainer 'joined: c .*behind relay r'

# refused NAME TEXT ARGUMENTS...: a rollout b, or what the arguments say, ends with 2 and says TEXT
refused()
{
    local name=$1 text=$2
    shift 2
    run "$name" 2 "$weft" rollout keys.ini --peer b --model m/v0.safetensors --until 1 "$@"
    says "$name" "$text"
}

echo "files that prove nothing are refused at home"
refused gone 'keys/none: No such file' --set peer.b.key_file=keys/none
chmod 644 theirs/c
refused open 'theirs/c has mode 0644, so that others may read or write it: chmod 600' --set peer.b.key_file=theirs/c
chmod 600 theirs/c
head -c 32 /dev/urandom >noise && chmod 600 noise
refused noise 'noise holds no key of weft' --set peer.b.key_file=noise
cut -c1-80 keys/b >short && chmod 600 short
refused short 'short holds a key of less than 32 bytes' --set peer.b.key_file=short
refused folder 'keys is no file' --set peer.b.key_file=keys

echo "a key opens its own name only"
"$weft" key wrong >wrong.id || fail "no key"
refused other "it does not know key [0-9a-f]{16} of b" --set peer.b.key_file=keys/a
await said trainer 'refused: 127.0.0.1:[0-9]+: b comes with key [0-9a-f]{16}, its key here is'
refused wrong 'it does not know key' --set peer.b.key_file=wrong
sed "s/ [0-9a-f]\{64\}$/ $(cut -d' ' -f3 wrong)/" keys/b >forged && chmod 600 forged
refused forged 'it does not know key' --set peer.b.key_file=forged
run empty 2 "$weft" rollout keys.ini --peer b --empty --until 1 --set peer.b.key_file=wrong
says empty 'it does not know key'

echo "ends that do not speak tls, or an older one, are told so"
sed '/key_file/d; s/^mode = tls/mode = loopback/' keys.ini >plain.ini
for how in "--model m/v0.safetensors" --empty; do
    # shellcheck disable=SC2086 # options are words
    run plain 2 "$weft" rollout plain.ini --peer b $how --until 1
    says plain 'this end takes nobody who proves no name: write .security. mode = tls'
done
bash "$support/certificates.sh" "$work/c" || fail "no certificates: $(tail -n 3 "$work/c/made.log")"
sed 's/^key_file.*//; s/^mode = tls/mode = tls\nca = c\/ca.pem\ncertificate = c\/a.pem\nkey = c\/a.key/' keys.ini >mixed.ini
run mixed 2 "$weft" rollout mixed.ini --peer a --model m/v0.safetensors --until 1
says mixed 'it takes no certificates'
run old 1 openssl s_client -connect "127.0.0.1:$port" -tls1_2
says old 'alert protocol version'
python3 - "$port" <<'PYTHON' || fail "babble"
import os, socket, sys
for size in [1, 5, 6, 100, 5000, 200000]:
    for first in [b"\x16\x03\x01", b"", b"GET / HTTP/1.1\r\n\r\n"]:
        with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60) as s:
            s.settimeout(60)
            try:
                s.sendall((first + os.urandom(size))[:max(size, 1)])
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
            except OSError:
                pass
PYTHON

if [ -e clock.so ]; then
    echo "a key needs no clock"
    run clock 0 env WEFT_YEARS=-30 LD_PRELOAD="$work/clock.so" "$weft" rollout keys.ini --peer b --model m/v0.safetensors --until 0
fi

echo "keys change while the trainer runs"
run key_next 0 "$weft" key keys/b.next
for key in keys/b keys/b.next; do
    run rotated 0 "$weft" rollout keys.ini --peer b --model m/v0.safetensors --until 0 --set peer.b.key_file="$key"
done
mv keys/b.next keys/b
refused late 'it does not know key' --set peer.b.key_file=theirs/b
start b "$weft" rollout keys.ini --peer b --model m/v0.safetensors --until 3 --save b.safetensors --json
await said trainer 'joined: b '

echo "nobody else lost anything"
for version in 1 2 3; do
    appear $version
done
for name in a b r c; do
    finish $name 0
    same $name.safetensors m/v3.safetensors
done
grep 'lost: ' trainer.err | grep -qv 'lost: c at version 3: the relay that it is behind is lost' && fail "somebody was lost"
grep -qE "$(cut -d' ' -f3 keys/a)|$(cut -d' ' -f3 keys/b)" ./*.err ./*.out && fail "a key was logged"
stop trainer

echo "names may be proved by certificates"
site certificates.ini a
printf '[security]\nmode = tls\nca = c/ca.pem\ncertificate = c/trainer.pem\nkey = c/trainer.key\n' >>certificates.ini
by() # by FILE: the options of an end with this certificate
{
    echo "--set security.certificate=c/$1.pem --set security.key=c/$1.key"
}
# shellcheck disable=SC2046,SC2086 # options are words
{
    start trainer "$weft" trainer certificates.ini --model m/v0.safetensors --follow in --json
    await said trainer 'peers may join'
    says trainer 'tls: names are proved by certificates'
    for bad in 'b: it is not for a' 'expired: it ended on 2001-01-01' 'early: it begins on 2099-01-01' \
        'nameless: it is not for a' 'wide: it is not for a'; do
        run bad 2 "$weft" rollout certificates.ini --peer a --model m/v0.safetensors --until 1 $(by "${bad%%:*}")
        says bad "certificate = c/${bad%%:*}.pem${bad#"${bad%%:*}"}"
    done
    run foreign 2 "$weft" rollout certificates.ini --peer a --model m/v0.safetensors --until 1 $(by stranger)
    says foreign 'it does not take c/stranger.pem .*unknown ca'
    await said trainer 'refused: .*its certificate is not taken: unable to get local issuer certificate'
    run other_ca 2 "$weft" rollout certificates.ini --peer a --empty --until 1 $(by a) --set security.ca=c/foreign.pem
    says other_ca 'its certificate is not taken'
    sed '/^\(ca\|certificate\|key\) = /d; s/^\[peers\]/[peers]\nkey_file = keys\/a/' certificates.ini >keyed.ini
    run keyed 2 "$weft" rollout keyed.ini --peer a --model m/v0.safetensors --until 1
    says keyed 'it has a certificate, and this end a key_file'
    # Files of this end are looked at before anybody dials, so an expired one is shown by another client: again, because
    # lines that others cause are limited.
    shown() # shown FILE TEXT
    {
        openssl s_client -connect "127.0.0.1:$port" -cert "c/$1.pem" -key "c/$1.key" -CAfile c/ca.pem -quiet \
            </dev/null >s_client.out 2>&1
        said trainer "$2"
    }
    await shown expired 'its certificate is not taken: certificate has expired; .*clock says'
    await shown early 'its certificate is not taken: certificate is not yet valid; .*clock says'
    # Each k that s_client reads is a KeyUpdate. The line that ends it has the name of its certificate.
    renews()
    {
        for _ in 1 2 3 4 5 6 7 8; do echo k && sleep 0.02; done | openssl s_client -connect "127.0.0.1:$port" \
            -cert c/a.pem -key c/a.key -CAfile c/ca.pem >s_client.out 2>&1
        said trainer 'ended: a sent 5 messages of tls after its proof'
    }
    await renews
    if [ -e clock.so ]; then
        echo "a clock that is years off is told, at home before the other end's certificate is seen"
        for years in -12 90; do
            [ "$years" = -12 ] && told='it begins on 2020-01-01, and this host.s clock says 201' ||
                told='it ended on 2100-01-01, and this host.s clock says 211'
            run off 2 env WEFT_YEARS="$years" LD_PRELOAD="$work/clock.so" "$weft" rollout certificates.ini --peer a \
                --model m/v0.safetensors --until 1 $(by a)
            says off "certificate = c/a.pem: $told"
            run off_trainer 2 env WEFT_YEARS="$years" LD_PRELOAD="$work/clock.so" "$weft" trainer certificates.ini \
                --model m/v0.safetensors --follow in --set trainer.listen=127.0.0.1:0
            says off_trainer "certificate = c/trainer.pem: $told"
            [ "$(wc -l <off.err)$(wc -l <off_trainer.err)" = 11 ] || fail "a wrong clock is not one line"
        done
        run off_other 2 env WEFT_YEARS=-12 LD_PRELOAD="$work/clock.so" "$weft" rollout certificates.ini --peer a \
            --model m/v0.safetensors --until 1 $(by long)
        says off_other 'its certificate is not taken: certificate is not yet valid; .*this host.s clock says 201'
    fi
    start a "$weft" rollout certificates.ini --peer a --model m/v0.safetensors --until 3 --save again.safetensors $(by a)
    finish a 0
    same again.safetensors m/v3.safetensors
    stop trainer
    # The trainer's certificate must be the trainer's.
    start fake openssl s_server -accept "$port" -cert c/b.pem -key c/b.key -CAfile c/ca.pem -tls1_3 -Verify 1 -www
    await said fake ACCEPT
    run fooled 2 "$weft" rollout certificates.ini --peer a --model m/v0.safetensors --until 1 $(by a)
    says fooled 'its certificate is not for trainer'
    kill "${started[fake]}" && wait "${started[fake]}"
    unset 'started[fake]'
    # tls at the dialing end alone
    start trainer "$weft" trainer plain.ini --model m/v0.safetensors --follow in --set "trainer.listen=127.0.0.1:$port"
    await said trainer 'peers may join'
    run alone 2 "$weft" rollout certificates.ini --peer a --model m/v0.safetensors --until 1 $(by a)
    says alone 'it speaks without tls: write .security. mode = tls at both ends'
    await said trainer 'comes by tls, and this end speaks without'
}
exit 0
