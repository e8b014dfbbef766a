#!/usr/bin/env bash
# Records launches in the emulation and runs them on an image: run.sh PYTHON CASES IMAGE. WEFT_FULL=1: the long form.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$(cd "$(dirname "$0")" && pwd)
"$2" "$work/launches" ${WEFT_FULL:+full}
"$1" -B "$here/run_images.py" "$work/launches" "$3" --budget "$here/budget.txt" ${WEFT_FULL:+--full} --counts
