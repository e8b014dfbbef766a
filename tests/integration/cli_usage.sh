#!/usr/bin/env bash
# The command line itself: help, versions, wrong use with a suggestion, error objects, a stdout that cannot be written.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"

run help 0 "$weft" --help
for verb in info check trainer rollout demo; do
    says help "weft $verb "
    run "help_$verb" 0 "$weft" "$verb" --help
    says "help_$verb" "^weft $verb "
    says "help_$verb" "--json"
done
says help_rollout "--until V"
says help_trainer "--follow DIR .*checkpoint-10.*STABLE"
for pair in 'put fast, or tight .*\(fast\)$' 'diff \(tight\)$' 'merge \(tight with --base, ' 'invert \(tight with --base, '; do
    run help_level 0 "$weft" "${pair%% *}" --help # each verb's own default
    says help_level "--level LEVEL .*${pair#* }"
done
for verb in trainer rollout; do
    says "help_$verb" "--model FILE .*folder of shards"
done
# shellcheck disable=SC2046
run many_merge 2 "$weft" merge $(seq 33) -o "$work/no.weft"
says many_merge "'33' is one file too many: weft merge takes at most 32"
run many_bench 2 "$weft" bench codec a b c
says many_bench "'c' is one word too many: weft bench codec"
# Each bench takes its own options and words; those of the others are not ignored.
foreign() # foreign OPTION BENCH ARGUMENT...
{
    local option=$1
    shift
    run foreign_bench 2 "$weft" bench "$@"
    says foreign_bench "weft bench $1 takes no $option; see weft bench --help"
}
foreign --peer codec --peer a
foreign --set codec --set trainer.listen=127.0.0.1:1
foreign --params fabric site.ini --params 1K
foreign --changed fabric site.ini --changed 1
foreign --density gpu --density 1
foreign --peer gpu cuda --json --peer a
for words in "fabric a.ini b" "gpu cuda b"; do
    # shellcheck disable=SC2086
    run many_words 2 "$weft" bench $words
    says many_words "'${words##* }' is one word too many for weft bench ${words%% *}"
done
run help_merge 0 "$weft" merge --help
says help_merge "--base MODEL .*folder of shards"

want=$(sed -nE 's/^#define WEFT_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)/\2/p' "$source_dir/include/weft.h" | paste -sd.)
run version 0 "$weft" --version
[ "$(cat "$work/version.out")" = "weft $want" ] || fail "version: $(cat "$work/version.out"), wanted weft $want"

run none 2 "$weft"
run verb 2 "$weft" trianer
says verb "did you mean trainer\?"
run far 2 "$weft" xyzzyxyzzy
said far "did you mean" && fail "a word that is near to nothing was given a suggestion"
run option 2 "$weft" rollout site.ini --unitl 3
says option "did you mean --until\?"
run stray 2 "$weft" info stray
run foreign 2 "$weft" info --until 3
run count 2 "$weft" rollout site.ini --peer a --model m --until -3
says count "--until '-3'"
run huge 2 "$weft" rollout site.ini --peer a --model m --until 99999999999999999999
run room 2 "$weft" diff a b -o c --first-version 9223372036854775807
says room "--first-version '9223372036854775807'"
run size 2 "$weft" demo --params 16Q
says size "1\.5G"
run range 2 "$weft" demo --peers 0
run value 2 "$weft" rollout site.ini --peer
says value "--peer NAME"
run flag 2 "$weft" info --json=yes
run site 2 "$weft" check
says site "SITE.ini"
run two 2 "$weft" check a.ini b.ini

run object 2 "$weft" rollout --json site.ini --unitl 3
json object "len(lines) == 1 and set(lines[0]['error']) == {'status', 'scope', 'text'}"
json object "lines[0]['error']['status'] == 'argument' and lines[0]['error']['scope'] == 'call'"

cat >"$work/site.ini" <<INI
[peer.a]
INI
run both 2 "$weft" trainer "$work/site.ini" --model m
says both "--versions FILE... or --follow DIR"
run peer 2 "$weft" rollout "$work/site.ini" --model m
says peer "--peer NAME"
run start 2 "$weft" rollout "$work/site.ini" --peer a
says start "--model FILE or --empty"

