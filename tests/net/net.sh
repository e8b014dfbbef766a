# Sourced first by scripts that need links of their own: a trainer and peers in network namespaces, each behind a wire
# with a rate, a delay, losses, that can be cut and mended. WEFT_BUILD is the build folder (for weft_delay).
#
#   trainer --- port-trainer [ core: a bridge ] port-a --- eth0 of peer a    (veth, its rate by tbf)
#                                               port-b === eth0 of peer b    (weft_delay: delay, loss, rate)
#
# The script runs again inside namespaces of its own (network, mount, processes): whatever ends it, nothing is left.
# Where they are not allowed it prints "skipped: why" and exits 77. The trainer is 10.77.0.1, peers count up from .11.
# shellcheck shell=bash

net_trainer=10.77.0.1
support_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/../support" && pwd)
declare -A net_addresses=() net_wires=([trainer]=veth)

net_skip() # net_skip TEXT...
{
    echo "skipped: $*"
    exit 77
}

if [ -z "${WEFT_NET_INSIDE:-}" ]; then
    for net_tool in unshare nsenter ip tc mount; do
        command -v "$net_tool" >/dev/null || net_skip "$net_tool is missing (Debian: iproute2, util-linux)"
    done
    net_fences=(--mount --net --pid --fork --kill-child --mount-proc)
    [ "$(id -u)" = 0 ] || net_fences+=(--map-root-user)
    net_trial='mount -t tmpfs none /run && ip netns add trial && ip -n trial link add trial type bridge'
    net_why=$(unshare "${net_fences[@]}" bash -c "$net_trial" 2>&1) ||
        net_skip "network namespaces are not allowed here: ${net_why##*$'\n'}"
    WEFT_NET_INSIDE=1 exec unshare "${net_fences[@]}" bash "$0" "$@"
fi
unset WEFT_NET_INSIDE
mount -t tmpfs none /run && ip link set lo up || net_skip "/run cannot be made private"

# net_in NAME COMMAND...: in the namespace of the trainer or of a peer
net_in()
{
    nsenter --net="/run/netns/$1" "${@:2}"
}

net_namespace() # net_namespace NAME
{
    ip netns add "$1" && ip -n "$1" link set lo up
}

# net_open: the bridge and the trainer, whose own wire is as fast as the machine
net_open()
{
    net_namespace core && net_namespace trainer &&
        ip -n core link add bridge type bridge && ip -n core link set bridge up &&
        net_veth trainer && ip -n trainer address add "$net_trainer/24" dev eth0 ||
        net_skip "no bridge or veth to be had"
}

net_plug() # net_plug NAME: its port into the bridge
{
    ip -n core link set "port-$1" master bridge && ip -n core link set "port-$1" up && ip -n "$1" link set eth0 up
}

net_veth() # net_veth NAME
{
    ip -n core link add "port-$1" type veth peer name eth0 netns "$1" && net_plug "$1"
}

# net_delayed NAME SETTING...: settings of weft_delay
net_delayed()
{
    local name=$1 said
    shift
    [ -c /dev/net/tun ] || net_skip "there is no /dev/net/tun"
    mkfifo "/run/$name.said"
    # no job of this shell: `wait` is for others
    ("$WEFT_BUILD/weft_delay" "core/port-$name" "$name/eth0" "$@" >"/run/$name.said" 2>&1 </dev/null &)
    read -r said <"/run/$name.said" || said=nothing
    [ "$said" = ready ] || net_skip "no delay to be had: $said"
    ip -n core link set "port-$name" txqueuelen 5000 && ip -n "$name" link set eth0 txqueuelen 5000 &&
        net_frames "$name" 9000 && net_plug "$name"
}

# net_frames NAME BYTES: large frames on a peer's wire, and at the trainer's: what a wire costs the kernel is by the frame
net_frames()
{
    ip -n core link set "port-$1" mtu "$2" && ip -n "$1" link set eth0 mtu "$2" &&
        ip -n trainer link set eth0 mtu "$2" && ip -n core link set port-trainer mtu "$2"
}

