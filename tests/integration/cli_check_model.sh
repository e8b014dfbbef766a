#!/usr/bin/env bash
# weft check --model: what each end takes for a model, and what of it will not do. Models of gigabytes are headers with
# a hole after them: nothing of them is read.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"

# hollow FILE ROWS COLUMNS COUNT: matrices of bf16
hollow()
{
    python3 - "$@" <<'PYTHON'
import json, struct, sys
path, rows, columns, count = sys.argv[1], *map(int, sys.argv[2:])
size = 2 * rows * columns
table = {f"w.{i}": {"dtype": "BF16", "shape": [rows, columns], "data_offsets": [i * size, (i + 1) * size]} for i in range(count)}
header = json.dumps(table).encode()
header += b" " * (-len(header) % 8)
with open(path, "wb") as out:
    out.write(struct.pack("<Q", len(header)) + header)
    out.truncate(8 + len(header) + count * size)
PYTHON
}
hollow "$work/small.safetensors" 512 1024 1
hollow "$work/large.safetensors" 8192 16384 60 # 8.05 G elements
printf '[peers]\nprovider = loop\n[peer.a]\n[peer.b]\nstaging = 256MiB\n' >"$work/site.ini"

run small 0 "$weft" check "$work/site.ini" --model "$work/small.safetensors" --json
json small "lines[0]['memory']['trainer']['bytes'] < 300e6 and max(p['bytes'] for p in lines[0]['memory']['peers']) < 300e6"
json small "lines[0]['memory']['peers'][0]['staging']['auto'] and not lines[0]['memory']['peers'][1]['staging']['auto']"
json small "lines[0]['memory']['peers'][0]['staging']['percent'] == 100 and lines[0]['memory']['warnings'] == []"
json small "lines[0]['peers'][0]['staging'] == 'auto' and lines[0]['trainer']['journal'] == 'auto'"
json small "(lambda t: t['bytes'] == t['journal']['bytes'] + sum(t[k] for k in ('shadow', 'digests', 'merging', 'encoding', 'slabs', 'peers')))(lines[0]['memory']['trainer'])"

# The old default gave little: one update in three hundred fits, and the size that serves is named.
run large 0 "$weft" check "$work/site.ini" --model "$work/large.safetensors" --set trainer.journal=16MiB --json
json large "any('raise [peer.b] staging to at least 616MiB' in w for w in lines[0]['memory']['warnings'])"
json large "any('raise [trainer] journal to at least ' in w for w in lines[0]['memory']['warnings'])"
run large_text 0 "$weft" check "$work/site.ini" --model "$work/large.safetensors"
says large_text "^  a: at most .* beside the weights: slots .*, staging "
says large_text "^    staging [0-9]+MiB \(auto: "
says large_text "WARNING: b: an update of 1 % does not fit its staging"
said large_text 'WARNING: a: an update of 1 %' && [ "$(awk '/MemAvailable/ { print $2 }' /proc/meminfo)" -gt 4000000 ] &&
    fail "auto holds no update of 1 % where there is memory for it"

# With the size that was named the warning is gone.
run enough 0 "$weft" check "$work/site.ini" --model "$work/large.safetensors" --set peer.b.staging=616MiB
said enough 'WARNING: b: an update of 1 %' && fail "the size that was named does not do"

# The limit of this process is one of the host's.
hollow "$work/middle.safetensors" 8192 16384 8 # 2.1 GB, of which the process maps every byte
if bash -c 'ulimit -v 3300000; "$0" info >/dev/null' "$weft" 2>"$work/limited.err"; then
    run narrow 0 bash -c 'ulimit -v 3300000; exec "$@"' - "$weft" check "$work/site.ini" --model "$work/middle.safetensors" --json
    json narrow "lines[0]['memory']['host']['by'] == 'ulimit -v' and lines[0]['memory']['host']['available'] < 1.3e9"
    json narrow "lines[0]['memory']['peers'][0]['staging']['bytes'] < 0.33e9 and 'a quarter' in lines[0]['memory']['peers'][0]['staging']['why']"
    json narrow "sum('with the weights; this host has' in w for w in lines[0]['memory']['warnings']) == 3"
else
    echo "not run: a limit of address space (a sanitizer needs more)"
fi

# Cuts: their cells and keys, and a cut that does not fit the model.
run cut 0 "$weft" check "$work/site.ini" --model "$work/small.safetensors" --set "cut.up.tensors=w.*" --set cut.up.rows=4 --json
json cut "lines[0]['cuts'] == [{'name': 'up', 'tensors': 'w.*', 'rows': '4'}] and lines[0]['cells']['cells'] == 4"
json cut "[(k['key'], k['cut'], k['part'], k['cells'], k['bytes']) for k in lines[0]['cells']['keys']] == [(i, 'up', i, 1, 262144) for i in range(4)]"
run cut_text 0 "$weft" check "$work/site.ini" --model "$work/small.safetensors" --set "cut.up.tensors=w.*" --set cut.up.rows=4
says cut_text "^  up +tensors=w\.\* rows=4$"
says cut_text "^  3 +cut up part 3: 1 cells, 0\.3 MB$"
run uncut 0 "$weft" check "$work/site.ini" --model "$work/small.safetensors" --json
json uncut "lines[0]['cuts'] == [] and [k['cut'] for k in lines[0]['cells']['keys']] == [None]"
run misfit 2 "$weft" check "$work/site.ini" --model "$work/small.safetensors" --set "cut.up.tensors=w.*" --set cut.up.rows=3
says misfit 'cut\.up\]: w\.0 has 512 rows, which 3 equal parts do not fit'

run none 2 "$weft" check "$work/site.ini" --model "$work/none.safetensors"
says none "none.safetensors"
echo "sizes are told before they are taken"
