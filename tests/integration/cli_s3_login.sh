#!/usr/bin/env bash
# Credentials for object servers, from each place where the SDKs look: profiles, a web identity, a container's and an
# instance's role; renewed while a process runs; and stores copied between a folder, S3, and Google's interface.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
for name in $(compgen -e | grep -E '^(AWS|GS)_|^STORAGE_EMULATOR_HOST$'); do unset "$name"; done
export AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:1 HOME=$work/home
AWS_EC2_METADATA_DISABLED=true "$weft" log s3://bucket >"$work/probe" 2>&1
grep -q 'headers of libcurl\|need libcurl' "$work/probe" && echo "skipped: $(cat "$work/probe")" && exit 77
command -v curl >/dev/null || { echo "skipped: curl is missing (Debian: curl)" && exit 77; }
models "$work/m" 3
mkdir -p "$work/home/.aws"
start server python3 "$support/s3_server.py" "$work/port" geheim
await test -s "$work/port"
url=http://127.0.0.1:$(cat "$work/port")
store=s3://bucket/store

counted() # counted EXPRESSION: of the counts, as n
{
    curl -sf "$url/counts" >"$work/counts.out"
    python3 -c 'import collections, json, sys
n = collections.Counter(json.load(open(sys.argv[1])))
sys.exit(not eval(sys.argv[2]))' "$work/counts.out" "$1" || fail "counts: not $1 of $(cat "$work/counts.out")"
}

listed() # listed VARIABLE=VALUE...: the store can be listed with them
{
    run log 0 env "$@" "$weft" log "$store"
    says log '/1 '
}

refused() # refused PATTERN VARIABLE=VALUE...
{
    local pattern=$1
    shift
    run log 2 env "$@" "$weft" log "$store"
    says log "$pattern"
}

echo "profiles of the shared files"
cat >"$work/home/.aws/credentials" <<PROFILE
# comment
[other]
aws_access_key_id = ID
aws_secret_access_key = wrong
[default]
aws_access_key_id=ID
aws_secret_access_key = geheim
s3 =
    addressing_style = path
[halved]
aws_access_key_id = ID
PROFILE
cat >"$work/home/.aws/config" <<PROFILE
[default]
endpoint_url = $url/
region = eu-central-1
[profile elsewhere]
endpoint_url = $url
aws_access_key_id = ID
aws_secret_access_key = geheim
[profile other]
endpoint_url = $url
[profile role]
endpoint_url = $url
role_arn = arn:aws:iam::1:role/reader
web_identity_token_file = $work/identity
PROFILE
run put 0 "$weft" put "$store" "$work/m/v0.safetensors"
listed AWS_PROFILE=elsewhere
listed AWS_PROFILE=other AWS_ACCESS_KEY_ID=ID AWS_SECRET_ACCESS_KEY=geheim # the environment comes first
refused 'SignatureDoesNotMatch' AWS_PROFILE=other
refused 'the profile halved has no keys and no web identity' AWS_PROFILE=halved
refused 'the profile none has no keys' AWS_PROFILE=none
mkdir "$work/files"
mv "$work/home/.aws/credentials" "$work/files/keys"
refused 'no credentials: set AWS_ACCESS_KEY_ID .* asked for an instance.s role, http://127.0.0.1:1/latest/api/token: ' A=B
refused 'no credentials: .*docs/STORE.md.$' AWS_EC2_METADATA_DISABLED=true
listed AWS_SHARED_CREDENTIALS_FILE="$work/files/keys"
mv "$work/home/.aws/config" "$work/files/config"

echo "roles: by a web identity, of a container, of an instance"
printf 'identity/+ é\n' >"$work/identity"
identity=(AWS_ENDPOINT_URL="$url" AWS_ROLE_ARN=arn:aws:iam::1:role/reader AWS_WEB_IDENTITY_TOKEN_FILE="$work/identity")
listed "${identity[@]}"
listed AWS_CONFIG_FILE="$work/files/config" AWS_PROFILE=role AWS_ENDPOINT_URL_STS="$url"
counted "n['sts'] == 2"
echo other >"$work/stranger"
refused 'role arn:aws:iam::1:role/reader by web identity: .* answers 403 AccessDenied: another identity' \
    "${identity[@]}" AWS_WEB_IDENTITY_TOKEN_FILE="$work/stranger"
