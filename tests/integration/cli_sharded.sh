#!/usr/bin/env bash
# Models in several files: one digest with the single file, diffs between both, and outputs equal file by file.
# shellcheck source=tests/support/cli.sh
source "$(dirname "$0")/../support/cli.sh"
models "$work/m" 2
sharded "$work/m" 0 1
run single 0 "$WEFT_BIN" digest "$work/m/v1.safetensors" --json
run folder 0 "$WEFT_BIN" digest "$work/s1" --json
run index 0 "$WEFT_BIN" digest "$work/s1/model.safetensors.index.json" --json
for name in folder index; do
    json "$name" "lines[0]['digest'] == '$(sed -E 's/.*"digest":"([0-9a-f]+)".*/\1/' "$work/single.out")'"
done

run diff 0 "$WEFT_BIN" diff "$work/s0" "$work/s1" -o "$work/u.weft" --json
run apply 0 "$WEFT_BIN" apply "$work/s0" "$work/u.weft" -o "$work/out"
diff -r "$work/out" "$work/s1" || fail "out differs from s1"
run exists 2 "$WEFT_BIN" apply "$work/s0" "$work/u.weft" -o "$work/out"
says exists 'not there yet'
diff -r "$work/out" "$work/s1" || fail "out was touched"
# ---- what lies beside the weights goes along, but nothing of another version, hidden, unfinished, or in folders
besides() # besides FOLDER: what is beside s1's files in it
{
    diff -r "$1" "$work/s1" | sed -n "s|^Only in $1: ||p" | sort | tr '\n' ' '
}
echo '{"model_type":"llama"}' >"$work/s0/config.json"
echo tokens >"$work/tokens" && ln -s ../tokens "$work/s0/tokenizer.model" && ln -s gone "$work/s0/dangling"
echo no | tee "$work/s0/.hidden" "$work/s0/half.tmp" "$work/s0/consolidated.safetensors" \
    "$work/s0/old.safetensors.index.json" "$work/s0/pytorch_model.bin.index.json" >/dev/null
for end in bin pt pth gguf h5 msgpack; do echo no >"$work/s0/other.$end"; done # weights of other formats
mkdir "$work/s0/original" && echo no >"$work/s0/original/params.json"
mkfifo "$work/s0/pipe"
run beside 0 "$WEFT_BIN" apply "$work/s0" "$work/u.weft" -o "$work/beside"
[ "$(besides "$work/beside")" = 'config.json tokenizer.model ' ] || fail "beside the weights: $(besides "$work/beside")"
[ ! "$work/s0/config.json" -ef "$work/beside/config.json" ] || fail "config.json is tied to its base"
same "$work/s0/config.json" "$work/beside/config.json"
truncate -s 16M "$work/s0/most" && truncate -s $((16 * 1024 * 1024 + 1)) "$work/s0/more"
run large 0 "$WEFT_BIN" apply "$work/s0" "$work/u.weft" -o "$work/large"
[ ! "$work/s0/most" -ef "$work/large/most" ] || fail "a file of 16 MiB is a hard link"
[ "$work/s0/more" -ef "$work/large/more" ] || fail "a larger file is no hard link"
same "$work/s0/most" "$work/large/most"
rm "$work/s0/most" "$work/s0/more"
[ ! -L "$work/beside/tokenizer.model" ] && same "$work/beside/tokenizer.model" "$work/tokens"
run by_index 0 "$WEFT_BIN" apply "$work/s0/model.safetensors.index.json" "$work/u.weft" -o "$work/by_index"
[ "$(besides "$work/by_index")" = 'config.json tokenizer.model ' ] || fail "beside the weights: $(besides "$work/by_index")"
run here 0 env -C "$work/s0" "$WEFT_BIN" apply model.safetensors.index.json "$work/u.weft" -o ../here
[ "$(besides "$work/here")" = 'config.json tokenizer.model ' ] || fail "beside the weights: $(besides "$work/here")"
far=$(mktemp -d /dev/shm/weft-XXXXXX 2>/dev/null || true)
if [ -n "$far" ]; then # another file system: a copy
    run far 0 "$WEFT_BIN" apply "$work/s0" "$work/u.weft" -o "$far/out"
    besides=$(besides "$far/out") content=$(cat "$far/out/config.json" "$far/out/tokenizer.model")
    rm -r "$far"
    [ "$besides$content" = $'config.json tokenizer.model {"model_type":"llama"}\ntokens' ] || fail "copied: $besides$content"
