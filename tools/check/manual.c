/* manual.c - the manual of the site file, from the table of its keys: conf/weft.ini is its print. */
#include "tools/check/manual.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "site/site.h"

#define COLUMNS 118

/* The sections in the order of the manual: what the table calls each, its lines there, and what comes before them. */
/* clang-format off: a line here is a line of the manual. */
static const struct {
    const char *name, *header, *lead;
} sections[] = {
    {"site", "[site]",
     "weft.ini - the manual of the site file: every section, every key.\n"
     "\n"
     "One site file says who takes part and how each is reached; the same file serves all hosts. This one loads as it\n"
     "stands: a trainer on loopback and two peers, everything else at its default. A line that begins with ; and a "
     "key\n"
     "shows a key with its default: take the ; off and change the value.\n"
     "\n"
     "  Comments    a line that begins with # or ;, or what follows a ; or # after a value. A value that holds one of\n"
     "              these is put in double quotes.\n"
     "  Units       are required: sizes take KiB, MiB or GiB; times ms or s; rates Mbit/s, Gbit/s, MB/s or GB/s "
     "(powers\n"
     "              of ten; 1 MB/s = 8 Mbit/s). Numbers are whole. Plain counts bear no unit.\n"
     "  Names       of sites and peers are 1 to 63 of a-z 0-9 _ -. Sections and keys are lower case.\n"
     "  Lines       have at most 1022 bytes; none goes on in the next.\n"
     "  Mistakes    an unknown, doubled or wrong key is an error that names file, line, key and what is allowed.\n"
     "  Overrides   section.key=value on the command line (peer.a.bucket=1MiB) stands in for that key of that "
     "section.\n"},
    {"trainer", "[trainer]", ""},
    {"peer", "[peers]",
     "---------------------------------------------------------------------------------------------------- peers\n"
     "\n"
     "[peer.NAME] lists a peer. [peer.PREFIX*] admits any number of peers whose names begin with PREFIX, up to "
     "max_peers.\n"
     "[peers] is the default of all. For each key the first that gives it decides:\n"
     "     [peer.NAME], the longest [peer.PREFIX*] that matches, [peers], the default below.\n"
     "All three take the keys shown here.\n"},
    {"provider", "[provider.tcp]",
     "------------------------------------------------------------------------------------------------ providers\n"
     "\n"
     "[provider.NAME], NAME one that [peers] provider allows: all but ports serve each of them, and stream needs no\n"
     "address.\n"},
    {"cut", "[cut.heads]",
     "A cut says into which parts the site's engines split tensors: the finest parts that any of them takes. 8 parts "
     "serve\n"
     "engines of 8, 4, 2 and 1 ranks. Each section is a rule, and a tensor is parted by one rule at most; rules by "
     "layer and\n"
     "by expert come on top, and take whole tensors by a number in their names. `weft check SITE --model FILE` prints "
     "what\n"
     "the cuts make of a model.\n"},
    {"source", "[source.0]",
     "[source.R], R from 0 without gaps: the trainers that publish one model together, each a part of it "
     "(docs/SHARDING.md).\n"
     "All ends read the same sections. A site with one trainer needs none.\n"},
    {"session", "[session]", ""},
    {"commit", "[commit]", ""},
    {"security", "[security]", ""},
    {"log", "[log]", ""},
};
/* clang-format on */

/* ---- text */

static void line_print(const char *text, size_t bytes)
{
    printf("#%s%.*s\n", bytes ? " " : "", (int)bytes, text);
}

/* Prints a paragraph as lines of a comment. */
static void paragraph_print(const char *text, size_t bytes)
{
    while (bytes > COLUMNS) {
        size_t end = COLUMNS;
        while (end > 0 && text[end] != ' ')
            end--;
        line_print(text, end);
        text += end + 1;
        bytes -= end + 1;
    }
    line_print(text, bytes);
}

static void text_print(const char *text)
{
    for (const char *end; *text; text = *end ? end + 1 : end) {
        end = strchrnul(text, '\n');
        paragraph_print(text, (size_t)(end - text));
    }
}

/* ---- keys */

static void key_print(const weft_key *key)
{
    printf("\n");
    text_print(key->help);
    printf("# Allowed: %s\n;%s =%s%s\n", key->range, key->key, *key->fallback ? " " : "", key->fallback);
}

/* Prints the keys of a section that are rarely set, or the others. */
static void keys_print(const char *section, bool rare)
{
    const weft_key *key;
    bool first = true;
    for (size_t i = 0; (key = weft_key_at(i)); i++) {
        if (strcmp(key->section, section) != 0 || key->rare != rare)
            continue;
        if (rare && first)
            printf("\n# ---- rarely set\n");
        first = false;
        key_print(key);
    }
}

void weft_manual_print(void)
{
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        if (i > 0)
            printf("\n");
        text_print(sections[i].lead);
        printf("%s%s\n", i > 0 ? "" : "\n", sections[i].header);
        keys_print(sections[i].name, false);
        keys_print(sections[i].name, true);
        if (strcmp(sections[i].name, "peer") == 0)
            printf("\n[peer.a]\n\n[peer.b]\n");
    }
}
