#!/usr/bin/env python3
"""Holds what makes mutants to what it promises: code alone is changed, every kind is made, and what was judged is there."""
import contextlib
import io
import os
import sys
import tempfile

import build
import mutants
import mutate
import planted

SAMPLE = """/* a < b */
#define MORE(a) ((a) + 1)
static const int table[] = {1, 2 + 3};

weft_status weft_sample(const weft_thing *thing, uint32_t count)
{
    char text[64] = "a + 1"; // a < b
    const uint32_t most = thing->most << 2;
    weft_status status = WEFT_OK;
    weft_log(WEFT_LOG_INFO, "%u", count + 1);
    for (uint32_t i = 0; i < count; i++) {
        if (thing->all && count > 7)
            thing->used++;
        status = weft_sample_one(thing,
                                 i);
        if (status != WEFT_OK)
            return status;
    }
    thing->done = true;
    weft_other(thing, text, most);
    if (!thing->done)
        return weft_fail(WEFT_E_STATE, "not %u", count - 1);
    return status;
}
"""

MADE = {
    ("operator", "const uint32_t most = thing->most >> 2;"),
    ("operator", "for (uint32_t i = 0; i <= count; i++) {"),
    ("operator", "if (thing->all || count > 7)"),
    ("operator", "if (thing->all && count >= 7)"),
    ("operator", "if (status == WEFT_OK)"),
    ("constant", "const uint32_t most = thing->most << 3;"),
    ("constant", "for (uint32_t i = 1; i < count; i++) {"),
    ("constant", "if (thing->all && count > 8)"),
    ("constant", "thing->done = false;"),
    ("negated", "if (!(thing->all && count > 7))"),
    ("negated", "if (!(status != WEFT_OK))"),
    ("negated", "if (!(!thing->done))"),
    ("never", "if (0)"),
    ("increment", "thing->used--;"),
    ("removed", ";"),
    ("no failure", "return WEFT_OK;"),
    ("begins well", "{ return WEFT_OK;"),
}
REMOVED = {
    "thing->used++;", "status = weft_sample_one(thing, i);", "return status;", "thing->done = true;",
    "weft_other(thing, text, most);", "return weft_fail(WEFT_E_STATE, \"not %u\", count - 1);",
}


def check_sample(wrong):
    made = mutants.of_source("sample.c", SAMPLE)
    found = {(mutant.kind, mutant.new) for mutant in made}
    wrong += [f"not made: {kind}: {new}" for kind, new in MADE - found]
    wrong += [f"made: {kind}: {new}" for kind, new in found - MADE]
    removed = [mutant.old for mutant in made if mutant.kind == "removed"]
    if sorted(removed) != sorted(REMOVED):
        wrong.append(f"removed: {removed}")


def check_sources(wrong):
    """Whatever is changed is one place of code, and lines stay where they are."""
    keys = set()
    for file in mutate.sources(["*"]):
        text = mutate.read(file)
        made = mutants.of_source(file, text)
        keys.update(mutant.key() for mutant in made)
        for mutant in made:
            planted = mutants.planted(text, mutant)
            if planted == text or planted.count("\n") != text.count("\n"):
                wrong.append(f"{file}:{mutant.line}: {mutant.old} => {mutant.new}")
            if text[:mutant.begin].count("\n") + 1 != mutant.line:
                wrong.append(f"{file}:{mutant.line}: {mutant.old}: not its line")
    wrong += [f"judged.txt: no such mutant any more: {' | '.join(key)}" for key in mutate.judged() if key not in keys]


def check_choice(wrong):
    files = mutate.sources(["core/base/turn.c", "core/wire/*.c"])
    first, again, other = (mutate.choose(files, seed, 40) for seed in (1, 1, 2))
    if first != again or first == other or len({(mutant.file, mutant.line) for mutant in first}) != 40:
        wrong.append("the choice does not follow from the seed")


def check_planted(wrong):
    """Each bug that was planted by hand fits its file, and names a test that is there."""
    bugs = planted.read_all()
    for bug in bugs:
        try:
            if bug.text(mutate.read(bug.file)) == mutate.read(bug.file):
                wrong.append(f"planted/{bug.room}.txt: {bug.file}: nothing changes: {bug.promise}")
        except (ValueError, OSError) as error:
            wrong.append(f"planted/{bug.room}.txt: {error}")
        if not bug.file.endswith(".c"):
            wrong.append(f"planted/{bug.room}.txt: {bug.file}: it is compiled by itself, and so a .c file")
        if not os.path.isfile(planted.test_source(bug.test)):
            wrong.append(f"planted/{bug.room}.txt: no {planted.test_source(bug.test)}")
    if len(bugs) < 500:
        wrong.append(f"planted: {len(bugs)} bugs are less than there were")
    twice = {bug for bug in bugs if bugs.count(bug) > 1}
    wrong += [f"planted twice: {bug.file}: {bug.promise}" for bug in twice]
    block = planted.block_read("r", "f.c\n! one\n! two\n= unit.t\n- a  b\n- c\n+ d\n- e\n")
    if block.text("x a b\n  c y e") != "x d y " or block.promise != "one two":
        wrong.append("a block is read otherwise than it is written")


def check_table(wrong):
    """What is known of these sources is taken up, and nothing of others."""
    row = dict.fromkeys(mutate.COLUMNS, "x")
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        path = os.path.join(folder, "table.tsv")
        mutate.Table(path, "one").add(row)
        same, other, first = (list(mutate.Table(path, digest).rows.values()) for digest in ("one", "other", "one"))
    if [same, other, first] != [[row], [], []]:
        wrong.append("the table does not follow its sources")


def main():
    os.chdir(build.ROOT)
    wrong = []
    check_sample(wrong)
    check_sources(wrong)
    check_choice(wrong)
    check_planted(wrong)
    check_table(wrong)
    print("\n".join(wrong) or "mutants: as promised")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
