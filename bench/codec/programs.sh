#!/usr/bin/env bash
# programs.sh OLD NEW - general programs for differences between files, each decoded back: bytes and seconds, the time
# to read and write the files included.
set -euo pipefail
old=$(realpath "$1") new=$(realpath "$2")
cd "$(mktemp -d)" && trap 'rm -r "$PWD"' EXIT
TIMEFORMAT=%R
# measure NAME 'ENCODE' 'DECODE': the words write the files patch and made
measure() {
    command -v "${2%% *}" >/dev/null || { echo "$1: not installed here" && return; }
    encode=$({ time eval "$2" >/dev/null 2>&1; } 2>&1)
    decode=$({ time eval "$3" >/dev/null 2>&1; } 2>&1)
    cmp made "$new"
    echo "$1: $(stat -c %s patch) bytes, encode $encode s, decode $decode s"
}
measure 'zstd --patch-from' 'zstd -q -f --long=31 --patch-from="$old" "$new" -o patch' \
    'zstd -q -f -d --long=31 --patch-from="$old" patch -o made'
measure xdelta3 'xdelta3 -e -q -f -S none -s "$old" "$new" patch' 'xdelta3 -d -q -f -s "$old" patch made'
