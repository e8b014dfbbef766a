#!/usr/bin/env bash
# bench/resume.sh WEFT BACK BASE VERSION... - B1: a trainer with a store publishes checkpoints, is killed, and comes back
# BACK versions earlier, with three live rollouts. Prints for each the bytes that lead it back, of the updates of these
# versions, and the time that its weights were away. WEFT is the command.
set -euo pipefail
[ $# -ge 4 ] || { echo "usage: bench/resume.sh WEFT BACK BASE VERSION..." >&2 && exit 2; }
weft=$1 back=$2
shift 2
models=("$@")
last=$((${#models[@]} - 1)) first=$((${#models[@]} - 1 - back))
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$work"' EXIT

printf '[trainer]\nlisten = 127.0.0.1:17341\nstore = %s\n[peers]\nprovider = tcp\nheartbeat = 60s\n' "$work/store" \
    >"$work/site.ini"
printf '[peer.%s]\n' a b c >>"$work/site.ini"
mkdir "$work/in"

trainer() # trainer NAME VERSION
{
    "$weft" trainer "$work/site.ini" --model "${models[$2]}" --first-version "$2" --follow "$work/in" --json \
        >"$work/$1.out" 2>"$work/$1.err" &
}

told() # told NAME TARGET [BASE]
{
    until grep -q "${3:+\"base\":$3,}\"target\":$2," "$work/$1.out"; do sleep 0.05; done
}

for name in a b c; do
    "$weft" rollout "$work/site.ini" --peer $name --model "${models[0]}" --json >"$work/$name.out" 2>"$work/$name.err" &
done
trainer one 0
killed=$!
until "$weft" log "$work/store" >"$work/log" 2>/dev/null && grep -q anchor "$work/log"; do sleep 0.05; done
for ((v = 1; v <= last; v++)); do
    cp "${models[v]}" "$work/part" && mv "$work/part" "$work/in/$(basename "${models[v]}")"
    told one $v
    for name in a b c; do told $name $v; done
done
until "$weft" log "$work/store" --json | grep -q "\"version\":$last,"; do sleep 0.05; done
kill -KILL $killed
rm "$work"/in/*
trainer two $first
for name in a b c; do told $name $first $last; done
python3 - "$work" $first $last <<'PYTHON'
import json, sys
work, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rows = lambda name: [json.loads(line) for line in open(f"{work}/{name}.out")]
whole = sum(row["bytes"] for row in rows("one") if "file" in row and row["target"] > first)
for name in "abc":
    row = next(row for row in rows(name) if row.get("target") == first and row.get("base") == last)
    print(json.dumps({"peer": name, "level": row["level"], "bytes": row["bytes"], "updates": whole,
                      "ratio": round(row["bytes"] / whole, 3), "commit_ms": row["commit_ms"]}))
PYTHON
