#!/usr/bin/env bash
# A trainer that is still reading its model: rollouts wait for it longer than for one that does not answer, and a signal
# ends it in order. Who never joined, or was lost, decides its exit code; who never held a version saves nothing.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
compiler
models "$work/m" 1
site "$work/site.ini" a b

# Reading the weights takes until the file $HOLD is there: that is when the model's pages are given back.
cat >"$work/hold.c" <<'SHIM'
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int munmap(void *memory, size_t bytes)
{
    const char *hold = getenv("HOLD");
    if (hold && bytes > 700000 && bytes < 900000)
        while (access(hold, F_OK) != 0)
            usleep(20000);
    return (int)syscall(SYS_munmap, memory, bytes);
}
SHIM
"${WEFT_CC:-cc}" -shared -fPIC -O1 "$work/hold.c" -o "$work/hold.so" || fail "the shim does not compile"
trainer=("$weft" trainer "$work/site.ini" --model "$work/m/v0.safetensors" --versions "$work/m/v1.safetensors")
slow=(env LD_PRELOAD="$work/hold.so" ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" HOLD="$work/read"
    "${trainer[@]}")
patience=(--until 1 --set session.connect_deadline=3s)

start trainer "${slow[@]}"
await said trainer 'listening on'
start a "$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors" --save "$work/a.safetensors" "${patience[@]}"
start b "$weft" rollout "$work/site.ini" --peer b --empty --save "$work/b.safetensors" "${patience[@]}"
await said a 'is not ready yet: waiting for it'
await said b 'is not ready yet: waiting for it'
sleep 5
said trainer 'is bound' && fail "the weights were not held back"
touch "$work/read"
for name in a b trainer; do
    finish "$name" 0
done
for name in a b; do
    same "$work/$name.safetensors" "$work/m/v1.safetensors"
    [ "$(grep -c 'is not ready yet' "$work/$name.err")" = 1 ] || fail "$name did not say once that it waits"
done

# A signal meanwhile.
rm "$work/read"
for signal in INT TERM HUP; do
    start trainer "${slow[@]}" --json
    await said trainer 'listening on'
    interrupt trainer "$signal"
    finish trainer 1
    says trainer '^weft: interrupted$'
    json trainer "[o['error']['text'] for o in lines] == ['interrupted']"
done
start reading env LD_PRELOAD="$work/hold.so" ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" \
    HOLD="$work/read" "$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors" --save "$work/no"
holds() { grep -q m/v0.safetensors "/proc/$(cat "$work/reading.pid")/maps"; }
await holds
interrupt reading TERM
finish reading 1
says reading '^weft: interrupted$'
absent "$work/no"

# A peer of the site that never came: told, and no success unless that was allowed.
short=(--set trainer.join_deadline=3s)
for allowed in '' --allow-missing; do
    start trainer "${trainer[@]}" "${short[@]}" $allowed
    start a "$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors" --until 1
    finish a 0
    finish trainer "$([ -n "$allowed" ] && echo 0 || echo 1)"
    said trainer '1 of the site.s peers never joined: b; .*--allow-missing' || [ -n "$allowed" ] || fail "b was not missed"
done

# A peer that is lost before it holds the last version: never a success.
printf 'rate_limit = 1Mbit/s\n' >>"$work/site.ini"
models "$work/w" 1 1 4000 # half a minute
for allowed in '' --allow-missing; do
    start trainer "$weft" trainer "$work/site.ini" --model "$work/w/v0.safetensors" --versions "$work/w/v1.safetensors" $allowed
    start b "$weft" rollout "$work/site.ini" --peer b --empty
    await said trainer 'joined: b '
    start a "$weft" rollout "$work/site.ini" --peer a --model "$work/w/v0.safetensors" --until 1
    finish a 0
    interrupt b KILL
    finish b 137
    finish trainer 1
    says trainer 'lost before version 1 was held: b$'
done

# A rollout that never joined has nothing to save: neither at its own end nor when it is refused.
start alone "$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors" --save "$work/no"
await said alone 'rollout a: .*MB'
sleep 1
interrupt alone TERM
finish alone 1
says alone 'save .*no: nothing was written, because no version is held'
absent "$work/no"
mkdir "$work/in"
start trainer "$weft" trainer "$work/site.ini" --model "$work/m/v0.safetensors" --follow "$work/in"
start a "$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors"
await said trainer 'joined: a '
run twin 1 "$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors" --save "$work/no"
says twin 'a peer named a is live already'
absent "$work/no"
stop a trainer
echo "starts, ends and exit codes: ok"
