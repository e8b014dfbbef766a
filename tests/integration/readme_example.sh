#!/usr/bin/env bash
# The README's example compiles against the installed library through pkg-config, without warnings, and runs.
set -euo pipefail
. "$WEFT_SOURCE/tests/support/installed.sh"

[ -e "$WEFT_SOURCE/README.md" ] || { echo "there is no README.md" && exit 1; }
awk '/^```c$/ && !done { on = 1; next } /^```/ && on { on = 0; done = 1 } on' "$WEFT_SOURCE/README.md" >"$work/example.c"
[ -s "$work/example.c" ] || { echo "README.md has no \`\`\`c block" && exit 1; }

read -ra library_flags < <(pkg-config --cflags --libs weft)
"${WEFT_CC:-cc}" -std=c11 -Wall -Wextra -Werror "${flags[@]}" "$work/example.c" "${library_flags[@]}" -o "$work/example"
mkdir "$work/run"
cd "$work/run"
cp -r "$WEFT_SOURCE/conf" .
timeout 60 ../example
