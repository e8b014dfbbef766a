#!/usr/bin/env bash
# A few hundred made files, read by the safetensors package for Python and by this library: safetensors.sh TABLE. Only
# with WEFT_FULL=1; the package is fetched once, into the build's folder.
set -euo pipefail
[ -n "${WEFT_FULL:-}" ] || { echo "skipped: a long form, which runs with WEFT_FULL=1" && exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
venv=${WEFT_BUILD:?}/venv-safetensors
has_package() { "$1" -c 'import safetensors; safetensors.deserialize' 2>/dev/null; }

python=python3
if [ -x "$venv/bin/python" ]; then python=$venv/bin/python; fi
if ! has_package "$python"; then
    rm -rf "$venv"
    if ! { timeout 120 python3 -m venv "$venv" && timeout 120 "$venv/bin/pip" install -q safetensors; } >/dev/null 2>&1; then
        rm -rf "$venv"
        echo "skipped: the safetensors package for Python is not here and cannot be fetched (python3-venv, pip install safetensors)"
        exit 77
    fi
    python=$venv/bin/python
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -B "$here/safetensors_files.py" "$1" "$work" 600 18
