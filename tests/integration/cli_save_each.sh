#!/usr/bin/env bash
# weft rollout --save-each: each version as a folder that an engine loads, whole under its name, with hard links for what
# did not change, the newest kept, and a command run for each; of shards, and of one file, from a trainer and a store.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
models "$work/m" 4
python3 - "$work/m" <<'PYTHON' || fail "no models of which a part stays"
import json, struct, sys
def open_model(version):
    data = open(f"{sys.argv[1]}/v{version}.safetensors", "rb").read()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    tensors = sorted(tuple(t["data_offsets"]) for n, t in json.loads(data[8:end]).items() if n != "__metadata__")
    return data, end, tensors
first, end, tensors = open_model(0)
for version in range(1, 5):
    data, own, _ = open_model(version)
    data = bytearray(first[:end] + data[own:]) # with one header, which else tells the version
    for begin, stop in tensors: # small ones, as a part that is not trained
        if stop - begin < 2000:
            data[end + begin : end + stop] = first[end + begin : end + stop]
    open(f"{sys.argv[1]}/v{version}.safetensors", "wb").write(data)
PYTHON
sharded "$work/m" 0 1 2 3 4
echo '{"model_type":"llama"}' >"$work/s0/config.json"
mkdir "$work/in"
site "$work/site.ini" a

folder() # folder DIR VERSION: the folder of a version
{
    ls -d "$1/version-$2"-????????????????
}

cat >"$work/load" <<'SCRIPT'
echo "$WEFT_VERSION $WEFT_RUN $WEFT_DIGEST ${WEFT_PATH##*/} $("$WEFT_BIN" digest "$WEFT_PATH")" >>"$1"
[ "$WEFT_VERSION" != 2 ]
SCRIPT
start a "$weft" rollout "$work/site.ini" --peer a --model "$work/s0" --save-each "$work/out" --keep 3 --until 4 \
    --on-version "sh $work/load $work/loaded" --json
start trainer "$weft" trainer "$work/site.ini" --model "$work/s0" --follow "$work/in" --json
for v in 1 2 3 4; do
    mv "$work/s$v" "$work/in/step_$v"
    await grep -q "^$v " "$work/loaded"
done
finish a 0
stop trainer
says a 'on-version: the command for version 2 ended with exit code 1; the rollout goes on'
[ "$(find "$work/out" -mindepth 1 -maxdepth 1 | wc -l)" = 3 ] || fail "not three folders: $(ls "$work/out")"
for v in 2 3 4; do
    one=$(folder "$work/out" $v) || fail "no folder of version $v"
    for file in "$work/in/step_$v"/* "$work/s0/config.json"; do same "$one/$(basename "$file")" "$file"; done
    [ "$(ls "$one")" = "$(ls "$work/s0")" ] || fail "version $v has $(ls "$one")"
    [ $v = 2 ] && before=$one && continue
    linked=0
    for file in "$one"/*; do
        if cmp -s "$file" "$before/$(basename "$file")"; then
            [ "$file" -ef "$before/$(basename "$file")" ] || fail "$file is equal to that before, and no hard link"
            linked=$((linked + 1))
        fi
    done
    # shellcheck disable=SC2012
    { [ $linked = 4 ] && [ $linked -lt "$(ls "$one" | wc -l)" ]; } || fail "version $v has $linked links"
    before=$one
done
[ ! "$work/s0/config.json" -ef "$one/config.json" ] || fail "config.json is tied to its base"
python3 - "$work/loaded" "$work/a.out" <<'PYTHON' || fail "the command was told otherwise: $(cat "$work/loaded")"
import json, sys
held = [json.loads(line) for line in open(sys.argv[2])]
rows = [line.split() for line in open(sys.argv[1])]
assert [int(r[0]) for r in rows] == [1, 2, 3, 4], rows
for row, version in zip(rows, held):
    assert row[2] == version["digest"] and version["digest"] in " ".join(row[4:]), (row, version)
    assert row[3] == f"version-{row[0]}-{row[2]}" and int(row[1], 16) > 0, row
PYTHON

echo "of one file, out of a store; a folder that is there already is not written again"
mkdir "$work/one"
cp "$work/m/v0.safetensors" "$work/one/weights.safetensors"
echo '{}' >"$work/one/config.json"
for v in 0 1 2; do run put 0 "$weft" put "$work/store" "$work/m/v$v.safetensors" --version $((10 + v)); done
for until in 11 12 11; do
    run store 0 "$weft" rollout --store "$work/store" --model "$work/one" --until $until --save-each "$work/single/"
    v=$((until - 10))
    one=$(folder "$work/single" $until) || fail "no folder of version $until"
    # shellcheck disable=SC2012
    [ "$(ls "$one" | tr '\n' ' ')" = 'config.json weights.safetensors ' ] || fail "version $until has $(ls "$one")"
    same "$one/weights.safetensors" "$work/m/v$v.safetensors"
    [ "$one/config.json" -ef "$(folder "$work/single" 11)/config.json" ] || fail "config.json of $until is no hard link"
    [ $until = 12 ] || stat -c %i "$one" >>"$work/inodes"
done
[ "$(sort -u "$work/inodes" | wc -l)" = 1 ] || fail "version 11 was written again"

echo "tensors in another order than the trainer's; what is equal is a hard link there too"
python3 - "$work/m/v0.safetensors" "$work/other.safetensors" <<'PYTHON' || fail "no other order"
import json, struct, sys
data = open(sys.argv[1], "rb").read()
end = 8 + struct.unpack("<Q", data[:8])[0]
head, body = {}, b""
tensors = [(n, t) for n, t in json.loads(data[8:end]).items() if n != "__metadata__"]
for name, tensor in sorted(tensors, key=lambda item: item[1]["data_offsets"])[::-1]:
    part = data[end + tensor["data_offsets"][0] : end + tensor["data_offsets"][1]]
    head[name] = dict(tensor, data_offsets=[len(body), len(body) + len(part)])
    body += part
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + body)
PYTHON
mkdir "$work/in2"
start c "$weft" rollout "$work/site.ini" --peer a --model "$work/other.safetensors" --save-each "$work/order" --until 2
start trainer "$weft" trainer "$work/site.ini" --model "$work/s0" --follow "$work/in2"
for v in 1 2; do
    cp -r "$work/in/step_$v" "$work/in2/tmp-$v"
    mv "$work/in2/tmp-$v" "$work/in2/step_$v"
    await folder "$work/order" $v
done
finish c 0
stop trainer
one=$(folder "$work/order" 1) two=$(folder "$work/order" 2)
linked=0
for file in "$work/in/step_2"/*; do
    same "$two/${file##*/}" "$file"
    cmp -s "$one/${file##*/}" "$file" || continue
    [ "$one/${file##*/}" -ef "$two/${file##*/}" ] || fail "$file did not change, and is no hard link"
    linked=$((linked + 1))
