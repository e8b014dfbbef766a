#!/usr/bin/env bash
# Two ends with libfabrics of different majors: WEFT_BIN is the command on one, WEFT_OTHER on the other. What works
# between them works in both directions and is said; what does not is refused once, with both versions, and ends at once.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
[ -x "${WEFT_OTHER:-}" ] || { echo "WEFT_OTHER is not set to a command weft on another libfabric" && exit 1; }
fabric tcp
version_of() # version_of COMMAND: "1.17"
{
    "$1" info | sed -n 's/^weft .*libfabric \([0-9.]*\).*/\1/p'
}
here=$(version_of "$WEFT_BIN") there=$(version_of "$WEFT_OTHER")
[ "${here%%.*}" != "${there%%.*}" ] || fail "both ends have libfabric ${here%%.*}"
models "$work/m" 1
site "$work/site.ini" a

ends() # ends NAME CODE TRAINER ROLLOUT OPTION...
{
    local name=$1 code=$2 trainer=$3 rollout=$4
    shift 4
    start "t_$name" "$trainer" trainer "$work/site.ini" --model "$work/m/v0.safetensors" \
        --versions "$work/m/v1.safetensors" --set trainer.join_deadline=30s "$@"
    await said "t_$name" 'listening on'
    run "r_$name" "$code" "$rollout" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors" --until 1 \
        --save "$work/$name.safetensors" --set session.connect_deadline=30s "$@"
}

for provider in tcp tcp-rxm; do
    for turn in "up $WEFT_BIN $WEFT_OTHER" "down $WEFT_OTHER $WEFT_BIN"; do
        read -r way trainer rollout <<<"$turn"
        name=${provider}_$way
        ends "$name" 0 "$trainer" "$rollout" --set "peers.provider=$provider"
        finish "t_$name" 0
        says "t_$name" "a comes with libfabric .*: provider $provider works between the two"
        same "$work/$name.safetensors" "$work/m/v1.safetensors"
    done
done

ends shm 1 "$WEFT_BIN" "$WEFT_OTHER" --set peers.provider=shm
says r_shm "libfabric $there, this end has $here: provider shm does not work between majors"
[ "$(grep -c 'between majors' "$work/r_shm.err")" = 1 ] || fail "not told once"
interrupt t_shm
finish t_shm 1
echo "libfabric $here and $there: tcp and tcp-rxm both ways, shm is refused"
