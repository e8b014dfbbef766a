#!/usr/bin/env bash
# weft trainer --follow over folders as trainers write them: step_N with shards and an index, whole by a marker, by a
# rename, or by all bytes that the headers announce. Half of a checkpoint is never published, nor one whose bytes have
# only their place on the disk; what is passed over is said once, with the reason.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
models "$work/m" 7
sharded "$work/m" 0 1 2 3 5 6
site "$work/site.ini" a
in=$work/in
mkdir "$in"
cp -r "$work/s0" "$in/step_0"
cp -r "$work/s1" "$in/step_10"
touch "$in/step_10/STABLE"

start a "$weft" rollout "$work/site.ini" --peer a --model "$work/s0" --save "$work/saved" --json
start trainer "$weft" trainer "$work/site.ini" --model "$in/step_0/model.safetensors.index.json" --follow "$in/" --json
await said trainer '"target":1,'

echo "a folder that stands still without its last shard"
mkdir "$in/step_20"
cp "$work/s2/model.safetensors.index.json" "$work/s2"/model-0000[12]* "$in/step_20"
await said trainer 'not published until the folder changes: .*in/step_20: model-00003-of-00003.safetensors: cannot be opened'
cp "$work/s2"/model-00003* "$in/step_20"
await said trainer '"target":2,'

echo "shards before their index, and the place of a shard before its bytes"
mkdir "$in/step_30"
cp "$work/s3"/model-0000[13]* "$in/step_30"
await said trainer 'left alone: .*in/step_30 has shards, and no model.safetensors.index.json'
python3 - "$work/s3/model-00002-of-00003.safetensors" "$in/step_30" <<'PYTHON' || fail "no place for a shard"
import os, struct, sys
data = open(sys.argv[1], "rb").read()
head = 8 + struct.unpack("<Q", data[:8])[0]
with open(sys.argv[2] + "/model-00002-of-00003.safetensors", "wb") as file:
    file.truncate(len(data))
    file.write(data[:head])
PYTHON
cp "$work/s3/model.safetensors.index.json" "$in/step_30"
await said trainer 'not published until the folder changes: .*model-00002-of-00003.safetensors: not written yet, or sparse'
dd if="$work/s3/model-00002-of-00003.safetensors" of="$in/step_30/model-00002-of-00003.safetensors" conv=notrunc status=none
await said trainer '"target":3,'

echo "a file that the file system gave all of its blocks first"
python3 - "$work/m/v4.safetensors" "$in/step_40.safetensors" <<'PYTHON' || fail "no place for a file"
import os, struct, sys
data = open(sys.argv[1], "rb").read()
with open(sys.argv[2], "wb") as file:
    os.posix_fallocate(file.fileno(), 0, len(data))
    file.write(data[: 8 + struct.unpack("<Q", data[:8])[0]])
PYTHON
await said trainer 'not published until the file changes: .*step_40.safetensors: not written yet, or sparse'
dd if="$work/m/v4.safetensors" of="$in/step_40.safetensors" conv=notrunc status=none
await said trainer '"target":4,'

echo "a folder that is renamed into place, with holes that are meant, and one that is written anew"
cp -r "$work/s5" "$in/tmp-checkpoint-50"
python3 - "$in/tmp-checkpoint-50/model-00001-of-00003.safetensors" <<'PYTHON' || fail "no hole"
import os, sys
data = open(sys.argv[1], "rb").read() # a tensor's zeros would be such
os.truncate(sys.argv[1], 0)
with open(sys.argv[1], "r+b") as file:
    file.truncate(len(data))
    for at in range(0, len(data), 4096):
        if any(data[at : at + 4096]):
            file.seek(at)
            file.write(data[at : at + 4096])
PYTHON
mv "$in/tmp-checkpoint-50" "$in/step_50"
await said trainer '"target":5,'
cp "$work/s6"/* "$in/step_50"
await said trainer '"target":6,'

echo "what is no checkpoint"
mkdir "$in/step_60" "$in/step_61" "$in/final" "$in/logs"
echo weights >"$in/step_60/pytorch_model.bin"
cp "$work/m/v7.safetensors" "$in/final/model.safetensors"
cp "$work/s6"/model-0000* "$in"
cp -r "$work/s2" "$in/step_5"
await said trainer 'left alone: .*in/step_60 has no \*.safetensors in it, and weft reads no other format'
await said trainer 'left alone: .*in/final has no number in its name'
await said trainer 'left alone: .*in/model-00001-of-00003.safetensors is a shard'
await said trainer 'left alone: .*in/step_5 is not published, because it comes before step_50'
mv "$in/final" "$in/step_61/" && cp "$in/step_61/final/model.safetensors" "$in/step_61"
await said trainer '"target":7,'
await said a '"target":7,'
stop trainer
finish a 0
[ "$(grep -c 'is a shard' "$work/trainer.err")" = 1 ] || fail "shards were told of more than once"
grep -q 'in/logs\|tmp-checkpoint' "$work/trainer.err" && fail "what is no checkpoint was told of"
json trainer "[o['file'].split('/')[-1] for o in lines if 'target' in o] == [
    'step_10', 'step_20', 'step_30', 'step_40.safetensors', 'step_50', 'step_50', 'step_61']"
for v in 1 2 3 4 5 6 7; do
    run digest 0 "$weft" digest "$work/m/v$v.safetensors" --json
    digest=$(sed -E 's/.*"digest":"([0-9a-f]+)".*/\1/' "$work/digest.out")
    json trainer "[o['digest'] for o in lines if o.get('target') == $v] == ['$digest']"
done
same "$work/saved" "$work/m/v7.safetensors"
echo "seven checkpoints were followed, each when it was whole"