run info 0 "$weft" info
run info_json 0 "$weft" info --json
json info_json "len(lines) == 1 and lines[0]['version'] == '$want'"
json info_json "any(b['backend'] == 'host' and b['usable'] for b in lines[0]['backends'])"
json info_json "{'tcp', 'shm', 'verbs', 'efa'} <= {p['provider'] for p in lines[0]['providers']}"
json info_json "all(p['usable'] or p['detail'] for p in lines[0]['providers'])"
json info_json "isinstance(lines[0]['cpu']['features'], list) and isinstance(lines[0]['libfabric'], str)"

run profile 0 "$weft" info --profile verbs
says profile '^profile verbs$'
says profile 'registration +keys the provider'
run profile_json 0 "$weft" info --profile efa --json
json profile_json "lines[0]['provider'] == 'efa' and len(lines[0]['lines']) == 13"
json profile_json "all(l['value'] for l in lines[0]['lines'])"
json profile_json "lines[0]['here']['text'] and isinstance(lines[0]['here']['candidates'], list)"
run profile_none 2 "$weft" info --profile sockets
says profile_none "efa-direct .*stream"

# This host's providers for the peers of a site: one question for all that ask the same, each answer with a verdict.
cat >"$work/fabrics.ini" <<INI
[peers]
address = 127.0.0.1
[peer.a]
[peer.b]
[peer.c]
provider = verbs
[peer.d]
provider = auto
address =
[peer.e]
provider = loop
[peer.f]
address = 203.0.113.9
INI
run fabrics 0 "$weft" check "$work/fabrics.ini"
says fabrics '^  provider tcp on 127.0.0.1 for trainer, a, b: '
says fabrics '^  provider verbs on 127.0.0.1 for c: '
says fabrics '^  provider efa \(auto\) on 127.0.0.1 for d: '
says fabrics 'provider tcp on 203.0.113.9 for f: MISSING, .*not on this host'
run fabrics_json 0 "$weft" check "$work/fabrics.ini" --json
json fabrics_json "[f['peers'] for f in lines[0]['fabrics'] if f['provider'] == 'tcp'] == [['trainer', 'a', 'b'], ['d'], ['f']]"
json fabrics_json "[f['address'] for f in lines[0]['fabrics'] if 'd' in f['peers']] == ['127.0.0.1'] * 3" # as it joins
json fabrics_json "all(f['missing'] and f['text'] for f in lines[0]['fabrics'])"
json fabrics_json "all(c['verdict'] and c['text'] for f in lines[0]['fabrics'] for c in f['candidates'])"
json fabrics_json "all(sum(c['verdict'] == 'taken' for c in f['candidates']) == 1 for f in lines[0]['fabrics'] if f['missing'] == 'nothing')"

# The trainer's end: its addresses by the key that gives them, and all that it registers.
cat >"$work/ends.ini" <<INI
[trainer]
listen = 0.0.0.0:7117
journal = 64MiB
max_peers = 8
[security]
mode = open
[peers]
address = 127.0.0.1
bucket_max = 1MiB
[peer.a]
[peer.v]
provider = verbs
window = 2
streams = 3
INI
run ends 0 "$weft" check "$work/ends.ini"
says ends 'for trainer: MISSING, \[trainer\] listen = 0\.0\.0\.0:7117 \(no address is set there, nor in \[provider\.tcp\]\)'
run ends_named 0 "$weft" check "$work/ends.ini" --set trainer.address=nosuch0 --set provider.verbs.address=127.0.0.1
says ends_named 'for trainer: MISSING, \[trainer\] address = nosuch0: .*neither an IP nor an interface'
run ends_json 0 "$weft" check "$work/ends.ini" --json --set provider.verbs.address=127.0.0.1
pinned="next(f['pin_bytes'] for f in lines[0]['fabrics'] if f['provider'] == 'verbs' and f['peers'] == [%s])"
# shellcheck disable=SC2059
json ends_json "$(printf "$pinned" "'v'") == 3 * 2 * (4096 + 2**20)"
# shellcheck disable=SC2059
json ends_json "$(printf "$pinned" "'trainer'") == 64 * 2**20 + 32 * 2**20 + 16 * 4 * 256"

code=0
"$weft" info --json >/dev/full 2>"$work/full.err" || code=$?
[ "$code" = 1 ] || fail "a full stdout gave exit code $code, wanted 1"
echo "the command line is as it should be"
