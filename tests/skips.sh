#!/usr/bin/env bash
# What .ci/run allows to be skipped (.ci/skips): what the machine or a wish lacks, and nothing that packages it sees to
# would allow. And those packages name every command that the tests call.
set -euo pipefail
. "$(dirname "$0")/../tools/setup.sh"

weft_missing() { [[ $missing != *" $1 "* ]] || echo "a package"; }
judge() # judge short|full allowed|refused LINE
{
    local said
    said=$(printf '%s\n' "$3" | weft_skips_unexpected "$1")
    if [ "$2" = allowed ]; then [ -z "$said" ]; else [ "$said" = "$3" ]; fi || { echo "FAIL: $1: not $2: $3" && exit 1; }
}

missing=' '
for tier in short full; do
    judge $tier refused 'release: independent.golden: 1 left out: planes_zstd.bin: the command zstd (Debian: zstd)'
    judge $tier refused 'release: independent.files: 3 left out: a case file: the command zstd (Debian: zstd)'
    judge $tier refused 'release: integration.cli_demo: skipped: the provider tcp cannot be had here'
    judge $tier refused 'release: integration.cli_demo: no reason given'
    judge $tier refused 'release: integration.cli_demo: skipped: python3 is missing (Debian: python3)'
    judge $tier refused 'release: integration.net_cut: skipped: tc is missing (Debian: iproute2, util-linux)'
    judge $tier refused 'release: integration.cmake_package: skipped: the package is linked as it is released, without sanitizers'
    judge $tier refused "release: integration.cli_device_weights: skipped: this build has no image for the tests' devices (Debian: clang-22, lld-22)"
    judge $tier refused 'release: isa.tree: skipped: no compiler for the images'
    judge $tier refused 'release: isa.images: skipped: no llvm-objdump of LLVM 19 or later (Debian: llvm-22)'
    judge $tier refused 'tools/run-hipcc: skipped: no hipcc (Debian: hipcc libamdhip64-dev)'
    judge $tier refused 'release: property.fleet: skipped inside: every_transition_was_taken'
    judge $tier allowed 'asan: integration.cmake_package: skipped: the package is linked as it is released, without sanitizers'
    judge $tier allowed 'threads: fault.session_sizes: skipped inside: frames_that_have_no_memory said_is_taken'
    judge $tier refused 'release: fault.session_sizes: skipped inside: said_is_taken'
    judge $tier allowed 'release: integration.net_cut: skipped: network namespaces are not allowed here: unshare failed'
    judge $tier allowed 'release: unit.host_sets: skipped inside: avx512_equals_portable avx512_equals_portable'
    judge $tier allowed 'tools/run-gpu: skipped: no NVIDIA device: libcuda.so.1 cannot be opened'
    judge $tier refused 'release: python.torch: skipped: torch is missing (tools/run-tests installs it)'
    judge $tier refused 'release: python.docs: skipped inside: test_from_a_torch_trainer'
    judge $tier refused 'release: python.docs: skipped inside: test_from_a_numpy_trainer'
    judge $tier refused 'release: python.waits: skipped: cffi for /usr/bin/python3 is missing (Debian: python3-cffi, python3-numpy)'
    judge $tier allowed 'libfabric2: skipped: libfabric 2: this system has no apt'
    judge $tier allowed 'tools/run-upgrade: skipped: the history of this repository does not reach back to protocol 2 (a shallow clone: git fetch --unshallow)'
done
judge short allowed 'release: property.huge: skipped inside: through_a_file through_a_file'
judge full refused 'release: property.huge: skipped inside: through_a_file through_a_file'
judge short allowed 'release: differential.safetensors: skipped: a long form, which runs with WEFT_FULL=1'
judge full refused 'release: differential.safetensors: skipped: a long form, which runs with WEFT_FULL=1'
judge full allowed 'clang: property.huge: skipped inside: through_a_file through_a_file'
missing=' images isa hipcc torch '
judge full allowed "release: integration.cli_device_weights: skipped: this build has no image for the tests' devices (Debian: clang-22, lld-22)"
judge full allowed 'release: isa.images: skipped: no llvm-objdump of LLVM 19 or later (Debian: llvm-22)'
judge full allowed 'tools/run-hipcc: skipped: no hipcc (Debian: hipcc libamdhip64-dev)'
judge full allowed 'release: python.torch: skipped: torch is missing (tools/run-tests installs it)'
judge full allowed 'release: python.docs: skipped inside: test_from_a_torch_trainer'
[ -z "$(weft_skips_unexpected short </dev/null)" ] || { echo "FAIL: nothing is skipped, and yet something is told" && exit 1; }

# A command of a package that a bare Debian lacks is named by setup.sh.
for command in cc make cmake c++ nm pkg-config python3 tc zstd; do
    grep -qE "^(build|test) .* command( [a-z0-9+-]+)* ${command//+/\\+}( |\$)" <<<"$WEFT_PACKAGES" ||
        { echo "FAIL: tools/setup.sh names no package for $command" && exit 1; }
done
echo "skips: ok"
