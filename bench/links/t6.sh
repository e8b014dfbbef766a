#!/usr/bin/env bash
# T6: fixed bucket sizes beside auto, on 100 Mbit/s and 1 Gbit/s, at round trips of about 0.1 and 10 ms.
. "$(dirname "$0")/common.sh"
net_peer near100 rate=100
net_peer near1000 rate=1000
net_peer far100 rate=100 delay=5
net_peer far1000 rate=1000 delay=5
sizes=${SIZES:-64KiB 128KiB 256KiB 512KiB 1MiB 2MiB 4MiB 8MiB auto}
for link in ${LINKS:-near100 near1000 far100 far1000}; do
    for size in $sizes; do
        program "$link $size" bench_updates --peer a@$link --mib 64 --rounds "${1:-5}" --set peers.level=pairs \
            --set peers.bucket_max=16MiB --set peers.bucket="$size"
    done
done
tables
