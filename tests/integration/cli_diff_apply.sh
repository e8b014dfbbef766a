#!/usr/bin/env bash
# Updates as files: made, looked at, applied and merged by the command; every output is byte-identical, whole or absent.
# shellcheck source=tests/support/cli.sh
source "$(dirname "$0")/../support/cli.sh"
models "$work/m" 3
v0=$work/m/v0.safetensors v1=$work/m/v1.safetensors v2=$work/m/v2.safetensors

# ---- there and back, at every level
for level in full pairs fast tight; do
    run "diff_$level" 0 "$WEFT_BIN" diff "$v0" "$v1" -o "$work/$level.weft" --level $level --threads 2 --json
    json "diff_$level" "len(lines) == 1 and lines[0]['level'] == '$level'"
    json "diff_$level" "lines[0]['bytes'] == $(stat -c %s "$work/$level.weft")"
    json "diff_$level" "lines[0]['base'] == 0 and lines[0]['target'] == 1 and lines[0]['changed'] > 0"
    json "diff_$level" "lines[0]['elements'] == 364080 and lines[0]['dense_bytes'] == 727666"
    run "apply_$level" 0 "$WEFT_BIN" apply "$v0" "$work/$level.weft" -o "$work/$level.out.st" --json
    same "$work/$level.out.st" "$v1"
    run "digest_$level" 0 "$WEFT_BIN" digest "$v1" --json
    json "digest_$level" "lines[0]['digest'] == '$(sed -E 's/.*"digest":"([0-9a-f]+)".*/\1/' "$work/apply_$level.out")'"
    run "inspect_$level" 0 "$WEFT_BIN" inspect "$work/$level.weft" --model "$v0" --json
    json "inspect_$level" "lines[0]['exact'] and sum(t['changed'] for t in lines[0]['tensors']) == lines[0]['changed']"
    json "inspect_$level" "lines[0]['tensors'][4]['name'] == 'model.embed.weight'"
    json "inspect_$level" "abs(sum(t['bytes'] for t in lines[0]['tensors']) - lines[0]['frame_bytes']) < 1"
    run "lines_$level" 0 "$WEFT_BIN" inspect "$work/$level.weft"
    says "lines_$level" "level $level"
done
says lines_full 'an upper bound if a tensor.s frame is coded as full. --model BASE makes them exact'
one=$(stat -c %s "$work/tight.weft")
run again 0 "$WEFT_BIN" diff "$v0" "$v1" -o "$work/again.weft" --threads 1
same "$work/again.weft" "$work/tight.weft"

# ---- an update that changes nothing, and one that changes the header only
run nothing 0 "$WEFT_BIN" diff "$v1" "$v1" -o "$work/nothing.weft" --json
json nothing "lines[0]['changed'] == 0 and lines[0]['bits_per_change'] is None and lines[0]['bytes'] < 400"
run apply_nothing 0 "$WEFT_BIN" apply "$v1" "$work/nothing.weft" -o "$work/nothing.st"
same "$work/nothing.st" "$v1"
python3 - "$v1" "$work/label.st" <<'PYTHON'
import sys
data = open(sys.argv[1], "rb").read()
open(sys.argv[2], "wb").write(data.replace(b'"version":"vv', b'"version":"ww', 1))
PYTHON
run label 0 "$WEFT_BIN" diff "$v1" "$work/label.st" -o "$work/label.weft" --json
json label "lines[0]['changed'] == 0"
run apply_label 0 "$WEFT_BIN" apply "$v1" "$work/label.weft" -o "$work/label.out.st"
same "$work/label.out.st" "$work/label.st"

# ---- merged
run next 0 "$WEFT_BIN" diff "$v1" "$v2" -o "$work/next.weft" --level fast --first-version 1
run merge 0 "$WEFT_BIN" merge "$work/tight.weft" "$work/next.weft" -o "$work/merged.weft" --base "$v0" --json
json merge "lines[0]['base'] == 0 and lines[0]['target'] == 2"
run apply_merged 0 "$WEFT_BIN" apply "$v0" "$work/merged.weft" -o "$work/merged.st"
same "$work/merged.st" "$v2"
run back 0 "$WEFT_BIN" diff "$v1" "$v0" -o "$work/back.weft"
run there_and_back 0 "$WEFT_BIN" merge "$work/tight.weft" "$work/back.weft" -o "$work/round.weft" --base "$v0" --json
json there_and_back "lines[0]['changed'] == 0"
run merge_wrong 2 "$WEFT_BIN" merge "$work/next.weft" "$work/tight.weft" -o "$work/no.weft" --base "$v1" --json
json merge_wrong "lines[0]['error']['status'] == 'argument'"
run late 0 "$WEFT_BIN" diff "$v0" "$v1" -o "$work/late.weft" --level fast --first-version 5
for base in "" "--base $v0"; do
    # shellcheck disable=SC2086
    run merge_back 2 "$WEFT_BIN" merge "$work/late.weft" "$work/next.weft" -o "$work/no.weft" $base
    says merge_back 'starts from version 5, the last ends at version 2: numbers must grow'
