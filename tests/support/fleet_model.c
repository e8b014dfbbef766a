/* fleet_model.c - odd layouts, weights scattered over memory, and bits that floats find special. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/fleet.h"

#include "layout/layout.h"
#include "tests/support/block_world.h"
#include "tests/support/deferred.h"

uint64_t fleet_random(uint64_t *seed)
{
    uint64_t x = *seed += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t fleet_below(uint64_t *seed, uint64_t limit)
{
    return fleet_random(seed) % limit;
}

typedef struct row {
    const char *name;
    weft_dtype dtype;
    uint32_t rank;
    uint64_t shape[3];
} row;

static const row rows[] = {
    {"scalar", WEFT_F32, 0, {0}},     {"norm.0", WEFT_BF16, 1, {64}},     {"norm.1", WEFT_BF16, 1, {7}},
    {"empty", WEFT_BF16, 2, {0, 7}},  {"norm.2", WEFT_BF16, 2, {33, 31}}, {"mask", WEFT_BOOL, 1, {13}},
    {"quant", WEFT_I8, 2, {37, 3}},   {"e4m3", WEFT_F8_E4M3, 2, {5, 11}}, {"packed", WEFT_F4, 2, {6, 9}},
    {"complex", WEFT_C64, 2, {3, 5}}, {"double", WEFT_F64, 1, {517}},     {"single", WEFT_F32, 3, {3, 1, 257}},
    {"half", WEFT_F16, 1, {1025}},    {"long", WEFT_I64, 1, {1}},         {"nothing", WEFT_F64, 1, {0}},
    {"last", WEFT_U16, 1, {3}},
};

static const row tiles[] = {{"wide", WEFT_BF16, 2, {601, 499}}, {"bytes", WEFT_U8, 1, {4099}}};
static const row large[] = {{"big.0", WEFT_BF16, 2, {1500, 1000}}, {"big.1", WEFT_F32, 1, {700001}}};

weft_layout *fleet_layout(fleet_size size)
{
    weft_tensor tensors[32];
    uint64_t count = 0;
    weft_layout *layout = NULL;
    const row *more = size == FLEET_TILES ? tiles : large;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] + (size == FLEET_SMALL ? 0 : 2); i++) {
        const row *r = i < sizeof rows / sizeof rows[0] ? &rows[i] : &more[i - sizeof rows / sizeof rows[0]];
        tensors[count++] = (weft_tensor){r->name, r->dtype, r->rank, r->shape};
    }
    if (weft_layout_create(tensors, count, &layout) != WEFT_OK)
        abort();
    return layout;
}

weft_layout *fleet_layout_shuffled(const weft_layout *layout, uint64_t seed)
{
    weft_tensor tensors[FLEET_PIECES];
    weft_layout *shuffled = NULL;
    for (uint64_t t = 0; t < layout->count; t++) {
        const uint64_t at = fleet_below(&seed, t + 1);
        tensors[t] = tensors[at];
        tensors[at] = layout->entries[t].tensor;
    }
    if (weft_layout_create(tensors, layout->count, &shuffled) != WEFT_OK)
        abort();
    return shuffled;
}

void fleet_model_dense_of(fleet_model *model, const weft_layout *layout)
{
    uint64_t own = 0;
    for (uint64_t t = 0; t < model->layout->count; t++) {
        const uint64_t there = fleet_tensor_at(layout, model->layout->entries[t].tensor.name);
        for (uint64_t i = 0; i < model->piece_count; i++)
            if (model->pieces[i].tensor == t)
                model->places[i] += there - own;
        if (model->blocks)
            model->blocks->offsets[t] = there;
        own += model->layout->entries[t].bytes;
    }
}

/* Elements in the next piece of a tensor that has `left` more: a multiple of 4 fills whole bytes for every dtype. */
static uint64_t piece_elements(unsigned style, uint64_t left, uint64_t *seed)
{
    if (style == 0 || left < 8)
        return left;
    uint64_t most = left / 4, part = 4 * (1 + fleet_below(seed, most > 3 ? most - 1 : 1));
    return part < left && fleet_below(seed, 3) ? part : left;
}

