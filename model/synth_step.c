/* synth_step.c - made-up training steps with the statistics of real ones.
 *
 * An optimizer like Adam moves every weight by about the same amount, whatever its size; against the spacing of bf16
 * numbers (ULP) at exponent e that is reach(e) = scale * 2^-e ULP. Below 1 it is the chance of a change by one ULP,
 * above it the size of the change. */
#include "synth.h"

#include <math.h>

#include "base/bytes.h"
#include "base/status.h"
#include "layout/digest.h"
#include "layout/layout.h"
#include "model.h"

#define CHANCE_MAX  0.95
#define BIAS        127                          /* of bf16's exponent */
#define ONE_FROM    -12                          /* at this exponent and above a change is always one ULP */
#define MAGNITUDE   1000.0                       /* largest change, in ULP */
#define SALT        UINT64_C(0x7374657020627920) /* so that a model and a step of one seed draw apart */
#define LAST_FINITE 0x7f7f

/* The effect of one step on bf16 weights, by biased exponent. */
typedef struct step {
    uint32_t chance[256]; /* of a change, in 2^-32 */
    float reach[256];     /* size of a change in ULP, before it is spread and rounded up to 1; at most MAGNITUDE */
} step;

static double chance_at(double scale, int exponent)
{
    if (exponent == 255) /* infinities and NaNs stay */
        return 0;
    return fmin(CHANCE_MAX, scale * ldexp(1, BIAS - exponent));
}

static void histogram_add(uint64_t histogram[256], const uint16_t *weights, uint64_t count)
{
    uint64_t lanes[4][256] = {{0}}; /* so that equal exponents in a row do not wait for each other */
    for (uint64_t i = 0; i < count; i++)
        lanes[i % 4][weights[i] >> 7 & 0xff]++;
    for (int e = 0; e < 256; e++)
        histogram[e] += lanes[0][e] + lanes[1][e] + lanes[2][e] + lanes[3][e];
}

static double share_expected(const uint64_t histogram[256], double scale)
{
    double changed = 0, all = 0;
    for (int e = 0; e < 256; e++) {
        changed += (double)histogram[e] * chance_at(scale, e);
        all += (double)histogram[e];
    }
    return all > 0 ? changed / all : 0;
}

/* Solves for the scale at which `share` of the elements are expected to change, by halving its logarithm. */
static double scale_find(const uint64_t histogram[256], double share)
{
    double low = -160, high = 130; /* every chance is as good as 0, is CHANCE_MAX */
    if (share <= 0)
        return 0;
    for (int i = 0; i < 80; i++) {
        double middle = (low + high) / 2;
        if (share_expected(histogram, exp2(middle)) < share)
            low = middle;
        else
            high = middle;
    }
    return exp2(high);
}

static void step_make(step *made, const weft_model *model, double share)
{
    uint64_t histogram[256] = {0};
    for (uint64_t t = 0; t < model->layout->count; t++) {
        if (model->layout->entries[t].row->dtype == WEFT_BF16)
            histogram_add(histogram, model->pieces[t].data, model->pieces[t].count);
    }
    double scale = scale_find(histogram, share);
    for (int e = 0; e < 256; e++) {
        made->chance[e] = (uint32_t)(chance_at(scale, e) * 0x1p32);
        made->reach[e] = e - BIAS >= ONE_FROM ? 0.0F : (float)fmin(MAGNITUDE, scale * ldexp(1, BIAS - e));
    }
}

/* Numbers in order of value: sign-magnitude to two's complement and, being its own inverse, back. */
static int32_t bf16_order(uint16_t bits)
{
    return (int16_t)(bits & 0x8000 ? bits ^ 0x7fff : bits);
}

static uint16_t bf16_bits(int32_t order)
{
    return (uint16_t)(order < 0 ? order ^ 0x7fff : order);
}

