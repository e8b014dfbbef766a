# setup.sh - sourced by tools/run-demo, tools/run-tests and .ci/run: what they need, how they build and test.
# Everything is quiet and offline when nothing is missing. Messages go to standard error.

WEFT_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
WEFT_JOBS=${WEFT_JOBS:-$(getconf _NPROCESSORS_ONLN)}
WEFT_TORCH=torch==2.13.0
WEFT_PTXAS_PACKAGE=nvidia-cuda-nvcc-cu12==12.9.86

# tier, Debian package, how to see that it is there: "command NAME [NAME]", "header PATH [PATH]" (any of them will do)
# "runtime NAME" (of clang), "module NAME" (of Python), "python NAME" (a module that Debian's own Python has) or
# "environment NAME" (of weft_environment, and no package). The tiers images, isa, hipcc and torch are wishes: without
# them edited kernels do not become images, AMD's machine code is not run by the tests, the kernels are not compiled
# against ROCm's headers, or torch is not tested and safetensors files are not read beside Python.
WEFT_PACKAGES='
build  gcc              command cc
build  libc6-dev        header stdio.h
build  make             command make
build  cmake            command cmake
build  libfabric-dev    header rdma/fabric.h
build  libiniparser-dev header iniparser/iniparser.h iniparser.h
build  libxxhash-dev    header xxhash.h
build  libzstd-dev      header zstd.h
build  libjansson-dev   header jansson.h
build  libssl-dev       header openssl/ssl.h
build  libcurl4-openssl-dev header curl/curl.h
test   libcmocka-dev    header cmocka.h
test   libsimde-dev     header simde/x86/avx512.h
test   g++              command c++
test   binutils         command nm
test   pkg-config       command pkg-config
test   python3          command python3
test   python3-cffi     python cffi
test   python3-numpy    python numpy
test   python3-venv     python ensurepip
test   zstd             command zstd
test   openssl          command openssl
test   curl             command curl
test   iproute2         command tc
images clang-22         command clang++-22 clang++-21 clang++-20 clang++-19 amdclang++ hipcc
images lld-22           command ld.lld-22 ld.lld-21 ld.lld-20 ld.lld-19 amdclang++ hipcc
isa    llvm-22          command llvm-objdump-22 llvm-objdump-21 llvm-objdump-20 llvm-objdump-19
hipcc  hipcc            command hipcc
hipcc  libamdhip64-dev  header hip/hip_runtime.h
torch  build-python     environment build-python
ci     clang            command clang
ci     libclang-rt-dev  runtime fuzzer
ci     clang-format     command clang-format
ci     clang-tidy       command clang-tidy
ci     git              command git
'

weft_say()
{
    printf 'weft: %s\n' "$*" >&2
}

weft_stop() # weft_stop CODE TEXT...
{
    local code=$1
    shift
    weft_say "$@"
    exit "$code"
}

weft_present() # weft_present command NAME... | header PATH... | runtime NAME | module NAME | python NAME | environment NAME
{
    local kind=$1 path
    shift
    if [ "$kind" = command ]; then
        for path in "$@"; do
            command -v "$path" >/dev/null && return 0
        done
        return 1
    fi
    if [ "$kind" = runtime ]; then
        [ -e "$(clang -print-file-name="libclang_rt.$1-$(uname -m).a" 2>/dev/null)" ]
        return
    fi
    if [ "$kind" = environment ]; then
        [ -e "$WEFT_ROOT/$1/whole" ]
        return
    fi
    if [ "$kind" = module ]; then
        python3 -c "import $1" 2>/dev/null
        return
    fi
    if [ "$kind" = python ]; then
        "$(weft_python)" -c "import $1" 2>/dev/null
        return
    fi
    for path in "$@"; do
        [ -e "/usr/include/$path" ] && return 0
        command -v cc >/dev/null && printf '#include <%s>\n' "$path" | cc -M -x c - >/dev/null 2>&1 && return 0
    done
    return 1
}

# Prints the packages of the given tiers whose probe fails.
weft_missing() # weft_missing TIER...
{
    local tier package probe
    while read -r tier package probe; do
        [[ " $* " == *" $tier "* ]] || continue
        # shellcheck disable=SC2086 # the probe is words
        weft_present $probe || printf '%s\n' "$package"
    done < <(sed '/^$/d' <<<"$WEFT_PACKAGES")
}

