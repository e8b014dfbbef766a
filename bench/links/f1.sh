#!/usr/bin/env bash
# F1 to F3: publish while one of three peers is stopped, and while its cable is pulled; how soon a killed, a stopped and
# a cut-off peer are reported lost.
. "$(dirname "$0")/common.sh"
for name in a b c; do
    net_peer $name
done
peers=(--peer a@a --peer b@b --peer c@c)
program stopped bench_publish "${peers[@]}" --rounds "${1:-9}"
program cut bench_publish "${peers[@]}" --rounds "${1:-9}" --cut "ip -n core link set port-c down" \
    --mend "ip -n core link set port-c up"
tables
