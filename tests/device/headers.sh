#!/usr/bin/env bash
# What weft declares of the drivers by hand (backends/gpu/gpu_library_calls.h) is what the vendors' headers declare, where there are
# any: every function's arguments, every number. And each library that is here has every function.
set -euo pipefail
root=${WEFT_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checked=''
if ! command -v c++ >/dev/null || ! command -v nm >/dev/null; then
    echo "skipped: no C++ compiler"
    exit 77
fi

# A row a line, for one vendor: result@name@parameters@symbol@.
printf '%s\n' '#include "backends/gpu/gpu_library_calls.h"' '#define LINE(result, name, parameters, cuda, hip) %result@name@parameters@cuda@hip@' \
    'WEFT_GPU_CALLS(LINE)' |
    c++ -E -P -I"$root" -x c++ - | tr '\n' ' ' | tr '%' '\n' | grep '@' >"$work/all"

number() # number FILE NAME: what a vendor's file sets it to
{
    sed -nE "s/.*\b$2 = ([0-9]+).*/\1/p" "$root/backends/gpu/$1"
}

check() # check VENDOR COLUMN HEADER FLAGS...
{
    local vendor=$1 column=$2 header=$3 rows=0 result name parameters symbol
    shift 3
    echo "#include <$header>" | c++ -E -P "$@" -x c++ - >"$work/declared" 2>/dev/null || return 0
    printf '#define VENDOR_ROWS(ROW)' >"$work/rows.h"
    while IFS=@ read -r result name parameters symbol _; do
        [[ $symbol = \"* ]] || continue
        symbol=${symbol//\"/}
        grep -qw "$symbol" "$work/declared" || { echo "$header has no $symbol" && exit 1; }
        printf ' \\\n    ROW(%s, %s, %s, %s)' "$result" "$name" "$parameters" "$symbol" >>"$work/rows.h"
        rows=$((rows + 1))
    done < <(cut -d@ -f1-3,"$column" "$work/all")
    c++ -std=c++17 -fsyntax-only -w -I"$root" -include "$work/rows.h" -DWEFT_VENDOR_"${vendor^^}" "$@" \
        -DWEFT_CAPABILITY_MAJOR="$(number "$vendor.c" capability_major)" \
        -DWEFT_CAPABILITY_MINOR="$(number "$vendor.c" capability_minor)" \
        -DWEFT_KIND_BY_ADDRESS="$(number "$vendor.c" KIND_BY_ADDRESS)" "$root/tests/device/headers.cpp"
    checked+="${checked:+, }$vendor ($rows functions)"
}

exports() # exports COLUMN LIBRARY...: where it is, it has what no older one lacks
{
    local column=$1 library symbol
    shift
    for library in "$@"; do
        [ -e "$library" ] || continue
        nm -D "$library" | sed -E 's/.* T ([^@ ]+).*/\1/' >"$work/exported"
        while read -r symbol; do
            grep -qx "$symbol" "$work/exported" || { echo "$library has no $symbol" && exit 1; }
        done < <(grep -v 'late *$' "$work/all" | cut -d@ -f"$column" | sed -n 's/^"\(.*\)"$/\1/p')
        checked+="${checked:+, }$(basename "$library")"
    done
}

check cuda 4 cuda.h -I"${CUDA_HOME:-/usr/local/cuda}/include"
check hip 5 hip/hip_runtime_api.h -I"${ROCM_PATH:-/opt/rocm}/include" -D__HIP_PLATFORM_AMD__ -D__HIP_DISABLE_CPP_FUNCTIONS__
exports 4 "${CUDA_HOME:-/usr/local/cuda}"/lib64/stubs/libcuda.so
exports 5 "${ROCM_PATH:-/opt/rocm}"/lib/libamdhip64.so.? /usr/lib/*-linux-gnu/libamdhip64.so.?
[ -n "$checked" ] || { echo "skipped: neither NVIDIA's nor AMD's headers are here" && exit 77; }
echo "as the vendors declare it: $checked"
