#!/usr/bin/env bash
# The images in the tree are of the sources in the tree: a change of a kernel brings images, by tools/make-images. A build
# in which a kernel was changed takes none of them.
set -euo pipefail
root=${WEFT_SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake -P "$root/cmake/gpu_sources.cmake"

for vendor in cuda hip; do
    cd "$root/kernels_$vendor/images"
    ls -- *.zst >"$work/there"
    sed -n 's/^[0-9a-f]\{64\}  //p' made.txt | diff "$work/there" - || { echo "FAIL: made.txt names other images" && exit 1; }
    sed -n '/\.zst$/p' made.txt | sha256sum -c --quiet || { echo "FAIL: other bytes than made.txt says" && exit 1; }
done

# A copy, in which each change is seen.
mkdir "$work/tree"
cp -r "$root"/{CMakeLists.txt,cmake,backends,kernels_cuda,kernels_hip} "$work/tree"
for folder in include core providers model harness tools conf docs; do
    ln -s "$root/$folder" "$work/tree"
done
for changed in backends/kernels/rows.h kernels_cuda/lanes.h kernels_hip/weft.hip cmake/gpu_sources.cmake; do
    cp "$work/tree/$changed" "$work/before"
    echo >>"$work/tree/$changed"
    cmake -P "$work/tree/cmake/gpu_sources.cmake" 2>/dev/null && echo "FAIL: a change of $changed is not seen" && exit 1
    cp "$work/before" "$work/tree/$changed"
done

taken() # taken: how many images of the tree the build puts into its library
{
    cmake -S "$work/tree" -B "$work/build" -DBUILD_TESTING=OFF -DWEFT_BENCH=OFF -DWEFT_FABRIC="${WEFT_FABRIC:-ON}" \
        >"$work/said" 2>&1 || return
    grep -c 'kernels_[a-z]*/images' "$work/build/images/weft_gpu_images.h" || true
}
[ "$(taken)" = "$(find "$root"/kernels_* -name '*.zst' | wc -l)" ] ||
    { cat "$work/said" && echo "FAIL: not all images of the tree are taken" && exit 1; }
echo >>"$work/tree/kernels_hip/lanes.h"
[ "$(taken)" = "$(find "$root/kernels_cuda" -name '*.zst' | wc -l)" ] ||
    { cat "$work/said" && echo "FAIL: images of other sources are taken" && exit 1; }
grep -q 'kernels_hip/images is of other sources than these and not taken' "$work/said"
echo "images: of the sources in the tree"
