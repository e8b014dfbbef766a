#!/usr/bin/env python3
"""Plants small bugs in core, one at a time, and sees each caught by the tests. For the long tier.

    mutate.py [--seed N] [--count N] [--files PATTERN...] [--jobs N] [--bar PERCENT]
    mutate.py --planted [ROOM...] | --changed
    mutate.py --bare [--files PATTERN...] [--bar PERCENT]

Each bug is compiled into a copy of the library in build-mutation/. The tests that run its line are run, the quickest
first, until one fails. A test's limit is five times its own time and two seconds. A mutant with a verdict is not tried
again, so a run may be done in portions, each with --most. Survivors that were judged (judged.txt, beside this) do not
count. The table is build-mutation/mutants-SEED.tsv. It begins with a digest of its sources, and a table of other sources
is deleted.

Which mutants are drawn depends on their own text, so a change of the sources draws others in the changed lines alone.
`.ci/run --full` plants 40 and wants 90 percent of them. The long run, which plants 300 and wants 95 percent, is started
by hand.

--planted plays the bugs that were planted by hand (planted.py): each must fail the one test that it names. --changed plays
those of rooms that are not as they were when all of their bugs were caught (planted/played.tsv).

--bare plants nothing: it lists the lines that none of these tests runs, and counts them by room.

Exit: 0, 1 (fewer than --bar percent were caught, or a bug that was planted by hand was not), 2 (something is wrong with the build)."""
import argparse
import concurrent.futures
import fnmatch
import glob
import hashlib
import os
import shutil
import sys
import tempfile
import threading
import time

import build
import cover
import mutants
import planted

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS = ("file", "line", "function", "kind", "old", "new", "verdict", "by", "seconds")
PLANTED_LIMIT = 60 # s, of a test that is to notice a bug at once
CAUGHT, SURVIVED, EQUAL, BROKEN = "caught", "survived", "equal", "no build"


def sources(patterns):
    found = [os.path.relpath(path, build.ROOT) for folder in ("core/*", "providers", "backends", "backends/*", "backends/host/*")
             for path in glob.glob(os.path.join(build.ROOT, folder, "*.c"))]
    return sorted(file for file in found if any(fnmatch.fnmatch(file, pattern) for pattern in patterns))


def read(file):
    with open(os.path.join(build.ROOT, file), encoding="utf-8") as source:
        return source.read()


def sources_digest():
    """Of the C text that mutants are planted in and tests are made of."""
    total = hashlib.sha256()
    paths = [path for folder in ("core", "providers", "backends", "tests") for kind in ("c", "h", "cpp")
             for path in glob.glob(os.path.join(build.ROOT, folder, "**", "*." + kind), recursive=True)]
    for path in sorted(os.path.relpath(path, build.ROOT) for path in paths):
        total.update(f"{path}\n{read(path)}\n".encode())
    return total.hexdigest()[:16]


def draw(seed, mutant):
    """The mutant's place in the queue of this seed. A change of the sources moves no other mutant, so that what is
    caught or judged stays so."""
    return hashlib.sha256("\0".join((str(seed), mutant.function, mutant.old, mutant.new)).encode()).digest()


def choose(files, seed, count):
    """The first `count` of all, no two in one line. Larger files have more of them."""
    every = [mutant for file in files for mutant in mutants.of_source(file, read(file))]
    chosen, lines = [], set()
    for mutant in sorted(every, key=lambda mutant: draw(seed, mutant)):
        if len(chosen) < count and (mutant.file, mutant.line) not in lines:
            chosen.append(mutant)
            lines.add((mutant.file, mutant.line))
    return chosen


def judged():
    """{key of a mutant: why it may live}: four lines each, and a blank one."""
    found = {}
    with open(os.path.join(HERE, "judged.txt"), encoding="utf-8") as file:
        blocks = file.read().split("\n\n")
    for block in blocks:
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        if len(lines) < 4 or lines[1][:2] != "- " or lines[2][:2] != "+ ":
            sys.exit(f"mutate.py: judged.txt: not FILE FUNCTION, - OLD, + NEW and a reason:\n{block}")
        file, function = lines[0].split()
        found[file, function, lines[1][2:], lines[2][2:]] = " ".join(lines[3:])
    return found


class Table:
    """What is known of mutants: read at first, then appended to. A table of other sources is deleted."""

    def __init__(self, path, digest):
        self.path = path
        self.lock = threading.Lock()
        self.rows = {}
        lines = []
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                lines = file.read().splitlines()
        if lines[:1] == ["# " + digest]:
            for line in lines[2:]:
                self.note(dict(zip(COLUMNS, line.split("\t"))))
            return
        if lines:
            say(f"{path} is of other sources: deleted")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"# {digest}\n" + "\t".join(COLUMNS) + "\n")

    def note(self, row):
        self.rows[row["file"], row["function"], row["old"], row["new"]] = row

    def add(self, row):
        with self.lock:
            self.note(row)
            with open(self.path, "a", encoding="utf-8") as file:
                file.write("\t".join(str(row[name]) for name in COLUMNS) + "\n")


