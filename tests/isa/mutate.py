#!/usr/bin/env python3
"""Plants bugs in the kernels, one at a time, and sees each caught by the tests of the emulation, which run them at 32 and
at 64 lanes. For the long tier: every bug is a build.

    mutate.py [--part K/N] [NAME...]     those whose names hold one of the words; every N-th of them from the K-th on

What tests without sanitizers do not see has to be seen under ASan and UBSan, whose builds take five times as long. Works
on a copy of the sources in build-mutants/, which is kept. Exit: 0, 1 (one survived, or is not to be found any more)."""
import argparse
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "build-mutants")
COPY = os.path.join(FOLDER, "source")
BUILDS = {"plain": "", "checked": "address"} # folder of FOLDER: WEFT_SANITIZE
KERNELS = "backends/kernels/"
CPU_MOST = 60 # s of a test; the longest takes 20

# The tests that are likely to see bugs of a file come first.
ORDER = {"apply.h": ["apply", "boxes"], "block.h": ["digest", "encode"], "digest.h": ["digest"], "element.h": ["digest"],
         "diff.h": ["encode", "cast"], "store.h": ["apply", "cast"], "gather.h": ["encode"], "lists.h": ["encode"], "view.h": ["apply"],
         "boxes.h": ["boxes"],
         "encode_f": ["encode", "encode_chain"], "follow.h": ["encode_chain"], "encode": ["encode"], "decode": ["decode", "decode_edges"], "classes.h": ["decode", "encode"]}

