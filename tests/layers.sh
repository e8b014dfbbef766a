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
    include core providers backends model harness tools bench 2>/dev/null | sed -E 's/:[[:space:]]*#[^<"]*/ /')

# ---- The rooms of core, from the ground up: a file includes its own room and the rooms above its line, by "room/file.h".
rooms='
base
layout
shard
codec
port
journal
site
encode
security
wire
session
bucket
send
update
store
peer
trainer
rollout
joint
relay
api
'

check_rooms_of_core()
{
    local line
    while IFS= read -r line; do
        broke "$line"
    done < <({ sed '/^$/d; s/^/room /' <<<"$rooms" && find core -name '*.[ch]' | sort | sed 's/^/file /' && echo "$includes"; } | awk '
        function room_of(file, part, parts) { parts = split(file, part, "/"); return parts == 3 ? part[2] : "" }
        $1 == "room" { rank[$2] = ++ranks; next }
        $1 == "file" { there[$2] = 1
            if (!(room_of($2) in rank)) print $2 " stands in no room: the rooms are listed in tests/layers.sh"
            next }
        $1 ~ /^core\// && $2 ~ /^"/ { name = $2; gsub(/"/, "", name); if (name == "weft.h") next
            if (!(("core/" name) in there)) {
                print $1 " includes \"" name "\": core includes only core and weft.h, by \"room/file.h\""; next }
            mine = room_of($1); theirs = room_of("core/" name)
            if (mine in rank && theirs in rank && rank[theirs] > rank[mine])
                print $1 " (room " mine ") includes " name " (room " theirs "), which stands above it" }')
}

# ---- Headers from outside, and the folders among themselves.
libc='assert|ctype|errno|fcntl|fnmatch|float|ifaddrs|inttypes|limits|locale|math|netdb|poll|pthread|sched|setjmp|signal|stdalign'
libc+='|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|strings?|time|unistd|endian|dirent'
libc="($libc|arpa/[a-z]+|netinet/[a-z]+|net/if|sys/[a-z]+)\.h"

# Files that match the first pattern may not include what matches the second, except what matches the last.
forbid_include() # forbid_include FILES INCLUDES REASON [EXCEPT]
{
    local file include
    while read -r file include; do
        broke "$file includes $include: $3"
    done < <(grep -E "^($1)[^ ]* $2" <<<"$includes" | grep -Ev " ${4:-none}$")
}

check_outside()
{
    local file include
    while read -r file include; do
        broke "$file includes $include: core knows libc, xxhash, zstd and iniparser only"
    done < <(grep -E '^core/[^ ]* <' <<<"$includes" |
        grep -Ev "<($libc|xxhash\.h|zstd\.h|(iniparser/)?(iniparser|dictionary)\.h)>$" |
        grep -Ev '^core/(security/[^ ]* <(openssl/[a-z0-9]+|dlfcn)|store/curl\.[ch] <(curl/curl|dlfcn))\.h>$')
    forbid_include '(core/([^s]|s[^e]|se[^c])|providers|backends|model|harness|tools|bench)[^ ]*' '"security/(openssl|inside)\.h"' \
        'only core/security knows OpenSSL'
    while read -r file include; do
        broke "$file includes $include: only providers/fabric*.c knows libfabric"
    done < <(grep -E ' .(rdma|infiniband)/' <<<"$includes" | grep -v '^providers/fabric')
    forbid_include '' '.(cuda|hip|hsa|cu[A-Z_])' 'no vendor header: drivers are opened at run time'
    forbid_include 'core/|backends/|providers/' '.(jansson|model/|tools/|safetensors|synth)' \
        'the library knows neither JSON nor model files'
    forbid_include 'backends/' \
        '"(providers/|port/port_provider|(journal|site|encode|security|wire|session|bucket|send|update|store|peer|trainer|rollout|joint|relay|api)/)' \
        'a backend knows layout, frames and digest only'
    forbid_include 'providers/' \
        '"(backends/|port/port_backend|(layout|codec|journal|encode|security|wire|session|bucket|send|update|store|peer|trainer|rollout|joint|relay|api)/)' \
        'a provider moves bytes and knows the leaves only'
    forbid_include 'include/|core/|providers/|backends/|model/' '.harness/' 'the library and models know nothing of the harness'
    forbid_include 'harness/' '"(tools|bench|tests)/' 'the harness knows none of its users'
    # tools/bench/fabric and tools/bench/gpu measure what lies beneath weft.h.
    forbid_include 'model/|tools/([^b]|be[^n]|bench/bench)' \
        '"(port|journal|encode|security|wire|session|bucket|send|update|store|peer|trainer|rollout|joint|relay|api)/' \
        'the command is a client of weft.h' '"(encode/staging|port/port_names|security/(secret|library)|trainer/sizes_trainer|rollout/sizes_rollout|api/plan)\.h"'
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
        'memory is taken in core/base/mem.c only' 'core/base/mem\.c\.o '
    forbid_call '' 'fi_[a-z_]+|fid_[a-z_]+' 'libfabric is opened at run time, by providers/fabric_call.c' 'none'
    forbid_call '' '(SSL|X509|EVP|BIO|PEM|OPENSSL|ERR)_[A-Za-z0-9_]+' \
        'OpenSSL is opened at run time, by core/security/library.c' 'none'
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
    ! readelf -d "$library" | grep -q 'NEEDED.*libfabric' || broke "libweft.so needs libfabric: it is opened at run time"
    ! readelf -d "$library" | grep -q 'NEEDED.*lib\(ssl\|crypto\)' || broke "libweft.so needs OpenSSL: it is opened at run time"
    while read -r symbol; do
        [[ $symbol == weft_* ]] || broke "libweft.so exports $symbol: only weft_ names are public"
        grep -Eq "^WEFT_API .*\\b$symbol\\(" include/weft.h || broke "libweft.so exports $symbol, which weft.h does not declare"
    done < <(nm -D --defined-only "$library" | awk '{ print $NF }')
    while read -r symbol; do
        nm -D --defined-only "$library" | grep -q " T $symbol$" || broke "weft.h declares $symbol, which libweft.so lacks"
    done < <(sed -nE 's/^WEFT_API .*\b(weft_[a-z0-9_]+)\(.*/\1/p' include/weft.h)
}

check_rooms_of_core
check_outside
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
