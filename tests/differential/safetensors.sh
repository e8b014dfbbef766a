#!/usr/bin/env bash
# A few hundred made files, read by the safetensors package for Python and by this library: safetensors.sh TABLE PYTHON.
# Only with WEFT_FULL=1.
set -euo pipefail
[ -n "${WEFT_FULL:-}" ] || { echo "skipped: a long form, which runs with WEFT_FULL=1" && exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
if ! "$2" -c 'import safetensors; safetensors.deserialize' 2>/dev/null; then
    echo "skipped: the safetensors package for Python is not here (tools/run-tests installs it)"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$2" -B "$here/safetensors_files.py" "$1" "$work" 600 18
