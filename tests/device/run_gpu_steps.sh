#!/usr/bin/env bash
# What tools/run-gpu makes of programs that crash, of images that the driver refuses, of steps that fail, and of time that
# is over: the programs are stand-ins.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
bound=600
kit=$work/kit
mkdir "$kit"
cp "$source_dir/tools/run-gpu" "$kit/"
echo 'weft of a test' >"$kit/about"
cat >"$kit/weft" <<'END'
#!/bin/bash
[ "$1" != info ] || echo "  yes cuda   0  a device: 1.0 GB, capability 9.0, driver 12.4, image sm_90"
END
cat >"$kit/weft_device" <<'END'
#!/bin/bash
[ "$2" = list ] || { [ "$PLAY" != stuck ] || exec sleep 1000; [ "$PLAY" != wrong ]; exit; }
case $PLAY in
crash) echo "what it said" >&2 && kill -SEGV $$ ;;
none) echo "skipped: no device" && exit 77 ;;
*) echo "refused sm_90: cuda device 0: the driver takes no image of this build: invalid image" >&2 && echo ptx75 ;;
esac
END
chmod +x "$kit/weft" "$kit/weft_device"
mkdir "$kit/device"
for name in beside_torch pair trace; do
    printf '%s\n' 'import os, sys' 'print("skipped: no torch")' 'sys.exit(77 if os.environ["PLAY"] != "pair" else 1)' \
        >"$kit/device/$name.py"
done

PLAY=crash run crash 1 "$kit/run-gpu" --run
says crash 'exit code 139'
says crash '^what it said$'
PLAY=none run none 77 "$kit/run-gpu" --run
says none '^skipped: no device$'
PLAY=well run well 0 "$kit/run-gpu" --run --small
says well '^recorded launches: image sm_90 +skipped +cuda device 0: the driver takes no image'
says well '^recorded launches: image ptx75 +ok '
says well "^kernels by torch's profiler +skipped +[0-9]+ s +no torch$"
PLAY=pair run pair 1 "$kit/run-gpu" --run --vendor hip --steps pair,info
says pair '^two processes, three providers +FAILED '
says pair '^weft info +FAILED '
! said pair 'recorded launches|trainer and rollouts|beside torch' || fail "a step that was not asked for"
PLAY=wrong run wrong 1 "$kit/run-gpu" --run --small
says wrong '^recorded launches: image ptx75 +FAILED '
PLAY=stuck run stuck 0 "$kit/run-gpu" --run --seconds 20
says stuck '^recorded launches: image ptx75 +cut off '
says stuck '^trainer and rollouts on the device +skipped +no time is left'
for wrong in 0 x ''; do
    run usage 2 "$kit/run-gpu" --run --seconds "$wrong"
    run usage 2 "$kit/run-gpu" --run --steps "info,$wrong"
done
echo "run-gpu says what failed, what was refused, and what there was no time for"
