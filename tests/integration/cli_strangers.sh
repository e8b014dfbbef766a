#!/usr/bin/env bash
# Three hundred bare connections to the data port of a rollout and to the trainer's control port, where no process may
# open more than a hundred descriptors: nobody is lost, no version is missed, no descriptor stays open, and a new peer
# joins afterwards. max_peers beyond that limit is told with both numbers, and the site's own peers beyond it is an error.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
models "$work/m" 3
site "$work/site.ini" a b
mkdir "$work/in"

# The soft limit is raised to the hard one.
limited() # limited NAME HARD COMMAND...
{
    start "$1" bash -c 'ulimit -Sn 60 && ulimit -Hn "$1" && exec "${@:2}"' limited "${@:2}"
}

opened() # opened NAME: its descriptors
{
    find "/proc/$(cat "$work/$1.pid")/fd" -mindepth 1 | wc -l
}

# strangers NAME COUNT: so many connect to each port that it listens on, and leave; how many came in
strangers()
{
    python3 - "$(cat "$work/$1.pid")" "$2" <<'PYTHON'
import os, socket, sys
pid, count = sys.argv[1], int(sys.argv[2])
mine = set()
for fd in os.listdir(f"/proc/{pid}/fd"):
    try:
        mine.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    except OSError:
        pass
came = 0
for line in open("/proc/net/tcp").read().splitlines()[1:]:
    word = line.split()
    if word[3] != "0A" or f"socket:[{word[9]}]" not in mine:
        continue
    for i in range(count):
        try:
            stranger = socket.create_connection(("127.0.0.1", int(word[1].split(":")[1], 16)), timeout=1)
        except TimeoutError:
            break  # a port that only writes
        if i % 3 == 0:
            stranger.send(b"GET /")
        stranger.close()
        came += 1
print(came)
PYTHON
}

grown() # grown NAME BEFORE: its descriptors are no more than before, but for a few on their way
{
    [ "$(opened "$1")" -gt $(($2 + 6)) ]
}

settled() # settled NAME BEFORE
{
    ! grown "$@"
}

limited trainer 100 "$weft" trainer "$work/site.ini" --model "$work/m/v0.safetensors" --follow "$work/in" --json
limited a 100 "$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors" --until 6 --json
await said trainer 'joined: a'
says trainer 'max_peers = 64 may take [0-9]* descriptors, 6 for each peer, .*may open 100:'
appear 1
await said a '"target":1'
of_a=$(opened a)
of_trainer=$(opened trainer)
for version in 2 3 4 5; do
    [ "$(strangers a 300)" -ge 300 ] || fail "no stranger came to a's data port"
    strangers trainer 100 >/dev/null
    appear $((version % 4)) "v$version"
    await said a "\"target\":$version"
done
await settled a "$of_a"
await settled trainer "$of_trainer"
said trainer 'lost: a' && fail "a was lost"
said a '(away|lost)' && fail "a lost the trainer"
json a "[o['target'] for o in lines if 'target' in o] == [1, 2, 3, 4, 5]"

limited b 100 "$weft" rollout "$work/site.ini" --peer b --empty --until 6 --save "$work/b.safetensors" --json
await said trainer 'joined: b'
appear 3 v6
finish a 0
finish b 0
same "$work/b.safetensors" "$work/m/v3.safetensors"
stop trainer

# forty peers of eight streams
site "$work/wide.ini" $(seq -f p%g 40)
limited wide 200 "$weft" trainer "$work/wide.ini" --model "$work/m/v0.safetensors" --follow "$work/in" --set peers.streams=8
finish wide 1
says wide 'the 40 peers of the site take 1640 descriptors, [0-9]* are open, this process may open 200: raise'
echo "strangers cost nothing"
