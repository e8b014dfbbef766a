#!/usr/bin/env bash
# bench_codec: every method is decoded back, the planes of an update sum up, and the floor is the entropy.
# shellcheck source=tests/support/cli.sh
source "$(dirname "$0")/../support/cli.sh"
export TMPDIR=$work
bench=$WEFT_BUILD/bench_codec
models "$work/m" 2

of() # of WHAT: the Python list of the lines of that kind
{
    printf "[l for l in lines if l['what'] == '%s']" "$1"
}
run made 0 "$bench" --params 300000 --density 0,1.17 --rounds 2 --threads 1,2
json made "[l['changed'] > 2000 for l in $(of weights)] == [False, True] and $(of weights)[1]['changed'] < 5000"
json made "[l['level'] for l in $(of level)] == 2 * ['tight', 'fast', 'pairs', 'full']"
json made "all(sum(l['plane_bits'].values()) == 8 * l['bytes'] for l in $(of level) if 'plane_bits' in l)"
json made "$(of floor)[1]['bits_per_change'] < $(of level)[4]['bits_per_change']"
json made "$(of level)[4]['bytes'] < $(of level)[5]['bytes'] < $(of level)[6]['bytes']"
json made "all(m['bytes'] > $(of level)[4]['bytes'] for m in $(of method)[5:]) and len($(of method)) == 10"
json made "{s['threads'] for s in $(of stage)} == {1, 2}"
# Planes of no change, which is the first density, may take less than is printed.
json made "all(s['ms'] > 0 or 'byte planes' in s['stage'] for s in $(of stage))"
json made "all(s['ms'] > 0 for s in $(of stage)[len($(of stage)) // 2:])"
json made "len($(of yardstick)) == 28"

# Weights of several dtypes, in files.
run given 0 "$bench" "$work/m/v0.safetensors" "$work/m/v1.safetensors" --rounds 1 --threads 1
says given "v0.safetensors to v1.safetensors"
says given "weights of 16 bits"
python3 "$support/entropy.py" "$work/m/v0.safetensors" "$work/m/v1.safetensors" >"$work/entropy.out" || fail "no entropies"
python3 - "$work/given.out" "$work/entropy.out" <<'PYTHON' || fail "the floor is another"
import json, sys
said = {l["what"]: l for l in map(json.loads, open(sys.argv[1]))}
found = json.load(open(sys.argv[2]))
sys.exit(any(abs(found[k] - said["floor"][k]) > 1e-6 for k in found if k != "changed")
         or found["changed"] != said["weights"]["changed"])
PYTHON
WEFT_KERNELS=portable run forced 0 "$bench" --params 100000 --density 3 --rounds 1 --threads 1
json forced "{s['kernels'] for s in $(of stage)} == {'portable'}"
run one 1 "$bench" "$work/m/v0.safetensors"
run list 1 "$bench" --threads 65
bash "$WEFT_SOURCE/bench/codec/programs.sh" "$work/m/v0.safetensors" "$work/m/v1.safetensors" || fail "another program is wrong"
