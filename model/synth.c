/* synth.c - a made-up model with the names, shapes and distribution of a real one. */
#include "synth.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/digest.h"
#include "layout/layout.h"
#include "model.h"

#define PARAMETERS_MAX (UINT64_C(1) << 40)
#define GRAIN          16u /* sizes are multiples of it */
#define NAME_BYTES     64u
#define SPREAD         0.02 /* standard deviation of weights */
#define NORM_SPREAD    0.05 /* of norm weights, around 1 */

/* The shape of the whole model. */
typedef struct plan {
    uint64_t hidden;
    uint64_t inner; /* of the MLP: about 8/3 hidden */
    uint64_t layers;
    uint64_t vocabulary;
} plan;

typedef enum size_kind { NONE, HIDDEN, KEYS, INNER, VOCABULARY } size_kind;

typedef enum weight_kind {
    PLAIN,
    RESIDUAL, /* what adds to the residual stream starts smaller by sqrt(2 * layers) */
    NORM
} weight_kind;

typedef struct part {
    const char *name;
    size_kind rows;
    size_kind columns; /* NONE: a vector */
    weight_kind kind;
} part;

static const part layer_parts[] = {
    {"input_layernorm.weight", HIDDEN, NONE, NORM},        {"self_attn.q_proj.weight", HIDDEN, HIDDEN, PLAIN},
    {"self_attn.k_proj.weight", KEYS, HIDDEN, PLAIN},      {"self_attn.v_proj.weight", KEYS, HIDDEN, PLAIN},
    {"self_attn.o_proj.weight", HIDDEN, HIDDEN, RESIDUAL}, {"post_attention_layernorm.weight", HIDDEN, NONE, NORM},
    {"mlp.gate_proj.weight", INNER, HIDDEN, PLAIN},        {"mlp.up_proj.weight", INNER, HIDDEN, PLAIN},
    {"mlp.down_proj.weight", HIDDEN, INNER, RESIDUAL},
};
static const part embedding = {"model.embed_tokens.weight", VOCABULARY, HIDDEN, PLAIN};
static const part last_norm = {"model.norm.weight", HIDDEN, NONE, NORM};
static const part head = {"lm_head.weight", VOCABULARY, HIDDEN, PLAIN};

#define LAYER_PARTS (sizeof layer_parts / sizeof layer_parts[0])

static uint64_t part_size(const plan *plan, size_kind kind)
{
    switch (kind) {
    case HIDDEN:
        return plan->hidden;
    case KEYS:
        return plan->hidden / 4; /* four query heads share a key head */
    case INNER:
        return plan->inner;
    case VOCABULARY:
        return plan->vocabulary;
    default:
        return 1;
    }
}

static uint64_t layer_elements(const plan *plan)
{
    uint64_t elements = 0;
    for (size_t i = 0; i < LAYER_PARTS; i++)
        elements += part_size(plan, layer_parts[i].rows) * part_size(plan, layer_parts[i].columns);
    return elements;
}

static plan plan_of_width(uint64_t hidden)
{
    return (plan){.hidden = hidden,
                  .inner = (hidden * 8 / 3 + GRAIN - 1) / GRAIN * GRAIN,
                  .layers = hidden < 192 ? 1 : hidden / 96,
                  .vocabulary = hidden * GRAIN};
}

static uint64_t plan_elements(const plan *plan)
{
    return plan->layers * layer_elements(plan) + plan->hidden + 2 * plan->vocabulary * plan->hidden;
}

/* The widest plan that fits; its vocabulary then takes what is left, so that the count comes out close. */
static plan plan_for(uint64_t parameters)
{
    plan chosen = plan_of_width(GRAIN);
    for (uint64_t hidden = GRAIN; hidden <= 16384; hidden += GRAIN) {
        plan wider = plan_of_width(hidden);
        if (plan_elements(&wider) > parameters)
            break;
        chosen = wider;
    }
    uint64_t body = chosen.layers * layer_elements(&chosen) + chosen.hidden;
    uint64_t left = parameters > body ? parameters - body : 0;
    chosen.vocabulary = left / (2 * chosen.hidden) / GRAIN * GRAIN;
    if (chosen.vocabulary < GRAIN)
        chosen.vocabulary = GRAIN;
    return chosen;
}

/* Part and layer of tensor `t`. */
static const part *part_at(const plan *plan, uint64_t t, uint64_t *layer)
{
    *layer = t > 0 ? (t - 1) / LAYER_PARTS : 0;
    if (t == 0)
        return &embedding;
    if (*layer < plan->layers)
        return &layer_parts[(t - 1) % LAYER_PARTS];
    return t == 1 + plan->layers * LAYER_PARTS ? &last_norm : &head;
}

