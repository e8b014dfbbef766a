#!/usr/bin/env bash
# Records launches in the emulation and runs them on an image: run.sh [--long] PYTHON CASES IMAGE. WEFT_FULL=1: the long
# form; --long: there is no other.
set -euo pipefail
if [ "$1" = --long ]; then
    shift
    [ -n "${WEFT_FULL:-}" ] || { echo "skipped: a long form, which runs with WEFT_FULL=1" && exit 77; }
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$(cd "$(dirname "$0")" && pwd)
"$2" "$work/launches" ${WEFT_FULL:+full}
"$1" -B "$here/run_images.py" "$work/launches" "$3" --budget "$here/budget.txt" ${WEFT_FULL:+--full} --counts