/* Moves a weight by what its exponent says, up or down as the draw says, never out of the finite numbers. */
static uint16_t bf16_move(const step *step, uint16_t bits, uint64_t draw)
{
    float spread = 0.5F + (float)(draw & 0xffffff) * 0x1p-23F; /* 0.5 to 2.5 */
    int32_t size = (int32_t)(step->reach[bits >> 7 & 0xff] * spread + 0.5F);
    int32_t by = size > 1 ? size : 1;
    int32_t order = bf16_order(bits);
    int32_t moved = draw >> 63 ? order + by : order - by;
    if (moved > LAST_FINITE || moved < -LAST_FINITE - 1)
        moved = 2 * order - moved;
    return bf16_bits(moved);
}

static uint64_t bf16_step(const step *step, uint16_t *weights, uint64_t count, uint64_t seed)
{
    uint64_t changed = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t draw = weft_mix64(seed + (i / 2) * WEFT_PHI);
        uint32_t half = (uint32_t)(i % 2 ? draw >> 32 : draw);
        if (half >= step->chance[weights[i] >> 7 & 0xff])
            continue;
        weights[i] = bf16_move(step, weights[i], weft_mix64(~seed + i * WEFT_PHI));
        changed++;
    }
    return changed;
}

/* The neighbour of an element in its order; a float that is not finite stays. */
static uint64_t word_move(const weft_dtype_row *row, uint64_t bits, uint64_t draw)
{
    uint32_t width = 8u * row->width;
    uint64_t mask = width == 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1;
    if (row->dtype == WEFT_BOOL)
        return bits ^ 1;
    if (!row->is_float)
        return (draw & 1 ? bits + 1 : bits - 1) & mask;
    uint32_t fraction_bits = width - 1 - row->exponent_bits;
    uint64_t infinity = ((UINT64_C(1) << row->exponent_bits) - 1) << fraction_bits;
    uint64_t magnitude = bits & (mask >> 1);
    if (magnitude >= infinity)
        return bits;
    bool up = magnitude == 0 || (draw & 1 && magnitude + 1 < infinity);
    return (bits & ~(mask >> 1) & mask) | (up ? magnitude + 1 : magnitude - 1);
}

static uint64_t word_step(const weft_layout_entry *entry, uint8_t *data, double share, uint64_t seed)
{
    uint32_t chance = (uint32_t)(fmin(share, CHANCE_MAX) * 0x1p32);
    uint64_t changed = 0;
    for (uint64_t i = 0; i < entry->coded; i++) {
        uint64_t draw = weft_mix64(seed + i * WEFT_PHI);
        uint8_t *at = data + i * entry->row->width;
        if (draw >> 32 >= chance)
            continue;
        uint64_t before = weft_bytes_get(at, entry->row->width);
        uint64_t after = word_move(entry->row, before, draw);
        weft_bytes_put(at, after, entry->row->width);
        changed += after != before;
    }
    return changed;
}

weft_status weft_synth_step(weft_model *model, double share, uint64_t seed, uint64_t *changed)
{
    step step;
    uint64_t sum = 0;
    if (!(share >= 0 && share <= 1))
        return weft_fail(WEFT_E_ARGUMENT, "a share of %g; it must be between 0 and 1", share);
    if (!model->writable)
        return weft_fail(WEFT_E_ARGUMENT, "the model was opened read-only");
    step_make(&step, model, share);
    for (uint64_t t = 0; t < model->layout->count; t++) {
        const weft_layout_entry *entry = &model->layout->entries[t];
        uint64_t key = weft_mix64(weft_mix64(seed ^ SALT) + (t + 1) * WEFT_PHI);
        if (entry->row->dtype == WEFT_BF16)
            sum += bf16_step(&step, model->pieces[t].data, entry->coded, key);
        else
            sum += word_step(entry, model->pieces[t].data, share, key);
    }
    if (changed)
        *changed = sum;
    return WEFT_OK;
}