static void cut(fleet_model *model, unsigned style)
{
    uint64_t seed = style, dense = 0;
    for (uint64_t t = 0; t < model->layout->count; t++) {
        const weft_layout_entry *entry = &model->layout->entries[t];
        uint64_t done = 0;
        while (done < entry->elements && model->piece_count < FLEET_PIECES) {
            uint64_t count = piece_elements(style, entry->elements - done, &seed);
            model->places[model->piece_count] = dense + done * entry->row->bits / 8;
            model->pieces[model->piece_count++] = (weft_piece){t, done, count, NULL};
            done += count;
        }
        dense += entry->bytes;
    }
    model->bytes = dense;
}

static uint64_t piece_bytes(const fleet_model *model, uint64_t i)
{
    return model->pieces[i].count * model->layout->entries[model->pieces[i].tensor].row->bits / 8;
}

static void begin(fleet_model *model, weft_layout *layout, unsigned style)
{
    memset(model, 0, sizeof *model);
    model->layout = layout;
    cut(model, style);
    model->memory_bytes = model->bytes + 64 * (model->piece_count + 1);
}

static void scatter(fleet_model *model, unsigned style)
{
    uint64_t at = 8;
    memset(model->memory, 0xa5, model->memory_bytes);
    for (uint64_t i = 0; i < model->piece_count; i++) { /* odd styles lay the pieces down from the last to the first */
        uint64_t piece = style % 2 ? model->piece_count - 1 - i : i;
        uint64_t width = model->layout->entries[model->pieces[piece].tensor].row->width;
        at = (at + 9 + width - 1) / width * width;
        model->pieces[piece].data = model->bound + at;
        at += piece_bytes(model, piece);
    }
}

void fleet_model_open(fleet_model *model, weft_layout *layout, unsigned style)
{
    begin(model, layout, style);
    model->memory = model->bound = malloc(model->memory_bytes);
    if (!model->memory)
        abort();
    scatter(model, style);
}

void fleet_model_open_device(fleet_model *model, weft_layout *layout, unsigned style)
{
    void *memory;
    begin(model, layout, style);
    model->bound = deferred_take(model->memory_bytes, &memory);
    model->memory = memory;
    scatter(model, style);
}

void fleet_model_open_far(fleet_model *model, weft_layout *layout, unsigned style, const fleet_far *far)
{
    begin(model, layout, style);
    model->far = far;
    model->bound = far->take(model->memory_bytes);
    model->memory = malloc(model->memory_bytes);
    if (!model->memory)
        abort();
    scatter(model, style);
    far->write(model->bound, model->memory, model->memory_bytes);
}

void fleet_model_open_blocks(fleet_model *model, weft_layout *layout, unsigned style, const fleet_far *far)
{
    *model = (fleet_model){
        .layout = layout, .bytes = weft_layout_bytes(layout), .far = far, .blocks = malloc(sizeof(block_world))};
    if (!model->blocks)
        abort();
    block_world_open(model->blocks, layout, style + 1, false);
    model->memory = model->bound = model->blocks->memory;
    model->memory_bytes = model->blocks->bytes;
    if (!far)
        return;
    model->bound = far->take(model->memory_bytes);
    far->write(model->bound, model->memory, model->memory_bytes);
}

/* The world's blocks lie in the host's copy. */
static weft_status bind_blocks(const fleet_model *model, weft_session *session, const char *attachment, uint64_t bytes,
                               uint32_t flags)
{
    weft_block *blocks = test_malloc(model->blocks->count * sizeof *blocks + 1);
    for (uint64_t i = 0; i < model->blocks->count; i++) {
        blocks[i] = model->blocks->blocks[i];
        blocks[i].data = model->bound + ((uint8_t *)blocks[i].data - model->memory);
    }
    const weft_status status = weft_bind_blocks(session, blocks, model->blocks->count, attachment, bytes, flags);
    test_free(blocks);
    return status;
}

weft_status fleet_model_bind(const fleet_model *model, weft_session *session, const char *attachment, uint32_t flags)
{
    const uint64_t bytes = attachment ? strlen(attachment) : 0;
    if (model->blocks)
        return bind_blocks(model, session, attachment, bytes, flags);
    return weft_bind(session, model->pieces, model->piece_count, attachment, bytes, flags);
}

