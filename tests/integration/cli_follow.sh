#!/usr/bin/env bash
# weft trainer --follow: complete files only, in natural order, past ones left alone however they change; an interrupt is an
# orderly end, of a rollout without --until too, which saves what it holds.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
models "$work/m" 4
site "$work/site.ini" a b
mkdir "$work/in"
# v8 is the past of the model, which lies in the directory; v10 and v11 wait there already
cp "$work/m/v0.safetensors" "$work/in/v8.safetensors"
cp "$work/m/v0.safetensors" "$work/in/v9.safetensors"
cp "$work/m/v1.safetensors" "$work/in/v10.safetensors"
cp "$work/m/v2.safetensors" "$work/in/v11.safetensors"
echo nonsense >"$work/in/.hidden.safetensors"
echo nonsense >"$work/in/notes.txt"
touch -d '1 minute ago' "$work"/in/*.safetensors

start a "$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors" --save "$work/a.safetensors" --json
start b "$weft" rollout "$work/site.ini" --peer b --model "$work/m/v0.safetensors" --save "$work/b.safetensors" --json
start trainer "$weft" trainer "$work/site.ini" --model "$work/in/v9.safetensors" --follow "$work/in" --first-version 9 --json
await said trainer '"target":11'
# written in place and slowly: taken when it is steady, not before
touch "$work/in/v12.safetensors"
appear 4 v100
python3 - "$work/m/v3.safetensors" "$work/in/v12.safetensors" "$work/trainer.out" <<'PYTHON' ||
import sys, time
data = open(sys.argv[1], "rb").read()
step = len(data) // 40 + 1
with open(sys.argv[2], "wb", 0) as file:
    for at in range(0, len(data), step):
        if '"target":12' in open(sys.argv[3]).read():
            sys.exit(1)
        file.write(data[at : at + step])
        time.sleep(0.06)
PYTHON
    fail "a file was taken that was still being written, or one overtook it"
await said trainer '"target":13'
await said a '"target":13'
await said b '"target":13'
stop b
same "$work/b.safetensors" "$work/m/v4.safetensors"

# what is past stays past: touched, replaced or come late; the newest is not published again for another time alone
touch "$work"/in/v{8,10,100}.safetensors
appear 1 v7
appear 1 v9
appear 2 v13
appear 1 $'v7\033[2J\302\2332J'
await said trainer 'left alone: .*/v7 \[2J  2J.safetensors '
for name in v7 v8 v9 v10 v13 v100; do
    await said trainer "left alone: .*/$name.safetensors "
done
touch "$work"/in/v{7,8,100}.safetensors
appear 3 v101
await said trainer '"target":14'
# the newest is published again when it is replaced, or written to in place
appear 2 v101
await said trainer '"target":15'
cat "$work/m/v1.safetensors" >"$work/in/v101.safetensors"
await said trainer '"target":16'
# what was refused is looked at again when it changes, and did not become the newest
head -c 1000 "$work/m/v2.safetensors" >"$work/in/part" && mv "$work/in/part" "$work/in/v103.safetensors"
await said trainer 'not published until the file changes: .*v103'
appear 2 v102
await said trainer '"target":17'
appear 4 v103
await said trainer '"target":18'
await said a '"target":18'
stop trainer
finish a 0
json trainer "[o['file'].split('/')[-1].split('.')[0] for o in lines if 'target' in o] == 'v10 v11 v12 v100 v101 v101 v101 v102 v103'.split()"
json trainer "[o['target'] for o in lines if 'target' in o] == list(range(10, 19))"
for name in v7 v8 v9 v10 v13 v100; do
    [ "$(grep -c "left alone: .*/$name.safetensors " "$work/trainer.err")" = 1 ] || fail "$name was not told once"
done
same "$work/a.safetensors" "$work/m/v4.safetensors"
echo "nine checkpoints were followed in order, and no past one"
