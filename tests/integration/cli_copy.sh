#!/usr/bin/env bash
# weft copy: a store into another, byte for byte and of all runs; what is there stays, what was cut off goes on, damage
# and files in the way are named while the others are copied.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
models "$work/m" 4
for v in 0 1 2 3 4; do run put 0 "$weft" put "$work/from" "$work/m/v$v.safetensors" --version $((10 + v)) --level tight; done
files=$(find "$work/from" -name '*.weft' | wc -l)

run copy 0 "$weft" copy "$work/from" "$work/to" --json
json copy "lines[-1]['files'] == $files and lines[-1]['there'] == lines[-1]['faults'] == 0"
diff -r "$work/from" "$work/to" || fail "the copy differs"
run fsck 0 "$weft" fsck "$work/to"
run again 0 "$weft" copy "$work/from" "$work/to"
says again "^0 files copied \(0 B\), $files were there, 0 faults$"

echo "a later version, and a file that was half copied, come with the next copy"
run put 0 "$weft" put "$work/from" "$work/m/v0.safetensors"
rm "$(find "$work/to" -name 'source-*' | sort | sed -n 2p)"
run more 0 "$weft" copy "$work/from" "$work/to" --json
json more "lines[-1]['there'] == $files - 1 and lines[-1]['files'] >= 2"
diff -r "$work/from" "$work/to" || fail "the copy differs"

echo "a copy that is ended leaves whole files alone, and goes on"
python3 - "$work/large.safetensors" <<'PYTHON' || fail "no large model"
import json, os, struct, sys
data = os.urandom(256 << 20)
head = json.dumps({"w": {"dtype": "BF16", "shape": [len(data) // 2], "data_offsets": [0, len(data)]}}).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(head)) + head + data)
PYTHON
run put 0 "$weft" put "$work/big" "$work/large.safetensors"
start ended "$weft" copy "$work/big" "$work/part"
begun() # a file of the copy is there, whole or not
{
    [ -n "$(find "$work/part" -type f)" ]
}
await begun
interrupt ended
code=0
wait "${started[ended]}" || code=$?
unset "started[ended]"
[ $code = 0 ] || [ $code = 1 ] || fail "ended with exit code $code"
[ -z "$(find "$work/part" -name 'weft-*.tmp')" ] || fail "half a file was left"
run rest 0 "$weft" copy "$work/big" "$work/part"
diff -r "$work/big" "$work/part" || fail "the copy differs"

echo "damage and what is in the way"
victim=$(find "$work/from" -name 'source-*' | sort | sed -n 2p)
truncate -s -1 "$victim"
rm -r "$work/to"
run damaged 3 "$weft" copy "$work/from" "$work/to"
says damaged "^${victim#"$work/from/"}: not copied: corrupt: "
says damaged ', 1 faults$'
[ "$(find "$work/to" -name '*.weft' | wc -l)" = "$(($(find "$work/from" -name '*.weft' | wc -l) - 1))" ] || fail "others were not copied"
other=$(find "$work/to" -name 'source-*' | sort | sed -n 1p)
truncate -s -1 "$other"
run way 3 "$weft" copy "$work/from" "$work/to"
says way "${other#"$work/to/"}: not copied: .*is there with .* a store overwrites nothing"
run none 2 "$weft" copy "$work/none" "$work/to2"
says none 'no store is there'
absent "$work/to2"
# shellcheck disable=SC2016
run full 1 bash -c 'ulimit -f 100 && exec "$@"' "" "$weft" copy "$work/big" "$work/full"
[ -z "$(find "$work/full" -type f)" ] || fail "half a file was left on a full disk"
echo "stores were copied"
