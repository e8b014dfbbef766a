#!/usr/bin/env bash
# weft info prints the manual of the site file, names the file of libfabric that the process got, and warns of a second.
# shellcheck source=tests/support/cli.sh
source "$(dirname "$0")/../support/cli.sh"
run manual 0 "$WEFT_BIN" info --manual
diff "$source_dir/conf/weft.ini" "$work/manual.out" || fail "conf/weft.ini is another than: weft info --manual"

fabric tcp

run one 0 "$WEFT_BIN" info
says one "libfabric's file: /.*libfabric\.so"
said one 'two copies of libfabric' && fail "a warning of a second libfabric where there is one"
run one_json 0 "$WEFT_BIN" info --json
json one_json "'libfabric.so' in lines[0]['libfabric_file']"

# A packer of Python wheels gives the library such a name. It comes into the process before weft's own.
bundled=$work/libfabric-0a1b2c3d.so.1.18
${WEFT_CC:-cc} -shared -fPIC -o "$bundled" -x c /dev/null || { echo "skipped: no compiler" && exit 77; }
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0"
run two 0 env LD_PRELOAD="$bundled" "$WEFT_BIN" info
says two "two copies of libfabric .* and $bundled was loaded"
echo "the libraries in the process are told"
