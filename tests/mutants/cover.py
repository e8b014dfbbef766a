"""Which lines of the rooms each test runs, and how long it takes: by gcov, kept in build-mutation/cover.json."""
import bisect
import concurrent.futures
import glob
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time

import build

COVER = os.path.join(build.FOLDER, "cover")
KEPT = os.path.join(build.FOLDER, "cover.json")
ADDRESSES_MOST = 256 << 30 # a test may map far more than it uses
FILE_MOST = 4 << 30
FIRST_LIMIT = 600 # s, of a test of which nothing is known


def restrict():
    os.setpriority(os.PRIO_PROCESS, 0, 19)
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000") # whoever takes all memory is the first to go
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES_MOST, ADDRESSES_MOST))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_MOST, FILE_MOST))


def run_test(test, library, limit, more=None):
    """(None when it passed, else how it failed; seconds). Nothing of it stays behind."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as own:
        environment = {**os.environ, **test.environment, "LD_LIBRARY_PATH": os.path.dirname(library), "TMPDIR": own,
                       **(more or {})}
        begun = time.monotonic()
        child = subprocess.Popen(test.command, cwd=test.folder, env=environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                                 preexec_fn=restrict)
        try:
            code = child.wait(limit)
            said = None if code in (0, 77) else f"signal {-code}" if code < 0 else f"exit {code}"
        except subprocess.TimeoutExpired:
            said = "no end"
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()
        return said, time.monotonic() - begun


def object_name(file):
    return file.replace("/", "-")[:-2]


def build_library(files):
    """The library whose objects of these files count what is run."""
    compilers = build.compilers()
    os.makedirs(COVER, exist_ok=True)
    objects = {}
    for file in files:
        objects[file] = os.path.join(COVER, object_name(file) + ".o")
        said = build.compile_file(compilers[file], file, os.path.join(build.ROOT, file), objects[file],
                                  ["--coverage", "-fprofile-update=atomic", "-O0"])
        if said:
            raise SystemExit(f"mutate.py: {file}: {said}")
    library = os.path.join(COVER, build.LIBRARY)
    build.link(objects, library, ["--coverage"])
    return library


def same_name(one, other):
    """The compiler leaves folders out of what it notes."""
    return os.path.basename(one) == os.path.basename(other)


def code_lines(file):
    """All lines that gcov knows, run or not."""
    with tempfile.TemporaryDirectory() as folder: # without counts
        notes = object_name(file) + ".gcno"
        os.symlink(os.path.join(COVER, notes), os.path.join(folder, notes))
        said = build.must(["gcov", "--json-format", "--stdout", notes], cwd=folder)
    found = {line["line_number"] for part in json.loads(said[said.index("{"):])["files"] if same_name(part["file"], file)
             for line in part["lines"]}
    return sorted(found)


def lines_of(folder, files):
    """{file: lines that were run} from the counts that a test left."""
    counts = glob.glob(os.path.join(folder, "*.gcda"))
    for path in counts:
        notes = os.path.basename(path)[:-5] + ".gcno"
        os.symlink(os.path.join(COVER, notes), os.path.join(folder, notes))
    names = {object_name(file): file for file in files}
    found = {}
    for path in counts:
        said = build.must(["gcov", "--json-format", "--stdout", os.path.basename(path)], cwd=folder)
        file = names[os.path.basename(path)[:-5]]
        for part in json.loads(said[said.index("{"):])["files"]:
            if same_name(part["file"], file):
                found[file] = sorted({line["line_number"] for line in part["lines"] if line["count"]})
    return found


def gather(files, jobs, report):
    """{test: {"seconds", "lines": {file: [...]}}}; of tests that are as they were nothing is measured again."""
    library = build_library(files)
    world = build.digest(*(os.path.join(build.ROOT, file) for file in files))
    try:
        with open(KEPT, encoding="utf-8") as file:
            kept = json.load(file)
    except FileNotFoundError:
        kept = {}
    marks = {test.name: world + build.digest(test.command[0]) for test in build.tests()}
    left = [test for test in build.tests() if kept.get(test.name, {}).get("mark") != marks[test.name]]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for test, entry in zip(left, pool.map(lambda test: measure(test, library, files, marks[test.name]), left)):
            kept[test.name] = entry
            report(f"{test.name}: {entry['seconds']:.1f} s{' FAILS: ' + entry['fails'] if entry['fails'] else ''}")
            with open(KEPT + ".new", "w", encoding="utf-8") as file:
                json.dump(kept, file)
            os.replace(KEPT + ".new", KEPT)
    if not any(kept[name]["lines"] for name in marks):
        raise SystemExit("mutate.py: no test runs a line: gcov says nothing")
    return {name: kept[name] for name in marks}


def measure(test, library, files, mark):
    folder = tempfile.mkdtemp(prefix="mutant-cover-")
    try:
        said, seconds = run_test(test, library, FIRST_LIMIT, {"GCOV_PREFIX": folder, "GCOV_PREFIX_STRIP": "99"})
        return {"mark": mark, "seconds": seconds, "fails": said, "lines": lines_of(folder, files)}
    finally:
        shutil.rmtree(folder)


class Map:
    """Which tests run a line; a line of which gcov knows nothing is part of the one before it that it knows."""

    def __init__(self, known, files):
        self.known = known
        self.lines = {file: code_lines(file) for file in files}

    def tests_of(self, file, line):
        at = bisect.bisect_right(self.lines[file], line)
        line = self.lines[file][at - 1] if at else line
        return [name for name, entry in self.known.items()
                if not entry["fails"] and line in entry["lines"].get(file, [])]
