#!/usr/bin/env bash
# Bytes and seconds against the number of peers, direct and relayed: the trainer's own wire has 100 Mbit/s, the peers
# stand in two sites whose wires are free; relayed, the first peer of each site passes on to the others of it.
. "$(dirname "$0")/common.sh"
net_rate trainer 100
peers=() via=()
for i in 1 2 3 4 5 6 7 8; do
    net_peer p$i
done
printf '[peer.a]\nrelay = 127.0.0.1:1\n[peer.b]\nvia = a\n' >/run/site.ini
relayed=yes
"$WEFT_BUILD/weft" check /run/site.ini >/dev/null 2>&1 || { relayed= && echo "this build has no keys via and relay" >&2; }

# fleet PEERS: into `peers` and `via`; half of them in each site
fleet()
{
    local i half=$(($1 / 2)) head
    peers=() via=()
    for ((i = 1; i <= $1; i++)); do
        peers+=(--peer "p$i@p$i")
        head=p$((i <= half ? 1 : half + 1))
        if [ $head = p$i ]; then
            via+=(--set "peer.p$i.relay=${net_addresses[p$i]}:7118")
        else
            via+=(--set "peer.p$i.via=$head")
        fi
    done
}

for count in ${COUNTS:-2 4 8}; do
    fleet $count
    program "direct $count" bench_updates "${peers[@]}" --mib 64 --rounds "${1:-5}" --set peers.level=fast
    [ -z "$relayed" ] || program "relayed $count" bench_updates "${peers[@]}" --mib 64 --rounds "${1:-5}" \
        --set peers.level=fast "${via[@]}"
done
tables
