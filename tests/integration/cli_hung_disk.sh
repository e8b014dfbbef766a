#!/usr/bin/env bash
# A disk that hangs: signals end put, copy and a trainer all the same, whose own calls never come back, and the store
# stays whole. A thread that a disk holds takes no signal, so the shim blocks them.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
compiler
mkdir "$work/m"
python3 "$support/shard_models.py" make "$work/s" || fail "no model"
mv "$work/s/model.safetensors" "$work/m/v0.safetensors"
for v in 1 2; do
    python3 "$support/shard_models.py" step "$work/m/v$((v - 1)).safetensors" "$work/m/v$v.safetensors" $v || fail "no v$v"
done

cat >"$work/hang.c" <<'END'
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void hang(void)
{
    sigset_t all;
    const char *told = getenv("HANG");
    if (access(told, F_OK) != 0)
        return;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    unlinkat(AT_FDCWD, told, 0);
    creat(getenv("HANGING"), 0600);
    for (;;)
        pause();
}

int fsync(int file)
{
    hang();
    return (int)syscall(SYS_fsync, file);
}

int unlink(const char *path)
{
    if (access(getenv("HANGING"), F_OK) == 0)
        for (;;)
            pause();
    return unlinkat(AT_FDCWD, path, 0);
}
END
"${WEFT_CC:-cc}" -shared -fPIC -O1 "$work/hang.c" -o "$work/hang.so" || fail "the shim does not compile"
shim=(env LD_PRELOAD="$work/hang.so" HANG="$work/hang" HANGING="$work/hanging"
    ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0")

whole() # whole STORE VERSIONS
{
    run fsck 0 "$weft" fsck "$1"
    says fsck "^$2 versions, 0 faults\$"
}

store=$work/store
run put 0 "$weft" put "$store" "$work/m/v0.safetensors"
touch "$work/hang"
start put "${shim[@]}" "$weft" put "$store" "$work/m/v1.safetensors" --json
await test -e "$work/hanging"
interrupt put
finish put 1
says put 'interrupted, and a disk does not answer'
says put '"text":"interrupted"'
whole "$store" 1

echo "a second signal ends at once what a disk holds"
rm -f "$work/hanging"
touch "$work/hang"
start put "${shim[@]}" "$weft" put "$store" "$work/m/v1.safetensors"
await test -e "$work/hanging"
interrupt put TERM
sleep 1 # signals that come together are one
interrupt put TERM
wait "${started[put]}" && fail "put ended well"
! said put 'a disk does not answer' || fail "put waited for its end"
whole "$store" 1
run put 0 "$weft" put "$store" "$work/m/v1.safetensors"
whole "$store" 2

echo "copy"
rm -f "$work/hanging"
touch "$work/hang"
start copy "${shim[@]}" "$weft" copy "$store" "$work/other"
await test -e "$work/hanging"
interrupt copy TERM
finish copy 1
run copy 0 "$weft" copy "$store" "$work/other"
whole "$work/other" 2

if fabric_is_here tcp; then
    echo "a trainer"
    site "$work/site.ini" a
    mkdir "$work/in"
    rm -f "$work/hanging"
    start trainer "${shim[@]}" "$weft" trainer "$work/site.ini" --set trainer.store="$work/run" \
        --set session.close_deadline=100ms --model "$work/m/v0.safetensors" --follow "$work/in" --json
    await said trainer 'anchor of version 0'
    touch "$work/hang"
    cp "$work/m/v1.safetensors" "$work/in/part" && mv "$work/in/part" "$work/in/v1.safetensors"
    await test -e "$work/hanging"
    stop trainer
    says trainer "$work/run does not answer, so the thread that writes version 1 there is given up"
    says trainer 'version 1, the last one published, is not there'
    whole "$work/run" 1
fi
echo "hung disks: ok"
