#!/usr/bin/env bash
# Provider stream against provider tcp, in turns: one peer on 1 Gbit/s, and one on a wire as fast as the machine; level
# pairs and 4 % changed (CHANGED), so that the wire decides. Frames of 1500 bytes (FRAMES).
. "$(dirname "$0")/common.sh"
frames=frames=${FRAMES:-1500}
net_peer gigabit rate=1000 "$frames"
net_peer free "$frames"
each=(--mib 64 --rounds "${1:-7}" --changed "${CHANGED:-4}" --set peers.level=pairs)
for turn in 1 2 3; do
    for provider in tcp stream; do
        for name in gigabit free; do
            program "$provider $name" bench_updates --provider $provider --peer $name@$name "${each[@]}"
        done
    done
done
python3 - "$results/$bar.jsonl" <<'PYTHON'
import json, statistics, sys
held = {}
for line in map(json.loads, open(sys.argv[1])):
    if line.get("what") == "update":
        held.setdefault(line["label"], []).append(line["peers"][0]["held_ms"])
for name in ("gigabit", "free"):
    tcp, stream = (statistics.median(held[f"{provider} {name}"]) for provider in ("tcp", "stream"))
    print(f"{name}: held after {tcp:.1f} ms by tcp, {stream:.1f} ms by stream, {stream / tcp:.3f}")
PYTHON