done
[ $linked = 3 ] || fail "$linked files did not change"
[ -z "$(find "$work/order" -name '*.tmp')" ] || fail "something was left in $work/order"

echo "folders of others stay, whose names are merely alike; what weft never finished goes"
others="version-3-1 version-3-1234567890abcdefg version-03-1234567890abcdef weft-1.tmp weft-12345678.tmp2 version-x"
for name in $others weft-12345678.tmp; do
    mkdir -p "$work/alike/$name"
    echo mine >"$work/alike/$name/file"
    touch -d '2 days ago' "$work/alike/$name"
done
ln -s version-x "$work/alike/version-3-1234567890abcdef"
for until in 11 12; do
    run alike 0 "$weft" rollout --store "$work/store" --model "$work/one" --until $until --save-each "$work/alike" --keep 1
done
[ ! -e "$work/alike/weft-12345678.tmp" ] || fail "an unfinished folder stays"
for name in $others; do [ -f "$work/alike/$name/file" ] || fail "$name is not weft's, and was removed"; done
[ -L "$work/alike/version-3-1234567890abcdef" ] || fail "a link that is not weft's was removed"
[ "$(find "$work/alike" -name 'version-1*' | wc -l)" = 1 ] || fail "not one is kept: $(ls "$work/alike")"

echo "a version that is given up half is under its name no more, and is written anew when it comes again"
one() # one VERSION COMMAND: takes a version and keeps no other
{
    run give 0 "$weft" rollout --store "$work/store" --model "$work/one" --until "$1" --save-each "$work/half" --keep 1 \
        --on-version "$2"
}
# shellcheck disable=SC2016
one 11 'mkdir "$WEFT_PATH/cache"' # which an engine may leave there
one 12 :
says give 'warn: --save-each: weft-.*\.tmp cannot be removed: Directory not empty'
[ "$(find "$work/half" -name 'version-*')" = "$(folder "$work/half" 12)" ] || fail "half of version 11 has its name"
# shellcheck disable=SC2016
one 11 'cat "$WEFT_PATH/weights.safetensors" >"$WEFT_PATH/../seen"'
same "$work/half/seen" "$work/m/v1.safetensors"

echo "the base stays that is a version saved before, and its config.json goes on"
base=$(folder "$work/single" 11)
for until in 12 10; do
    run base 0 "$weft" rollout --store "$work/store" --model "$base" --until $until --save-each "$work/single" --keep 1
    [ -f "$(folder "$work/single" $until)/config.json" ] || fail "no config.json in version $until"
    [ "$(find "$work/single" -name 'version-*' | wc -l)" = 2 ] || fail "base and newest: $(ls "$work/single")"
done
same "$base/weights.safetensors" "$work/m/v1.safetensors"

echo "a folder that cannot be written is said"
run empty 2 "$weft" rollout --store "$work/store" --model "$work/one" --save-each "$work/store/no/such"
says empty 'save-each .*/no/such: cannot be made: No such file or directory'
run alone 2 "$weft" rollout --store "$work/store" --model "$work/one" --keep 3
says alone 'keep and --on-version go with --save-each'
# shellcheck disable=SC2016
run full 1 bash -c 'ulimit -f 100 && exec "$@"' "" "$weft" rollout --store "$work/store" --model "$work/one" \
    --save-each "$work/full"
says full 'warn: --save-each: version 12 was not written: '
[ -z "$(ls -A "$work/full")" ] || fail "half of a version was left: $(ls -A "$work/full")"

echo "a command's end is seen where signals of it are ignored by whoever starts the rollout"
run deaf 0 timeout 60 env --ignore-signal=CHLD "$weft" rollout --store "$work/store" --model "$work/one" \
    --save-each "$work/deaf" --on-version 'exit 5'
says deaf 'ended with exit code 5; the rollout goes on'

echo "a command that does not end keeps no rollout"
# The command's first process ends by SIGTERM in the first turn, and ignores SIGTERM in the second, as all that it starts.
for trap in : 'trap "" TERM'; do
    rm -f "$work/hangs"
    start hung "$weft" rollout --store "$work/store" --model "$work/one" --follow --save-each "$work/hung" --json \
        --on-version "$trap; sh -c 'echo on its way; echo \$\$ >$work/hangs; exec sleep 1000' & wait"
    await test -s "$work/hangs"
    stop hung
    says hung 'the command was ended for version 12, because the rollout ends'
    gone() { ! kill -0 "$(cat "$work/hangs")"; }
    await gone
    rm -r "$work/hung"
    json hung "len(lines) == 1" # what the command says goes elsewhere
done
echo "each version was saved as a folder"