done
run merge_base 3 "$WEFT_BIN" merge "$work/tight.weft" "$work/next.weft" -o "$work/no.weft" --base "$v1"
absent "$work/no.weft"

# ---- merged without the base: updates of level fast, by their own bytes
run no_base 2 "$WEFT_BIN" merge "$work/tight.weft" "$work/next.weft" -o "$work/no.weft"
says no_base 'level tight, which says nothing without the base; give the base'
run no_tight 2 "$WEFT_BIN" merge "$work/fast.weft" "$work/next.weft" -o "$work/no.weft" --level tight
run no_mixture 2 "$WEFT_BIN" merge "$work/pairs.weft" "$work/next.weft" -o "$work/no.weft" --json
json no_mixture "'give the base' in lines[0]['error']['text']"
absent "$work/no.weft"
run free 0 "$WEFT_BIN" merge "$work/fast.weft" "$work/next.weft" -o "$work/free.weft" --json
json free "lines[0]['base'] == 0 and lines[0]['target'] == 2 and lines[0]['level'] == 'fast'"
run direct 0 "$WEFT_BIN" diff "$v0" "$v2" -o "$work/direct.weft" --level fast --json
json free "lines[0]['changed'] == $(sed -E 's/.*"changed": ?([0-9]+).*/\1/' "$work/direct.out")"
run apply_free 0 "$WEFT_BIN" apply "$v0" "$work/free.weft" -o "$work/free.st"
same "$work/free.st" "$v2"
run third 0 "$WEFT_BIN" diff "$v2" "$v1" -o "$work/third.weft" --level fast --first-version 2
run long 0 "$WEFT_BIN" merge "$work/fast.weft" "$work/next.weft" "$work/third.weft" -o "$work/long.weft" --json
json long "lines[0]['target'] == 3"
run apply_long 0 "$WEFT_BIN" apply "$v0" "$work/long.weft" -o "$work/long.st"
same "$work/long.st" "$v1"
run free_full 0 "$WEFT_BIN" merge "$work/full.weft" "$work/next.weft" -o "$work/free_full.weft"
run apply_free_full 0 "$WEFT_BIN" apply "$v0" "$work/free_full.weft" -o "$work/free_full.st"
same "$work/free_full.st" "$v2"

# ---- wrong bases and wrong use
run wrong_base 3 "$WEFT_BIN" apply "$v1" "$work/tight.weft" -o "$work/no.st" --json
json wrong_base "lines[0]['error']['status'] == 'base'"
absent "$work/no.st"
python3 "$support/models.py" "$work/m" 0 1 100 && mv "$v0" "$work/other.st" && models "$work/m" 3
run other_model 2 "$WEFT_BIN" diff "$v0" "$work/other.st" -o "$work/no.weft"
says other_model "other.st: 'model.embed.weight' is \[100,512\] in it and \[700,512\] in the base: name one shape at both ends"
run other_base 2 "$WEFT_BIN" apply "$work/other.st" "$work/tight.weft" -o "$work/no.st"
run other_inspect 2 "$WEFT_BIN" inspect "$work/tight.weft" --model "$work/other.st"
run wrong_inspect 3 "$WEFT_BIN" inspect "$work/tight.weft" --model "$v1"
says wrong_inspect 'the update starts from'
run no_level 2 "$WEFT_BIN" diff "$v0" "$v1" -o "$work/no.weft" --level thick
run no_output 2 "$WEFT_BIN" diff "$v0" "$v1"
run no_word 2 "$WEFT_BIN" apply "$v0" -o "$work/no.st"
run no_file 2 "$WEFT_BIN" apply "$v0" "$work/none.weft" -o "$work/no.st"
run no_folder 2 "$WEFT_BIN" diff "$v0" "$v1" -o "$work/none/no.weft"
mkfifo "$work/pipe" && ln -s "$v0" "$work/link"
for output in pipe link; do
    run no_place 2 "$WEFT_BIN" diff "$v0" "$v1" -o "$work/$output"
    says no_place "is a .*$output"
    run no_place 2 "$WEFT_BIN" apply "$v0" "$work/tight.weft" -o "$work/$output"
