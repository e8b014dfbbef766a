#!/usr/bin/env python3
"""Plants bugs in the kernels, one at a time, and sees each caught by the tests of the emulation, which run them at 32 and
at 64 lanes under ASan and UBSan. For the long tier: every bug is a build.

    mutate.py [NAME...]     those whose names hold one of the words

Works on a copy of the sources in build-mutants/. Exit: 0, 1 (one survived, or is not to be found any more)."""
import os
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "build-mutants")
COPY, BUILD = os.path.join(FOLDER, "source"), os.path.join(FOLDER, "build")
KERNELS = "backends/kernels/"

# name: file, what is there (once, or as often as told), what is put in its place
BUGS = {
    "prefix: no barrier before the sums are read": (
        "block.h", "        sums->warp[warp] = through;\n    weft_barrier();", "        sums->warp[warp] = through;"),
    "prefix: no barrier behind": ("block.h", "    weft_barrier();\n    *all = total;", "    *all = total;"),
    "prefix: the lane's own value stays in": ("block.h", "return before + through - value;", "return before + through;"),
    "warp prefix: one lane too few": ("block.h", "lane >= step ? below : 0", "lane > step ? below : 0"),
    "warp sum: the last step is left out": (
        "block.h", "uint32_t step = WEFT_LANES / 2; step > 0; step /= 2)\n        value +=",
        "uint32_t step = WEFT_LANES / 2; step > 1; step /= 2)\n        value +="),
    "warp sum: half of the lanes": ("block.h", "for (uint32_t step = WEFT_LANES / 2; step > 0; step /= 2) {",
                                    "for (uint32_t step = 16; step > 0; step /= 2) {"),
    "digest: keyed by the index alone": ("element.h", "((index + 1) * WEFT_K_PHI)", "(index * WEFT_K_PHI)"),
    "digest: the rest is left out": ("digest.h", "if (rest < count)", "if (rest + 1 < count)"),
    "diff: no barrier before the bits are counted": (
        "diff.h", "    weft_barrier();\n    weft_diff_leave(", "    weft_diff_leave("),
    "diff: no barrier behind the clearing": ("diff.h", "shared.word[i] = 0;\n    weft_barrier();", "shared.word[i] = 0;"),
    "diff: the head is left out": ("diff.h", "    if (rank < head)\n", "    if (rank + 1 < head)\n"),
    "diff: one of the last quads is left out": ("diff.h", "for (; q < quads; q += ranks)", "for (; q + 1 < quads; q += ranks)"),
    "fast: counters are not cleared": (
        "encode_fast.h", "words[i] = 0;\n    weft_barrier();", "words[i] += 0;\n    weft_barrier();"),
    "fast: no barrier behind the ranks": ("encode_fast.h", "    weft_barrier(); /* the ranks are written */\n", ""),
    "fast: bits counted by half of a wave": ("encode_fast.h", "if (weft_lane() < 32)\n        weft_add32(&shared->counts.gap",
                                             "if (weft_thread() < 32)\n        weft_add32(&shared->counts.gap"),
    "gather: no barrier behind the sums": ("gather.h", "= before;\n    weft_barrier();\n    return all;",
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
    "tight: bits are flipped before all are there": (
        "decode_tight.h", "    weft_barrier();\n    shared->changed[thread] ^= flip;",
        "    shared->changed[thread] ^= flip;"),
    "apply: a mismatch is not said": ("apply.h", "        other = true;", "        other = other;"),
    "apply: what was there is not kept": ("apply.h", "        weft_element_store<width>(job->before, first + at, there[j]);\n",
                                          ""),
    "lists: the plane begins on a word": ("decode_lists.h", "WEFT_BLOCK * 32 + 1 - job->unary % 32;", "WEFT_BLOCK * 32 + 1;"),
    "lists: a rank at the universe passes": ("decode_lists.h", "if (rank >= job->view.count)", "if (rank > job->view.count)"),
    "lists: no barrier behind the places": (
        "decode_lists.h", "(weft_thread() * 32 + weft_lowest(word));\n    weft_barrier();",
        "(weft_thread() * 32 + weft_lowest(word));"),
    "lists: sums of low bits are not carried": ("decode_lists.h", "        lows += all;", "        (void)all;"),
    "tight: a list at its universe passes": ("decode_tight.h", "[set->count - 1] < universe;", "[set->count - 1] <= universe;"),
    "tight: the number of changes is not proved": (
        "decode_tight.h", "if (changed != job->changed)", "if (changed > job->changed + (1u << 30))"),
    "tight: exceptions are listed from the part's first change": (
        "decode_tight.h", "                       cls->first_change);", "                       0);"),
    "tight: no barrier behind the bits": (
        "decode_tight.h", "    weft_barrier();\n    shared->changed[thread] ^= flip;", "    shared->changed[thread] ^= flip;"),
    "tight: a change counts itself": (
        "decode_tight.h", "weft_ones(word & ((1u << bit % 32) - 1))", "weft_ones(word & ((2u << bit % 32) - 1))"),
    "magnitudes: large ones have two taken off": ("decode_magnitudes.h", "state == WEFT_K_STATE_LARGE ? 3 : 2", "2"),
    "magnitudes: the escape comes one late": (
        "decode_magnitudes.h", "if (code->unary >= WEFT_K_ESCAPE)", "if (code->unary > WEFT_K_ESCAPE)"),
    "magnitudes: the base's own exponent counts as large": (
        "decode_tight.h", "exponent > tight->magnitude_base", "exponent >= tight->magnitude_base"),
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
    "apply: what was there is not kept": (
        "apply.h", "        weft_element_store<width>(job->before, first + at, there[j]);\n", ""),
    "apply: no mismatch is told": ("apply.h", "        other = true;\n", ""),
}


def run(*command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)


def must(done):
    if done.returncode != 0:
        sys.exit(f"mutate.py: {' '.join(done.args)}:\n{done.stdout[-4000:]}")


def copy_sources():
    shutil.rmtree(COPY, ignore_errors=True)
    listed = run("git", "-c", f"safe.directory={ROOT}", "-C", ROOT, "ls-files")
    must(listed)
    for name in listed.stdout.splitlines():
        if os.path.isfile(os.path.join(ROOT, name)):
            os.makedirs(os.path.dirname(os.path.join(COPY, name)), exist_ok=True)
            shutil.copy2(os.path.join(ROOT, name), os.path.join(COPY, name))


def targets():
    names = sorted(os.listdir(os.path.join(COPY, "tests/emulation")))
    return [f"test_emulation_{name[5:-2]}" for name in names if name.startswith("test_") and name.endswith(".c")]


def build():
    return run("cmake", "--build", BUILD, "-j", str(os.cpu_count()), "--target", *targets())


def caught():
    """How the tests found it, or None."""
    done = build()
    if done.returncode != 0:
        return "does not compile"
    try:
        done = run("ctest", "--test-dir", BUILD, "-L", "^emulation$", "--stop-on-failure", "--timeout", "300")
    except subprocess.TimeoutExpired:
        return "no end"
    if done.returncode == 0:
        return None
    failed = [line for line in done.stdout.splitlines() if "Failed" in line or "Timeout" in line or "Exception" in line]
    return failed[0].split("Test ")[-1].strip() if failed else "failed"


def plant(name, file, old, new):
    path = os.path.join(COPY, KERNELS, file)
    with open(path, encoding="utf-8") as source:
        text = source.read()
    if text.count(old) != 1:
        return f"NOT FOUND once in {file}"
    with open(path, "w", encoding="utf-8") as source:
        source.write(text.replace(old, new))
    try:
        found = caught()
    finally:
        with open(path, "w", encoding="utf-8") as source:
            source.write(text)
    return found and f"caught: {found}" or "SURVIVED"


def main():
    words = sys.argv[1:]
    copy_sources()
    must(run("cmake", "-S", COPY, "-B", BUILD, "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O1",
             "-DCMAKE_CXX_FLAGS_DEBUG=-O1", "-DWEFT_SANITIZE=address", "-DWEFT_CUDA=OFF", "-DWEFT_HIP=OFF"))
    must(build())
    if caught() is not None:
        sys.exit("mutate.py: the tests fail without any bug planted")
    wrong = 0
    for name, bug in BUGS.items():
        if words and not any(word in name for word in words):
            continue
        start = time.monotonic()
        said = plant(name, *bug)
        wrong += not said.startswith("caught")
        print(f"{name:48} {said} ({time.monotonic() - start:.0f} s)", flush=True)
    print(f"{wrong} not caught")
    return int(wrong != 0)


if __name__ == "__main__":
    sys.exit(main())
