#!/usr/bin/env bash
# Holds the circles of core small: files that call one another in a ring. WEFT_BUILD is a build of the tree. Functions
# that a table points at do not count. Each call goes from the object that needs a symbol to the object that defines it.
set -uo pipefail
export LC_ALL=C
most=${WEFT_CIRCLE:-5} # files of one circle
build_dir=${WEFT_BUILD:?}

# Prints "FILE needs SYMBOL" or "FILE has SYMBOL" for each object below a folder.
symbols_of() # symbols_of FOLDER
{
    find "$1" -name '*.o' -print0 | xargs -0 nm -A 2>/dev/null |
        sed -nE "s,^$1/(.*)\.c\.o:[0-9a-f ]* U (.*)$,\1 needs \2,p; s,^$1/(.*)\.c\.o:[0-9a-f ]* [BDRT] (.*)$,\1 has \2,p"
}

# Reads those lines, prints each circle that breaks a rule, and at last the largest one. Floods the arrows both ways from
# each file: what is reached both ways stands in one circle with that file.
judge='
    $2 == "has" { home[$3] = $1 }
    { if (!($1 in known)) { known[$1] = 1; names[++count] = $1 } }
    $2 == "needs" { needs[$1] = needs[$1] " " $3 }
    function flood(from, arrows, seen,    queue, first, last, parts, n, i) {
        split("", seen); seen[from] = 1; queue[last = 1] = from
        for (first = 1; first <= last; first++) {
            n = split(arrows[queue[first]], parts, " ")
            for (i = 1; i <= n; i++) if (!(parts[i] in seen)) { seen[parts[i]] = 1; queue[++last] = parts[i] }
        }
    }
    function room(file) { sub(/\/.*/, "", file); return file }
    END {
        for (f = 1; f <= count; f++) {
            n = split(needs[names[f]], wanted, " ")
            for (i = 1; i <= n; i++) {
                to = home[wanted[i]]
                if (to == "" || to == names[f] || (names[f], to) in drawn) continue
                drawn[names[f], to] = 1; out[names[f]] = out[names[f]] " " to; into[to] = into[to] " " names[f]; total++
            }
        }
        for (f = 1; f <= count; f++) {
            if (names[f] in placed) continue
            flood(names[f], out, there); flood(names[f], into, back)
            size = 0; list = ""; rooms = 0; split("", in_rooms)
            for (i = 1; i <= count; i++) if (names[i] in there && names[i] in back) {
                placed[names[i]] = 1; size++; list = list " " names[i]
                if (!(room(names[i]) in in_rooms)) { in_rooms[room(names[i])] = 1; rooms++ }
            }
            if (size > largest) largest = size
            if (size > most) { print "circles: " size " files call one another, at most " most " may:" list; bad = 1 }
            if (rooms > 1) { print "circles: a circle goes through " rooms " rooms:" list; bad = 1 }
        }
        print "circles: " count " files, " total + 0 " arrows, the largest circle has " largest + 0 " files"
        exit bad
    }'

judged() # judged FOLDER
{
    symbols_of "$1" | awk -v most="$most" "$judge"
}

# The rules must see a circle of six files, and one of two rooms.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ring() # ring ROOM/FILE...
{
    local file next=("${@:2}" "$1") i=0
    rm -rf "$work/ring"
    for file in "$@"; do
        mkdir -p "$work/ring/${file%/*}"
        printf 'void weft_%s(void);\nvoid weft_%s(void);\nvoid weft_%s(void) { weft_%s(); }\n' \
            "${file#*/}" "$(basename "${next[i]}")" "${file#*/}" "$(basename "${next[i]}")" |
            ${WEFT_CC:-cc} -x c -c -o "$work/ring/$file.c.o" - || exit 1
        i=$((i + 1))
    done
}
broken=0
ring a/one a/two a/three a/four a/five a/six
most=5 judged "$work/ring" >/dev/null && echo "circles: a circle of six files is not seen" && broken=1
ring a/one b/two
judged "$work/ring" >/dev/null && echo "circles: a circle of two rooms is not seen" && broken=1
ring a/one a/two
judged "$work/ring" >/dev/null || { echo "circles: a circle of two files is refused" && broken=1; }

objects=$build_dir/CMakeFiles/weft_core.dir/core
[ -d "$objects" ] || { echo "circles: no objects under $objects: build first" && exit 1; }
said=$(judged "$objects") || broken=1
echo "$said"
read -r files arrows < <(sed -nE 's/^circles: ([0-9]+) files, ([0-9]+) arrows.*/\1 \2/p' <<<"$said")
# Objects without symbols, such as those of link-time optimisation, would show no circle.
[ "$arrows" -gt "$files" ] || { echo "circles: $arrows arrows between $files files: the objects hide their calls" && broken=1; }
exit $broken