done
printf -v long '%0300d' 7
run no_place 2 "$WEFT_BIN" apply "$v0" "$work/tight.weft" -o "$work/$long"
says no_place "$long: cannot be created: File name too long"
run no_place 2 "$WEFT_BIN" apply "$v0" "$work/tight.weft" -o "$v0/no.st"
says no_place "no.st: cannot be created in $v0: Not a directory"
[ -p "$work/pipe" ] && [ -L "$work/link" ] || fail "an output took the place of what is no file"
run no_update 2 "$WEFT_BIN" inspect "$v0"
says no_update 'no update file'
absent "$work/no.weft"
absent "$work/no.st"
if [ -n "${WEFT_FULL:-}" ]; then # a header of 60 MB
    python3 - "$work/many.st" <<'PYTHON'
import struct, sys
tensor = '"t%x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
header = ("{" + ",".join(tensor % i for i in range(2**20 + 1)) + "}").encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(header)) + header)
PYTHON
    run many_tensors 2 "$WEFT_BIN" diff "$work/many.st" "$work/many.st" -o "$work/no.weft"
    says many_tensors 'many.st: an update file holds at most 1048576 tensors, the layout has 1048577'
    absent "$work/no.weft"
fi

# ---- names are anybody's: what steers a terminal is not printed
for step in 0 1; do
    python3 - "$work/steer$step.st" "$step" <<'PYTHON'
import json, struct, sys
header = json.dumps({"a\u001b[2Jb": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}}).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(header)) + header + bytes([int(sys.argv[2])] * 9))
PYTHON
done
run steer_diff 0 "$WEFT_BIN" diff "$work/steer0.st" "$work/steer1.st" -o "$work/steer.weft"
run steer_inspect 0 "$WEFT_BIN" inspect "$work/steer.weft" --model "$work/steer0.st"
grep -q 'a?\[2Jb' "$work/steer_inspect.out" || fail "the name is not told"
! grep -q $'\033' "$work/steer_inspect.out" || fail "the name steers the terminal"

# So are paths: ESC, and CSI as one character of UTF-8.
steer=$work/$(printf 'e\033[2Jc\302\2332J')
for step in 0 1; do
    cp "$work/steer$step.st" "$steer.$step"
done
run path_diff 0 "$WEFT_BIN" diff "$steer.0" "$steer.1" -o "$steer.weft"
run path_digest 0 "$WEFT_BIN" digest "$steer.0"
run path_inspect 0 "$WEFT_BIN" inspect "$steer.weft"
run path_apply 0 "$WEFT_BIN" apply "$steer.0" "$steer.weft" -o "$steer.new"
run path_none 2 "$WEFT_BIN" digest "$steer.none"
for name in diff digest inspect apply none; do
    says path_$name '/e \[2Jc  2J\.'
    ! grep -q $'\033\|\302\233' "$work/path_$name".{out,err} || fail "the path steers the terminal: $name"
done

# ---- damaged files
damage() # damage NAME PYTHON: applies the expression over `data`; the result must be refused and leave nothing
{
    python3 - "$work/tight.weft" "$work/damaged.weft" "$2" <<'PYTHON'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
exec(sys.argv[3])
open(sys.argv[2], "wb").write(data)
PYTHON
    local code=0
    bounded "$WEFT_BIN" apply "$v0" "$work/damaged.weft" -o "$work/no.st" >"$work/$1.out" 2>"$work/$1.err" || code=$?
    case $code in 1 | 2 | 3) ;; *) fail "$1: exit code $code" ;; esac
    [ -s "$work/$1.err" ] || fail "$1: nothing was said"
    absent "$work/no.st"
}
for at in 0 9 63 111 127 140 300 2000 $((one / 2)) $((one - 1500)) $((one - 200)) $((one - 140)) $((one - 130)) $((one - 90)); do
    damage "flip_$at" "data[$at] ^= 0x10"
    damage "cut_$at" "del data[$at:]"
done
damage longer "data += b'1234'"

# one bit of the header is damage of a file, and named as such; a newer file is no input for this weft
for at in 4 8 12 20 60 108 109 110 120; do
    damage "header_$at" "data[$at] ^= 2"
    run "header_$at" 3 "$WEFT_BIN" inspect "$work/damaged.weft" --json
    says "header_$at" '^weft: .*damaged.weft: '
    json "header_$at" "lines[0]['error']['status'] in ('check', 'corrupt')"
done
damage newer "data[4] = data[-124] = 2"
run newer 2 "$WEFT_BIN" inspect "$work/damaged.weft" --json
says newer '^weft: .*damaged.weft: of protocol 2, this weft knows only 1'
json newer "lines[0]['error']['status'] == 'protocol'"