# net_peer NAME [rate=MBIT] [delay=MS] [loss=PERCENT] [frames=BYTES]: a peer and its wire; the rate of both directions in
# whole Mbit/s, the delay of one in whole or decimal milliseconds; frames of 1500 bytes, with a delay or a loss of 9000
net_peer()
{
    local name=$1 rate='' delay='' loss='' frames='' word settings=()
    for word in "${@:2}"; do
        case $word in
        rate=*) rate=${word#*=} ;;
        delay=*) delay=${word#*=} ;;
        loss=*) loss=${word#*=} ;;
        frames=*) frames=${word#*=} ;;
        *) echo "net_peer: $word?" >&2 && exit 2 ;;
        esac
    done
    net_addresses[$name]=10.77.0.$((11 + ${#net_addresses[@]}))
    net_namespace "$name" || net_skip "no namespace to be had"
    if [ -n "$delay$loss" ]; then
        net_wires[$name]=delayed
        [ -z "$delay" ] || settings+=("delay_us=$(awk "BEGIN { print int($delay * 1000) }")")
        [ -z "$loss" ] || settings+=("loss_ppm=$(awk "BEGIN { print int($loss * 10000) }")")
        [ -z "$rate" ] || settings+=("rate_kbit=$((rate * 1000))")
        net_delayed "$name" "${settings[@]}"
    else
        net_wires[$name]=veth
        net_veth "$name" || net_skip "no veth to be had"
        [ -z "$rate" ] || net_rate "$name" "$rate"
    fi
    [ -z "$frames" ] || net_frames "$name" "$frames" || net_skip "no frames of $frames bytes to be had"
    ip -n "$name" address add "${net_addresses[$name]}/24" dev eth0
    net_await "$name"
}

net_await() # net_await NAME: until the trainer answers through the bridge
{
    local tries=1200
    # shellcheck disable=SC2016
    until [[ "$(net_in "$1" bash -c 'exec 3<>"/dev/tcp/$0/9"' "$net_trainer" 2>&1)" == *refused* ]]; do
        ((tries-- > 0)) || { echo "net_peer: no way from $1 to the trainer" >&2 && exit 1; }
        sleep 0.05
    done
}

# net_rate NAME MBIT [RAIL]: (re)sets the rate of a wire without delay, the trainer's included. A burst is a millisecond,
# 20 ms may wait.
net_rate()
{
    local burst=$(($2 * 125)) port="port-$1${3:+-$3}"
    [ "${net_wires[$1]}" = veth ] || { echo "net_rate: $1 has its rate from weft_delay" >&2 && exit 2; }
    [ $burst -ge 16000 ] || burst=16000
    tc -n core qdisc replace dev "$port" root tbf rate "${2}mbit" burst $burst latency 20ms &&
        tc -n "$1" qdisc replace dev "eth${3:-0}" root tbf rate "${2}mbit" burst $burst latency 20ms ||
        net_skip "no tbf to be had"
}

# net_rail NAME NUMBER [MBIT]: one more wire between the trainer and a peer, ethNUMBER at both, in a subnet and on a
# bridge of its own; the peer's end of it has the rate. NUMBER 1..9.
net_rail()
{
    local name=$1 rail=$2 rate=${3:-}
    local host=${net_addresses[$name]##*.} wire="port-$1-$2"
    if ! ip -n core link show "bridge$rail" >/dev/null 2>&1; then
        ip -n core link add "bridge$rail" type bridge && ip -n core link set "bridge$rail" up &&
            ip -n core link add "port-trainer-$rail" type veth peer name "eth$rail" netns trainer &&
            ip -n core link set "port-trainer-$rail" master "bridge$rail" &&
            ip -n core link set "port-trainer-$rail" up && ip -n trainer link set "eth$rail" up &&
            ip -n trainer address add "10.78.$rail.1/24" dev "eth$rail" || net_skip "no further bridge to be had"
    fi
    ip -n core link add "$wire" type veth peer name "eth$rail" netns "$name" &&
        ip -n core link set "$wire" master "bridge$rail" && ip -n core link set "$wire" up &&
        ip -n "$name" link set "eth$rail" up && ip -n "$name" address add "10.78.$rail.$host/24" dev "eth$rail" ||
        net_skip "no further veth to be had"
    [ -z "$rate" ] || net_rate "$name" "$rate" "$rail"
}

# net_cut NAME [RAIL], net_mend NAME [RAIL]: takes the cable out and puts it in again
net_cut()
{
    ip -n core link set "port-$1${2:+-$2}" down
}

net_mend()
{
    ip -n core link set "port-$1${2:+-$2}" up
}

# net_received NAME [RAIL]: bytes that came by the peer's wire so far, headers of the network included
net_received()
{
    net_in "$1" awk -v wire="eth${2:-0}:" '$1 == wire { print $2 }' /proc/net/dev
}

# What follows is for tests, together with tests/support/cli.sh.

# net_site FILE PEER... [< further lines]: a site of these peers, for the trainer and all of them; sets $port
net_site()
{
    local file=$1
    shift
    port=7117
    {
        printf '[trainer]\nlisten = %s:%s\njournal = 32MiB\njoin_deadline = 60s\n[security]\nmode = open\n' \
            "$net_trainer" "$port"
        printf '[session]\nconnect_deadline = 60s\nio_deadline = 60s\n'
        printf '[peers]\nprovider = tcp\nstaging = 32MiB\nheartbeat = 60s\n'
        cat
        printf '[peer.%s]\n' "$@"
    } >"$file"
}

# net_start NAME VERB ARGUMENT...: weft VERB $work/site.ini ARGUMENT... in the namespace NAME, as `start`
net_start()
{
    start "$1" nsenter --net="/run/netns/$1" "$weft" "$2" "$work/site.ini" "${@:3}"
}
