#!/usr/bin/env bash
# weft demo: its figures agree with one another, its proof is there, and nothing outlives it, also when it fails.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
export TMPDIR=$work/tmp
mkdir "$TMPDIR"

# None of the demo's processes runs: each has its directory in its arguments or is a child of the demo.
nothing_left()
{
    [ -z "$(ls -A "$TMPDIR")" ] || fail "the demo left in TMPDIR: $(ls -A "$TMPDIR")"
    processes "$TMPDIR/weft-demo-" && fail "a process of the demo is left"
    return 0
}

run demo 0 "$weft" demo --peers 3 --params 1.5M --updates 4 --json
json demo "len(lines) == 1 and lines[0]['identical'] is True"
json demo "lines[0]['updates'] == 4 and lines[0]['peers'] == 3 and len(lines[0]['rollouts']) == 3"
json demo "lines[0]['dense_bytes'] == 4 * 3 * lines[0]['model_bytes'] and 1e6 < lines[0]['elements'] < 2e6"
json demo "abs(lines[0]['times_less'] - lines[0]['dense_bytes'] / lines[0]['bytes_sent']) < 0.01 * lines[0]['times_less']"
json demo "0.02 < lines[0]['changed'] / (4 * lines[0]['elements']) < 0.04 and 0 < lines[0]['bits_per_change'] < 64"
json demo "lines[0]['snapshot_bytes'] == 0 and 0 < lines[0]['seconds'] < 90"
json demo "all(r['held'] == 4 and r['digest'] == lines[0]['digest'] for r in lines[0]['rollouts'])"
nothing_left

echo "of its own size peers have buckets of several sizes"
for attempt in 1 2 3; do # a busy machine may make all links alike
    run size 0 "$weft" demo
    sizes=$(awk '$3 > 1 && ($1 == "near" || $1 == "mid" || $1 == "far") {print $3, $9, $10}' "$work/size.out" | sort -u | cut -d' ' -f1 | sort | uniq -d)
    [ -z "$sizes" ] || break
done
[ -n "$sizes" ] || fail "in $attempt runs each version found all peers with one size of bucket"
nothing_left

run lines 0 "$weft" demo --peers 1 --params 200K --updates 2 --changed 0.5
says lines "^identical: 1 rollouts"
says lines "^version 2/2: 0\.[0-9]+ % changed"
grep -q $'\033' "$work/lines.out" && fail "cursor movement without a terminal"
nothing_left

run keep 0 "$weft" demo --peers 2 --params 200K --updates 1 --keep "$work/kept"
cmp "$work/kept/trainer.safetensors" "$work"/kept/mid.safetensors || fail "kept models differ"
cmp -s "$work/kept/trainer.safetensors" "$work/kept/v0.safetensors" && fail "the update changed nothing"
run full 2 "$weft" demo --keep "$work/kept"
run provider 2 "$weft" demo --provider carrier-pigeon
nothing_left

# Another backend for each rollout, without a device; cli_device_weights.sh has some.
run mixed 0 env CUDA_VISIBLE_DEVICES=-1 HIP_VISIBLE_DEVICES=-1 "$weft" demo --mixed --peers 4 --params 200K --updates 2 --json
json mixed "lines[0]['identical'] is True and all(r['backend'].startswith('host/') for r in lines[0]['rollouts'])"
says mixed 'mixed: near on host/[a-z0-9]+, mid on host/[a-z0-9]+, .*no device is here, so kernel sets of the host stand in'
"$weft" info | grep -qE 'host .*(avx512|avx2); ' &&
    json mixed "len({r['backend'] for r in lines[0]['rollouts']}) > 1"
run both 2 "$weft" demo --mixed --sources 2
nothing_left

# Several trainers, and an engine of several ranks.
run shards 0 "$weft" demo --sources 3 --ranks 4 --params 400K --updates 3 --json
json shards "len(lines) == 1 and lines[0]['identical'] is True and lines[0]['sources'] == 3 and lines[0]['ranks'] == 4"
json shards "abs(lines[0]['times_less'] - lines[0]['dense_bytes'] / lines[0]['bytes_sent']) < 0.2 < lines[0]['times_less']"
nothing_left
run wide 0 "$weft" demo --ranks 2 --params 200K --updates 1 --set peers.level=tight --keep "$work/wide"
says wide '^identical: 2 ranks hold their slices of what 2 sources published, after 1 updates'
run join 0 "$weft" shard "$work/wide/last" --join -o "$work/whole.safetensors"
cmp "$work/whole.safetensors" "$work/wide/in/v1.safetensors" || fail "the ranks' parts are not the model"
cmp "$work/wide/rank1.safetensors" "$work/wide/last/rank-1-of-2.safetensors" || fail "kept slices differ"
run uneven 2 "$weft" demo --sources 2 --ranks 3 --params 200K
says uneven '3 equal parts do not fit'
run both 2 "$weft" demo --sources 2 --peers 2
run many 2 "$weft" demo --sources 17
start torn "$weft" demo --sources 2 --ranks 2 --params 200K --updates 100000
await said torn "version 2/"
kill -KILL "$(processes "--peer rank1 ")"
finish torn 1
says torn "rank1|source"
nothing_left

# A rollout that dies ends the demo with its name; so do an interrupt and the timeout.
start killed "$weft" demo --peers 2 --params 200K --updates 100000
await said killed "version 2/"
kill -KILL "$(processes "site.ini --peer near --model $TMPDIR/")"
finish killed 1
says killed "near|trainer"
nothing_left

start interrupted "$weft" demo --peers 2 --params 200K --updates 100000
await said interrupted "version 2/"
interrupt interrupted
finish interrupted 1
nothing_left

run timeout 1 "$weft" demo --peers 1 --params 200K --updates 1000000 --timeout 3 --json
json timeout "lines[-1]['error']['status'] == 'timeout'"
nothing_left
echo "the demo proves its rollouts and leaves nothing behind"
