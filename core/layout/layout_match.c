/* layout_match.c - matches two lists of tensors by sorted names, and says in one sentence how they differ.
 *
 * A difference is of one of these kinds. The first kind that is found gives the advice at the end of the text:
 *
 *   prefix   names of one end stand at the other with more in front
 *   tie      a tensor that the other end lacks, beside exactly one of its dtype and shape that both have
 *   dtype, shape
 *   missing  a tensor of one end alone, with nothing that would explain it */
#include "layout/layout_match.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

#define NONE      UINT64_MAX
#define NAME_SAID 44 /* characters of a name in a text: its end, because ends differ */
#define EXAMPLES  3u /* tensors that a text names */
#define TIES_MOST 8u /* tensors of one end alone, of which one may be tied */

/* A tensor with its number, sorted by name. */
typedef struct match_entry {
    const weft_tensor *tensor;
    uint64_t number;
} match_entry;

typedef struct match_half {
    const weft_match_side *side;
    match_entry *sorted;
    uint64_t *other; /* number of the namesake at the other end, by own number; NONE: there is none */
    uint64_t alone;  /* tensors without a namesake */
} match_half;

typedef struct match {
    match_half mine, theirs;
    uint64_t changed; /* namesakes of other dtype or shape */
} match;

static const weft_tensor *tensor_at(const weft_match_side *side, uint64_t number)
{
    return (const weft_tensor *)(const void *)((const char *)side->first + number * side->stride);
}

weft_match_side weft_match_layout(const char *name, const weft_layout *layout)
{
    const weft_match_side side = {name, layout->count ? &layout->entries->tensor : NULL, sizeof *layout->entries,
                                  layout->count};
    return side;
}

static bool same_dtype(const weft_tensor *a, const weft_tensor *b)
{
    return a->dtype == b->dtype;
}

static bool same_shape(const weft_tensor *a, const weft_tensor *b)
{
    return a->rank == b->rank && (a->rank == 0 || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0);
}

static bool alike(const weft_tensor *a, const weft_tensor *b)
{
    return same_dtype(a, b) && same_shape(a, b);
}

/* ---- matching */

static int entry_order(const void *left, const void *right)
{
    return strcmp(((const match_entry *)left)->tensor->name, ((const match_entry *)right)->tensor->name);
}

static bool half_open(match_half *half, const weft_match_side *side)
{
    *half = (match_half){side, weft_mem_take(side->count + 1, sizeof *half->sorted),
                         weft_mem_take(side->count + 1, sizeof *half->other), side->count};
    for (uint64_t i = 0; half->sorted && half->other && i < side->count; i++) {
        half->sorted[i] = (match_entry){tensor_at(side, i), i};
        half->other[i] = NONE;
    }
    if (!half->sorted || !half->other)
        return false;
    qsort(half->sorted, side->count, sizeof *half->sorted, entry_order);
    return true;
}

static void half_close(match_half *half)
{
    weft_mem_give(half->other);
    weft_mem_give(half->sorted);
}

/* Walks both sorted lists once. A name that one end has twice has one namesake at most, so the lists differ then. */
static void pair(match *m)
{
    uint64_t a = 0, b = 0;
    while (a < m->mine.side->count && b < m->theirs.side->count) {
        const match_entry *mine = &m->mine.sorted[a], *theirs = &m->theirs.sorted[b];
        const int order = strcmp(mine->tensor->name, theirs->tensor->name);
        a += order <= 0;
        b += order >= 0;
        if (order != 0)
            continue;
        m->mine.other[mine->number] = theirs->number;
        m->theirs.other[theirs->number] = mine->number;
        m->mine.alone--;
        m->theirs.alone--;
        m->changed += !alike(mine->tensor, theirs->tensor);
    }
}

static bool has_name(const match_half *half, const char *name)
{
    const weft_tensor wanted = {.name = name};
    const match_entry key = {&wanted, 0};
    return bsearch(&key, half->sorted, half->side->count, sizeof key, entry_order) != NULL;
}

/* ---- what would explain it */

static const weft_tensor *first_alone(const match_half *half)
{
    for (uint64_t i = 0; i < half->side->count; i++)
        if (half->other[i] == NONE)
            return tensor_at(half->side, i);
    return NULL;
}

/* Finds the bytes by which names of `longer` begin where those of `shorter` do not: the first pair tells. 0: none. */
static size_t prefix_find(const match_half *longer, const match_half *shorter, const char **from)
{
    const weft_tensor *first = first_alone(shorter);
    const size_t length = first ? strlen(first->name) : 0;
    for (uint64_t i = 0; first && i < longer->side->count; i++) {
        const char *name = tensor_at(longer->side, i)->name;
        const size_t bytes = strlen(name);
        if (longer->other[i] != NONE || bytes <= length || strcmp(name + bytes - length, first->name) != 0)
            continue;
        *from = name;
        return bytes - length;
    }
    return 0;
}

