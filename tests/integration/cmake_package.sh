#!/usr/bin/env bash
# find_package(weft) finds the installed tree; weft::weft and weft::static both link and run; pkg-config --static too.
set -euo pipefail
[ -z "${WEFT_SANITIZE:-}" ] || { echo "skipped: the package is linked as it is released, without sanitizers" && exit 77; }
. "$WEFT_SOURCE/tests/support/installed.sh"

mkdir "$work/user"
cat >"$work/user/CMakeLists.txt" <<'C'
cmake_minimum_required(VERSION 3.16)
project(user C)
find_package(weft 0.1 REQUIRED)
foreach(kind weft static)
    add_executable(use_${kind} use.c)
    target_link_libraries(use_${kind} PRIVATE weft::${kind})
endforeach()
C
cat >"$work/user/use.c" <<'C'
#include <stdio.h>
#include <weft.h>

int main(void)
{
    size_t count = 0;
    puts(weft_version_string());
    return weft_devices(NULL, 0, &count) != WEFT_OK || count == 0;
}
C
said=$("$prefix/bin/weft" --version 2>/dev/null || true)
version=$(pkg-config --modversion weft)
[[ $said == *"$version"* ]] || { echo "the command says '$said', weft.pc says '$version'" && exit 1; }

"${WEFT_CMAKE:-cmake}" -S "$work/user" -B "$work/user/build" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="${WEFT_CC:-cc}" -DCMAKE_C_FLAGS="${WEFT_CFLAGS:-}" >"$work/log" 2>&1 &&
    "${WEFT_CMAKE:-cmake}" --build "$work/user/build" >>"$work/log" 2>&1 || { cat "$work/log" && exit 1; }
for kind in weft static; do
    [ "$("$work/user/build/use_$kind")" = "$version" ] || { echo "use_$kind failed" && exit 1; }
done

read -ra library_flags < <(pkg-config --cflags --static --libs weft | sed 's/-lweft/-l:libweft.a/')
"${WEFT_CC:-cc}" "${flags[@]}" "$work/user/use.c" "${library_flags[@]}" -o "$work/use_pc"
[ "$("$work/use_pc")" = "$version" ] || { echo "use_pc failed" && exit 1; }
soname=$(readelf -d "$library" | sed -nE 's/.*SONAME.*\[(.*)\].*/\1/p')
wanted=libweft.so.${version%%.*} # of 0.x with the minor version, because each may change the binary interface
[ "$wanted" != libweft.so.0 ] || wanted=libweft.so.${version%.*}
[ "$soname" = "$wanted" ] || { echo "soname is '$soname', not $wanted" && exit 1; }
