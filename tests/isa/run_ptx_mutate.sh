#!/usr/bin/env bash
# Plants bugs in a build's PTX (ptx_mutate.py): run_ptx_mutate.sh BUILD. Exit 77: the build has no PTX from clang.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ -f "$1/images/ptx75.ptx" ] && [ -x "$1/isa_ptx" ] || { echo "skipped: this build has no PTX from clang" && exit 77; }
exec python3 -B "$here/ptx_mutate.py" "$1/images/ptx75.ptx" "$1/isa_ptx"
