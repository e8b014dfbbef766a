#!/usr/bin/env bash
# Holds the walls of the house: who may include whom, who may call what, and what libweft shows to the world.
# WEFT_SOURCE is the tree; the rules on symbols need WEFT_BUILD, an unsanitized build of it.
set -uo pipefail
export LC_ALL=C
source_dir=${WEFT_SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
build_dir=${WEFT_BUILD:-}
cd "$source_dir" || exit 1
broken=0

broke() # broke TEXT...
{
    printf 'layers: %s\n' "$*"
    broken=1
}

# ---- Every include once, as "FILE <x>" or "FILE "x"".
includes=$(grep -rEoH --include='*.[ch]' '^[[:space:]]*#[[:space:]]*include(_next)?[[:space:]]*[<"][^>"]*[>"]' \
    include core providers backends model tools bench 2>/dev/null | sed -E 's/:[[:space:]]*#[^<"]*/ /')

# ---- The order of the stages: a stage may include those of a lower rank, the leaves and the ports, and itself.
# A file of core belongs to the stage on whose line stands the longest name that begins the file's own (site_keys.c:
# site); it is called by the first name of that line.
stages='
0 status log mem version stats turn clock bytes file crew thread mix64 descriptors
1 port_provider
2 site
2 layout dtype grid binding part
3 codec
3 digest
4 port_backend
5 journal arena history
5 window
5 staging
6 encode
6 sizes
5 merge
6 proof
6 wire
7 bucket pace
6 estimate
7 session
7 update
8 control watch greeting guest refusal
9 names
9 await
8 choice
9 peer rail lane greet send stream answer bridge rebuild repair follow owed target
10 trainer publish shadow room lag early sizes_trainer
10 rollout inlet direct stage join hear fetch receive search verify relay way plan sizes_rollout
11 api
'

check_stages()
{
    local line
    while IFS= read -r line; do
        broke "$line"
    done < <({ sed 's/^/stage /' <<<"$stages" && find core -name '*.[ch]' | sort | sed 's/^/file /' && echo "$includes"; } | awk '
        function stem_of(file, stem) { stem = file; sub(/^core\//, "", stem); sub(/\.[ch]$/, "", stem)
            return stem ~ /^codec\// ? "codec" : stem }
        function line_of(file, stem, name, best, length_of_best) { stem = stem_of(file); length_of_best = 0
            for (name in line)
                if ((stem == name || index(stem, name "_") == 1) && length(name) > length_of_best) {
                    best = line[name]; length_of_best = length(name) }
            return best }
        function resolve(name, file, folder) { folder = file; sub(/\/[^\/]*$/, "", folder)
            if ((folder "/" name) in there) return folder "/" name
            if (("core/" name) in there) return "core/" name
            return name in there ? name : "" }
        $1 == "stage" { for (i = 3; i <= NF; i++) { line[$i] = $3; rank[$3] = $2 } next }
        $1 == "file" { there[$2] = 1
            if (line_of($2) == "") print $2 " has no stage: add it to the table in tests/layers.sh"
            next }
        $1 ~ /^core\// && $2 ~ /^"/ { name = $2; gsub(/"/, "", name); if (name == "weft.h") next
            header = resolve(name, $1)
            if (header == "") { print $1 " includes \"" name "\": core includes only core and weft.h"; next }
            mine = line_of($1); theirs = line_of(header)
            if (mine != "" && theirs != "" && mine != theirs && rank[theirs] + 0 >= rank[mine] + 0)
                print $1 " (stage " mine ") includes " header " (stage " theirs "), which comes after it or beside it" }')
}

# ---- Headers from outside, and the rooms among themselves.
libc='assert|ctype|errno|fcntl|float|ifaddrs|inttypes|limits|locale|math|netdb|poll|pthread|sched|setjmp|signal|stdalign'
libc+='|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|strings?|time|unistd|endian|dirent'
libc="($libc|arpa/[a-z]+|netinet/[a-z]+|net/if|sys/[a-z]+)\.h"

# Files that match the first pattern may not include what matches the second.
forbid_include() # forbid_include FILES INCLUDES REASON
{
    local file include
    while read -r file include; do
        broke "$file includes $include: $3"
    done < <(grep -E "^($1)[^ ]* $2" <<<"$includes")
}

check_rooms()
{
    local file include
    while read -r file include; do
        broke "$file includes $include: core knows libc, xxhash, zstd and iniparser only"
    done < <(grep -E '^core/[^ ]* <' <<<"$includes" |
        grep -Ev "<($libc|xxhash\.h|zstd\.h|(iniparser/)?(iniparser|dictionary)\.h)>$")
    while read -r file include; do
        broke "$file includes $include: only providers/fabric*.c knows libfabric"
    done < <(grep -E ' .(rdma|infiniband)/' <<<"$includes" | grep -v '^providers/fabric')
    forbid_include '' '.(cuda|hip|hsa|cu[A-Z_])' 'no vendor header: drivers are opened at run time'
    forbid_include 'core/|backends/|providers/' '.(jansson|model/|tools/|safetensors|synth)' \
        'the library knows neither JSON nor model files'
    forbid_include 'backends/' '"(providers/|port_provider|site|update|journal|bucket|wire|peer|trainer|rollout|session)' \
        'a backend knows layout, frames and digest only'
    forbid_include 'providers/' \
        '"(backends/|port_backend|layout|codec/|digest|update|journal|bucket|wire|peer|trainer|rollout|session)' \
        'a provider moves bytes and knows the leaves only'
    forbid_include 'model/|tools/' \
        '"(update|journal|bucket|wire|peer|trainer|rollout|session|control|port_provider|port_backend)[._]' \
        'the command is a client of weft.h'
}

# ---- Symbols.
objects_of() # objects_of ROOM...
{
    local room
    for room in "$@"; do
        find "$build_dir/CMakeFiles/weft_$room.dir" -name '*.o' 2>/dev/null
    done | sort
}

# Objects that match the first pattern may not call what matches the second.
forbid_call() # forbid_call OBJECTS CALLS REASON EXCEPT
{
    local object symbol
    while read -r object symbol; do
        broke "$object calls $symbol: $3"
    done < <(grep -E "^($1)[^ ]* ($2)$" <<<"$calls" | grep -Ev "^($4)")
}

check_symbols()
{
    local objects calls object symbol
    mapfile -t objects < <(objects_of core providers backends model)
    [ ${#objects[@]} -gt 0 ] || { broke "no objects under $build_dir: build first" && return; }
    calls=$(nm -A -u "${objects[@]}" | sed -E "s,^$build_dir/CMakeFiles/weft_[a-z]+\.dir/([^:]*):.* ,\1 ,; s/@.*//")
    forbid_call 'core/|providers/|backends/' \
        'malloc|calloc|realloc|reallocarray|free|mmap(64)?|munmap|mremap|(posix_)?memalign|aligned_alloc|valloc|strn?dup|v?asprintf|getline|getdelim|open_memstream|scandir' \
        'memory is taken in core/mem.c only' 'core/mem\.c\.o '
    forbid_call '' 'fi_[a-z_]+|fid_[a-z_]+' 'only providers/fabric*.c knows libfabric' 'providers/fabric[^/ ]* '
    forbid_call '' 'cu[A-Z][A-Za-z0-9_]*|cuda[A-Z].*|hip[A-Z].*|hsa_.*|ibv_.*|rdma_.*|nvml[A-Z].*' \
        'no vendor symbol: drivers are opened at run time' 'none'
    forbid_call 'core/|providers/|backends/' 'abort|exit|_exit|quick_exit' 'a library never ends its process' 'none'
    while read -r object symbol; do
        broke "$object defines $symbol: what is not static begins with weft_"
    done < <(nm -A -g --defined-only "${objects[@]}" |
        sed -E "s,^$build_dir/CMakeFiles/weft_[a-z]+\.dir/([^:]*):.* ,\1 ," | grep -v ' weft_')
}

check_exports()
{
    local library symbol
    library=$(find "$build_dir" -maxdepth 1 -name 'libweft.so.*.*' | head -n 1)
    [ -n "$library" ] || { broke "no libweft.so under $build_dir: build first" && return; }
    readelf -d "$library" | grep -q NODELETE || broke "libweft.so may be unmapped: names are looked up on detached threads"
    while read -r symbol; do
        [[ $symbol == weft_* ]] || broke "libweft.so exports $symbol: only weft_ names are public"
        grep -Eq "^WEFT_API .*\\b$symbol\\(" include/weft.h || broke "libweft.so exports $symbol, which weft.h does not declare"
    done < <(nm -D --defined-only "$library" | awk '{ print $NF }')
    while read -r symbol; do
        nm -D --defined-only "$library" | grep -q " T $symbol$" || broke "weft.h declares $symbol, which libweft.so lacks"
    done < <(sed -nE 's/^WEFT_API .*\b(weft_[a-z0-9_]+)\(.*/\1/p' include/weft.h)
}

check_stages
check_rooms
if [ -z "$build_dir" ]; then
    echo "layers: without WEFT_BUILD only the includes were checked"
elif [ -n "${WEFT_SANITIZE:-}" ]; then
    echo "layers: a sanitized build, only the includes were checked"
else
    check_symbols
    check_exports
fi
[ $broken = 0 ] && echo "layers: all walls stand"
exit $broken
