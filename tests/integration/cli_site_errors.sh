#!/usr/bin/env bash
# weft check: sound sites come out resolved and whole; every kind of wrong key is one message with file, line and key.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"

for conf in "$source_dir"/conf/*.ini; do
    name=$(basename "$conf" .ini)
    run "conf_$name" 0 "$weft" check "$conf"
    run "json_$name" 0 "$weft" check "$conf" --json
    json "json_$name" "len(lines) == 1"
done
json json_local "len(lines[0]['peers']) >= 3 and all(p['provider'] == 'tcp' for p in lines[0]['peers'])"
json json_local "all({'name', 'provider', 'backend', 'bucket_min', 'bucket_max', 'level'} <= set(p) for p in lines[0]['peers'])"

# What the manual explains of the plain sections is what check prints.
python3 - "$source_dir/conf/weft.ini" "$work/json_local.out" <<'PYTHON' || fail "check does not print every key of conf/weft.ini"
import json, re, sys
section, keys = None, set()
for line in open(sys.argv[1]):
    if match := re.match(r"[;# ]*\[([a-z]+)(\.[^\]]*)?\]\s*$", line):
        section = match[1] if not match[2] else None
    elif section and (match := re.match(r"[; ]*([a-z_]+) *= ", line)):
        keys.add((section, match[1]))
site = json.load(open(sys.argv[2]))
missing = {k for k in keys if k[0] != "peers" and k[1] not in site.get(k[0], {})}
print("missing:", missing) if missing else None
sys.exit(1 if missing or len(keys) < 10 else 0)
PYTHON

cat >"$work/good.ini" <<'INI'
[trainer]
listen = 127.0.0.1:7000
[peers]
bucket_max = 2MiB
[peer.a]
rate_limit = 100Mbit/s
[peer.b]
level = fast
INI
run good 0 "$weft" check "$work/good.ini" --json --set peer.a.level=pairs --set trainer.listen=127.0.0.1:7001
json good "lines[0]['trainer']['listen'] == '127.0.0.1:7001'"
json good "[p['level'] for p in lines[0]['peers']] == ['pairs', 'fast']"
json good "[p['name'] for p in lines[0]['peers']] == ['a', 'b']"
json good "all(p['bucket_max'] == '2MiB' for p in lines[0]['peers'])"
run lines 0 "$weft" check "$work/good.ini"
says lines "^ +a +provider tcp"
says lines "^ +b +provider tcp"

# A pattern is shown for what it gives, whatever names have sections of their own.
cat >"$work/pattern.ini" <<'INI'
[peer.x*]
window = 9
[peer.xx]
window = 2
[peer.x0]
window = 3
INI
run pattern 0 "$weft" check "$work/pattern.ini" --json
json pattern "[(p['name'], p['window']) for p in lines[0]['patterns']] == [('x*', '9')]"
json pattern "[(p['name'], p['window']) for p in lines[0]['peers']] == [('xx', '2'), ('x0', '3')]"

bad=0
# wrong NAME TEXT PATTERN...: the text as a site is refused with exit 2 and a message that has every pattern
wrong()
{
    local name=$1 text=$2
    shift 2
    printf '%b' "$text" >"$work/$name.ini"
    run "$name" 2 "$weft" check "$work/$name.ini"
    for pattern in "$@"; do
        says "$name" "$pattern"
    done
    [ "$(wc -l <"$work/$name.err")" = 1 ] || fail "$name: more than one line of error"
    run "${name}_json" 2 "$weft" check "$work/$name.ini" --json
    json "${name}_json" "len(lines) == 1 and lines[0]['error']['status'] == 'config' and lines[0]['error']['text']"
    bad=$((bad + 1))
}
wrong key '[trainer]\nlisten = 127.0.0.1:1\nlissen = x\n' 'key\.ini' '\b3\b' lissen listen
wrong section '[trainer]\n[trianer]\nlisten = 127.0.0.1:1\n' 'section\.ini' '\b2\b' trianer
wrong twice '[trainer]\nlisten = 127.0.0.1:1\nlisten = 127.0.0.1:2\n' 'twice\.ini' '\b3\b' listen
wrong unit '[trainer]\njournal = 64\n' 'unit\.ini' '\b2\b' journal
wrong time '[session]\nconnect_deadline = soon\n' '\b2\b' connect_deadline soon
wrong choice '[peer.a]\nprovider = carrier-pigeon\n' '\b2\b' provider carrier-pigeon tcp
wrong range '[peers]\n\nwindow = 0\n' '\b3\b' window
wrong name '[peer.A B]\nprovider = tcp\n' '\b1\b'
wrong port '[trainer]\nlisten = 127.0.0.1:99999\n' '\b2\b' listen
wrong world '[trainer]\nlisten = 0.0.0.0:7000\n' listen 'security|open'

run override_key 2 "$weft" check "$work/good.ini" --set trainer.lissen=x
says override_key lissen
run override_value 2 "$weft" check "$work/good.ini" --set peer.a.window=none
run override_form 2 "$weft" check "$work/good.ini" --set nonsense
run gone 2 "$weft" check "$work/gone.ini"
says gone "gone\.ini.*No such file"
run gone_json 2 "$weft" check "$work/gone.ini" --json
json gone_json "lines[0]['error']['status'] == 'file'"
echo "$bad wrong sites were refused with file, line and key"
