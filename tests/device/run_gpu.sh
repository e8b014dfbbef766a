#!/usr/bin/env bash
# The programs of tools/run-gpu over the drivers of the tests: recorded launches are the same on the emulated device, and
# one that computes nothing is found out. With WEFT_FULL=1 its whole flow, with a compute-sanitizer that is a stand-in,
# with one that does not work, and with none: only the silicon is new where it runs in earnest.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fakes=$WEFT_BUILD/fake_gpu device=$WEFT_BUILD/weft_device
[ -e "$fakes/libcuda.so.1" ] || { echo "skipped: the drivers of the tests are not built here" && exit 77; }
export LD_LIBRARY_PATH=$fakes${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} WEFT_FAKE_DEVICES=0

run none 77 "$device" cuda list
says none '^skipped: .*no device'
run words 2 "$device" cuda
run words 2 "$device" rocm list
export WEFT_FAKE_DEVICES=1
for backend in cuda hip; do
    bounded "$device" $backend list >"$work/$backend.out" 2>"$work/$backend.err" ||
        { echo "skipped: this build has no image for $backend" && exit 77; }
    image=$(sed -n 1p "$work/$backend.out")
    run recorded 0 "$device" $backend "$image"
    says recorded "^image $image, [1-9][0-9]* launches of (32|64) lanes, 0 differences$"
done
WEFT_FAKE_IDLE=1 run idle 1 "$device" cuda "$(sed -n 1p "$work/cuda.out")"
says idle 'bytes differ; byte [0-9]+ of [0-9]+ is [0-9a-f]{2}, should be [0-9a-f]{2}$'
run absent 77 "$device" cuda sm_1
printf 'not looked at here' >"$work/image"

# ---- the kit: on a bare machine it has the libraries that it needs, and the fabric that it opens
fabric tcp
kit=$work/kit
run build 0 bash "$source_dir/tools/run-gpu" --build "$kit" "$WEFT_BUILD"
LD_LIBRARY_PATH=$kit/lib:$fakes run bare 0 "$kit/weft" info --json
says bare "\"libfabric_file\": *\"$kit/lib/libfabric.so.1\""
LD_LIBRARY_PATH=$kit/lib ldd "$kit/weft" "$kit/weft_device" "$kit"/lib/* |
    awk '$2 == "=>" { print $3 }' | grep -Ev "^$kit/lib/|/(libc|libm|libdl|librt|libpthread|libresolv|libgcc_s|libstdc\+\+)\.so" &&
    fail "the kit needs libraries of this machine"

rows() # rows NAME RESULT PATTERN: how many rows of the table came to that
{
    grep -cE "^[a-zA-Z].{39} $2 +.*$3" "$work/$1.out"
}

# in_torch NAME STEPS: these steps went well in torch, or were left out for want of it
in_torch()
{
    if python3 -c 'import torch, cffi, numpy' 2>/dev/null; then
        [ "$(rows "$1" ok "every bit of the rollout was the trainer's")" = "$2" ] || fail "$1: not all steps in torch went well"
    else
        [ "$(rows "$1" skipped 'no [a-z]+ for /.*python')" = "$2" ] || fail "$1: the steps in torch were not left out"
    fi
}

for image in $(cat "$work/cuda.out" "$work/hip.out"); do
    grep -qE "^images .*\b$image\b" "$kit/about" || fail "the kit does not say that it has $image"
done
[ ! -x "$source_dir/build-python/bin/python3" ] || PATH=$source_dir/build-python/bin:$PATH
for vendor in cuda hip; do
    run "some_$vendor" 0 "$kit/run-gpu" --run --small --vendor $vendor --steps info,pair
    in_torch "some_$vendor" 1
    [ "$(rows "some_$vendor" ok "$vendor .*emulated")" = 1 ] || fail "$vendor: not the device of that vendor"
done
[ -n "${WEFT_FULL:-}" ] || { echo "recorded launches are the same on emulated devices; the kit is whole" && exit 0; }

# ---- the whole flow
bound=3000
cp "$work/image" "$kit/shim64.fatbin"
rm -f "$kit/shim32.fatbin"
WEFT_FAKE_DEVICES=0 run nothing 77 "$kit/run-gpu" --run
says nothing '^skipped: '
run usage 2 "$kit/run-gpu" --go

tools=$work/tools
mkdir "$tools"
PATH=$tools:$PATH
run plain 0 "$kit/run-gpu" --run --small
[ "$(rows plain FAILED '')" = 0 ] || fail "plain: steps failed"
[ "$(rows plain ok '0 differences')" = $(($(wc -l <"$work/cuda.out") + 1)) ] || fail "plain: not every image was run"
[ "$(rows plain skipped 'packed without nvcc')" = 1 ] || fail "plain: the image that is not there"
[ "$(rows plain ok 'G1 .*, G1h .*, G2 .*, G2 .*, G3 ')" = 1 ] || fail "plain: no bars"
[ "$(rows plain ok "ended with the trainer's file")" = 1 ] || fail "plain: no session"
[ "$(rows plain skipped 'it is not on this machine')" = 1 ] || fail "plain: compute-sanitizer"
in_torch plain 3
says plain "are the host's to the byte"

run amd 0 "$kit/run-gpu" --run --small --vendor hip
[ "$(rows amd FAILED '')" = 0 ] || fail "amd: steps failed"
[ "$(rows amd ok '0 differences')" = "$(wc -l <"$work/hip.out")" ] || fail "amd: not every image was run"
[ "$(rows amd ok "ended with the trainer's file")" = 1 ] || fail "amd: no session"
in_torch amd 3
[ "$(rows amd ok 'G1 .*, G1h .*, G2 .*, G2 .*, G3 ')" = 1 ] || fail "amd: no bars"

# A stand-in runs the program behind its options.
printf '#!/bin/bash\nwhile [ "${1#./}" = "$1" ]; do shift; done\n"$@" || exit\necho "ERROR SUMMARY: 0 errors"\n' \
    >"$tools/compute-sanitizer"
chmod +x "$tools/compute-sanitizer"
run checked 0 "$kit/run-gpu" --run --small
[ "$(rows checked ok 'ERROR SUMMARY: 0 errors')" = 7 ] || fail "checked: not every check was run"
printf '#!/bin/bash\necho "========= Error: Device not supported"\nexit 1\n' >"$tools/compute-sanitizer"
run refused 0 "$kit/run-gpu" --run --small
[ "$(rows refused skipped 'Device not supported')" = 1 ] || fail "refused: compute-sanitizer"
echo "the whole flow of tools/run-gpu holds over emulated devices"