# name: file, what is there (once, or as often as told), what is put in its place
BUGS = {
    "prefix: no barrier before the sums are read": (
        "block.h", "        sums->warp[warp] = through;\n    weft_barrier();", "        sums->warp[warp] = through;"),
    "prefix: no barrier after": ("block.h", "    weft_barrier();\n    *all = total;", "    *all = total;"),
    "prefix: the lane's own value stays in": ("block.h", "return before + through - value;", "return before + through;"),
    "warp sum: the last step is left out": (
        "block.h", "uint32_t step = WEFT_LANES / 2; step > 0; step /= 2)\n        value +=",
        "uint32_t step = WEFT_LANES / 2; step > 1; step /= 2)\n        value +="),
    "warp sum: half of the lanes": ("block.h", "for (uint32_t step = WEFT_LANES / 2; step > 0; step /= 2) {",
                                    "for (uint32_t step = 16; step > 0; step /= 2) {"),
    "digest: keyed by the index alone": ("element.h", "((index + 1) * WEFT_K_PHI)", "(index * WEFT_K_PHI)"),
    "digest: the rest is left out": ("digest.h", "if (rest < count)", "if (rest + 1 < count)"),
    "diff: no barrier before the bits are counted": (
        "diff.h", "    weft_barrier();\n    weft_diff_leave(", "    weft_diff_leave("),
    "diff: no barrier after the clearing": ("diff.h", "shared.word[i] = 0;\n    weft_barrier();", "shared.word[i] = 0;"),
    "diff: the head is left out": ("diff.h", "    if (rank < head)\n", "    if (rank + 1 < head)\n"),
    "diff: one of the last quads is left out": ("diff.h", "for (; q < quads; q += ranks)", "for (; q + 1 < quads; q += ranks)"),
    "fast: counters are not cleared": (
        "encode_fast.h", "words[i] = 0;\n    if (weft", "words[i] += 0;\n    if (weft"),
    "fast: no barrier after the ranks": ("encode_fast.h", "    weft_barrier(); /* the ranks are written */\n", ""),
    "fast: bits counted by half of a wave": ("encode_fast.h", "if (weft_lane() < 32)\n        weft_add32(&shared->counts.gap",
                                             "if (weft_thread() < 32)\n        weft_add32(&shared->counts.gap"),
    "chain: no barrier before the copy": (
        "encode_frame.h", "    weft_barrier();\n    weft_frame_leave(", "    weft_frame_leave("),
    "chain: the order of magnitudes is not lowered": (
        "encode_frame.h", "for (; order > 0; order--)", "for (; order > 64; order--)"),
    "chain: lengths are summed in 32 bits": ("encode_frame.h", "(uint64_t)counts->under[l] - ", "counts->under[l] - "),
    "chain: memory is given twice": ("encode_frame.h", " && !job->done", ""),
    "chain: lists of all jobs begin in one place": ("encode_frame.h", "lists += list_all;", "lists += 0;"),
    "chain: frames of all jobs begin in one place": ("encode_frame.h", "frames += frame_all;", "frames += 0;"),
    "chain: more frames than there is memory": ("encode_frame.h", " && frame_at + frame <= row->frame_quads", ""),
    "chain: no quad for the header": ("encode_frame.h", "made ? 1 + weft_k_quads(fast)", "made ? weft_k_quads(fast)"),
    "chain: what is not worth a frame is made": (
        "encode_frame.h", "return most < job->payload_most ? (uint32_t)most : job->payload_most;", "return (uint32_t)most;"),
    "chain: jobs that have their frames keep their lists": (
        "encode_frame.h", "if (i < row->count)\n            job->changes.count = fits ? changed : 0;",
        "if (fits)\n            job->changes.count = changed;"),
    "chain: nothing is cleared": ("encode_frame.h", "WEFT_AT(weft_quad, at)[q] = {0, 0, 0, 0};", "(void)q;"),
    "chain: no barrier after the choice": (
        "encode_frame.h", "&shared.fast.counts, job);\n    weft_barrier();", "&shared.fast.counts, job);"),
    "chain: gap bits are lowered for nothing": ("encode_frame.h", "if (below >= sum + count)", "if (below > sum + count)"),
    "chain: jobs without lists are gathered": (
        "gather.h", "if (count == 0 || WEFT_AT(const weft_k_changes, row->changes)->count == 0)", "if (count == 0)"),
    "gather: no barrier after the sums": ("gather.h", "= before;\n    weft_barrier();\n    return all;",
                                           "= before;\n    return all;"),
    "gather: one before the one that is sought": ("gather.h", "seek->before[thread + half] <= rank",
                                                  "seek->before[thread + half] < rank"),
    "lists: the end is read before it is written": (
        "decode_lists.h", "    }\n    weft_barrier();\n    const uint32_t end = shared->end;",
        "    }\n    const uint32_t end = shared->end;"),
    "lists: a rank beyond the view is taken": ("decode_lists.h", "if (rank >= job->view.count)",
                                               "if (rank > job->view.count)"),
    "fast: a rank beyond the changes is taken": ("decode_fast.h", "if (rank >= job->changed)",
                                                 "if (rank > job->changed)"),
    "apply: a mismatch is not said": ("apply.h", "        other = true;", "        other = other;"),
    "apply: what was there is not kept": ("apply.h", "        weft_element_store<width>(job->before, first + at, there[j]);\n",
                                          ""),
    "prove: the guard is not set": ("apply.h", "    weft_or32(WEFT_AT(uint32_t, job->guard), 1);\n", ""),
    "prove: the last change is left out": ("apply.h", "other || (at < count &&", "other || (at + 1 < count &&"),
    "apply: the guard is not read": ("apply.h", "job->guard && *WEFT_AT(const uint32_t, job->guard)", "job->guard == 1"),
    "apply: positions of a box's run count from the view's first": (
        "apply.h", "position - run->position).data", "position).data"),
    "apply: what was in a box is not kept": (
        "apply.h", "        if (there != before)\n            weft_element_store<width>(job->before, first + at, there);\n", ""),
    "apply: a mismatch in a box is not said": ("apply.h", "other = other || there != before;", "other = other && there != before;"),
    "lists: the plane begins on a word": ("decode_lists.h", "WEFT_BLOCK * 32 + 1 - job->unary % 32;", "WEFT_BLOCK * 32 + 1;"),
    "lists: no barrier after the places": (
        "decode_lists.h", "(weft_thread() * 32 + weft_lowest(word));\n    weft_barrier();",
        "(weft_thread() * 32 + weft_lowest(word));"),
    "lists: sums of low bits are not carried": ("decode_lists.h", "        lows += all;", "        (void)all;"),
    "tight: a list at its universe passes": ("decode_tight.h", "[set->count - 1] < universe;", "[set->count - 1] <= universe;"),
    "magnitudes: large ones have two taken off": ("decode_magnitudes.h", "state == WEFT_K_STATE_LARGE ? 3 : 2", "2"),
    "magnitudes: the escape comes one late": (
        "decode_magnitudes.h", "if (code->unary >= WEFT_K_ESCAPE)", "if (code->unary > WEFT_K_ESCAPE)"),
    "fast: magnitudes begin within a byte": (
        "decode_fast.h", "((uint64_t)job->unary + unary_bits + 7) / 8 * 8", "((uint64_t)job->unary + unary_bits)"),
    "fast: the range of magnitudes ends one early": ("decode.h", "excess > top - add ||", "excess >= top - add ||"),
    "decode: padding passes": ("decode.h", "(uint32_t)((0 - end) % 32)) != 0 ||", "0) != 0 ||"),
    "decode: digests of the run before are lost": (
        "decode.h", "        weft_delta_flush(job, delta);\n        delta->run = run;", "        delta->run = run;"),
    "decode: a change at the limit is kept": ("decode.h", "if (position >= job->limit)", "if (position > job->limit)"),
    "pairs: a position twice passes": ("decode_dense.h", "position <= weft_payload_word", "position < weft_payload_word"),
    "view: the run before has the first position": (
        "view.h", "runs[middle].position <= position", "runs[middle].position < position"),
    "view: a quad reaches beyond its run": ("view.h", "count >= each && walk->left >= each && walk->data % 16 == 0) {\n        const",
                                            "count >= each && walk->data % 16 == 0) {\n        const"),
    "prefix of 32: one lane too few": ("block.h", "lane % 32 >= step ? below : 0", "lane % 32 > step ? below : 0"),
    "prefix of 64: the lower half has its sum too": ("block.h", "weft_lane() < 32 ? 0 : below", "below"),
    "classes: what is after the last counts": ("classes.h", "count < WEFT_CHUNK ? (1u << count) - 1 : ~0u;",
                                                "count < WEFT_CHUNK ? ~0u : ~0u;"),
    "classes: a run's end in a chunk is not seen": ("classes.h", "if (count < WEFT_CHUNK || walk.left < WEFT_CHUNK)",
                                                    "if (count < WEFT_CHUNK)"),
    "classes: quads where elements lie off them": ("classes.h", "walk.data % 16 == 0 ?", "walk.data % 2 == 0 ?"),
    "classes: no barrier after the counts": (
        "classes.h", "    weft_ranks_count(ranks, planes, count, classes);\n    weft_barrier();",
        "    weft_ranks_count(ranks, planes, count, classes);"),
    "classes: no barrier after the sums": ("classes.h", "weft_thread() % WEFT_GROUPS);\n    weft_barrier();",
                                            "weft_thread() % WEFT_GROUPS);"),
    "classes: the last chunk of a group is left out": ("classes.h", "(sum & bytes) + (last & bytes)", "(sum & bytes)"),
    "classes: a group has its own elements below it": ("classes.h", "(uint16_t)(evens - even);", "(uint16_t)evens;"),
    "rank: the strips before are forgotten": ("encode_tight.h", "shared->carry[thread] += shared->ranks.all[thread];",
                                              "shared->carry[thread] = shared->ranks.all[thread];"),
    "rank: a change counts itself": ("encode_tight.h", "((1u << in % WEFT_CHUNK) - 1)", "((2u << in % WEFT_CHUNK) - 1)"),
    "rank: no barrier after a strip": (
        "encode_tight.h", "        weft_barrier();\n        if (thread < job->classes)", "        if (thread < job->classes)"),
    "tight: the number of changes is not proved": (
        "decode_classes.h", "if (changed != job->changed)", "if (changed > job->changed + (1u << 30))"),
    "places: bits are flipped before all are there": (
        "decode_places.h", "    weft_barrier();\n    shared.changed[thread] ^=", "    shared.changed[thread] ^="),
    "places: flipped to the end of the part": ("decode_places.h", ": lists->end;", ": WEFT_K_ELEMENTS;"),
    "places: exceptions begin at the part's first change": ("decode_places.h", "b->bit[cls] = change;", "b->bit[cls] = 0;"),
    "places: no barrier after what is found": (
        "decode_places.h", "    weft_places_find(&shared);\n    weft_barrier();", "    weft_places_find(&shared);"),
    "places: the base's own exponent counts as large": (
        "decode_places.h", "> tight->magnitude_base;", ">= tight->magnitude_base;"),
    "boxes: an index begins at the box's first": ("boxes.h", "digits[i].start + carry", "carry"),
    "boxes: nothing is carried": ("boxes.h", "carry = weft_divide((uint32_t)digit, digits[i].divisor);",
                                  "carry = 0 * weft_divide((uint32_t)digit, digits[i].divisor);"),
    "boxes: a sum of three terms is not halved": ("boxes.h", "((number - high) >> divisor.first)", "(number - high)"),
    "boxes: a side that ends is walked on": ("boxes.h", "place.side < each || (place.data", "(place.data"),
    "boxes: the first box has all": ("boxes.h", "        box++;", "        ;"),
    "boxes: memory of F32 is not cast": ("boxes.h", "weft_k_cast(weft_element_load<4>(place.data, 0), place.cast)",
                                         "weft_element_load<4>(place.data, 0) >> 16"),
    "cast: every tie goes up": ("element.h", "0x7fffu + (bits >> 16 & 1)", "0x8000u"),
    "cast: a NaN is rounded as if it were a number": ("element.h", "? 0x7fc0u : rounded", "? rounded : rounded"),
    "cast: infinity is a NaN": ("element.h", "> 0x7f800000u ? 0x7fc0u", ">= 0x7f800000u ? 0x7fc0u"),
    "cast: every tie of F16 goes up": ("element.h", "(1u << (drop - 1)) - 1 + (all >> drop & 1)", "(1u << (drop - 1))"),
    "cast: a NaN of F16 is a number": ("element.h", "? 0x7e00u", "? number"),
    "cast: an F16 below the normal ones is 0": ("element.h", "exponent > 101 ? 126 - exponent : 25", "25"),
    "cast: too large an F16 is no infinity": ("element.h", "rounded < 0x7c00u ? rounded : 0x7c00u", "rounded & 0x7fffu"),
    "cast: F16 is read as BF16": ("element.h", "return cast == WEFT_K_F16 ?", "return cast == WEFT_K_F16 + 1 ?"),
    "cast: halves change places": ("element.h", "weft_k_bf16(low.x) | weft_k_bf16(low.y) << 16",
                                   "weft_k_bf16(low.y) | weft_k_bf16(low.x) << 16"),
    "cast: the head is left out": ("diff.h", "if (head > rank)", "if (head > rank + 1)"),
    "cast: one of the last quads is left out": ("diff.h", "    if (q < quads)\n", "    if (q + 1 < quads)\n"),
    "cast: a piece of BF16 is read as F32": ("gather.h", "piece->cast)", "WEFT_K_BF16)"),
    "cast: a slice begins at half of its bytes": (
        "diff.h", "(cast ? 2 * skip : skip)", "skip"),
    "follow: a change goes where its piece begins": ("follow.h", "position - piece->position,", "position - position,"),
    "follow: the first slice's changes, whatever the slice": (
        "follow.h", "uint32_t i = place + weft_thread()", "uint32_t i = weft_thread()"),
    "follow: what did not change goes in": ("follow.h", "weft_element_load<width>(changes->after, i)",
                                            "weft_element_load<width>(changes->before, i)"),
    "still: a change to equal bits is not told": ("encode_fast.h", "if (magnitude == 0)", "if (magnitude == ~0ull)"),
    "sets: nothing is cleared": (
        "encode_tight.h", "weft_k_quads_clear(job->sets,", "weft_k_quads_clear(job->sets, 0 * "),
    "sets: a class of the slices before is counted anew": (
        "encode_tight.h", "shared->counts.population[c] = slices[job->slices];", "shared->counts.population[c] = slices[0];"),
    "sets: lists of exceptions are those of positions": (
        "encode_tight.h", "job->sets + sets + shared->begin[c] / 8", "job->sets + shared->begin[c] / 8"),
    "sets: members of all lists lie in one place": (
        "encode_tight.h", "        members += 4ull * weft_set_list_put(lists + c,", "        weft_set_list_put(lists + c,"),
    "sets: half of a universe is listed as it is": ("encode_tight.h", "2 * (uint64_t)size > universe,",
                                                    "2 * (uint64_t)size > universe + 1,"),
    "planes: no barrier after the choice": (
        "encode_tight.h", "job, lists, changes->count);\n    weft_barrier();", "job, lists, changes->count);"),
    "planes: no descriptor of the further ones": (
        "encode_tight.h", "further->there = exceptional > 0;", "further->there = further->count > 0;"),
    "planes: low bits of the lists before are forgotten": (
        "encode_tight.h", "        lows += list->count * chosen->low_bits[i];", "        lows += list->count;"),
    "planes: a payload longer than its room is left": (
        "encode_tight.h", "bytes <= job->payload.room ? (uint32_t)bytes : 0", "(uint32_t)bytes"),
    "cast: the run's end is not seen": ("store.h", "number += position + i - weft_runs(&job->view)[number].position == "
                                        "weft_runs(&job->view)[number].count;", ""),
    "lists: gaps of the first warp alone": ("lists.h", "if (i - weft_lane() < count)", "if (i - weft_lane() < 1)"),
}


