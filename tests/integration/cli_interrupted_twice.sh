#!/usr/bin/env bash
# A second signal ends a verb at once wherever it is, and still no temporary stays behind.
# shellcheck source=tests/support/cli.sh disable=SC2154
source "$(dirname "$0")/../support/cli.sh"
compiler
models "$work/m" 2
v0=$work/m/v0.safetensors v1=$work/m/v1.safetensors
sharded "$work/m" 0 1
run u 0 "$WEFT_BIN" diff "$v0" "$v1" -o "$work/u.weft"
run next 0 "$WEFT_BIN" diff "$v1" "$work/m/v2.safetensors" -o "$work/next.weft"
run shards 0 "$WEFT_BIN" diff "$work/s0" "$work/s1" -o "$work/s.weft"

# Two signals, too far from each other to be one, while the file of a number is brought to disk.
cat >"$work/signals.c" <<'SHIM'
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int fsync(int file)
{
    static int calls;
    const char *at = getenv("SIGNALS_AT");
    if (at && ++calls == atoi(at)) {
        raise(SIGINT);
        usleep(700000);
        raise(SIGINT);
    }
    return (int)syscall(SYS_fsync, file);
}
SHIM
"${WEFT_CC:-cc}" -D_GNU_SOURCE -shared -fPIC -O1 "$work/signals.c" -o "$work/signals.so" ||
    fail "the shim does not compile"
shim=(env LD_PRELOAD="$work/signals.so" ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0")

twice() # twice NAME AT COMMAND...: the output is $work/out/no, beside which something stood before
{
    local name=$1 at=$2
    shift 2
    mkdir -p "$work/out" && echo old >"$work/out/old.tmp"
    run "$name" 130 "${shim[@]}" SIGNALS_AT="$at" "$@"
    absent "$work/out/no"
    [ "$(ls -A "$work/out")" = old.tmp ] || fail "$name left $(ls -A "$work/out") behind"
}
twice diff 1 "$WEFT_BIN" diff "$v0" "$v1" -o "$work/out/no"
twice merge 1 "$WEFT_BIN" merge "$work/u.weft" "$work/next.weft" --base "$v0" -o "$work/out/no"
twice apply 1 "$WEFT_BIN" apply "$v0" "$work/u.weft" -o "$work/out/no"
for at in 1 3 5 7; do # the index, and each shard in turn; in between the folder
    twice shards "$at" "$WEFT_BIN" apply "$work/s0" "$work/s.weft" -o "$work/out/no"
done

if fabric_is_here tcp; then
    site "$work/site.ini" a
    start trainer "$WEFT_BIN" trainer "$work/site.ini" --model "$v0" --versions "$v1"
    twice rollout 1 "$WEFT_BIN" rollout "$work/site.ini" --peer a --model "$v0" --until 1 --save "$work/out/no"
    finish trainer 0
fi
echo "second signals: ok"
