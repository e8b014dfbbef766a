#!/usr/bin/env bash
# Holds the table of docs/SECURITY.md, "What a byte can cost", complete: each message of the protocol stands in it, and the
# tests that it names exist.
set -uo pipefail
export LC_ALL=C
cd "${WEFT_SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}" || exit 1
broken=0

broke() # broke TEXT...
{
    printf 'bounds: %s\n' "$*"
    broken=1
}

table=$(sed -n '/^## What a byte can cost/,/^## Reports/p' docs/SECURITY.md)
[ -n "$table" ] || broke "docs/SECURITY.md has no such table"

messages=$(sed -n 's/^    WEFT_MESSAGE_\([A-Z]*\) = .*/\1/p' core/wire/wire.h)
[ "$(wc -w <<<"$messages")" -ge 33 ] || broke "the messages of core/wire/wire.h are not found"
for message in $messages; do
    grep -q "\`$message\`" <<<"$table" || broke "$message is a message, and does not stand in the table"
done

# KIND.NAME:FUNCTION, or KIND.NAME for all of a test.
tests=$(grep -oE '`(unit|fault|property|fuzz|integration)\.[a-z0-9_]+(:[a-z0-9_]+)?`' <<<"$table" | tr -d '`' | sort -u)
[ -n "$tests" ] || broke "the table names no test"
for name in $tests; do
    kind=${name%%.*} rest=${name#*.} function=
    [ "$rest" = "${rest%:*}" ] || function=${rest#*:}
    case $kind in
    integration) file=tests/integration/${rest%:*}.sh ;;
    fuzz) file=tests/fuzz/fuzz_${rest%:*}.c ;;
    *) file=tests/$kind/test_${rest%:*}.c ;;
    esac
    if [ ! -e "$file" ]; then
        broke "$name: there is no $file"
    elif [ -n "$function" ] && ! grep -qE "^static void $function\(void \*\*state\)" "$file"; then
        broke "$name: $file has no test $function"
    fi
done
exit $broken