refused 'by web identity: .*/none: cannot be opened' "${identity[@]}" AWS_WEB_IDENTITY_TOKEN_FILE="$work/none"
container=(AWS_ENDPOINT_URL="$url" AWS_CONTAINER_CREDENTIALS_FULL_URI="$url/container")
listed "${container[@]}" AWS_CONTAINER_AUTHORIZATION_TOKEN=agent
echo agent >"$work/agent"
listed "${container[@]}" AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE="$work/agent"
counted "n['container'] == 2"
refused '/container answers 401 Unauthorized' "${container[@]}"
refused 'need a server of this host, or https' AWS_CONTAINER_CREDENTIALS_FULL_URI=http://example.com/container
for stranger in http://127.0.0.1.example.com/ http://127.0.0.1:80@example.com/ http://localhost.example.com/ \
    http://169.254.170.23.example.com/ http://169.254.170.2@example.com/; do
    refused 'FULL_URI = .*: need a server of this host, or https' AWS_CONTAINER_CREDENTIALS_FULL_URI=$stranger
done
refused 'RELATIVE_URI = @example.com/: need a server of this host' AWS_CONTAINER_CREDENTIALS_RELATIVE_URI=@example.com/
refused '/flood: the answer has more than 262144 bytes' AWS_CONTAINER_CREDENTIALS_FULL_URI="$url/flood"
instance=(AWS_ENDPOINT_URL="$url" AWS_EC2_METADATA_SERVICE_ENDPOINT="$url/")
listed "${instance[@]}"
counted "n['instance'] == 1"
refused 'no credentials' "${instance[@]}" AWS_EC2_METADATA_DISABLED=true

echo "renewed before they end, and when the server says that they have ended"
curl -sf -X PUT --data 3 "$url/life" || fail "no life"
start reader env "${instance[@]}" "$weft" rollout --store "$store" --model "$work/m/v0.safetensors" --follow --until 3 \
    --save "$work/read.safetensors"
renewed() # renewed COUNT: so often were an instance's credentials given, or more often
{
    [ "$(curl -sf "$url/counts" | python3 -c 'import json, sys; print(json.load(sys.stdin).get("instance", 0))')" -ge "$1" ]
}
for v in 1 2; do
    await renewed $((v + 2))
    run put 0 env AWS_ENDPOINT_URL="$url" AWS_SHARED_CREDENTIALS_FILE="$work/files/keys" "$weft" put "$store" \
        "$work/m/v$v.safetensors"
done
finish reader 0
same "$work/read.safetensors" "$work/m/v2.safetensors"
counted "n['expired'] == 0"
curl -sf -X PUT --data -1 "$url/life" || fail "no life" # as of a server whose clock is ahead: the first are over at once
run late 2 env "${instance[@]}" "$weft" log "$store"
says late 'answers 400 ExpiredToken'
counted "n['expired'] >= 2"

echo "between a folder, S3 and Google's interface"
unset AWS_EC2_METADATA_SERVICE_ENDPOINT
export AWS_EC2_METADATA_DISABLED=true AWS_ACCESS_KEY_ID=ID AWS_SECRET_ACCESS_KEY=geheim AWS_ENDPOINT_URL=$url
export STORAGE_EMULATOR_HOST=$url GS_ACCESS_KEY_ID=HMAC GS_SECRET_ACCESS_KEY=geheim
run down 0 "$weft" copy "$store" "$work/local"
run fsck 0 "$weft" fsck "$work/local"
run up 0 "$weft" copy "$work/local" gs://bucket/google --json
json up "lines[-1]['files'] > 0 and lines[-1]['there'] == 0"
run across 0 "$weft" copy gs://bucket/google s3://bucket/again
run back 0 "$weft" copy s3://bucket/again "$work/back"
diff -r "$work/local" "$work/back" || fail "what came back differs"
run there 0 "$weft" copy "$work/local" gs://bucket/google --json
json there "lines[-1]['files'] == 0"
curl -sf -X PUT --data "fine fine fine fine fine fine error lost cut" "$url/faults" || fail "no faults"
run faulty 0 "$weft" copy "$work/local" s3://bucket/faulty
run faulty 0 "$weft" copy s3://bucket/faulty "$work/faulty"
diff -r "$work/local" "$work/faulty" || fail "what came through faults differs"
run nokey 2 env -u GS_ACCESS_KEY_ID "$weft" log gs://bucket/google
says nokey 'set GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY'
run get 0 "$weft" get gs://bucket/google --version 3 -o "$work/got"
same "$work/got" "$work/m/v2.safetensors"
interrupt server
echo "credentials came from each place"