/* Counts the names of `longer` alone that are names of the other end without those first bytes. */
static uint64_t prefix_count(const match_half *longer, const match_half *shorter, const char *from, size_t bytes)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < longer->side->count; i++) {
        const char *name = tensor_at(longer->side, i)->name;
        count += longer->other[i] == NONE && strncmp(name, from, bytes) == 0 && name[bytes] &&
                 has_name(shorter, name + bytes);
    }
    return count;
}

/* Finds the tensor that both ends have and that alone has dtype and shape of the given one. NULL: none, or several. */
static const weft_tensor *tie_find(const match_half *half, const weft_tensor *alone)
{
    const weft_tensor *found = NULL;
    for (uint64_t i = 0; i < half->side->count; i++) {
        const weft_tensor *tensor = tensor_at(half->side, i);
        if (tensor == alone || !alike(tensor, alone))
            continue;
        if (found || half->other[i] == NONE)
            return NULL;
        found = tensor;
    }
    return found;
}

/* ---- the text */

typedef struct match_text {
    char *bytes;
    size_t used, room;
} match_text;

static void __attribute__((format(printf, 2, 3))) put(match_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text->bytes + text->used, text->room - text->used, format, arguments);
    va_end(arguments);
    text->used += length > 0 ? (size_t)length : 0;
    if (text->used >= text->room) {
        weft_log_cut(text->bytes, text->room);
        text->used = strlen(text->bytes);
    }
}

/* Says the end of a name, from a whole character of UTF-8 on. */
static const char *end_of(const char *name)
{
    const size_t length = strlen(name);
    const char *at = length > NAME_SAID ? name + length - NAME_SAID : name;
    while (((unsigned char)*at & 0xc0u) == 0x80u)
        at++;
    return at;
}

static void put_shape(match_text *text, const weft_tensor *tensor)
{
    put(text, "[");
    for (uint32_t i = 0; i < tensor->rank && i < 4; i++)
        put(text, "%s%" PRIu64, i ? "," : "", tensor->shape[i]);
    put(text, tensor->rank > 4 ? ",..]" : "]");
}

static const char *dtype_name(const weft_tensor *tensor)
{
    const weft_dtype_row *row = weft_dtype_find(tensor->dtype);
    return row ? row->name : "an unknown dtype";
}

static void put_alone(match_text *text, const match_half *half, const match_half *other, const weft_tensor *tensor)
{
    put(text, "%s has '%s', %s has not", half->side->name, end_of(tensor->name), other->side->name);
}

static void put_changed(match_text *text, const match *m, const weft_tensor *mine, const weft_tensor *theirs)
{
    const bool dtype = !same_dtype(mine, theirs);
    put(text, "'%s' is %s", end_of(mine->name), dtype ? dtype_name(mine) : "");
    if (!dtype)
        put_shape(text, mine);
    put(text, " in %s and %s", m->mine.side->name, dtype ? dtype_name(theirs) : "");
    if (!dtype)
        put_shape(text, theirs);
    put(text, " in %s", m->theirs.side->name);
}

/* Puts the first tensors that differ, as far as the room leads. */
static void put_examples(match_text *text, const match *m)
{
    uint32_t said = 0;
    for (uint64_t i = 0; i < m->mine.side->count && said < EXAMPLES; i++) {
        const weft_tensor *mine = tensor_at(m->mine.side, i);
        const uint64_t at = m->mine.other[i];
        const weft_tensor *theirs = at == NONE ? NULL : tensor_at(m->theirs.side, at);
        if (theirs && alike(mine, theirs))
            continue;
        put(text, "%s", said++ ? "; " : "");
        if (theirs)
            put_changed(text, m, mine, theirs);
        else
            put_alone(text, &m->mine, &m->theirs, mine);
    }
    for (uint64_t i = 0; i < m->theirs.side->count && said < EXAMPLES; i++) {
        if (m->theirs.other[i] != NONE)
            continue;
        put(text, "%s", said++ ? "; " : "");
        put_alone(text, &m->theirs, &m->mine, tensor_at(m->theirs.side, i));
    }
}

static bool put_prefix(match_text *text, const match_half *longer, const match_half *shorter)
{
    const char *from = NULL;
    const size_t bytes = prefix_find(longer, shorter, &from);
    const uint64_t count = bytes ? prefix_count(longer, shorter, from, bytes) : 0;
    if (count == 0)
        return false;
    put(text, "%" PRIu64 " names of %s have '%.*s' in front of those of %s, as '%s': give both ends the same names",
        count, longer->side->name, (int)(bytes < NAME_SAID ? bytes : NAME_SAID), from, shorter->side->name,
        end_of(from));
    return true;
}