void fleet_model_close(fleet_model *model)
{
    if (model->blocks) {
        if (model->far && model->bound)
            model->far->give(model->bound);
        block_world_close(model->blocks);
        free(model->blocks);
    } else if (model->far) {
        if (model->bound)
            model->far->give(model->bound);
        free(model->memory);
    } else if (model->bound != model->memory)
        deferred_give(model->bound);
    else
        free(model->memory);
    memset(model, 0, sizeof *model);
}

static uint8_t *piece_at(const fleet_model *model, uint64_t i)
{
    return model->memory + ((uint8_t *)model->pieces[i].data - model->bound);
}

void fleet_model_put(fleet_model *model, const uint8_t *dense)
{
    if (model->blocks)
        block_world_put(model->blocks, dense);
    for (uint64_t i = 0; i < model->piece_count; i++)
        memcpy(piece_at(model, i), dense + model->places[i], piece_bytes(model, i));
    if (model->far)
        model->far->write(model->bound, model->memory, model->memory_bytes);
}

void fleet_model_get(const fleet_model *model, uint8_t *dense)
{
    if (model->far)
        model->far->read(model->memory, model->bound, model->memory_bytes);
    if (model->blocks) {
        block_world_get(model->blocks, dense);
        assert_true(block_world_is_whole(model->blocks));
    }
    for (uint64_t i = 0; i < model->piece_count; i++)
        memcpy(dense + model->places[i], piece_at(model, i), piece_bytes(model, i));
}

uint8_t *fleet_model_at(fleet_model *model, uint64_t at)
{
    if (model->blocks)
        return block_world_at(model->blocks, at);
    for (uint64_t i = 0; i < model->piece_count; i++)
        if (at >= model->places[i] && at < model->places[i] + piece_bytes(model, i))
            return piece_at(model, i) + (at - model->places[i]);
    abort();
}

uint64_t fleet_tensor_at(const weft_layout *layout, const char *name)
{
    uint64_t at = 0;
    for (uint64_t t = 0; t < layout->count; t++) {
        if (strcmp(layout->entries[t].tensor.name, name) == 0)
            return at;
        at += layout->entries[t].bytes;
    }
    abort();
}

/* Zeros of both signs, infinities, NaNs with payloads, subnormals, ones all over, or any bits. */
static uint64_t draw_bits(const weft_dtype_row *r, uint64_t *seed)
{
    unsigned bits = 8u * r->width, fraction = bits - 1 - r->exponent_bits;
    uint64_t top = UINT64_C(1) << (bits - 1), sign = fleet_below(seed, 2) ? top : 0;
    uint64_t infinity = r->exponent_bits ? top - (UINT64_C(1) << fraction) : 0;
    switch (fleet_below(seed, 16)) {
    case 0:
        return sign;
    case 1:
        return sign | infinity;
    case 2:
        return sign | infinity | 1 | fleet_random(seed) % (fraction ? UINT64_C(1) << fraction : 1);
    case 3:
        return sign | 1;
    case 4:
        return UINT64_MAX;
    default:
        return fleet_random(seed);
    }
}

void fleet_fill(const weft_layout *layout, uint8_t *dense, uint64_t *seed)
{
    memset(dense, 0, weft_layout_bytes(layout));
    fleet_change(layout, dense, 1000, seed);
}

/* Other bits than the present ones. */
static void redraw(const weft_dtype_row *r, uint8_t *element, uint64_t *seed)
{
    uint64_t bits = draw_bits(r, seed), old = 0;
    memcpy(&old, element, r->width);
    bits &= UINT64_MAX >> (64 - 8 * r->width);
    bits = bits == old ? old ^ 1 : bits;
    memcpy(element, &bits, r->width); /* tests run on little-endian hosts */
}

void fleet_change(const weft_layout *layout, uint8_t *dense, uint32_t per_mille, uint64_t *seed)
{
    for (uint64_t t = 0; t < layout->count && per_mille; t++) {
        const weft_layout_entry *entry = &layout->entries[t];
        uint64_t apart = 2000 / per_mille - 1; /* on average 1000 / per_mille elements from one change to the next */
        for (uint64_t i = fleet_below(seed, apart); i < entry->coded; i += 1 + fleet_below(seed, apart))
            redraw(entry->row, dense + i * entry->row->width, seed);
        dense += entry->bytes;
    }
}
