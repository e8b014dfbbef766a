#!/usr/bin/env bash
# The main job on files: a trainer publishes versions one after the other, rollouts that started before and after it
# end with its bits, header included.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
models "$work/m" 6
site "$work/site.ini" a b c

start a "$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors" --until 126 --save "$work/a.safetensors" --json
start trainer "$weft" trainer "$work/site.ini" --model "$work/m/v0.safetensors" --first-version 120 --json \
    --versions "$work"/m/v{1,2,3,4,5,6}.safetensors
start b "$weft" rollout "$work/site.ini" --peer b --model "$work/m/v0.safetensors" --until 126 --save "$work/b.safetensors"
# its progress is made by hand, and its base is none that the trainer ever had
models "$work/other" 0 7
start c "$weft" rollout "$work/site.ini" --peer c --model "$work/other/v0.safetensors" --until 126 \
    --save "$work/c.safetensors" --set session.progress=manual --json
for name in a b c trainer; do
    finish "$name" 0
done
for name in a b c; do
    same "$work/$name.safetensors" "$work/m/v6.safetensors"
done

updates="[o for o in lines if 'target' in o]"
json trainer "[u['target'] for u in $updates] == list(range(121, 127)) and [u['base'] for u in $updates] == list(range(120, 126))"
json trainer "all({'level','elements','changed','dense_bytes','bytes','bits_per_change','diff_ms','encode_ms'} <= set(u) for u in $updates)"
json trainer "all(0 < u['changed'] <= u['elements'] and 0 < u['bytes'] for u in $updates)"
json trainer "all(abs(u['bits_per_change'] - 8 * u['bytes'] / u['changed']) < 0.01 for u in $updates)"
size=$(python3 -c "import sys; d = open(sys.argv[1], 'rb').read(); print(len(d) - 8 - int.from_bytes(d[:8], 'little'))" "$work/m/v0.safetensors")
json trainer "all(u['dense_bytes'] == $size for u in $updates)"
json trainer "sorted(p['name'] for p in lines[-1]['peers']) == ['a', 'b', 'c']"
json trainer "all(p['held'] == 126 and p['digest'] == (${updates})[-1]['digest'] and p['provider'] == 'tcp' for p in lines[-1]['peers'])"
json trainer "all({'name','state','provider','backend','held','digest','lag','bucket_bytes','rate_bytes_s','rtt_ms','level','bytes'} <= set(p) for p in lines[-1]['peers'])"
json a "all(isinstance(o['digest'], str) and len(o['digest']) == 16 and int(o['digest'], 16) >= 0 for o in lines)"
json a "lines[-1]['target'] == 126 and [o['target'] for o in lines] == sorted({o['target'] for o in lines})"
json a "all(o['kind'] == 'update' and o['base'] >= 120 and o['changed'] > 0 and o['commit_ms'] >= 0 for o in lines)"
json c "lines[0]['kind'] == 'snapshot' and lines[0]['base'] is None and lines[-1]['target'] == 126"
last=$(python3 -c "import json, sys; print(json.loads(open(sys.argv[1]).readlines()[-1])['digest'])" "$work/a.out")
json trainer "(${updates})[-1]['digest'] == '$last'"
says b "version 126 digest $last"
[ "$(find "$work" -maxdepth 1 -name '*safetensors*' | wc -l)" = 3 ] || fail "a temporary was left behind"

# A rollout that already holds what it is to reach has nothing to do; the trainer ends when the site has joined.
site "$work/one.ini" a
start trainer "$weft" trainer "$work/one.ini" --model "$work/m/v0.safetensors" --versions "$work/m/v1.safetensors"
start a "$weft" rollout "$work/one.ini" --peer a --model "$work/m/v1.safetensors" --until 1 --save "$work/again.safetensors"
finish a 0
finish trainer 0
same "$work/again.safetensors" "$work/m/v1.safetensors"
# A trainer that waits for a rollout of its site that does not come says so as soon as another one has.
site "$work/two.ini" a late
start trainer "$weft" trainer "$work/two.ini" --model "$work/m/v0.safetensors" --versions "$work/m/v1.safetensors" --json
start a "$weft" rollout "$work/two.ini" --peer a --model "$work/m/v0.safetensors" --until 1
await said trainer '^weft: waiting for late, at most [0-9]+ s more \(join_deadline\)$'
start late "$weft" rollout "$work/two.ini" --peer late --model "$work/m/v0.safetensors" --until 1
for name in a late trainer; do
    finish "$name" 0
done
echo "three rollouts hold version 126 bit for bit"
