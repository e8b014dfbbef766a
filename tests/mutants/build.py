"""The build that mutants are planted in: tests that link with all rooms as one shared library, in build-mutation/.

A mutant costs one compilation and one link. Its library lies in a folder of its own, so the sources are never touched and
several mutants may be tried at once."""
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "build-mutation")
LIBRARY = "libweft_test_rooms.so"
LABELS = {"unit", "property", "fault", "golden"}


def run(command, **more):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **more)


def must(command, **more):
    done = run(command, **more)
    if done.returncode != 0:
        sys.exit(f"mutate.py: {done.args}:\n{done.stdout[-4000:]}")
    return done.stdout


def digest(*paths):
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            total.update(file.read())
    return total.hexdigest()[:16]


class Test:
    def __init__(self, entry):
        properties = {item["name"]: item["value"] for item in entry.get("properties", [])}
        self.name = entry["name"]
        # ctest knows no command of what is not built yet
        self.command = entry.get("command", [os.path.join(FOLDER, "test_" + self.name.replace(".", "_"))])
        self.labels = set(properties.get("LABELS", []))
        self.folder = properties.get("WORKING_DIRECTORY", FOLDER)
        self.environment = dict(item.split("=", 1) for item in properties.get("ENVIRONMENT", []))


def configure(jobs, names=None):
    """Builds the tests of these names; None: all."""
    if not os.path.isfile(os.path.join(FOLDER, "Makefile")):
        must(["cmake", "-G", "Unix Makefiles", "-S", ROOT, "-B", FOLDER, "-DCMAKE_BUILD_TYPE=Debug",
              "-DCMAKE_C_FLAGS_DEBUG=-O1", "-DWEFT_ROOMS_SHARED=ON", "-DWEFT_CUDA=OFF", "-DWEFT_HIP=OFF"])
    must(["cmake", FOLDER])
    targets = [os.path.basename(test.command[0]) for test in tests(names or ()) if names is None or test.name in names]
    must(["cmake", "--build", FOLDER, "-j", str(jobs), "--target", *targets])


def tests(names=()):
    """Those of one process, which ctest runs by themselves, and those of these names."""
    listed = json.loads(must(["ctest", "--test-dir", FOLDER, "--show-only=json-v1"]))
    found = (Test(entry) for entry in listed["tests"])
    return [test for test in found if test.labels & LABELS and test.name.count(".") == 1 or test.name in names]


def compilers():
    """File, from the root: how the build compiles it, with neither source nor object."""
    with open(os.path.join(FOLDER, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    found = {}
    for entry in entries:
        if not re.search(r"weft_(core|providers|backends|model)\.dir", entry["command"]):
            continue
        words = shlex.split(entry["command"])
        words = words[1:] if os.path.basename(words[0]) == "ccache" else words
        at = words.index("-o")
        found[os.path.relpath(entry["file"], ROOT)] = words[:at]
    return found


def compile_file(compiler, file, source, compiled, extra=()):
    """Headers beside the file are found although `source` lies elsewhere. None, or what the compiler says."""
    done = run([*compiler, "-w", "-iquote", os.path.join(ROOT, os.path.dirname(file)),
                f"-ffile-prefix-map={os.path.dirname(source)}=.", *extra, "-o", compiled, "-c", source], cwd=FOLDER)
    return done.stdout if done.returncode else None


def link(objects, library, extra=()):
    """The library with other objects of some files: {file: object}."""
    with open(os.path.join(FOLDER, "CMakeFiles/weft_test_rooms.dir/link.txt"), encoding="utf-8") as file:
        words = shlex.split(file.read())
    given = {f"{file}.o": path for file, path in objects.items()}
    for i, word in enumerate(words):
        place = re.sub(r"^CMakeFiles/\w+\.dir/", "", word)
        if place in given:
            words[i] = given.pop(place)
        elif word == "-o":
            words[i + 1] = library
    if given:
        sys.exit(f"mutate.py: the build links no {', '.join(given)}")
    return must([*words, *extra], cwd=FOLDER)
