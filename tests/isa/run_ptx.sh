#!/usr/bin/env bash
# Runs the cases, those of the long form too, on an image's PTX and holds what it took to its budget:
# run_ptx.sh PYTHON PROGRAM NAME
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$(cd "$(dirname "$0")" && pwd)
"$2" "$work/counts" full
"$1" -B "$here/ptx_budget.py" "$work/counts" "$3" "$here/../../backends/kernels/list.h" "$here/budget.txt" --counts