# Sees to it that the packages of the given tiers are there: installs them as root, else says how and stops.
weft_need() # weft_need TIER...
{
    local missing
    missing=$(weft_missing "$@" | tr '\n' ' ')
    missing=${missing% }
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null ||
        weft_stop 2 "missing: $missing (names of Debian packages; this system has no apt-get: install their like here)"
    [ "$(id -u)" = 0 ] || weft_stop 2 "missing: $missing
  as root:  apt-get install -y --no-install-recommends $missing"
    weft_say "installing $missing"
    weft_apt $missing || weft_stop 2 "cannot install: $missing (see above); by hand, as root:
  apt-get update && apt-get install -y --no-install-recommends $missing"
    missing=$(weft_missing "$@" | tr '\n' ' ')
    [ -z "$missing" ] || weft_stop 2 "still missing after the installation: $missing"
}

# The same for what can be done without: says what it is and goes on.
weft_wish() # weft_wish TIER...
{
    local missing
    missing=$(weft_missing "$@" | tr '\n' ' ')
    missing=${missing% }
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        weft_say "installing $missing"
        weft_apt $missing && return 0
    fi
    weft_say "going on without $missing and what needs it; as root:
  apt-get update && apt-get install -y --no-install-recommends $missing"
}

weft_apt() # weft_apt PACKAGE...
{
    local log
    log=$(mktemp)
    if { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; } \
        >"$log" 2>&1 </dev/null; then
        rm -f "$log"
        return 0
    fi
    tail -n 15 "$log" >&2
    rm -f "$log"
    return 1
}

# A virtual environment of Python with packages of PyPI, made once: FOLDER/whole names what it has. Where that cannot be had
# the last line printed says why.
weft_environment() # weft_environment FOLDER GIBIBYTES PIP_ARGUMENTS...
{
    local folder=$1 room=$2 free
    shift 2
    [ "$(cat "$folder/whole" 2>/dev/null)" != "$*" ] || return 0
    free=$(df -Pk "$WEFT_ROOT" | awk 'NR == 2 { print int($4 / 1048576) }')
    [ "$free" -ge "$room" ] || { echo "takes $room GiB of disk, and $free are free" && return 1; }
    rm -rf "$folder"
    mkdir -p "$(dirname "$folder")"
    if ! { "$(weft_python)" -m venv "$folder" && "$folder/bin/python" -m pip install -q "$@"; } >"$folder.log" 2>&1; then
        rm -rf "$folder"
        echo "cannot be installed: $(tail -n 1 "$folder.log")"
        return 1
    fi
    echo "$*" >"$folder/whole"
}

# Debian's own Python, which python3-venv is for, else any.
weft_python()
{
    [ -x /usr/bin/python3 ] && echo /usr/bin/python3 || echo python3
}

# The environment that the tests of the Python package run in (cmake/python.cmake): without it those of torch and Ray are
# skipped. Torch is the one that tools/run-vllm's vLLM was built for.
weft_python_wish()
{
    local why
    [ ! -e "$WEFT_ROOT/build-python/whole" ] && weft_say "installing $WEFT_TORCH and Ray into build-python (5 GB, once)"
    why=$(weft_environment "$WEFT_ROOT/build-python" 8 "$WEFT_TORCH" numpy cffi safetensors ray scikit-build-core mypy) ||
        weft_say "going on without torch and what needs it: $why"
}

# NVIDIA's assembler of CUDA 12, whose machine code every driver since R525 runs, for tools/make-images.
weft_ptxas_wish()
{
    local why
    why=$(weft_environment "$WEFT_ROOT/build-ptxas" 1 "$WEFT_PTXAS_PACKAGE") ||
        weft_say "going on without PyPI's ptxas: $why"
}

weft_ptxas()
{
    compgen -G "$WEFT_ROOT/build-ptxas/lib/python3*/site-packages/nvidia/cuda_nvcc/bin/ptxas" || true
}

# Runs a command with its output in a file, which is shown only when the command fails.
weft_quietly() # weft_quietly LOG COMMAND...
{
    local log=$1
    shift
    mkdir -p "$(dirname "$log")"
    "$@" >"$log" 2>&1 </dev/null && return 0
    tail -n 40 "$log" >&2
    weft_say "failed: $* (all of it in $log)"
    return 1
}