static bool advise_tie(match_text *advice, const match_half *half)
{
    const weft_tensor *alone = half->alone > 0 && half->alone <= TIES_MOST ? first_alone(half) : NULL;
    const weft_tensor *tied = alone ? tie_find(half, alone) : NULL;
    if (tied)
        put(advice, "if it is '%s' under a second name, give both ends one of the two", end_of(tied->name));
    return tied != NULL;
}

/* Advises by the first tensor that changed. */
static void advise_changed(match_text *advice, const match *m)
{
    for (uint64_t i = 0; i < m->mine.side->count; i++) {
        const uint64_t at = m->mine.other[i];
        if (at == NONE || alike(tensor_at(m->mine.side, i), tensor_at(m->theirs.side, at)))
            continue;
        const bool dtype = !same_dtype(tensor_at(m->mine.side, i), tensor_at(m->theirs.side, at));
        put(advice,
            dtype ? "publish in the dtype that engines hold" : "name one shape at both ends, and leave padding out");
        return;
    }
}

static void advise(match_text *advice, const match *m)
{
    if (advise_tie(advice, &m->mine) || advise_tie(advice, &m->theirs))
        return;
    if (m->changed > 0)
        advise_changed(advice, m);
    else
        put(advice, "give both ends the same tensors");
}

/* The advice stands last and has its room first. */
static void describe(const match *m, char text[WEFT_MATCH_TEXT])
{
    char words[WEFT_MATCH_TEXT];
    match_text all = {text, 0, WEFT_MATCH_TEXT}, advice = {words, 0, sizeof words};
    text[0] = words[0] = 0;
    if (put_prefix(&all, &m->mine, &m->theirs) || put_prefix(&all, &m->theirs, &m->mine))
        return;
    advise(&advice, m);
    const uint64_t differ = m->mine.alone + m->theirs.alone + m->changed;
    if (differ > 1)
        put(&all, "%" PRIu64 " tensors differ: ", differ);
    all.room -= advice.used + 2;
    put_examples(&all, m);
    all.room = WEFT_MATCH_TEXT;
    put(&all, ": %s", words);
}

weft_status weft_match_by_name(const weft_match_side *mine, const weft_match_side *theirs, uint64_t *order,
                               char text[WEFT_MATCH_TEXT])
{
    match m = {.changed = 0};
    const bool mine_open = half_open(&m.mine, mine), open = half_open(&m.theirs, theirs) && mine_open;
    weft_status status = WEFT_OK;
    text[0] = 0;
    if (open) {
        pair(&m);
        if (m.mine.alone + m.theirs.alone + m.changed > 0) {
            describe(&m, text);
            weft_log_clean(text);
            status = weft_fail_quiet(WEFT_E_LAYOUT, "%s", text);
        } else if (order && mine->count) {
            memcpy(order, m.mine.other, mine->count * sizeof *order);
        }
    } else {
        status = weft_fail_quiet(WEFT_E_MEMORY, "no memory to match %" PRIu64 " tensors", mine->count + theirs->count);
    }
    half_close(&m.theirs);
    half_close(&m.mine);
    return status;
}

weft_status weft_match_pieces(const weft_match_side *mine, const weft_match_side *theirs, const weft_piece *pieces,
                              uint64_t count, weft_piece **renumbered)
{
    char text[WEFT_MATCH_TEXT];
    uint64_t *order = weft_mem_take(mine->count + 1, sizeof *order);
    weft_piece *made = count < UINT64_MAX ? weft_mem_take(count + 1, sizeof *made) : NULL;
    weft_status status = order && made ? weft_match_by_name(mine, theirs, order, text)
                                       : weft_fail_quiet(WEFT_E_MEMORY, "no memory for %" PRIu64 " pieces", count);
    for (uint64_t i = 0; status == WEFT_OK && i < count; i++) {
        made[i] = pieces[i];
        made[i].tensor = pieces[i].tensor < mine->count ? order[pieces[i].tensor] : pieces[i].tensor;
    }
    weft_mem_give(order);
    if (status == WEFT_OK)
        *renumbered = made;
    else
        weft_mem_give(made);
    return status;
}

weft_status weft_layout_match(const weft_layout *layout, const weft_layout *other, uint64_t *order)
{
    char text[WEFT_MATCH_TEXT];
    const weft_match_side mine = weft_match_layout("the layout", layout),
                          theirs = weft_match_layout("the other", other);
    return weft_match_by_name(&mine, &theirs, order, text);
}
