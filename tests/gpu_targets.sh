#!/usr/bin/env bash
# A build leaves out devices that its compiler does not know, and stops where it was told to make them: compilers that
# know little stand in for nvcc and clang.
set -euo pipefail
root=${WEFT_SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

cat >"$work/lists" <<'END'
#!/bin/sh
echo "$*" >>"$0.asked"
[ "$1" != --list-gpu-code ] || printf 'sm_75\nsm_80\nsm_90a\n'
END
cat >"$work/refuses" <<'END'
#!/bin/sh
echo "$*" >>"$0.asked"
[ "$1" = --list-gpu-code ] && printf 'sm_75\nsm_80\n' && exit
echo 'host_config.h:143:2: error: #error -- unsupported GNU version!' >&2
exit 2
END
cat >"$work/tries" <<'END'
#!/bin/sh
echo "$*" >>"$0.asked"
case "$*" in *gfx950* | *sm_100* | *--list*) exit 1 ;; esac
END
chmod +x "$work/lists" "$work/refuses" "$work/tries"

known() # known COMPILER OPTION DEFAULT LIST ARGUMENTS...: output goes to $work/said
{
    cat >"$work/ask.cmake" <<END
include("$root/cmake/gpu_targets.cmake")
set(WANTED $2)
set(TARGETS "$4")
foreach(again 1 2)
    weft_gpu_targets(TARGETS WANTED "$3" "$work/$1" ${@:5} TRY -c)
endforeach()
message("known:\${TARGETS_KNOWN}")
END
    rm -f "$work/$1.asked"
    cmake -P "$work/ask.cmake" >"$work/said" 2>&1
}

expect() # expect PATTERN WHAT
{
    tr '\n' ' ' <"$work/said" | tr -s ' ' | grep -q -- "$1" && return
    printf '%s; cmake said:\n' "$2"
    cat "$work/said"
    bad=1
}

listing=(LIST --list-gpu-code STEM sm_ EACH -arch=sm_)
trying=(EACH --offload-arch=)

known lists AUTO '75;80;90;100' '75;80;90;100' "${listing[@]}"
expect 'known:75;80 $' 'what nvcc does not list was kept'
expect 'left out, .*: 90 100' 'what is left out was not named'
[ "$(wc -l <"$work/lists.asked")" = 2 ] || expect 'never' 'nvcc was asked more than once what it knows, and to compile'
known refuses AUTO '75;80' '75;80' "${listing[@]}"
expect 'known: $' 'an nvcc was used that compiles nothing'
expect 'refuses compiles nothing here and is not used: .*unsupported GNU version! (exit code 2)' 'what nvcc said is lost'
known refuses ON '75;80' '75;80' "${listing[@]}" && expect 'never' 'ON did without an nvcc that works'
expect 'WANTED=ON, but .*refuses compiles nothing here' 'why ON cannot be was not said'
known tries AUTO '75;100' '75;100' "${listing[@]}"
expect 'known:75 $' 'an nvcc that lists nothing was not tried'
known tries AUTO 'gfx90a;gfx942' 'gfx90a;gfx942' "${trying[@]}"
expect 'known:gfx90a;gfx942 $' 'devices were left out that the compiler knows'
[ "$(wc -l <"$work/tries.asked")" = 1 ] || expect 'never' 'the compiler was asked for each device though it knows all'
known tries AUTO 'gfx942;gfx950' 'gfx942;gfx950' "${trying[@]}"
expect 'known:gfx942 $' 'a device was kept that the compiler does not know'
known tries AUTO 'gfx942' 'gfx942;gfx950' "${trying[@]}" && expect 'never' 'a list by hand was cut short'
expect 'no images for gfx950' 'what the compiler cannot make was not named'
known tries ON 'gfx942;gfx950' 'gfx942;gfx950' "${trying[@]}" && expect 'never' 'ON did with less'
known tries AUTO 'gfx942' '' "${trying[@]}"
expect 'known: $' 'an empty list came to something'
exit $bad