class Bench:
    """Compiles files with bugs, and runs tests on the library that has them."""

    def __init__(self, names=()):
        self.compilers = build.compilers()
        self.tests = {test.name: test for test in build.tests(names)}
        self.sound = os.path.join(build.FOLDER, build.LIBRARY)
        self.lock = threading.Lock()
        self.objects = {}

    def compiled(self, folder, file, text):
        source, made = os.path.join(folder, os.path.basename(file)), os.path.join(folder, "mutant.o")
        with open(source, "w", encoding="utf-8") as there:
            there.write(text)
        said = build.compile_file(self.compilers[file], file, source, made)
        return None if said else made

    def original(self, folder, file):
        """What the file is compiled to as it stands, in bytes."""
        with self.lock:
            if file not in self.objects:
                with open(self.compiled(folder, file, read(file)), "rb") as there:
                    self.objects[file] = there.read()
            return self.objects[file]

    def linked(self, folder, file, text):
        """(the library with this text, None), or (None, why there is none)."""
        sound = self.original(folder, file)
        made = self.compiled(folder, file, text)
        if not made:
            return None, BROKEN
        with open(made, "rb") as there:
            if there.read() == sound:
                return None, EQUAL
        library = os.path.join(folder, build.LIBRARY)
        build.link({file: made}, library)
        return library, None

    def fails(self, name, library, limit):
        """How it fails with this library, and not with the sound one, or None."""
        for _ in range(3):
            said, _ = cover.run_test(self.tests[name], library, limit)
            if said is None:
                return None
            sound, _ = cover.run_test(self.tests[name], self.sound, limit)
            if sound is None:
                return said
        return None # the machine is busy, or the test is at fault: it says nothing


class Trial(Bench):
    """Tries mutants that were drawn: everything that they share."""

    def __init__(self, known, files, table, longest):
        super().__init__()
        self.map = cover.Map(known, files)
        self.table = table
        self.known = known
        self.longest = longest

    def order(self, mutant):
        """Those that bear the file's name come first among the quick ones."""
        stem = os.path.basename(mutant.file)[:-2].split("_")[0]

        def cost(name):
            near = name.split(".")[1].replace("session_", "").startswith(stem)
            return self.known[name]["seconds"] * (0.2 if near else 1)

        found = sorted(self.map.tests_of(mutant.file, mutant.line), key=cost)
        return [name for name in found if self.known[name]["seconds"] <= self.longest], len(found)

    def verdict(self, mutant, folder):
        library, reason = self.linked(folder, mutant.file, mutants.planted(read(mutant.file), mutant))
        if reason:
            return reason, ""
        tests, all_tests = self.order(mutant)
        for name in tests:
            said = self.fails(name, library, 5 * self.known[name]["seconds"] + 2)
            if said:
                return CAUGHT, f"{name} ({said})"
        return SURVIVED, f"{len(tests)} of {all_tests} tests" if all_tests else "no test runs it"

    def run(self, number, mutant):
        folder = os.path.join(build.FOLDER, f"mutant-{number}")
        begun = time.monotonic()
        os.makedirs(folder, exist_ok=True)
        try:
            verdict, by = self.verdict(mutant, folder)
        finally:
            shutil.rmtree(folder)
        values = (mutant.file, mutant.line, mutant.function, mutant.kind, mutant.old, mutant.new, verdict, by,
                  f"{time.monotonic() - begun:.1f}")
        row = dict(zip(COLUMNS, values))
        self.table.add(row)
        return row


def say(text):
    print(text, flush=True)


def summary(chosen, table, bar):
    """Prints counts and survivors; whether the bar is passed."""
    reasons = judged()
    rows = [table.rows[mutant.key()] for mutant in chosen if mutant.key() in table.rows]
    count = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in (CAUGHT, EQUAL, BROKEN)}
    lived = [row for row in rows if row["verdict"] == SURVIVED]
    open_ones = [row for row in lived if (row["file"], row["function"], row["old"], row["new"]) not in reasons]
    for row in open_ones:
        say(f"survived: {row['file']}:{row['line']} {row['function']}: {row['by']}\n  - {row['old']}\n  + {row['new']}")
    counted = count[CAUGHT] + len(open_ones)
    share = 100 * count[CAUGHT] / counted if counted else 100
    say(f"{len(rows)} mutants: {count[CAUGHT]} caught, {len(open_ones)} survived, {len(lived) - len(open_ones)} judged, "
        f"{count[EQUAL]} equal code, {count[BROKEN]} no build: {share:.1f} % caught, the bar is {bar:g} %; "
        f"{len(chosen) - len(rows)} not tried yet")
    return share >= bar


