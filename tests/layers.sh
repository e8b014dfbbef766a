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

# ---- The order of the stages: a stage may include those of a lower rank, the leaves and the ports, and itself.
# A core file belongs to the stage whose name is the longest that begins it (site_keys.c: site).
stages='
0 status log mem version stats clock bytes
1 port_provider
2 site
2 layout dtype grid binding
3 codec digest
3 port_backend
4 update
5 journal
6 bucket
7 wire
8 peer
9 trainer rollout session
'

# "RANK STAGE" of a file of core, where STAGE is the first name of its line; nothing if the table does not know it.
stage_of() # stage_of FILE (relative to core/)
{
    awk -v file="$1" '
        BEGIN { sub(/\.[ch]$/, "", file); if (file ~ /^codec\//) file = "codec" }
        { for (i = 2; i <= NF; i++)
            if ((file == $i || index(file, $i "_") == 1) && length($i) > longest) { longest = length($i); found = $1 " " $2 } }
        END { if (found) print found }' <<<"$stages"
}

includes_of() # includes_of FILE: each include as <x> or "x"
{
    sed -nE 's/^[[:space:]]*#[[:space:]]*include(_next)?[[:space:]]*([<"][^>"]*[>"]).*/\2/p' "$1"
}

files_of() # files_of FOLDER...: sources and headers
{
    find "$@" \( -name '*.c' -o -name '*.h' \) 2>/dev/null | sort
}

# The folder-relative name of a quoted header of core, if it is one.
core_header() # core_header NAME FILE
{
    local folder
    for folder in core "$(dirname "$2")" core/codec .; do
        [ -e "$folder/$1" ] && [[ "$folder/$1" == core/* || "./$1" == ./core/* ]] || continue
        printf '%s\n' "${folder#./}/$1" | sed -E 's,^(\./)?,,; s,^core/,,'
        return
    done
}

check_stages()
{
    local file include header mine theirs
    while read -r file; do
        mine=$(stage_of "${file#core/}")
        [ -n "$mine" ] || { broke "$file has no stage: add it to the table in tests/layers.sh" && continue; }
        while read -r include; do
            [[ $include == \"* ]] || continue
            include=${include//\"/}
            [ "$include" = weft.h ] && continue
            header=$(core_header "$include" "$file")
            [ -n "$header" ] || { broke "$file includes \"$include\": core includes only core and weft.h" && continue; }
            theirs=$(stage_of "$header")
            [ "$theirs" = "$mine" ] || [ "${theirs%% *}" -lt "${mine%% *}" ] ||
                broke "$file (stage ${mine#* }) includes $header (stage ${theirs#* }), which comes after it or beside it"
        done < <(includes_of "$file")
    done < <(files_of core)
}

# ---- Headers from outside.
libc='assert|ctype|errno|fcntl|float|ifaddrs|inttypes|limits|locale|math|netdb|poll|pthread|sched|setjmp|signal|stdalign'
libc+='|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|strings?|time|unistd|endian|dirent|getopt|malloc'
libc="^<($libc|arpa/[a-z]+|netinet/[a-z]+|net/if|sys/[a-z]+)\.h>$"

check_core_headers()
{
    local file include
    while read -r file; do
        while read -r include; do
            [[ $include == \<* ]] || continue
            [[ $include =~ $libc || $include == '<xxhash.h>' || $include =~ ^'<'(iniparser/)?(iniparser|dictionary)'.h>'$ ]] ||
                broke "$file includes $include: core knows libc, xxhash and iniparser only"
        done < <(includes_of "$file")
    done < <(files_of core)
}

forbid_include() # forbid_include PATTERN REASON FILE...
{
    local pattern=$1 reason=$2 file include
    shift 2
    for file in "$@"; do
        while read -r include; do
            [[ $include =~ $pattern ]] && broke "$file includes $include: $reason"
        done < <(includes_of "$file")
    done
}

check_rooms()
{
    local all
    mapfile -t all < <(files_of core backends model tools include bench)
    mapfile -t -O "${#all[@]}" all < <(files_of providers | grep -v '^providers/fabric[^/]*$')
    forbid_include '^.(rdma|infiniband)/' 'only providers/fabric*.c knows libfabric' "${all[@]}"
    mapfile -t all < <(files_of core backends providers model tools include)
    forbid_include '^.(cuda|hip|hsa|cu[A-Z_])' 'no vendor header: drivers are opened at run time' "${all[@]}"
    mapfile -t all < <(files_of core backends providers)
    forbid_include '^.(jansson|model/|tools/|safetensors|synth)' 'the library knows neither JSON nor model files' "${all[@]}"
    mapfile -t all < <(files_of backends)
    forbid_include '^.(providers/|port_provider|site|update|journal|bucket|wire|peer|trainer|rollout|session)' \
        'a backend knows layout, frames and digest only' "${all[@]}"
    mapfile -t all < <(files_of providers)
    forbid_include '^.(backends/|port_backend|layout|codec/|digest|site|update|journal|bucket|wire|peer|trainer|rollout|session)' \
        'a provider moves bytes and knows the leaves only' "${all[@]}"
    mapfile -t all < <(files_of model tools)
    forbid_include '^.(update|journal|bucket|wire|peer|trainer|rollout|session|port_provider|port_backend)[._]' \
        'the command is a client of weft.h' "${all[@]}"
}

# ---- Symbols.
objects_of() # objects_of ROOM...
{
    local room
    for room in "$@"; do
        find "$build_dir/CMakeFiles/weft_$room.dir" -name '*.o' 2>/dev/null
    done | sort
}

forbid_call() # forbid_call PATTERN REASON OBJECT...
{
    local pattern=$1 reason=$2 object symbol
    shift 2
    for object in "$@"; do
        while read -r symbol; do
            broke "${object#"$build_dir"/CMakeFiles/} calls $symbol: $reason"
        done < <(nm -u "$object" | awk '{ print $NF }' | sed 's/@.*//' | grep -E "^($pattern)$")
    done
}

check_symbols()
{
    local objects others object symbol
    mapfile -t objects < <(objects_of core providers backends)
    [ ${#objects[@]} -gt 0 ] || { broke "no objects under $build_dir: build first" && return; }
    mapfile -t others < <(printf '%s\n' "${objects[@]}" | grep -v '/core/mem\.c\.o$')
    forbid_call 'malloc|calloc|realloc|reallocarray|free|mmap(64)?|munmap|mremap|(posix_)?memalign|aligned_alloc|valloc|strn?dup|v?asprintf|getline|getdelim|open_memstream|scandir' \
        'memory is taken in core/mem.c only' "${others[@]}"
    mapfile -t others < <(printf '%s\n' "${objects[@]}" | grep -v '/providers/fabric[^/]*\.o$')
    forbid_call 'fi_[a-z_]+|fid_[a-z_]+' 'only providers/fabric*.c knows libfabric' "${others[@]}"
    forbid_call 'cu[A-Z][A-Za-z0-9_]*|cuda[A-Z].*|hip[A-Z].*|hsa_.*|ibv_.*|rdma_.*|nvml[A-Z].*' \
        'no vendor symbol: drivers are opened at run time' "${objects[@]}"
    forbid_call 'abort|exit|_exit|quick_exit' 'a library never ends its process' "${objects[@]}"
    mapfile -t objects < <(objects_of core providers backends model)
    for object in "${objects[@]}"; do
        while read -r symbol; do
            broke "${object#"$build_dir"/CMakeFiles/} defines $symbol: what is not static begins with weft_"
        done < <(nm -g --defined-only "$object" | awk 'NF == 3 { print $3 }' | grep -v '^weft_')
    done
}

check_exports()
{
    local library symbol
    library=$(find "$build_dir" -maxdepth 1 -name 'libweft.so.*.*' | head -n 1)
    [ -n "$library" ] || { broke "no libweft.so under $build_dir: build first" && return; }
    while read -r symbol; do
        [[ $symbol == weft_* ]] || broke "libweft.so exports $symbol: only weft_ names are public"
        grep -Eq "^WEFT_API .*\\b$symbol\\(" include/weft.h || broke "libweft.so exports $symbol, which weft.h does not declare"
    done < <(nm -D --defined-only "$library" | awk '{ print $NF }')
    while read -r symbol; do
        nm -D --defined-only "$library" | grep -q " T $symbol$" || broke "weft.h declares $symbol, which libweft.so lacks"
    done < <(sed -nE 's/^WEFT_API .*\b(weft_[a-z0-9_]+)\(.*/\1/p' include/weft.h)
}

check_stages
check_core_headers
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
