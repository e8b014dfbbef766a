#!/usr/bin/env bash
# bench/views.sh WEFT RANKS BASE VERSION... - V1: bytes that the ranks of a tensor-parallel engine get together for the
# updates between checkpoints, beside those that one rollout of the whole model gets, at levels fast and tight. WEFT is
# the command. Prints a JSON object for each level.
set -euo pipefail
[ $# -ge 4 ] || { echo "usage: bench/views.sh WEFT RANKS BASE VERSION..." >&2 && exit 2; }
weft=$1 ranks=$2 base=$3
shift 3
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$work"' EXIT

"$weft" shard "$base" --tp "$ranks" -o "$work/shares" >/dev/null
{
    printf '[trainer]\nlisten = 127.0.0.1:17331\njoin_deadline = 60s\n[peers]\nprovider = tcp\nheartbeat = 60s\n'
    for ((rank = 0; rank < ranks; rank++)); do printf '[peer.p%d]\n' $rank; done
    printf '[peer.whole]\n'
    cat "$work/shares/cuts.ini"
} >"$work/site.ini"

level() # level LEVEL: every version at that level, one after the other, so that none is merged
{
    local rank name version=0 file
    mkdir -p "$work/in"
    for ((rank = 0; rank < ranks; rank++)); do
        "$weft" rollout "$work/site.ini" --peer p$rank --view "$work/shares/rank-$rank-of-$ranks.json" \
            --model "$work/shares/rank-$rank-of-$ranks.safetensors" --json --set peers.level="$1" \
            >"$work/p$rank.out" 2>"$work/p$rank.err" &
    done
    "$weft" rollout "$work/site.ini" --peer whole --model "$base" --json >"$work/whole.out" 2>"$work/whole.err" &
    "$weft" trainer "$work/site.ini" --model "$base" --follow "$work/in" --follow-all --set peers.level="$1" \
        >"$work/trainer.out" 2>"$work/trainer.err" &
    for file in "$@"; do
        [ "$file" = "$1" ] && continue
        version=$((version + 1))
        cp "$file" "$work/part" && mv "$work/part" "$work/in/v$version.safetensors"
        for name in whole $(seq -f 'p%g' 0 $((ranks - 1))); do
            until grep -q "\"target\":$version," "$work/$name.out"; do sleep 0.1; done
        done
    done
    kill $(jobs -p) 2>/dev/null || true
    wait
    rm -rf "$work/in"
    python3 - "$1" "$ranks" "$work" <<'PYTHON'
import json, sys
level, ranks, work = sys.argv[1], int(sys.argv[2]), sys.argv[3]

def got(name):
    lines = [json.loads(line) for line in open(f"{work}/{name}.out")]
    return {line["target"]: line["bytes"] for line in lines if line["kind"] == "update" and line["changed"]}

whole, parts = got("whole"), [got(f"p{rank}") for rank in range(ranks)]
ratios = sorted(sum(part[v] for part in parts) / whole[v] for v in whole)
print(json.dumps({"level": level, "ranks": ranks, "versions": len(ratios), "whole_bytes": sum(whole.values()),
                  "ranks_bytes": sum(sum(part.values()) for part in parts), "ratio": ratios[len(ratios) // 2],
                  "worst": ratios[-1]}))
PYTHON
}
for name in fast tight; do
    level $name "$@"
done
