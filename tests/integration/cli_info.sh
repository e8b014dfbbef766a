#!/usr/bin/env bash
# weft info names the file of libfabric that the process got, and warns of a second one.
# shellcheck source=tests/support/cli.sh
source "$(dirname "$0")/../support/cli.sh"
fabric tcp

run one 0 "$WEFT_BIN" info
says one "libfabric's file: /.*libfabric\.so"
said one 'second libfabric' && fail "a second libfabric where there is one"
run one_json 0 "$WEFT_BIN" info --json
json one_json "len(lines[0]['libraries']) == 1 and lines[0]['libfabric'] == 'libfabric ' + lines[0]['libraries'][0]['version']"

# What a packer of Python wheels makes of the library, brought into the process before weft's own.
bundled=$work/libfabric-0a1b2c3d.so.1.18
${WEFT_CC:-cc} -shared -fPIC -o "$bundled" -x c /dev/null || { echo "skipped: no compiler" && exit 77; }
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0"
run two 0 env LD_PRELOAD="$bundled" "$WEFT_BIN" info
says two "second libfabric is in this process: $bundled"
run two_json 0 env LD_PRELOAD="$bundled" "$WEFT_BIN" info --json
json two_json "[l['version'] != '' for l in lines[0]['libraries']] == [True, False]"
echo "the libraries in the process are told"
