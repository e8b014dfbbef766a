#!/usr/bin/env bash
# Several connections a peer on a long fat wire: 1 Gbit/s, 10 ms round trip. With losses (LOSS, percent) and a congestion
# control that takes them for congestion (CONTROL=reno) a single connection does not fill it.
. "$(dirname "$0")/common.sh"
loss=${LOSS:+loss=$LOSS}
net_peer far rate=1000 delay=5 $loss
for name in trainer far; do
    [ -z "${CONTROL:-}" ] || net_in $name bash -c "echo $CONTROL >/proc/sys/net/ipv4/tcp_congestion_control"
done
printf '[peers]\nstreams = 2\n' >/run/site.ini
"$WEFT_BUILD/weft" check /run/site.ini >/dev/null 2>&1 || { echo "this build has no key streams" >&2 && exit 77; }
for streams in 1 2 4 8; do
    program "$streams" bench_updates --peer a@far --mib 256 --rounds "${1:-5}" --set peers.level=pairs \
        --set peers.streams=$streams
done
tables
