# Sourced by the tests of the command: a scratch directory, processes that end with the test, bounded waits.
# WEFT_BIN is the command; nothing is written outside of $work.
# shellcheck shell=bash disable=SC2034
set -uo pipefail
export LC_ALL=C
[ -x "${WEFT_BIN:-}" ] || { echo "WEFT_BIN is not set to the command weft" && exit 1; }
command -v python3 >/dev/null || { echo "skipped: python3 is missing (Debian: python3)" && exit 77; }
# The interpreter itself: python3 may be a script that looks for it, which takes longer than what is asked here.
PATH=$(dirname "$(python3 -c 'import sys; print(sys.executable)')"):$PATH
weft=$WEFT_BIN
support=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_dir=$(cd "$support/../.." && pwd)
work=$(mktemp -d)
bound=${WEFT_TEST_BOUND:-240} # seconds that any one process, or a wait for one, may take
declare -A started=()

cleanup()
{
    for name in "${!started[@]}"; do
        kill -TERM "${started[$name]}" 2>/dev/null
    done
    wait
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM HUP

fail() # fail TEXT...: shows what the processes said
{
    echo "FAIL: $*"
    for log in "$work"/*.err "$work"/*.out; do
        [ -s "$log" ] && echo "--- $(basename "$log")" && tail -n 15 "$log"
    done
    exit 1
}

# bounded COMMAND...: a process that gets SIGTERM after $bound seconds, and SIGKILL when that does not help.
bounded()
{
    timeout -k 10 "$bound" "$@"
}

# run NAME WANTED_CODE COMMAND...: in the foreground; output in $work/NAME.out and .err
run()
{
    local name=$1 want=$2 code=0
    shift 2
    bounded "$@" >"$work/$name.out" 2>"$work/$name.err" </dev/null || code=$?
    [ "$code" = "$want" ] || fail "$name: exit code $code, wanted $want: $*"
}

# start NAME COMMAND...: in the background, output as with run
start()
{
    local name=$1
    shift
    # Here, because the shell in the background does so later: nobody may read what another of this name wrote.
    rm -f "$work/$name.pid"
    : >"$work/$name.out" 2>"$work/$name.err"
    # shellcheck disable=SC2016
    timeout -k 10 "$bound" bash -c 'echo $$ >"$0"; exec "$@"' "$work/$name.pid" "$@" \
        >"$work/$name.out" 2>"$work/$name.err" </dev/null &
    started[$name]=$!
}

# interrupt NAME [SIGNAL]: to the process itself
interrupt()
{
    await test -s "$work/$1.pid"
    kill "-${2:-INT}" "$(cat "$work/$1.pid")"
}

# processes TEXT: the process numbers of those whose command line holds TEXT; fails if there are none
processes()
{
    local found=1 line
    for line in /proc/[0-9]*/cmdline; do
        if { tr '\0' ' ' <"$line"; } 2>/dev/null | grep -qF -- "$1"; then
            line=${line#/proc/}
            [ "${line%/cmdline}" = $$ ] || { echo "${line%/cmdline}" && found=0; }
        fi
    done
    return "$found"
}

# finish NAME WANTED_CODE: waits for what was started
finish()
{
    local code=0
    wait "${started[$1]}" || code=$?
    unset "started[$1]"
    [ "$code" = "$2" ] || fail "$1: exit code $code, wanted $2"
}

# stop NAME...: interrupts what was started, one after the other, and each ends well
stop()
{
    local name
    for name in "$@"; do
        interrupt "$name"
        finish "$name" 0
    done
}

# await COMMAND...: until the command succeeds
await()
{
    local end=$((SECONDS + bound))
    until "$@" 2>/dev/null; do
        [ $SECONDS -lt $end ] || fail "waited in vain for: $*"
        sleep 0.1
    done
}

said() # said NAME TEXT: the process wrote TEXT (a grep -E pattern) to either output
{
    grep -qE -e "$2" "$work/$1.out" "$work/$1.err"
}

says() # as said, or the test fails
{
    said "$1" "$2" || fail "$1 did not say '$2'"
}

same() # same A B: equal bytes
{
    cmp "$1" "$2" || fail "$1 differs from $2"
}

absent() # absent PATH: neither it nor a temporary beside it
{
    local left
    left=$(find "$(dirname "$1")" -mindepth 1 \( -name "*$(basename "$1")*" -o -name 'weft-*.tmp' \) -print -quit)
    [ -z "$left" ] || fail "$left was left behind"
}

# json NAME EXPRESSION: python expression over `lines`, the objects that the process printed
json()
{
    python3 - "$work/$1.out" "$2" <<'PYTHON' || fail "$1: not true of its JSON: $2"
import json, sys
with open(sys.argv[1]) as file:
    lines = [json.loads(line) for line in file]
sys.exit(0 if eval(sys.argv[2], {"lines": lines}) else 1)
PYTHON
}

free_ports() # free_ports COUNT: the first of so many in a row
{
    python3 -c 'import os, socket, sys
port = 10240 + os.getpid() * 16 % 20000
while True:
    try:
        for at in range(int(sys.argv[1])):
            socket.socket().bind(("127.0.0.1", port + at))
        break
    except OSError:
        port += at + 1
print(port)' "$1"
}
free_port() # below those that the system gives to anybody, for it is free until somebody listens on it
{
    free_ports 1
}

# site FILE PEER...: a site on loopback with a free port, and deadlines that no busy machine misses; sets $port
site()
{
    local file=$1
    shift
    port=$(free_port)
    {
        printf '[trainer]\nlisten = 127.0.0.1:%s\njournal = 32MiB\njoin_deadline = 60s\n' "$port"
        printf '[session]\nconnect_deadline = 60s\nclose_deadline = 2s\n'
        printf '[peers]\nprovider = tcp\nstaging = 32MiB\nheartbeat = 60s\n'
        printf '[peer.%s]\n' "$@"
    } >"$file"
}

# fabric_is_here NAME: whether the provider can be had; tcp must be, in a build with libfabric (WEFT_FABRIC=1)
fabric_is_here()
{
    local list answer
    list=$("$WEFT_BIN" info --json) || fail "weft info"
    answer=$(python3 -c 'import json, sys
print(any(p["provider"] == sys.argv[1] and p["usable"] for p in json.loads(sys.argv[2])["providers"]))' "$1" "$list") ||
        fail "what weft info says is not understood"
    [ "$answer" = True ] && return 0
    [ "$1" != tcp ] || [ "${WEFT_FABRIC:-0}" = 0 ] || fail "the provider tcp cannot be had, in a build with libfabric"
    return 1
}

# fabric NAME: skips the test where the provider cannot be had
fabric()
{
    fabric_is_here "$1" || { echo "skipped: the provider $1 cannot be had here" && exit 77; }
}

compiler() # skips the test where there is none for its shim
{
    command -v "${WEFT_CC:-cc}" >/dev/null || { echo "skipped: no C compiler" && exit 77; }
}

models() # models DIR COUNT [SEED]: v0.safetensors to vCOUNT.safetensors
{
    mkdir -p "$1"
    python3 "$support/models.py" "$@" || fail "no models"
}

# appear VERSION [NAME [FOLDER]]: that version of $work/m, whole at once, where a trainer follows; vVERSION in $work/in
appear()
{
    local to=${3:-$work/in}/${2:-v$1}.safetensors
    cp "$work/m/v$1.safetensors" "${to%/*}/part" && mv "${to%/*}/part" "$to" || fail "$to did not appear"
}

sharded() # sharded DIR VERSION...: models of it in three files each, $work/sVERSION
{
    local v
    for v in "${@:2}"; do
        python3 "$support/shards.py" "$1/v$v.safetensors" "$work/s$v" 3 || fail "no shards"
    done
}

# sharded_models: a model in $work/m, versions $work/v1.safetensors to v4, the first as $v0, the last as $last
sharded_models()
{
    local tool=$support/shard_models.py v
    python3 "$tool" make "$work/m" || fail "no model"
    v0=$work/m/model.safetensors
    last=$v0
    for v in 1 2 3 4; do
        python3 "$tool" step "$last" "$work/v$v.safetensors" $v || fail "no version $v"
        last=$work/v$v.safetensors
    done
}
