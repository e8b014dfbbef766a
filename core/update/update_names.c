/* update_names.c - the writer: literals and runs of copies, the longest that there are. */
#include "update/update_names.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "update/update_format.h"

#define DISTANCE_MAX 1024u /* tensors that a copy reaches back */
#define ITEM_BYTES   40u   /* more than a copy, or a literal but for its sizes and name, takes */

/* docs/WIRE_FORMAT.md has them: their order is their number. */
const char *const weft_name_words[WEFT_NAME_WORDS] = {
    "model.",
    "layers.",
    ".weight",
    ".bias",
    "self_attn.",
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "mlp.",
    "gate_proj",
    "up_proj",
    "down_proj",
    "input_layernorm",
    "post_attention_layernorm",
    "embed_tokens",
    "lm_head",
    "norm",
    "experts.",
    "shared_expert",
    "gate",
    "q_norm",
    "k_norm",
    "feedforward_layernorm",
    "language_model.",
    "attn.",
    "transformer",
    "weight_scale",
    "_layernorm",
    "_proj",
};

/* The step from another tensor's name to the name of its copy. */
typedef struct step {
    uint64_t which; /* number in the name */
    uint64_t delta; /* 2d, or -2d - 1 where it falls */
} step;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Returns the digits from `at` on that are a number in canonical form; 0: there is none. */
static uint32_t number_at(const char *at, uint64_t *value)
{
    uint32_t digits = 0;
    for (*value = 0; is_digit(at[digits]) && digits <= WEFT_NAME_DIGITS; digits++)
        *value = 10 * *value + (uint64_t)(at[digits] - '0');
    return digits > WEFT_NAME_DIGITS || (digits > 1 && at[0] == '0') ? 0 : digits;
}

static bool names_step(const char *from, const char *to, step *made)
{
    size_t same = 0;
    uint64_t before, after;
    while (from[same] && from[same] == to[same])
        same++;
    while (same > 0 && is_digit(from[same - 1]))
        same--;
    uint32_t digits = number_at(from + same, &before), digits_to = number_at(to + same, &after);
    if (digits == 0 || digits_to == 0 || before == after || strcmp(from + same + digits, to + same + digits_to) != 0)
        return false;
    made->which = 0;
    for (size_t i = 0; i < same; i++)
        made->which += is_digit(from[i]) && !is_digit(from[i + 1]);
    made->delta = after > before ? 2 * (after - before) : 2 * (before - after) - 1;
    return true;
}

static bool alike(const weft_layout_entry *a, const weft_layout_entry *b)
{
    return a->row == b->row && a->tensor.rank == b->tensor.rank &&
           memcmp(a->tensor.shape, b->tensor.shape, a->tensor.rank * sizeof *a->tensor.shape) == 0;
}

/* Counts the tensors from `at` on that are copies, by one step, of those `distance` before. */
static uint64_t copy_length(const weft_layout *layout, uint64_t at, uint64_t distance, step *first)
{
    uint64_t length = 0;
    for (step next; at + length < layout->count; length++) {
        const weft_layout_entry *to = &layout->entries[at + length], *from = to - distance;
        if (!alike(from, to) || !names_step(from->tensor.name, to->tensor.name, &next))
            break;
        if (length == 0)
            *first = next;
        else if (next.which != first->which || next.delta != first->delta)
            break;
    }
    return length;
}

/* The longest copy, the nearest of several; 0: there is none. */
static uint64_t copy_find(const weft_layout *layout, uint64_t at, uint64_t *distance, step *how)
{
    uint64_t longest = 0;
    for (uint64_t d = 1; d <= at && d <= DISTANCE_MAX && longest < layout->count - at; d++) {
        step first = {0};
        uint64_t length = copy_length(layout, at, d, &first);
        if (length <= longest)
            continue;
        longest = length;
        *distance = d;
        *how = first;
    }
    return longest;
}

/* The longest word that the text begins with, counted from 1; 0: none. */
static uint32_t word_find(const char *text, size_t *length)
{
    uint32_t found = 0;
    *length = 1;
    for (uint32_t w = 0; w < WEFT_NAME_WORDS; w++) {
        size_t letters = strlen(weft_name_words[w]);
        if (letters <= *length || strncmp(text, weft_name_words[w], letters) != 0)
            continue;
        found = w + 1;
        *length = letters;
    }
    return found;
}

static void name_put(weft_out *out, const char *name, const char *last)
{
    size_t shared = 0, length;
    while (name[shared] && name[shared] == last[shared])
        shared++;
    weft_number_put(out, shared);
    for (name += shared; *name; name += length) {
        uint32_t word = word_find(name, &length);
        if (!word && (unsigned char)*name <= WEFT_NAME_ITSELF)
            weft_out_word(out, WEFT_NAME_ITSELF, 1);
        weft_out_word(out, word ? word : (unsigned char)*name, 1);
    }
    weft_out_word(out, 0, 1);
}

static void literal_put(weft_out *out, const weft_layout *layout, uint64_t at)
{
    const weft_tensor *tensor = &layout->entries[at].tensor;
    weft_number_put(out, tensor->dtype + UINT64_C(32) * tensor->rank);
    for (uint32_t i = 0; i < tensor->rank; i++)
        weft_number_put(out, tensor->shape[i]);
    name_put(out, tensor->name, at > 0 ? layout->entries[at - 1].tensor.name : "");
}

static uint64_t room_of(const weft_layout *layout)
{
    uint64_t room = 1;
    for (uint64_t t = 0; t < layout->count; t++)
        room += ITEM_BYTES + 10 * (uint64_t)layout->entries[t].tensor.rank + 2 * strlen(layout->entries[t].tensor.name);
    return room;
}

weft_status weft_update_names_write(const weft_layout *layout, uint8_t **bytes, uint64_t *length)
{
    uint64_t room = room_of(layout), distance = 0, copied;
    weft_out out = {weft_mem_take(room, 1), room, 0, false};
    step how = {0};
    if (!out.data)
        return weft_fail(WEFT_E_MEMORY, "no memory for the names of %llu tensors", (unsigned long long)layout->count);
    for (uint64_t t = 0; t < layout->count; t += copied ? copied : 1) {
        copied = copy_find(layout, t, &distance, &how);
        if (!copied) {
            literal_put(&out, layout, t);
            continue;
        }
        weft_number_put(&out, 0);
        weft_number_put(&out, distance);
        weft_number_put(&out, copied);
        weft_number_put(&out, how.which);
        weft_number_put(&out, how.delta);
    }
    *bytes = out.data;
    *length = out.used;
    return WEFT_OK;
}
