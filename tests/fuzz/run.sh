#!/usr/bin/env bash
# tests/fuzz/run.sh [SECONDS] [TARGET...] - builds the fuzz targets with clang into build-fuzz and runs each for so long
# (60 s if not said), as many at once as there are cores, from the corpus of this folder on. What it learns stays in
# build-fuzz/corpus, what it finds lies in build-fuzz/finds. Prints executions and finds for each; exits with 1 if there
# are any finds.
# WEFT_FUZZ_KEEP=1 adds what was learnt to the corpus of this folder, minimised. The corpus of a target is one archive:
# `ar x` unpacks it, `ar rcSD tests/fuzz/corpus/NAME.ar FILE` adds an input, whose name has at most 15 bytes.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../tools/setup.sh"
cd "$WEFT_ROOT"

seconds=${1:-60}
[[ "$seconds" =~ ^[1-9][0-9]*$ ]] || weft_stop 2 "usage: tests/fuzz/run.sh [SECONDS] [TARGET...]"
shift $(($# > 0))
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
    for source in tests/fuzz/fuzz_*.c; do
        name=${source##*/fuzz_}
        targets+=("${name%.c}")
    done
fi
build="build-fuzz"
found=0
running=0

# The corpus as files, which is what libFuzzer reads.
unpack() # unpack NAME FOLDER
{
    local archive=$PWD/tests/fuzz/corpus/$1.ar
    rm -rf "$2"
    mkdir -p "$2"
    [ ! -e "$archive" ] || (cd "$2" && ar x "$archive")
}

# Runs one target and prints its line; the log says more. Fails when something was found.
fuzz() # fuzz NAME
{
    local name=$1 log=$build/fuzz_$1.log executions finds result=0
    local learnt=$build/corpus/$name kept=$build/kept/$name
    mkdir -p "$learnt" "$build/finds/$name"
    unpack "$name" "$kept"
    "$build/fuzz_$name" -max_total_time="$seconds" -max_len=4096 -rss_limit_mb=3000 -timeout=20 -print_final_stats=1 \
        -detect_leaks=0 \
        -artifact_prefix="$build/finds/$name/" "$learnt" "$kept" >"$log" 2>&1 || true
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    finds=$(find "$build/finds/$name" -type f | wc -l)
    printf '%-10s %12s executions in %4d s, %d finds\n' "$name" "${executions:-no}" "$seconds" "$finds"
    if [ -z "$executions" ] || [ "$finds" != 0 ]; then
        tail -n 40 "$log" >&2
        result=1
    fi
    [ -z "${WEFT_FUZZ_KEEP:-}" ] || keep "$name" "$learnt" "$kept"
    return $result
}

# Merges what was learnt into the corpus: the least set of inputs with the same coverage.
keep() # keep NAME LEARNT KEPT
{
    local archive=$PWD/tests/fuzz/corpus/$1.ar merged input
    merged=$(mktemp -d)
    "$build/fuzz_$1" -merge=1 "$merged" "$3" "$2" >>"$build/fuzz_$1.log" 2>&1
    for input in "$merged"/*; do # names are hashes
        mv -f "$input" "$(cut -c -$((${#merged} + 16)) <<<"$input")"
    done
    rm -f "$archive"
    (cd "$merged" && ar rcSD "$archive" -- *)
    rm -rf "$merged"
}

finish() # the next target to end
{
    wait -n || found=1
    running=$((running - 1))
}

weft_need build test ci
WEFT_TARGETS=${targets[*]/#/fuzz_} weft_build fuzz fuzz
trap 'kill 0' INT # what runs in the background does not hear the keyboard
for name in "${targets[@]}"; do
    [ $running -lt "$WEFT_JOBS" ] || finish
    fuzz "$name" &
    running=$((running + 1))
done
while [ $running -gt 0 ]; do
    finish
done
exit $found
