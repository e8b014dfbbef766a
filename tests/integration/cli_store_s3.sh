#!/usr/bin/env bash
# A store on an object server: put, get, log, fsck, a trainer's recorder and a rollout's reader, with requests that fail
# in each way that helps to ask again, and in some that do not. The server checks each request's signature.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
AWS_EC2_METADATA_DISABLED=true HOME=$work "$weft" log s3://bucket >"$work/probe" 2>&1
grep -q 'headers of libcurl\|need libcurl' "$work/probe" && echo "skipped: $(cat "$work/probe")" && exit 77
command -v curl >/dev/null || { echo "skipped: curl is missing (Debian: curl)" && exit 77; }
mkdir "$work/m"
python3 "$support/shard_models.py" make "$work/s" || fail "no model"
mv "$work/s/model.safetensors" "$work/m/v0.safetensors"
for v in 1 2 3 4; do
    python3 "$support/shard_models.py" step "$work/m/v$((v - 1)).safetensors" "$work/m/v$v.safetensors" $v || fail "no v$v"
done
start server python3 "$support/s3_server.py" "$work/port" geheim
await test -s "$work/port"
url=http://127.0.0.1:$(cat "$work/port")
export AWS_ACCESS_KEY_ID=ID AWS_SECRET_ACCESS_KEY=geheim AWS_ENDPOINT_URL=$url AWS_REGION=eu-central-1
export HOME=$work AWS_EC2_METADATA_DISABLED=true
unset AWS_SESSION_TOKEN AWS_ENDPOINT_URL_S3 AWS_PROFILE AWS_DEFAULT_PROFILE
store="s3://bucket/run 7/é+store"

faults() # faults WORD...: how the next requests fail
{
    curl -sf -X PUT --data "$*" "$url/faults" || fail "no faults"
}

counted() # counted EXPRESSION: of the counts, as n
{
    curl -sf "$url/counts" >"$work/counts.out"
    python3 -c 'import collections, json, sys
n = collections.Counter(json.load(open(sys.argv[1])))
sys.exit(not eval(sys.argv[2]))' "$work/counts.out" "$1" || fail "counts: not $1 of $(cat "$work/counts.out")"
}

got() # got STORE VERSION MODEL
{
    rm -f "$work/out"
    run get 0 "$weft" get "$1" --version "$2" -o "$work/out"
    same "$work/out" "$3"
}

for v in 0 1 2 3 4; do run put 0 "$weft" put "$store" "$work/m/v$v.safetensors" --version $((120 + v)); done
run log 0 "$weft" log "$store" --json
json log "[o['version'] for o in lines] == [120, 121, 122, 123, 124] and all(o['reachable'] for o in lines)"
for v in 4 0 2; do got "$store" $((120 + v)) "$work/m/v$v.safetensors"; done
run fsck 0 "$weft" fsck "$store"
says fsck '^5 versions, 0 faults$'

echo "files are opened several at once, each by one request"
counted "True"
before=$(cat "$work/counts.out")
faults fine fine meet meet # behind the two pages of the listing
run log 0 "$weft" log "$store"
counted "n['met'] == 2 and n['GET'] == $before['GET'] + 2 + 5"

echo "requests that fail are made again"
faults error busy drop cut slow error
got "$store" 123 "$work/m/v3.safetensors"
counted "n['error'] == 2 and n['busy'] == n['drop'] == n['cut'] == n['slow'] == 1"
faults error fine fine fine lost # at last a write whose answer is lost
run put 0 "$weft" put "s3://bucket/other" "$work/m/v1.safetensors"
got s3://bucket/other 1 "$work/m/v1.safetensors"
counted "n['lost'] == 1"
faults error error error error error error
run put 2 "$weft" put "$store" "$work/m/v0.safetensors"
says put "answers 500 SlowDown: .*& so on"

