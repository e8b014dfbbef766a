"""Bugs planted by hand: each makes one sentence false that promises something, and one test must fail for it.

planted/ROOM.txt has them in blocks, with blank lines between:

    core/joint/accord.c
    ! Sources of different runs are never mixed.
    = fault.session_sources
    - if (one->run != other->run)
    - return false;
    + (void)other;

A file, the promise, the test, and the text before and after. Blanks of the text before do not count. Several pairs of
texts are one bug. Without a text after, the text is taken away."""
import glob
import hashlib
import os
import re
import sys
from typing import NamedTuple

import build

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "planted")
PLAYED = os.path.join(FOLDER, "played.tsv")


class Planted(NamedTuple):
    room: str
    file: str
    promise: str
    test: str
    changes: tuple[tuple[str, str], ...]

    def text(self, source):
        """The file with the bug. ValueError: a text before is not there, or is there twice."""
        for old, new in self.changes:
            found = list(re.finditer(r"\s+".join(map(re.escape, old.split())), source))
            if len(found) != 1:
                raise ValueError(f"{self.file}: {len(found)} times there: {old}")
            source = source[: found[0].start()] + new + source[found[0].end() :]
        return source


def block_read(room, block):
    marks = {"!": "", "=": ""}
    first, changes, last = None, [], ""
    for line in block.splitlines():
        mark, text = line[:1], line[2:]
        if line.startswith("#"):
            continue
        if first is None:
            first = line
        elif mark in marks and line[1:2] == " ":
            marks[mark] += (" " if marks[mark] else "") + text
        elif mark == "-" and last != "-":
            changes.append([text, ""])
        elif mark == "-":
            changes[-1][0] += "\n" + text
        elif mark == "+" and changes:
            changes[-1][1] += ("\n" if changes[-1][1] else "") + text
        else:
            raise ValueError(f"neither !, =, - nor +: {line}")
        last = mark
    if not first or not all(marks.values()) or not changes:
        raise ValueError(f"not FILE, ! PROMISE, = TEST, - OLD and + NEW:\n{block}")
    return Planted(room, first, marks["!"], marks["="], tuple(map(tuple, changes)))


def read_all():
    found = []
    for path in sorted(glob.glob(os.path.join(FOLDER, "*.txt"))):
        room = os.path.basename(path)[:-4]
        with open(path, encoding="utf-8") as file:
            blocks = re.split(r"\n\s*\n", file.read())
        for block in blocks:
            if any(line and not line.startswith("#") for line in block.splitlines()):
                try:
                    found.append(block_read(room, block))
                except ValueError as error:
                    sys.exit(f"mutate.py: planted/{room}.txt: {error}")
    return found


def test_source(test):
    kind, name = test.split(".", 1)
    return f"tests/{kind}/test_{name}.c"


def meant(path):
    """The text of a file without comments and without its lines' lengths, because neither decides what a test sees."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return " ".join(re.sub(r"/\*.*?\*/", " ", text, flags=re.S).split())


def digest_of(room, bugs):
    """Of what decides whether a room's bugs are caught: the folders that they are in, the bugs, and the tests."""
    folders = {os.path.dirname(bug.file) for bug in bugs}
    paths = {path for folder in folders for path in glob.glob(os.path.join(build.ROOT, folder, "*.[ch]"))}
    paths |= {os.path.join(build.ROOT, test_source(bug.test)) for bug in bugs} | {os.path.join(FOLDER, room + ".txt")}
    return hashlib.sha256("\n".join(map(meant, sorted(paths))).encode()).hexdigest()[:16]


def by_room(bugs):
    rooms = {}
    for bug in bugs:
        rooms.setdefault(bug.room, []).append(bug)
    return rooms


def played():
    """{room: digest of when all of its bugs were caught}"""
    try:
        with open(PLAYED, encoding="utf-8") as file:
            return dict(line.rstrip("\n").split("\t") for line in file)
    except FileNotFoundError:
        return {}


def changed(bugs):
    """The bugs of rooms that are not as they were when all were caught."""
    known = played()
    return [bug for room, own in by_room(bugs).items() if known.get(room) != digest_of(room, own) for bug in own]


def note(rooms):
    """Keeps that all bugs of these rooms were caught."""
    known, bugs = played(), by_room(read_all())
    known.update({room: digest_of(room, bugs[room]) for room in rooms})
    with open(PLAYED, "w", encoding="utf-8") as file:
        file.writelines(f"{room}\t{digest}\n" for room, digest in sorted(known.items()) if room in bugs)