# Configures and builds one preset into build-NAME: all of it, or the targets in WEFT_TARGETS.
weft_build() # weft_build PRESET NAME [CMAKE ARGUMENTS...]
{
    local preset=$1 folder=$WEFT_ROOT/build-$2
    shift 2
    (
        cd "$WEFT_ROOT"
        weft_quietly "$folder/configure.log" cmake --preset "$preset" -B "$folder" \
            -DWEFT_WERROR="${WEFT_WERROR:-OFF}" "$@" &&
            weft_quietly "$folder/build.log" cmake --build "$folder" -j "$WEFT_JOBS" --target ${WEFT_TARGETS:-all}
    )
}

# Runs the tests of a build; leaves the results in build-NAME/junit.xml and what was printed in build-NAME/test.log. Most
# of a test's time is waiting: three times as many run at once as there are cores.
weft_ctest() # weft_ctest NAME [CTEST ARGUMENTS...]
{
    local folder=$WEFT_ROOT/build-$1
    shift
    rm -rf "$folder/junit.xml" "$folder/tmp"
    mkdir -p "$folder/tmp"
    ctest --test-dir "$folder" --output-on-failure --no-tests=error -j $((3 * WEFT_JOBS)) \
        --output-junit "$folder/junit.xml" "$@" >"$folder/test.log" 2>&1 </dev/null && return 0
    sed -n '/^The following tests FAILED/q; /Passed\|^ *Start /d; p' "$folder/test.log" | tail -n 200 >&2
    sed -n '/^The following tests FAILED/,$p' "$folder/test.log" >&2
    return 1
}

# "PASSED FAILED SKIPPED" of a test run; a run that left no result failed once.
weft_counts() # weft_counts NAME
{
    local xml=$WEFT_ROOT/build-$1/junit.xml all failed skipped off
    [ -s "$xml" ] || { echo 0 1 0 && return; }
    all=$(weft_count "$xml" tests) failed=$(weft_count "$xml" failures)
    skipped=$(weft_count "$xml" skipped) off=$(weft_count "$xml" disabled)
    echo $((all - failed - skipped - off)) "$failed" $((skipped + off))
}

weft_count() # weft_count FILE ATTRIBUTE
{
    grep -o -m 1 "$2=\"[0-9]*\"" "$1" | tr -dc 0-9
}

# One line for each skipped test: its name and the last line it printed, which says why.
weft_skips() # weft_skips NAME
{
    local xml=$WEFT_ROOT/build-$1/junit.xml
    [ -e "$xml" ] || return 0
    awk '
        /<testcase / { match($0, /name="[^"]*"/); name = substr($0, RSTART + 6, RLENGTH - 7); skipped = 0; last = "" }
        /<skipped/ { skipped = 1 }
        { line = $0; gsub(/<[^>]*>/, "", line); if (line ~ /[^ \t]/) last = line }
        match($0, /\[  SKIPPED \] [A-Za-z0-9_]+$/) { if (!(($0) in said)) part[name] = part[name] " " substr($0, RSTART + 13) }
        /<\/testcase>/ {
            sub(/^[ \t]+/, "", last)
            if (skipped) print name ": " (last == "" ? "no reason given" : last)
            else if (part[name] != "") print name ": skipped inside:" part[name]
        }
    ' "$xml" | sed 's/&quot;/"/g; s/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g'
}

# Of lines "BUILD: TEST: WHY" those that .ci/skips does not allow.
weft_skips_unexpected() # weft_skips_unexpected short|full <LINES
{
    local when pattern line allowed=()
    while read -r when pattern; do
        case $when in
        '' | '#'*) continue ;;
        always) ;;
        short) [ "$1" = short ] || continue ;;
        *) [ -n "$(weft_missing "$when")" ] || continue ;;
        esac
        allowed+=("$pattern")
    done <"$WEFT_ROOT/.ci/skips"
    while IFS= read -r line; do
        for pattern in "${allowed[@]}"; do
            [[ $line =~ ^($pattern)$ ]] && continue 2
        done
        [ -z "$line" ] || printf '%s\n' "$line"
    done
}
