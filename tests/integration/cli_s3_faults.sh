#!/usr/bin/env bash
# An object server that answers with no listing, half of one or one without end, without end or by drops, and one that
# gives some objects to nobody: each is an error that says what came, in bounded time and memory, and nothing begins anew.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
AWS_EC2_METADATA_DISABLED=true HOME=$work "$weft" log s3://bucket >"$work/probe" 2>&1
grep -q 'headers of libcurl\|need libcurl' "$work/probe" && echo "skipped: $(cat "$work/probe")" && exit 77
command -v curl >/dev/null || { echo "skipped: curl is missing (Debian: curl)" && exit 77; }
mkdir "$work/m" "$work/in"
python3 "$support/shard_models.py" make "$work/s" || fail "no model"
mv "$work/s/model.safetensors" "$work/m/v0.safetensors"
for v in 1 2 3; do
    python3 "$support/shard_models.py" step "$work/m/v$((v - 1)).safetensors" "$work/m/v$v.safetensors" $v || fail "no v$v"
done
for server in server drops blanks; do
    start $server python3 "$support/s3_server.py" "$work/$server.port" geheim
    await test -s "$work/$server.port"
done
url=http://127.0.0.1:$(cat "$work/server.port") drops=http://127.0.0.1:$(cat "$work/drops.port")
blanks=http://127.0.0.1:$(cat "$work/blanks.port")
export AWS_ACCESS_KEY_ID=ID AWS_SECRET_ACCESS_KEY=geheim AWS_ENDPOINT_URL=$url AWS_REGION=eu-central-1
export HOME=$work AWS_EC2_METADATA_DISABLED=true
unset AWS_SESSION_TOKEN AWS_ENDPOINT_URL_S3 AWS_PROFILE AWS_DEFAULT_PROFILE
store=s3://bucket/run7

always() # always FAULT [PATH]: how requests for such paths fail from here on
{
    curl -sf -X PUT --data "$*" "$url/always" || fail "no faults"
}

echo "a server of two bytes a second is given up, by readers and by a trainer that opens its store"
curl -sf -X PUT --data drip "$drops/always" || fail "no drops"
begun=$SECONDS
AWS_ENDPOINT_URL=$drops start slow "$weft" log s3://bucket/dripping
if fabric_is_here tcp; then
    site "$work/site.ini" a
    AWS_ENDPOINT_URL=$drops start trainer "$weft" trainer "$work/site.ini" --set trainer.store=s3://bucket/dripping \
        --model "$work/m/v0.safetensors" --follow "$work/in"
fi

echo "a server that works and says so by blanks is waited for: it makes an object of its parts"
python3 - "$work/large.safetensors" <<'PYTHON' || fail "no large model"
import json, os, struct, sys
data = os.urandom(24 << 20)
head = json.dumps({"w": {"dtype": "BF16", "shape": [len(data) // 2], "data_offsets": [0, len(data)]}}).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(head)) + head + data)
PYTHON
curl -sf -X PUT --data "blanks ?uploadId" "$blanks/always" || fail "no blanks"
AWS_ENDPOINT_URL=$blanks start parts "$weft" put s3://bucket/parts "$work/large.safetensors"

for v in 0 1 2; do run put 0 "$weft" put "$store" "$work/m/v$v.safetensors" --version $((120 + v)); done

echo "what is no listing is no empty store"
refused() # refused TEXT: no verb takes what comes for a listing
{
    local verb
    for verb in "log $store" "fsck $store" "put $store $work/m/v3.safetensors" "get $store --version 122 -o $work/never"; do
        # shellcheck disable=SC2086
        run refused 2 "$weft" $verb
        says refused "$1"
    done
    absent "$work/never"
}
always login
refused 'answers 200 with what is no ListBucketResult: <html><head><title>Sign in'
always round list-type
refused 'the server goes round: page 2 is followed by itself'
always empty list-type
refused 'after 101 pages, 0 names and [0-9]+ s the server tells of more'
always fine
curl -sf -X PUT --data half "$url/faults"
run log 0 "$weft" log "$store" --json # asked again
json log "[o['version'] for o in lines] == [120, 121, 122] and all(o['reachable'] for o in lines)"
curl -sf "$url/counts" >"$work/counts"
grep -q '"half": 1\b' "$work/counts" || fail "no half: $(cat "$work/counts")"
always half list-type
run log 2 "$weft" log "$store"
says log 'answers 200 with half a ListBucketResult'

echo "a body without end is broken off"
within() # within CODE ARGUMENTS...: the command takes less than 150 MiB
{
    local code=$1
    shift
    run within "$code" python3 -c 'import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
sys.exit(code if most < 150 << 10 else f"{most} KiB")' "$weft" "$@"
    says within 'sends more than [0-9]+ bytes, which are all that was to come'
}
always endless list-type
within 2 log "$store"
always endless source-0-of-1
within 2 get "$store" --version 122 -o "$work/never"
within 3 fsck "$store"

echo "an object that cannot be read is not gone"
unread() # unread TEXT
{
    run get 2 "$weft" get "$store" --version 122 -o "$work/never"
    says get "version 122: .*00000000000000000121/source-0-of-1.weft cannot be used: .*$1"
    absent "$work/never"
}
always denied 121/source-0-of-1
unread 'answers 403 AccessDenied'
run fsck 3 "$weft" fsck "$store"
says fsck '00000000000000000121/source-0-of-1.weft: .*answers 403 AccessDenied'
says fsck '/122: the version is lost: no whole files lead to this version: .*/source-0-of-1.weft cannot be used'
run log 0 "$weft" log "$store"
says log '/122 .*nothing whole leads there'
always cut 121/source-0-of-1
unread 'partial file'
always busy 121/source-0-of-1 # not the object's fault, so there is no list without it
run log 2 "$weft" log "$store"
says log '121/source-0-of-1.weft: .*answers 503 SlowDown'
always fine
run put 0 "$weft" put "$store" "$work/m/v3.safetensors" --json
json put "lines[0]['version'] == 123"
run get 0 "$weft" get "$store" --version 123 -o "$work/out"
same "$work/out" "$work/m/v3.safetensors"

finish parts 0
curl -sf "$blanks/counts" >"$work/counts"
grep -q '"blanks": 1\b' "$work/counts" || fail "no blanks: $(cat "$work/counts")"
interrupt blanks
finish slow 2
says slow 'dripping/.* takes too long: [0-9]+ bytes came in [0-9]+ s'
if fabric_is_here tcp; then
    finish trainer 2
    says trainer 'dripping/.* takes too long: [0-9]+ bytes came in [0-9]+ s'
fi
[ $((SECONDS - begun)) -lt 100 ] || fail "the server of drops was waited for for $((SECONDS - begun)) s"
interrupt server
interrupt drops