fi
echo '{}' >"$work/m/config.json" # beside a model that is one file: not its own
mkdir "$work/there"
for name in new there; do # as a shell completes a folder's name
    run slash 0 "$WEFT_BIN" apply "$work/s0" "$work/u.weft" -o "$work/$name/"
    [ "$(besides "$work/$name")" = 'config.json tokenizer.model ' ] || fail "$name/ differs from s1"
    for file in "$work/s1"/*; do same "$work/$name/$(basename "$file")" "$file"; done
done
run wrong 3 "$WEFT_BIN" apply "$work/s1" "$work/u.weft" -o "$work/no"
absent "$work/no"

# ---- from many files to one, and back: the header that travels decides
run join 0 "$WEFT_BIN" diff "$work/s0" "$work/m/v1.safetensors" -o "$work/join.weft"
run joined 0 "$WEFT_BIN" apply "$work/s0" "$work/join.weft" -o "$work/joined.st"
same "$work/joined.st" "$work/m/v1.safetensors"
run split 0 "$WEFT_BIN" diff "$work/m/v0.safetensors" "$work/s1" -o "$work/split.weft"
run parted 0 "$WEFT_BIN" apply "$work/m/v0.safetensors" "$work/split.weft" -o "$work/parted"
diff -r "$work/parted" "$work/s1" || fail "parted differs from s1"

# ---- a folder with one file, which has no index: the new model is such a folder too, but for a name of a file
mkdir "$work/single" && cp "$work/m/v0.safetensors" "$work/single/model.safetensors"
cp "$work/s0/config.json" "$work/single"
run single_diff 0 "$WEFT_BIN" diff "$work/single" "$work/m/v1.safetensors" -o "$work/single.weft"
run single_apply 0 "$WEFT_BIN" apply "$work/single" "$work/single.weft" -o "$work/single1"
[ "$(ls "$work/single1" | tr '\n' ' ')" = 'config.json model.safetensors ' ] || fail "single1: $(ls "$work/single1")"
same "$work/single1/model.safetensors" "$work/m/v1.safetensors"
same "$work/single1/config.json" "$work/s0/config.json"
run single_file 0 "$WEFT_BIN" apply "$work/single" "$work/single.weft" -o "$work/single1.safetensors"
same "$work/single1.safetensors" "$work/m/v1.safetensors"
run single_there 2 "$WEFT_BIN" apply "$work/single" "$work/single.weft" -o "$work/single1"
says single_there 'not there yet'

# ---- over the fabric: the rollout saves the same files
if fabric_is_here tcp; then
    site "$work/site.ini" a
    start trainer "$WEFT_BIN" trainer "$work/site.ini" --model "$work/s0" --versions "$work/s1"
    start a "$WEFT_BIN" rollout "$work/site.ini" --peer a --model "$work/s0" --until 1 --save "$work/saved"
    finish a 0
    finish trainer 0
    [ "$(besides "$work/saved")" = 'config.json tokenizer.model ' ] || fail "saved differs from s1"
    for file in "$work/s1"/*; do same "$work/saved/$(basename "$file")" "$file"; done
    # its form is that of the trainer's model, whatever the rollout's own is
    start trainer "$WEFT_BIN" trainer "$work/site.ini" --model "$work/m/v0.safetensors" --versions "$work/m/v1.safetensors"
    start a "$WEFT_BIN" rollout "$work/site.ini" --peer a --model "$work/s0" --until 1 --save "$work/saved.st"
    finish a 0
    finish trainer 0
    same "$work/saved.st" "$work/m/v1.safetensors"

    # what --save cannot become is told as soon as the model's kind is known: at once, or with the first version
    mkdir "$work/folder"
    echo text >"$work/file"
    refused() # refused NAME CODE ARGUMENT...: a rollout whose --save does not fit
    {
        local name=$1 code=$2
        shift 2
        run "$name" "$code" "$WEFT_BIN" rollout "$work/site.ini" --peer a --until 1 --set session.connect_deadline=20s "$@"
        [ "$(grep -c -e '^weft: --save' "$work/$name.err")" = 1 ] || fail "$name was not told once that --save does not fit"
        [ "$(cat "$work/file")" = text ] || fail "$name touched the file that was in the way"
        [ -z "$(ls -A "$work/folder")" ] || fail "$name touched the folder that was in the way"
    }
    refused file_model 2 --model "$work/m/v0.safetensors" --save "$work/folder"
    refused slash_model 2 --model "$work/m/v0.safetensors" --save "$work/none/"
    refused shards_model 2 --model "$work/s0" --save "$work/file"
    says shards_model 'name a folder'
    mkdir "$work/in"
    for kind in "m/v0.safetensors folder" "s0 file"; do # nothing is ever published: told without
        start trainer "$WEFT_BIN" trainer "$work/site.ini" --model "$work/${kind% *}" --follow "$work/in"
        refused "empty_${kind#* }" 1 --empty --save "$work/${kind#* }"
        stop trainer
    done
fi

# ---- where no folder can be put: told before any work
mkdir "$work/place" "$work/place/in"
echo text >"$work/place/text"
unfit() # unfit OUTPUT PATTERN [COMMAND...]: as seen from an empty folder
{
    run unfit 2 env -C "$work/place/in" "${@:3}" "$WEFT_BIN" apply "$work/s0" "$work/u.weft" -o "$1"
    says unfit "^weft: $1: $2"
    [ "$(find "$work/place" | sort | xargs -n1 basename | tr '\n' ' ')" = 'place in text ' ] ||
        fail "$1: something was left behind, or taken away"
}
long=$(printf '%0300d' 7)
unfit . 'is not the folder.s own name'
unfit ./ 'is not the folder.s own name'
unfit .. 'is not the folder.s own name'
unfit ../in/. 'is not the folder.s own name'
unfit ../text/new 'cannot be created in ../text: Not a directory'
unfit ../text/new/er 'cannot be created in ../text/new: Not a directory'
unfit ../none/new 'cannot be created in ../none: No such file or directory'
unfit "$long" 'cannot be created: File name too long'
unfit "$long/new" "cannot be created in $long: File name too long"
# shellcheck disable=SC2016
mounted='mount --bind "$0" "$0" && mount -o "remount,bind,$1" "$0" && shift && exec "$@"'
if unshare -rm bash -c "$mounted" "$work/place/in" ro true 2>/dev/null; then
    unfit ../in 'something is mounted there' unshare -rm bash -c "$mounted" "$work/place/in" rw
    unfit ../in/new 'cannot be created in ../in: Read-only file system' unshare -rm bash -c "$mounted" \
        "$work/place/in" ro
else
    echo "not run: outputs where something is mounted (may not mount)"
fi

# ---- a full disk leaves no half folder
# shellcheck disable=SC2016
run full 1 bash -c 'ulimit -f 100 && exec "$@"' "" "$WEFT_BIN" apply "$work/s0" "$work/u.weft" -o "$work/no"
absent "$work/no"

# ---- folders that are no model
mkdir "$work/empty"
run empty 2 "$WEFT_BIN" digest "$work/empty"
says empty 'which is the model'
mkdir "$work/link"
cp "$work/m/v0.safetensors" "$work/link/model.safetensors"
ln -s gone "$work/link/model.safetensors.index.json"
run link 2 "$WEFT_BIN" digest "$work/link"
says link 'link: model.safetensors.index.json: cannot be opened: it is a link that leads to nothing'
rm "$work/s0/model-00002-of-00003.safetensors"
run missing 2 "$WEFT_BIN" digest "$work/s0"
says missing 'model-00002-of-00003.safetensors: cannot be opened'

# ---- pipes that nobody writes into are refused, not waited for
mkfifo "$work/pipe" "$work/empty/model.safetensors.index.json"
run pipe 2 "$WEFT_BIN" digest "$work/pipe"
says pipe 'pipe: not a regular file'
run pipe_index 2 "$WEFT_BIN" digest "$work/empty"
says pipe_index 'model.safetensors.index.json: not a regular file'
echo "sharded models: ok"
