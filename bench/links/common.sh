# Sourced by the measurements over links: namespaces, programs whose JSON lines are kept, and the table at the end.
#   WEFT_BUILD    the build folder (build-release)
#   WEFT_RESULTS  the folder that gets BAR.jsonl ($WEFT_BUILD/results)
#   WEFT_APPEND   set: adds to BAR.jsonl, so that a long bar can be run in parts
# shellcheck shell=bash disable=SC2034
set -euo pipefail
links=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export WEFT_BUILD=${WEFT_BUILD:-$links/../../build-release}
[ -x "$WEFT_BUILD/bench_updates" ] || { echo "build first: cmake --preset release && cmake --build build-release" >&2 && exit 2; }
# shellcheck source=tests/net/net.sh
. "$links/../../tests/net/net.sh"
results=${WEFT_RESULTS:-$WEFT_BUILD/results}
mkdir -p "$results"
bar=$(basename "$0" .sh)
listen=$net_trainer:7117
[ -n "${WEFT_APPEND:-}" ] || : >"$results/$bar.jsonl"
net_open

# keep LABEL COMMAND...: its JSON lines, marked with the label; everything else goes to standard error
keep()
{
    local label=$1
    shift
    "$@" | while IFS= read -r line; do
        case $line in
        '{'*) printf '{"label": "%s", %s\n' "$label" "${line#\{}" >>"$results/$bar.jsonl" ;;
        *) printf '%s\n' "$line" >&2 ;;
        esac
    done
}

# program LABEL NAME ARGUMENT...: a program of the build, in the trainer's namespace
program()
{
    keep "$1" net_in trainer "$WEFT_BUILD/$2" --listen "$listen" "${@:3}"
}

tables() # the bar's table on standard output
{
    python3 "$links/tables.py" "$bar" "$results/$bar.jsonl"
}