/* Fills one tensor; its name and sizes go to `name` and `shape`. */
static void tensor_describe(const plan *plan, uint64_t t, char *name, uint64_t *shape, weft_tensor *tensor)
{
    uint64_t layer;
    const part *part = part_at(plan, t, &layer);
    bool in_layer = t > 0 && layer < plan->layers;
    if (in_layer)
        snprintf(name, NAME_BYTES, "model.layers.%llu.%s", (unsigned long long)layer, part->name);
    else
        snprintf(name, NAME_BYTES, "%s", part->name);
    shape[0] = part_size(plan, part->rows);
    shape[1] = part_size(plan, part->columns);
    *tensor = (weft_tensor){name, WEFT_BF16, part->columns == NONE ? 1 : 2, shape};
}

static weft_status layout_make(const plan *plan, weft_layout **layout)
{
    uint64_t count = plan->layers * LAYER_PARTS + 3;
    weft_tensor *tensors = weft_mem_take(count, sizeof *tensors);
    uint64_t *shapes = weft_mem_take(count, 2 * sizeof *shapes);
    char *names = weft_mem_take(count, NAME_BYTES);
    weft_status status;
    if (tensors && shapes && names) {
        for (uint64_t t = 0; t < count; t++)
            tensor_describe(plan, t, names + t * NAME_BYTES, shapes + 2 * t, &tensors[t]);
        status = weft_layout_create(tensors, count, layout);
    } else {
        status = weft_fail(WEFT_E_MEMORY, "no memory for the layout of a synthetic model");
    }
    weft_mem_give(names);
    weft_mem_give(shapes);
    weft_mem_give(tensors);
    return status;
}

/* Quantiles of the normal distribution at i / CELLS; a draw picks a cell and a place in it. */
#define CELLS 4096u
#define REACH 4.5 /* where the tails are cut */

typedef struct gaussian {
    float quantile[CELLS + 1];
} gaussian;

static double quantile_find(double probability)
{
    double low = -REACH, high = REACH;
    for (int i = 0; i < 50; i++) {
        double middle = (low + high) / 2;
        if (erfc(-middle / sqrt(2)) / 2 < probability)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void gaussian_make(gaussian *table)
{
    for (uint32_t i = 0; i <= CELLS; i++)
        table->quantile[i] = (float)quantile_find((double)i / CELLS);
}

static float gaussian_draw(const gaussian *table, uint32_t draw)
{
    uint32_t cell = draw >> 20;
    float place = (float)(draw & 0xfffff) * 0x1p-20f;
    return table->quantile[cell] + (table->quantile[cell + 1] - table->quantile[cell]) * place;
}

/* Round to nearest, ties to even. */
static uint16_t bf16_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static void tensor_fill(const gaussian *table, uint16_t *weights, uint64_t count, float mean, float spread,
                        uint64_t seed)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t draw = weft_mix64(seed + (i / 2) * WEFT_PHI);
        uint32_t half = (uint32_t)(i % 2 ? draw >> 32 : draw);
        weights[i] = bf16_of(mean + spread * gaussian_draw(table, half));
    }
}

static weft_status weights_draw(const plan *plan, weft_model *model, uint64_t seed)
{
    gaussian *table = weft_mem_take(1, sizeof *table);
    if (!table)
        return weft_fail(WEFT_E_MEMORY, "no memory for a table of quantiles");
    gaussian_make(table);
    for (uint64_t t = 0; t < model->layout->count; t++) {
        uint64_t layer;
        weight_kind kind = part_at(plan, t, &layer)->kind;
        double spread = kind == NORM ? NORM_SPREAD : SPREAD;
        if (kind == RESIDUAL)
            spread /= sqrt(2.0 * (double)plan->layers);
        tensor_fill(table, model->pieces[t].data, model->pieces[t].count, kind == NORM ? 1.0F : 0.0F, (float)spread,
                    weft_mix64(seed + (t + 1) * WEFT_PHI));
    }
    weft_mem_give(table);
    return WEFT_OK;
}

weft_status weft_synth_model(uint64_t parameters, uint64_t seed, weft_model **model)
{
    weft_layout *layout;
    weft_model *made = NULL;
    if (parameters > PARAMETERS_MAX)
        return weft_fail(WEFT_E_ARGUMENT, "a synthetic model of %llu parameters; at most %llu can be made",
                         (unsigned long long)parameters, (unsigned long long)PARAMETERS_MAX);
    plan plan = plan_for(parameters);
    weft_status status = layout_make(&plan, &layout);
    if (status != WEFT_OK)
        return status;
    status = weft_model_create(layout, &made);
    weft_layout_free(layout);
    if (status == WEFT_OK)
        status = weft_model_header_make(made->layout, &made->header, &made->header_bytes);
    if (status == WEFT_OK)
        status = weights_draw(&plan, made, seed);
    if (status == WEFT_OK)
        *model = made;
    else
        weft_model_close(made);
    return status;
}