def play(bugs, jobs):
    """Plays bugs that were planted by hand. Whether all were caught."""
    names = {bug.test for bug in bugs}
    build.configure(os.cpu_count(), names)
    bench, lost = Bench(names), []

    def one(numbered):
        number, bug = numbered
        with tempfile.TemporaryDirectory(prefix=f"mutant-{number}-", dir=build.FOLDER) as folder:
            library, verdict = bench.linked(folder, bug.file, bug.text(read(bug.file)))
            said = library and bench.fails(bug.test, library, PLANTED_LIMIT)
        return bug, verdict or (CAUGHT if said else SURVIVED), said

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for bug, verdict, said in pool.map(one, enumerate(bugs)):
            say(f"{verdict:8} {bug.file}: {bug.promise} ({bug.test}{': ' + said if said else ''})")
            if verdict != CAUGHT:
                lost.append(bug)
    planted.note({bug.room for bug in bugs} - {bug.room for bug in lost})
    say(f"{len(bugs)} bugs planted by hand: {len(bugs) - len(lost)} caught")
    return not lost


def bare(trial_map, bar):
    """Prints the lines that no test runs. Whether enough are run."""
    rooms = {}
    for file, lines in trial_map.lines.items():
        left = [line for line in lines if not trial_map.tests_of(file, line)]
        count = rooms.setdefault(os.path.dirname(file), [0, 0])
        count[0] += len(lines)
        count[1] += len(left)
        if left:
            say(f"{file}: {' '.join(map(str, left))}")
    every = [sum(count[i] for count in rooms.values()) for i in range(2)]
    for room, (lines, left) in sorted(rooms.items()) + [("all", every)]:
        say(f"{room}: {lines} lines, {left} run by no test: {100 - 100 * left / lines:.1f} %")
    return 100 - 100 * every[1] / every[0] >= bar


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--files", nargs="+", default=["core/*"], metavar="PATTERN")
    parser.add_argument("--jobs", type=int, default=3 * os.cpu_count(), help="most of a test is waiting")
    parser.add_argument("--bar", type=float, default=95)
    parser.add_argument("--most", type=int, default=10 ** 9, metavar="N", help="try so many that are not known, and end")
    parser.add_argument("--longest", type=float, default=10 ** 9, metavar="SECONDS", help="leave longer tests out")
    parser.add_argument("--again", action="store_true", help="try survivors again that were not judged")
    parser.add_argument("--list", action="store_true", help="only say which mutants are chosen")
    parser.add_argument("--counts", action="store_true", help="only say what is known")
    parser.add_argument("--planted", nargs="*", metavar="ROOM", help="play the bugs that were planted by hand")
    parser.add_argument("--bare", action="store_true", help="list the lines that no test runs")
    parser.add_argument("--changed", action="store_true", help="play those of rooms that changed")
    args = parser.parse_args()
    if args.changed or args.planted is not None:
        bugs = planted.read_all()
        bugs = planted.changed(bugs) if args.changed else [b for b in bugs if not args.planted or b.room in args.planted]
        return 0 if not bugs or play(bugs, args.jobs) else 1
    files = sources(args.files)
    if not files:
        parser.error(f"no source file is called {' or '.join(args.files)}")
    chosen = choose(files, args.seed, args.count)
    if args.list:
        for mutant in chosen:
            print(f"{mutant.file}:{mutant.line} {mutant.function} ({mutant.kind})\n  - {mutant.old}\n  + {mutant.new}")
        return 0
    os.makedirs(build.FOLDER, exist_ok=True)
    table = Table(os.path.join(build.FOLDER, f"mutants-{args.seed}.tsv"), sources_digest())
    if not args.counts:
        for left_behind in glob.glob(os.path.join(build.FOLDER, "mutant-*")):
            shutil.rmtree(left_behind)
        build.configure(os.cpu_count())
        covered = sorted({*sources(["core/*"]), *files})
        known = cover.gather(covered, args.jobs, say)
        if args.bare:
            return 0 if bare(cover.Map(known, files), args.bar) else 1
        trial = Trial(known, covered, table, args.longest)
        settled = judged()
        left = [mutant for mutant in chosen if mutant.key() not in table.rows or args.again and
                table.rows[mutant.key()]["verdict"] == SURVIVED and mutant.key() not in settled][:args.most]
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            for row in pool.map(trial.run, range(len(left)), left):
                say(f"{row['verdict']:8} {row['file']}:{row['line']} {row['kind']}: {row['by']} ({row['seconds']} s)")
    return 0 if summary(chosen, table, args.bar) else 1


if __name__ == "__main__":
    sys.exit(main())
