#!/usr/bin/env bash
# image.sh THERE HERE INPUT... -- COMMAND...: takes the image THERE of another build as HERE where it is newer than every
# INPUT that it is made of; else COMMAND makes HERE.
there=$1 here=$2
shift 2
newer=$there
while [ "$1" != -- ]; do
    [ "$there" -nt "$1" ] || newer=
    shift
done
shift
if [ -s "$there" ] && [ -n "$newer" ] && [ ! "$there" -ef "$here" ]; then
    cp -p "$there" "$here"
else
    exec "$@"
fi
