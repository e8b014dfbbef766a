/* update_names_read.c - reads the short form of a layout, and trusts nothing of it. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "update/update_format.h"
#include "update/update_names.h"
#include "wire/wire.h"

#define LAYOUT_MAGIC UINT32_C(0x594c4657)
#define HEAD_BYTES   16u
#define TENSORS_MAX  (UINT64_C(1) << 20)

typedef struct tensor_entry {
    uint64_t dtype, rank, name_bytes;
    uint64_t shape[WEFT_MAX_RANK];
    char name[WEFT_MAX_NAME + 1];
} tensor_entry;

typedef struct telling {
    weft_in in;
    uint8_t *plain; /* the serialised layout so far */
    uint64_t bytes, capacity;
    uint64_t *at; /* where each tensor begins in it */
    uint64_t count, places;
    tensor_entry last;
    bool short_of_memory;
} telling;

/* ---- what is there */

static bool grown(void **memory, uint64_t have, uint64_t want, uint64_t size, uint64_t *capacity)
{
    if (want <= *capacity)
        return true;
    uint64_t most = want > 2 * have ? want : 2 * have;
    void *more = weft_mem_grow(*memory, *capacity, most, size);
    if (!more)
        return false;
    *memory = more;
    *capacity = most;
    return true;
}

static void append(telling *t, const tensor_entry *tensor)
{
    const uint64_t bytes = 12 + 8 * tensor->rank + tensor->name_bytes;
    void *plain = t->plain, *at = t->at;
    t->in.bad = t->in.bad || t->count >= TENSORS_MAX || t->bytes + bytes > WEFT_LAYOUT_MAX;
    if (t->in.bad)
        return;
    const bool room = grown(&plain, t->bytes, t->bytes + bytes, 1, &t->capacity);
    t->plain = plain;
    t->short_of_memory = !room || !grown(&at, t->count, t->count + 1, sizeof *t->at, &t->places);
    t->at = at;
    t->in.bad = t->short_of_memory;
    if (t->in.bad)
        return;
    weft_out out = {t->plain + t->bytes, bytes, 0, false};
    weft_out_word(&out, tensor->dtype, 4);
    weft_out_word(&out, tensor->rank, 4);
    weft_out_word(&out, tensor->name_bytes, 4);
    for (uint64_t i = 0; i < tensor->rank; i++)
        weft_out_word(&out, tensor->shape[i], 8);
    weft_out_block(&out, tensor->name, tensor->name_bytes);
    t->at[t->count++] = t->bytes;
    t->bytes += bytes;
    t->last = *tensor;
}

static void take_back(const telling *t, uint64_t number, tensor_entry *tensor)
{
    weft_in in = {t->plain, t->bytes, t->at[number], false};
    tensor->dtype = weft_in_word(&in, 4);
    tensor->rank = weft_in_word(&in, 4);
    tensor->name_bytes = weft_in_word(&in, 4);
    for (uint64_t i = 0; i < tensor->rank; i++)
        tensor->shape[i] = weft_in_word(&in, 8);
    memcpy(tensor->name, weft_in_block(&in, tensor->name_bytes), tensor->name_bytes);
    tensor->name[tensor->name_bytes] = 0;
}

/* ---- literals */

static void letters_add(weft_in *in, tensor_entry *tensor, const char *letters, uint64_t count)
{
    in->bad = in->bad || count > WEFT_MAX_NAME - tensor->name_bytes;
    if (in->bad)
        return;
    memcpy(tensor->name + tensor->name_bytes, letters, count);
    tensor->name_bytes += count;
}

static void name_get(weft_in *in, const tensor_entry *last, tensor_entry *tensor)
{
    uint64_t shared = weft_number_get(in), byte;
    in->bad = in->bad || shared > last->name_bytes;
    if (!in->bad)
        letters_add(in, tensor, last->name, shared);
    while ((byte = weft_in_word(in, 1)) != 0) {
        const char *word = byte <= WEFT_NAME_WORDS ? weft_name_words[byte - 1] : NULL;
        const char letter = (char)(byte == WEFT_NAME_ITSELF ? weft_in_word(in, 1) : byte);
        letters_add(in, tensor, word ? word : &letter, word ? strlen(word) : 1);
    }
    tensor->name[tensor->name_bytes] = 0;
}

