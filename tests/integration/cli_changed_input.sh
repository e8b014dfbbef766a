#!/usr/bin/env bash
# An input that is cut short or written to while a verb works on it: the error names that file and no other, the exit
# code is that of failed work, and nothing is written.
# shellcheck source=tests/support/cli.sh disable=SC2154
source "$(dirname "$0")/../support/cli.sh"
compiler
models "$work/m" 2
sharded "$work/m" 0 1
run update 0 "$WEFT_BIN" diff "$work/m/v0.safetensors" "$work/m/v1.safetensors" -o "$work/u.weft" --level fast
run next 0 "$WEFT_BIN" diff "$work/m/v1.safetensors" "$work/m/v2.safetensors" -o "$work/next.weft" --level fast

# The guard asks for the page size right before the work: the first such call once CHANGE_MAPPED is mapped changes
# CHANGE_FILE. It is cut to half (cut), gets its own last byte written (written), or both, one after the other (anew).
cat >"$work/change.c" <<'SHIM'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_mapped(const char *name)
{
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !found && fgets(line, sizeof line, maps))
        found = strstr(line, name) != NULL;
    if (maps)
        fclose(maps);
    return found;
}

static void change(const char *path, const char *how)
{
    struct stat facts;
    char last = 0;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0 || fstat(file, &facts) != 0 || pread(file, &last, 1, facts.st_size - 1) != 1)
        abort();
    if (strcmp(how, "written") != 0 && ftruncate(file, facts.st_size / 2) != 0)
        abort();
    if (strcmp(how, "cut") != 0 && pwrite(file, &last, 1, facts.st_size - 1) != 1)
        abort();
    close(file);
}

long sysconf(int name)
{
    static int done;
    const char *path = getenv("CHANGE_FILE"), *mapped = getenv("CHANGE_MAPPED");
    long (*real)(int) = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
    if (name == _SC_PAGESIZE && path && mapped && !done && is_mapped(mapped)) {
        done = 1;
        change(path, getenv("CHANGE_HOW"));
    }
    return real(name);
}
SHIM
"${WEFT_CC:-cc}" -shared -fPIC -O1 "$work/change.c" -o "$work/change.so" || fail "the shim does not compile"

# changed HOW FILE MAPPED VERB...: the output is $work/no
changed()
{
    local how=$1 file=$2 mapped=$3 verb=$4
    shift 3
    cp -p "$file" "$work/kept"
    run "$verb" 1 env LD_PRELOAD="$work/change.so" ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" \
        CHANGE_HOW="$how" CHANGE_FILE="$file" CHANGE_MAPPED="$mapped" "$WEFT_BIN" "$@" --json
    cp -p "$work/kept" "$file"
    json "$verb" "lines[-1]['error']['status'] == 'file'"
    json "$verb" "lines[-1]['error']['text'].startswith('$file: ')"
    json "$verb" "lines[-1]['error']['text'].count('$work') == 1"
    case $how in
    cut) says "$verb" "$file: cut short" ;;
    *) says "$verb" "$file: written to while in use" ;;
    esac
    absent "$work/no"
}

v0=$work/m/v0.safetensors v1=$work/m/v1.safetensors
middle=$(find "$work/s1" -name '*-00002-of-*')
for how in cut written anew; do
    changed $how "$v0" "$v1" diff "$v0" "$v1" -o "$work/no"
    changed $how "$v1" "$v1" diff "$v0" "$v1" -o "$work/no"
    changed $how "$middle" "$work/s1/" diff "$work/s0" "$work/s1" -o "$work/no"
    changed $how "$v0" "$v0" merge "$work/u.weft" "$work/next.weft" --base "$v0" -o "$work/no"
    changed $how "$v0" "$v0" apply "$v0" "$work/u.weft" -o "$work/no"
    changed $how "$v0" "$v0" inspect "$work/u.weft" --model "$v0"
    changed $how "$v0" "$v0" digest "$v0"
    changed $how "$middle" "$work/s1/" digest "$work/s1"
done
changed cut "$work/next.weft" "$v0" merge "$work/u.weft" "$work/next.weft" --base "$v0" -o "$work/no"
changed cut "$work/u.weft" "$v0" apply "$v0" "$work/u.weft" -o "$work/no"
changed cut "$work/u.weft" "$v0" inspect "$work/u.weft" --model "$v0"

# An update for another model: the model is what is wrong, and no output is begun.
models "$work/other" 0 1 100
other=$work/other/v0.safetensors
for verb in apply inspect; do
    words=("$other" "$work/u.weft" -o "$work/no")
    [ $verb = apply ] || words=("$work/u.weft" --model "$other")
    run "other_$verb" 2 "$WEFT_BIN" $verb "${words[@]}" --json
    json "other_$verb" "lines[0]['error']['text'].startswith('$other: \'model.embed.weight\' is [100,512] in it and [700,512] in the update')"
done
absent "$work/no"
echo "inputs that change: ok"
