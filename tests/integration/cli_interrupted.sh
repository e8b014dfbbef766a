#!/usr/bin/env bash
# A signal that comes before the work of a verb over files: told, and nothing stays behind, finished or not.
# shellcheck source=tests/support/cli.sh
source "$(dirname "$0")/../support/cli.sh"
compiler
models "$work/m" 2
sharded "$work/m" 0 1
run diff 0 "$WEFT_BIN" diff "$work/s0" "$work/s1" -o "$work/u.weft"

# SIGINT comes in a call that the command makes once: while the base is opened, and when a folder was just made.
cat >"$work/signals.c" <<'END'
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int asked(const char *call)
{
    const char *at = getenv("SIGNAL_AT");
    return at && strcmp(at, call) == 0;
}

int lstat(const char *path, struct stat *facts)
{
    if (asked("base") && strstr(path, "model.safetensors.index.json"))
        raise(SIGINT);
    return fstatat(AT_FDCWD, path, facts, AT_SYMLINK_NOFOLLOW);
}

int mkdir(const char *path, mode_t mode)
{
    int result = mkdirat(AT_FDCWD, path, mode);
    if (write(STDERR_FILENO, "folder made\n", 12) == 12 && asked("folder"))
        raise(SIGINT);
    return result;
}
END
"${WEFT_CC:-cc}" -shared -fPIC -O1 "$work/signals.c" -o "$work/signals.so" || fail "the shim does not compile"

signalled() # signalled NAME AT VERB...
{
    local name=$1 at=$2
    shift 2
    run "$name" 1 env LD_PRELOAD="$work/signals.so" ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" \
        SIGNAL_AT="$at" "$WEFT_BIN" "$@"
    says "$name" '^weft: interrupted; nothing was written$'
    [ -z "$(find "$work" -name '*.tmp*')" ] || fail "$name left temporaries behind"
}

signalled digest base digest "$work/s0"
signalled diff base diff "$work/s0" "$work/s1" -o "$work/no"
signalled merge base merge --level tight --base "$work/s0" "$work/u.weft" "$work/u.weft" -o "$work/no"
signalled apply base apply "$work/s0" "$work/u.weft" -o "$work/no"
! said apply 'folder made' || fail "apply began its output after the signal"
signalled begun folder apply "$work/s0" "$work/u.weft" -o "$work/no"
says begun 'folder made'
absent "$work/no"
echo "signals before the work: ok"
