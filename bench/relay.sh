#!/usr/bin/env bash
# Eight peers in two sites, direct and relayed, over loopback with rate_limit for the links: each site is reached at
# 100 Mbit/s, which four direct peers share, and has 1 Gbit/s inside. Prints the trainer's bytes for one update, also as
# a multiple of it, and the seconds until all eight hold it. WEFT_BUILD is a Release build; ROUNDS as the first argument (5).
set -euo pipefail
build=${WEFT_BUILD:?a Release build with bench_updates}
rounds=${1:-5}
site=() relayed=() direct=()
port()
{
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
for i in 1 2 3 4 5 6 7 8; do
    site+=(--peer p$i)
    direct+=(--set peer.p$i.rate_limit=25Mbit/s)
    case $i in
    1 | 5) relayed+=(--set peer.p$i.relay=127.0.0.1:"$(port)" --set peer.p$i.rate_limit=100Mbit/s) ;;
    *) relayed+=(--set peer.p$i.via=p$((i < 5 ? 1 : 5)) --set peer.p$i.rate_limit=1000Mbit/s) ;;
    esac
done
for way in direct relayed; do
    declare -n sets=$way
    "$build/bench_updates" "${site[@]}" --mib 64 --rounds "$rounds" --set peers.level=fast "${sets[@]}" |
        python3 -c '
import json, statistics, sys
rows = [json.loads(line) for line in sys.stdin if line.startswith("{")]
rows = [row for row in rows if row["what"] == "update"]
wire = statistics.median(row["sent_bytes"] for row in rows)
ms = statistics.median(max(peer["held_ms"] for peer in row["peers"]) for row in rows)
one = statistics.median(row["bytes"] for row in rows)
print("| %-7s | %9.0f | %5.2f | %6.3f |" % (sys.argv[1], wire, wire / one, ms / 1e3))' $way
done
