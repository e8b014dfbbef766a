# installed.sh - sourced by the tests that use weft as it is installed.
# Installs the build under a scratch folder; afterwards $work is that folder, $prefix the installed tree, and
# pkg-config, the loader and the path see it first.

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
DESTDIR=$work/stage "${WEFT_CMAKE:-cmake}" --install "$WEFT_BUILD" >"$work/install.log" || { cat "$work/install.log" && exit 1; }
header=$(find "$work/stage" -name weft.h)
prefix=${header%/include/weft.h}
pc=$(find "$prefix" -name weft.pc)
export PKG_CONFIG_PATH=${pc%/weft.pc}
library=$(find "$prefix" -name libweft.so)
export LD_LIBRARY_PATH=${library%/libweft.so}
export PATH=$prefix/bin:$PATH
read -ra flags <<<"${WEFT_CFLAGS:-}"