static void literal_get(telling *t, uint64_t first)
{
    tensor_entry tensor = {.dtype = first % 32, .rank = first / 32};
    t->in.bad = t->in.bad || tensor.rank > WEFT_MAX_RANK;
    for (uint64_t i = 0; i < tensor.rank && !t->in.bad; i++)
        tensor.shape[i] = weft_number_get(&t->in);
    name_get(&t->in, &t->last, &tensor);
    append(t, &tensor);
}

/* ---- copies */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Finds number `which` in the name; NULL: the name has fewer. */
static char *number_find(char *name, uint64_t which, uint32_t *digits)
{
    for (char *at = name; *at; at += *digits) {
        for (*digits = 0; is_digit(at[*digits]); (*digits)++)
            continue;
        if (*digits > 0 && which-- == 0)
            return at;
        *digits += *digits == 0;
    }
    return NULL;
}

static uint64_t number_value(const char *at, uint32_t digits)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < digits; i++)
        value = 10 * value + (uint64_t)(at[i] - '0');
    return value;
}

/* Moves a number of the name. False: there is no such number, or the result has too many digits. */
static bool number_move(tensor_entry *tensor, uint64_t which, uint64_t delta)
{
    char moved[WEFT_MAX_NAME + WEFT_NAME_DIGITS + 8];
    uint32_t digits;
    const uint64_t limit = UINT64_C(1000000000000000000), step = delta / 2 + delta % 2;
    char *at = number_find(tensor->name, which, &digits);
    if (!at || digits > WEFT_NAME_DIGITS || step >= limit)
        return false;
    uint64_t value = number_value(at, digits);
    if (delta % 2 ? step > value : step >= limit - value)
        return false;
    int length = snprintf(moved, sizeof moved, "%.*s%llu%s", (int)(at - tensor->name), tensor->name,
                          (unsigned long long)(delta % 2 ? value - step : value + step), at + digits);
    if (length > WEFT_MAX_NAME)
        return false;
    memcpy(tensor->name, moved, (size_t)length + 1);
    tensor->name_bytes = (uint64_t)length;
    return true;
}

static void copies_get(telling *t)
{
    const uint64_t distance = weft_number_get(&t->in), count = weft_number_get(&t->in);
    const uint64_t which = weft_number_get(&t->in), delta = weft_number_get(&t->in);
    t->in.bad = t->in.bad || distance == 0 || distance > t->count || count == 0 || count > TENSORS_MAX - t->count;
    for (uint64_t i = 0; i < count && !t->in.bad; i++) {
        tensor_entry tensor;
        take_back(t, t->count - distance, &tensor);
        t->in.bad = !number_move(&tensor, which, delta);
        append(t, &tensor);
    }
}

/* ---- all */

static void head_put(telling *t)
{
    weft_out out = {t->plain, HEAD_BYTES, 0, false};
    weft_out_word(&out, LAYOUT_MAGIC, 4);
    weft_out_word(&out, 1, 4);
    weft_out_word(&out, t->count, 8);
}

weft_status weft_update_names_read(const uint8_t *bytes, uint64_t length, uint8_t **plain, uint64_t *plain_bytes)
{
    telling t = {.in = {bytes, length, 0, false}, .plain = weft_mem_take(HEAD_BYTES, 1), .bytes = HEAD_BYTES};
    t.capacity = HEAD_BYTES;
    t.short_of_memory = t.in.bad = !t.plain;
    while (!t.in.bad && t.in.used < length) {
        uint64_t first = weft_number_get(&t.in);
        if (first > 0)
            literal_get(&t, first);
        else
            copies_get(&t);
    }
    weft_mem_give(t.at);
    if (!t.in.bad) {
        head_put(&t);
        *plain = t.plain;
        *plain_bytes = t.bytes;
        return WEFT_OK;
    }
    weft_mem_give(t.plain);
    if (t.short_of_memory)
        return weft_fail(WEFT_E_MEMORY, "no memory for the layout in %llu bytes", (unsigned long long)length);
    return weft_fail(WEFT_E_CORRUPT, "update file: %llu bytes are no layout in short form", (unsigned long long)length);
}