def run(*command, **more):
    return subprocess.run(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **more)


def must(done):
    if done.returncode != 0:
        sys.exit(f"mutate.py: {' '.join(done.args)}:\n{done.stdout[-4000:]}")
    return done.stdout


def copy_sources():
    """Only what differs is written, so that nothing else is built again."""
    for name in must(run("git", "-c", f"safe.directory={ROOT}", "-C", ROOT, "ls-files")).splitlines():
        there, here = os.path.join(ROOT, name), os.path.join(COPY, name)
        if not os.path.isfile(there):
            continue
        with open(there, "rb") as file:
            text = file.read()
        os.makedirs(os.path.dirname(here), exist_ok=True)
        if os.path.isfile(here):
            with open(here, "rb") as file:
                if file.read() == text:
                    continue
        shutil.copy(there, here)


def configure():
    ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
    for folder, sanitize in BUILDS.items():
        build_folder = os.path.join(FOLDER, folder)
        if not os.path.isfile(os.path.join(build_folder, "CMakeCache.txt")):
            must(run("cmake", "-S", COPY, "-B", build_folder, *ninja, "-DCMAKE_BUILD_TYPE=Debug",
                     "-DCMAKE_C_FLAGS_DEBUG=-O1", "-DCMAKE_CXX_FLAGS_DEBUG=-O1", f"-DWEFT_SANITIZE={sanitize}",
                     "-DWEFT_CUDA=OFF", "-DWEFT_HIP=OFF"))


