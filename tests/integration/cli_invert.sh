#!/usr/bin/env bash
# Updates turned round by the command: back to the very file, and refused where the update does not say what was there.
# shellcheck source=tests/support/cli.sh
source "$(dirname "$0")/../support/cli.sh"
models "$work/m" 3
v0=$work/m/v0.safetensors v1=$work/m/v1.safetensors v2=$work/m/v2.safetensors

# ---- a changed header needs the base, whose header goes along
for level in full pairs fast tight; do
    run "diff_$level" 0 "$WEFT_BIN" diff "$v0" "$v1" -o "$work/$level.weft" --level $level --first-version 7
    run "back_$level" 0 "$WEFT_BIN" invert "$work/$level.weft" -o "$work/back.weft" --base "$v0" --level $level --json
    json "back_$level" "lines[0]['base'] == 8 and lines[0]['target'] == 7 and lines[0]['level'] == '$level'"
    json "back_$level" "lines[0]['bytes'] == $(stat -c %s "$work/back.weft")"
    run "apply_$level" 0 "$WEFT_BIN" apply "$v1" "$work/back.weft" -o "$work/back.st"
    same "$work/back.st" "$v0"
done
run wrong_base 3 "$WEFT_BIN" invert "$work/tight.weft" -o "$work/no.weft" --base "$v2"
absent "$work/no.weft"

# ---- without the base: level fast, two versions back by the merge of both opposites
python3 - "$v0" "$v1" "$v2" <<'PYTHON'
import re, sys
head = open(sys.argv[1], "rb").read()
size = 8 + int.from_bytes(head[:8], "little")
for path in sys.argv[2:]:
    data = open(path, "rb").read()
    if 8 + int.from_bytes(data[:8], "little") != size:
        sys.exit(f"{path}: another header's length")
    open(path, "wb").write(head[:size] + data[size:])
PYTHON
run fast 0 "$WEFT_BIN" diff "$v0" "$v1" -o "$work/1.weft" --level fast
run next 0 "$WEFT_BIN" diff "$v1" "$v2" -o "$work/2.weft" --level fast --first-version 1
for i in 1 2; do
    run "free_$i" 0 "$WEFT_BIN" invert "$work/$i.weft" -o "$work/back$i.weft"
    [ "$(stat -c %s "$work/$i.weft")" = "$(stat -c %s "$work/back$i.weft")" ] || fail "another size: back$i.weft"
    run "again_$i" 0 "$WEFT_BIN" invert "$work/back$i.weft" -o "$work/again.weft"
    same "$work/again.weft" "$work/$i.weft"
done
run merge 0 "$WEFT_BIN" merge "$work/back2.weft" "$work/back1.weft" -o "$work/back.weft" --json
json merge "lines[0]['base'] == 2 and lines[0]['target'] == 0"
run apply_merged 0 "$WEFT_BIN" apply "$v2" "$work/back.weft" -o "$work/back.st"
same "$work/back.st" "$v0"

# ---- refused
run tight 0 "$WEFT_BIN" diff "$v0" "$v1" -o "$work/tight.weft"
run no_base 2 "$WEFT_BIN" invert "$work/tight.weft" -o "$work/no.weft"
says no_base 'needs its base at hand'
run no_level 2 "$WEFT_BIN" invert "$work/1.weft" -o "$work/no.weft" --level tight --json
json no_level "'give the base' in lines[0]['error']['text']"
absent "$work/no.weft"
