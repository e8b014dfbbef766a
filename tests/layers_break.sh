#!/usr/bin/env bash
# layers.sh must find each wall that is broken: breaks them one by one in a copy of the sources.
set -euo pipefail
root=${WEFT_SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc=${WEFT_CC:-cc}
bad=0

layers() # layers WEFT_BUILD: its output goes to $work/said
{
    env -u WEFT_SANITIZE WEFT_SOURCE="$work/tree" WEFT_BUILD="$1" bash "$root/tests/layers.sh" >"$work/said" 2>&1
}

expect() # expect PATTERN WHAT: of the run just made, which must have failed with this line
{
    grep -q -- "$1" "$work/said" && return
    printf 'layers.sh did not see that %s; it said:\n' "$2"
    cat "$work/said"
    bad=1
}

mkdir "$work/tree"
for room in include core providers backends model harness tools; do
    cp -r "$root/$room" "$work/tree/"
done

breaks_include() # breaks_include FILE INCLUDE PATTERN
{
    cp "$work/tree/$1" "$work/kept"
    printf '#include %s\n' "$2" >>"$work/tree/$1"
    layers "" && : >"$work/said"
    expect "$3" "$1 includes $2"
    cp "$work/kept" "$work/tree/$1"
}

layers "" || { echo "the walls are broken before the test:" && cat "$work/said" && exit 1; }
breaks_include core/base/status.c '<rdma/fabric.h>' 'core knows libc'
breaks_include core/base/status.c '<openssl/ssl.h>' 'core knows libc'
breaks_include core/wire/wire.c '"security/openssl.h"' 'only core/security knows OpenSSL'
breaks_include core/store/store_list.c '<curl/curl.h>' 'core knows libc'
breaks_include core/base/status.c '<cuda.h>' 'no vendor header'
breaks_include core/base/status.c '<jansson.h>' 'core knows libc'
breaks_include core/base/status.c '"providers/profile.h"' 'core includes only core'
breaks_include core/base/status.c '"mem.h"' 'by "room/file.h"'
breaks_include core/base/status.c '"layout/layout.h"' 'room layout'
breaks_include core/codec/frame.h '"bucket/bucket.h"' 'room bucket'
breaks_include core/journal/journal.c '"bucket/bucket.h"' 'room bucket'
breaks_include core/bucket/bucket.c '"trainer/publish.h"' 'room trainer'
breaks_include core/rollout/stage.c '"relay/relay.h"' 'room relay'
breaks_include providers/loop.c '<rdma/fi_rma.h>' 'knows libfabric'
breaks_include providers/loop.c '"layout/layout.h"' 'moves bytes'
breaks_include backends/host/host.h '"wire/wire.h"' 'a backend knows'
breaks_include model/synth.h '"wire/wire.h"' 'client of weft.h'
for orphan in core/orphan.c core/attic/orphan.c; do
    mkdir -p "$work/tree/$(dirname "$orphan")"
    echo >"$work/tree/$orphan"
    layers "" && : >"$work/said"
    expect 'orphan.c stands in no room' "$orphan stands in no room"
    rm "$work/tree/$orphan"
done

# A build of two made-up objects and a library, one sin in each.
objects=$work/build/CMakeFiles
mkdir -p "$objects/weft_core.dir/core/base" "$objects/weft_core.dir/core/site" "$objects/weft_providers.dir/providers"
cat >"$work/core.c" <<'C'
#include <stdlib.h>
extern int fi_getinfo(void);
extern int cuInit(unsigned);
void *naked_symbol(void) { return malloc(fi_getinfo() + cuInit(0)); }
void weft_secret(void) { exit(1); }
C
"$cc" -c -fPIC "$work/core.c" -o "$objects/weft_core.dir/core/site/site.c.o"
cp "$objects/weft_core.dir/core/site/site.c.o" "$objects/weft_core.dir/core/base/mem.c.o"
"$cc" -shared -Wl,-soname,libfabric.so.1 -x c /dev/null -o "$work/libfabric.so"
"$cc" -shared "$objects/weft_core.dir/core/site/site.c.o" -Wl,--no-as-needed "$work/libfabric.so" -o "$work/build/libweft.so.0.1.0"
layers "$work/build" && : >"$work/said"
expect 'core/site/site.c.o calls malloc' 'malloc is called outside mem.c'
expect 'core/site/site.c.o calls fi_getinfo' 'libfabric is called, which is opened at run time'
expect 'libweft.so needs libfabric' 'libfabric is linked'
expect 'core/site/site.c.o calls cuInit' 'a vendor is called'
expect 'core/site/site.c.o calls exit' 'exit is called'
expect 'defines naked_symbol' 'a symbol lacks the prefix'
expect 'exports naked_symbol: only weft_' 'a symbol is exported without the prefix'
expect 'exports weft_secret, which weft.h' 'an undeclared symbol is exported'
expect 'weft.h declares weft_publish, which' 'a declared symbol is missing'
! grep -q 'mem.c.o calls malloc' "$work/said" || { echo "mem.c is refused its own" && bad=1; }

[ $bad = 0 ] && echo "every broken wall was seen"
exit $bad