def tests_for(file):
    """Names of all tests, those first that know the file."""
    names = sorted(os.listdir(os.path.join(COPY, "tests/emulation")))
    names = [name[5:-2] for name in names if name.startswith("test_") and name.endswith(".c")]
    first = [name for prefix, tests in ORDER.items() if file.startswith(prefix) for name in tests]
    return first + [name for name in names if name not in first]


def build(folder, tests):
    targets = [f"test_emulation_{name}" for name in tests]
    return run("cmake", "--build", os.path.join(FOLDER, folder), "-j", str(os.cpu_count()), "--target", *targets)


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_MOST, CPU_MOST + 5))


class Broken(Exception):
    """A build that failed: nothing is known of what was planted."""


def caught(folder, tests):
    """How the tests found it, or None."""
    done = build(folder, tests)
    if done.returncode != 0:
        raise Broken(f"does not compile: {done.stdout[-1000:]}")
    with tempfile.TemporaryDirectory() as own:
        for name in tests:
            path = os.path.join(FOLDER, folder, f"test_emulation_{name}")
            done = run(path, cwd=COPY, env={**os.environ, "TMPDIR": own}, preexec_fn=limit)
            if done.returncode == -signal.SIGXCPU:
                return f"{name}, no end"
            if done.returncode != 0:
                return name + (", " + folder if BUILDS[folder] else "")
    return None