# which of several is damaged is told, where people look and where programs do
damage frame "data[300] ^= 1"
run merge_damaged 3 "$WEFT_BIN" merge "$work/damaged.weft" "$work/next.weft" -o "$work/no.weft" --base "$v0" --json
grep -q 'damaged.weft: frame' "$work/merge_damaged.err" || fail "the damaged update is not named"
json merge_damaged "'damaged.weft: frame' in lines[0]['error']['text']"
run inspect_damaged 3 "$WEFT_BIN" inspect "$work/damaged.weft" --json
json inspect_damaged "lines[0]['error']['text'].count('damaged.weft') == 1"
run pipe_update 2 "$WEFT_BIN" apply "$v0" "$work/pipe" -o "$work/no.st"
says pipe_update "pipe: not a regular file"
absent "$work/no.weft"

# ---- a disk that is full: nothing is left but what stood there
full() # full NAME BLOCKS OUTPUT COMMAND...
{
    local name=$1 blocks=$2 output=$3
    shift 3
    echo old >"$output"
    # shellcheck disable=SC2016
    run "$name" 1 bash -c 'ulimit -f "$0" && exec "$@"' "$blocks" "$@"
    says "$name" 'File too large'
    [ "$(cat "$output")" = old ] || fail "$name: $output was touched"
    rm "$output"
    absent "$output"
}
full full_diff 4 "$work/no.weft" "$WEFT_BIN" diff "$v0" "$v1" -o "$work/no.weft"
full full_apply 100 "$work/no.st" "$WEFT_BIN" apply "$v0" "$work/tight.weft" -o "$work/no.st"

# an output that cannot even be begun there is no wrong use: no file more, or none with anything in it
mkdir "$work/disk"
python3 "$support/shards.py" "$v0" "$work/shards" 3 || fail "no shards"
# shellcheck disable=SC2016
disk='mount -t tmpfs -o "$1" tmpfs "$0" && cd "$0" && { head -c 4096 /dev/zero >full; shift; exec "$@"; }'
if unshare -rm bash -c "$disk" "$work/disk" size=4k true 2>/dev/null; then
    run shards 0 "$WEFT_BIN" diff "$work/shards" "$work/shards" -o "$work/shards.weft"
    for room in nr_inodes=1 size=4k; do
        for verb in "diff $v0 $v1" "merge $work/fast.weft $work/next.weft" "apply $v0 $work/tight.weft" \
            "apply $work/shards $work/shards.weft"; do
            # shellcheck disable=SC2086
            run begun 1 unshare -rm bash -c "$disk" "$work/disk" $room "$WEFT_BIN" $verb -o not
            says begun '^weft: not: .*: No space left on device'
        done
    done
else
    echo "not run: outputs on a disk that is full from the start (may not mount)"
fi

# ---- paths that are no UTF-8: a byte that is none becomes U+FFFD in JSON, which stays whole
odd=$(printf '%s/\377\303\251\342\202' "$work")
cp "$v0" "$odd.0" && cp "$v1" "$odd.1" || fail "this file system takes only UTF-8"
run odd_digest 0 "$WEFT_BIN" digest "$odd.0" --json
json odd_digest "lines[0]['model'].endswith('/\\ufffd\\u00e9\\ufffd\\ufffd.0')"
run odd_diff 0 "$WEFT_BIN" diff "$odd.0" "$odd.1" -o "$odd.weft" --json
json odd_diff "lines[0]['file'].endswith('\\ufffd.weft')"
run odd_apply 0 "$WEFT_BIN" apply "$odd.0" "$odd.weft" -o "$odd.st" --json
json odd_apply "lines[0]['file'].endswith('\\ufffd.st')"
run odd_merge 0 "$WEFT_BIN" merge "$work/tight.weft" "$work/next.weft" -o "$odd.all" --base "$v0" --json
json odd_merge "lines[0]['file'].endswith('\\ufffd.all')"
run odd_error 2 "$WEFT_BIN" digest "$odd.none" --json
json odd_error "'\\ufffd.none: cannot be opened' in lines[0]['error']['text']"
# ---- a signal in the middle
models "$work/big" 1 2 40000
start stopped "$WEFT_BIN" diff "$work/big/v0.safetensors" "$work/big/v1.safetensors" -o "$work/no.weft" --threads 1
sleep 0.3
interrupt stopped
code=0
wait "${started[stopped]}" || code=$?
unset "started[stopped]"
case $code in
0) [ -s "$work/no.weft" ] && rm "$work/no.weft" ;;
1) absent "$work/no.weft" ;;
130) absent "$work/no.weft" ;; # before it had begun
*) fail "stopped: exit code $code" ;;
esac
echo "diff, apply, inspect, merge, digest: ok"
