#!/usr/bin/env bash
# A host without libfabric has update files. Providers that need libfabric are refused with what to install, and a
# libfabric that is older than the headers is refused by name.
# shellcheck source=tests/support/cli.sh
source "$(dirname "$0")/../support/cli.sh"
[ "${WEFT_FABRIC:-0}" = 1 ] || { echo "skipped: this build knows no libfabric" && exit 77; }
compiler
models "$work/m" 1
v0=$work/m/v0.safetensors v1=$work/m/v1.safetensors
site "$work/site.ini" a

# Files of the library's name, before those of the host: one is no library, one has none of the calls' versions.
mkdir "$work/none" "$work/old"
: >"$work/none/libfabric.so.1"
echo 'unsigned fi_version(void) { return 1u << 16; }' |
    "${WEFT_CC:-cc}" -shared -fPIC -o "$work/old/libfabric.so.1" -x c - || fail "no library of an old version"
if env LD_LIBRARY_PATH="$work/none" "$WEFT_BIN" info | grep -q '^weft .*, libfabric '; then
    echo "skipped: this build looks for libfabric in a folder of its own first" && exit 77
fi

for kind in none old; do
    without=(env LD_LIBRARY_PATH="$work/$kind")
    run "info_$kind" 0 "${without[@]}" "$WEFT_BIN" info
    says "info_$kind" '^weft .*, no libfabric$'
    says "info_$kind" '^  no  tcp .*install libfabric .*Debian, Ubuntu: libfabric1'
    says "info_$kind" '^  yes loop '
    run "json_$kind" 0 "${without[@]}" "$WEFT_BIN" info --json
    json "json_$kind" "lines[0]['libfabric'] == 'no libfabric' and lines[0]['libfabric_file'] is None"

    run "check_$kind" 0 "${without[@]}" "$WEFT_BIN" check "$work/site.ini"
    says "check_$kind" 'provider tcp .*MISSING.*install libfabric'
    run "trainer_$kind" 2 "${without[@]}" "$WEFT_BIN" trainer "$work/site.ini" --model "$v0" --versions "$v1"
    says "trainer_$kind" 'provider tcp: .*install libfabric'
    run "rollout_$kind" 2 "${without[@]}" "$WEFT_BIN" rollout "$work/site.ini" --peer a --model "$v0" --until 1
    says "rollout_$kind" 'provider tcp: .*install libfabric'

    run "diff_$kind" 0 "${without[@]}" "$WEFT_BIN" diff "$v0" "$v1" -o "$work/$kind.weft"
    run "apply_$kind" 0 "${without[@]}" "$WEFT_BIN" apply "$v0" "$work/$kind.weft" -o "$work/$kind.st"
    same "$work/$kind.st" "$v1"
done
says trainer_none 'libfabric.so.1: file too short'
says info_old 'libfabric.so.1 lacks fi_[a-z]+ of FABRIC_1'
echo "update files work without libfabric, and all else says what to install"