def plant(file, old, new):
    path = os.path.join(COPY, KERNELS, file)
    with open(path, encoding="utf-8") as source:
        text = source.read()
    if text.count(old) != 1:
        return f"NOT FOUND once in {file}"
    with open(path, "w", encoding="utf-8") as source:
        source.write(text.replace(old, new))
    try:
        found = next(filter(None, (caught(folder, tests_for(file)) for folder in BUILDS)), None)
    except Broken as said:
        return str(said)
    finally:
        with open(path, "w", encoding="utf-8") as source:
            source.write(text)
    return found and f"caught: {found}" or "SURVIVED"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--sound", action="store_true", help="only see that the tests find nothing where nothing is planted")
    parser.add_argument("words", nargs="*")
    args = parser.parse_args()
    part, parts = (int(number) for number in args.part.split("/"))
    copy_sources()
    configure()
    if args.sound or part == 1:
        for folder in BUILDS:
            found = caught(folder, tests_for(""))
            if found:
                sys.exit(f"mutate.py: {found}, though nothing is planted")
    chosen = [name for name in BUGS if not args.words or any(word in name for word in args.words)]
    wrong = 0
    for name in [] if args.sound else chosen[part - 1::parts]:
        start = time.monotonic()
        said = plant(*BUGS[name])
        wrong += not said.startswith("caught")
        print(f"{name:48} {said} ({time.monotonic() - start:.0f} s)", flush=True)
    print(f"{wrong} not caught")
    return int(wrong != 0)


if __name__ == "__main__":
    sys.exit(main())