echo "an anchor in parts"
python3 - "$work/large.safetensors" <<'PYTHON' || fail "no large model"
import json, os, struct, sys
data = os.urandom(40 << 20)
head = json.dumps({"w": {"dtype": "BF16", "shape": [len(data) // 2], "data_offsets": [0, len(data)]}}).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(head)) + head + data)
PYTHON
faults fine fine fine fine lost
run put 0 "$weft" put s3://bucket/large "$work/large.safetensors"
counted "n['part'] >= 3"
got s3://bucket/large 1 "$work/large.safetensors"
faults fine fine fine fine fine fine lost # the end of the parts
run put 0 "$weft" put s3://bucket/larger "$work/large.safetensors"
counted "n['lost'] == 3"
got s3://bucket/larger 1 "$work/large.safetensors"
faults fine fine fine fine fine fine kept # and again by a server that looks for the name first
run put 0 "$weft" put s3://bucket/kept "$work/large.safetensors"
got s3://bucket/kept 1 "$work/large.safetensors"

faults fine fine fine error error error error error error
run put 1 "$weft" put s3://bucket/failed "$work/large.safetensors"
counted "n['given up'] == 1"
faults fine fine fine error error error error error error error error error error error error # nor can it be given up
run put 1 "$weft" put s3://bucket/failed "$work/large.safetensors"
counted "n['given up'] == 1"

echo "parts of a writer that lives stay, however long ago they were begun"
parts() # parts N: the server has got so many
{
    curl -sf "$url/counts" | python3 -c 'import json, sys; sys.exit(json.load(sys.stdin)["part"] < int(sys.argv[1]))' "$1"
}
curl -sf "$url/counts" >"$work/counts.out"
before=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["part"])' "$work/counts.out")
curl -sf -X PUT --data 'slow partNumber=3' "$url/always"
start living "$weft" put s3://bucket/living "$work/large.safetensors"
await parts $((before + 2))
run trim 2 "$weft" trim s3://bucket/living # it has no version yet
curl -sf -X PUT --data fine "$url/always"
finish living 0
counted "n['given up'] == 1"
got s3://bucket/living 1 "$work/large.safetensors"

echo "what does not help to ask again"
AWS_SECRET_ACCESS_KEY=wrong run log 2 "$weft" log "$store"
says log 'answers 403 SignatureDoesNotMatch: the signature differs'
run log 2 "$weft" log s3://elsewhere/store
says log 'elsewhere/store.*the server answers 404'
(
    unset AWS_SECRET_ACCESS_KEY
    run log 2 "$weft" log "$store"
    says log 'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY'
) || exit 1
run log 2 "$weft" log s3:///store
run log 2 "$weft" log gs:///store
run log 2 "$weft" log az://bucket/store

if fabric_is_here tcp; then
    echo "a trainer writes there, and a rollout reads without the trainer"
    site "$work/site.ini" a
    mkdir "$work/in"
    start reader "$weft" rollout --store s3://bucket/trainer --model "$work/m/v0.safetensors" --follow --until 4 \
        --save "$work/read.safetensors" --json
    start trainer "$weft" trainer "$work/site.ini" --set trainer.store=s3://bucket/trainer \
        --model "$work/m/v0.safetensors" --follow "$work/in" --json
    for v in 1 2 3 4; do
        await said trainer "\"target\":$((v - 1)),|is bound"
        [ $v != 3 ] || faults error lost cut busy
        appear $v
    done
    finish reader 0
    same "$work/read.safetensors" "$work/m/v4.safetensors"
    stop trainer
    run fsck 0 "$weft" fsck s3://bucket/trainer
    says fsck '^5 versions, 0 faults$'

    echo "parts that were never finished go with old versions"
    start trainer "$weft" trainer "$work/site.ini" --set trainer.store=s3://bucket/failed \
        --set trainer.store_versions=1 --model "$work/m/v0.safetensors" --follow "$work/in" --json
    await said trainer 'anchor of version 0'
    stop trainer
    counted "n['given up'] == 2"

    echo "a server that does not answer does not keep a trainer from closing"
    rm "$work"/in/*
    start trainer "$weft" trainer "$work/site.ini" --set trainer.store=s3://bucket/trainer \
        --model "$work/m/v4.safetensors" --first-version 4 --follow "$work/in" --json
    await said trainer 'anchor of version 4'
    faults stuck stuck stuck stuck
    cp "$work/m/v2.safetensors" "$work/in/part" && mv "$work/in/part" "$work/in/v5.safetensors"
    await said trainer '"target":5,'
    begun=$SECONDS
    stop trainer
    [ $((SECONDS - begun)) -lt 12 ] || fail "the trainer closed after $((SECONDS - begun)) s"
    says trainer 'version 5, the last one published, is not there'
fi
interrupt server

if [ -n "${WEFT_FULL:-}" ]; then
    echo "the same by a server that others wrote"
    if python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q 'moto[s3,server]' >"$work/pip.out" 2>&1; then
        port=$(free_port)
        start moto "$work/venv/bin/moto_server" -H 127.0.0.1 -p "$port"
        await curl -sf -X PUT "http://127.0.0.1:$port/bucket"
        export AWS_ENDPOINT_URL=http://127.0.0.1:$port
        for v in 0 1 2; do run put 0 "$weft" put "$store" "$work/m/v$v.safetensors" --version $((120 + v)); done
        for v in 2 0; do got "$store" $((120 + v)) "$work/m/v$v.safetensors"; done
        run fsck 0 "$weft" fsck "$store"
        run put 0 "$weft" put s3://bucket/large "$work/large.safetensors"
        got s3://bucket/large 1 "$work/large.safetensors"
        interrupt moto
    else
        echo "skipped: moto's server cannot be had"
    fi
fi
