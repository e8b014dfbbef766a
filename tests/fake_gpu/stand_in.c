/* stand_in.c - see stand_in.h. */
#include "tests/fake_gpu/stand_in.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/gpu/gpu_encode.h"
#include "codec/chooser.h"
#include "codec/tight.h"

stand_in_frames each;

void stand_in_parameters(const weft_layout *layout, weft_level level, weft_parameters *parameters)
{
    static weft_survey survey;
    const uint32_t kind = weft_kind_of(2, 8);
    weft_classes *classes = &parameters->classes[kind];
    survey.kinds[kind].elements[120] = UNIT_ELEMENTS;
    survey.kinds[kind].changed[120] = UNIT_CHANGED;
    weft_parameters_choose(&survey, layout->elements, 1u << level, parameters);
    classes->thresholds = level == WEFT_LEVEL_TIGHT ? CLASSES - 1 : 0;
    for (uint32_t c = 1; c <= classes->thresholds; c++)
        classes->threshold[c - 1] = 256 * c / CLASSES;
}

void stand_in_begin(world_vendor *vendor, void (*kernels)(uint32_t, uint32_t, uint64_t))
{
    world_load(vendor);
    weft_fake_options fake = vendor->options;
    fake.eager = fake.open_memory = true;
    fake.stand_in = kernels;
    fake.memory_bytes = UINT64_C(1) << 34;
    vendor->fake->reset(&fake);
    vendor->fake->choose(-1);
}

void stand_in_open(stand_in_model *m, const weft_backend *backend, weft_layout *layout, uint64_t shadow)
{
    static const weft_backend_options options = {0, "auto", 0, 0};
    *m = (stand_in_model){.backend = backend, .layout = layout};
    assert_int_equal(backend->open(&options, &m->device), WEFT_OK);
    assert_int_equal(weft_binding_open_spaced(layout, (void *)(uintptr_t)shadow, &m->shadow), WEFT_OK);
    m->delta = calloc(layout->part_count, sizeof *m->delta);
    assert_non_null(m->delta);
}

void stand_in_close(stand_in_model *m)
{
    free(m->delta);
    weft_binding_close(&m->shadow);
    weft_binding_close(&m->now);
    m->backend->close(m->device);
    weft_layout_free(m->layout);
}

weft_encode_pass stand_in_pass(stand_in_model *m, weft_level level, weft_frame_emit emit, void *user)
{
    return (weft_encode_pass){.now = &m->now,
                              .shadow = &m->shadow,
                              .parameters = &m->parameters,
                              .levels = 1u << level,
                              .delta = m->delta,
                              .emit = emit,
                              .user = user};
}

static void *at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static void scan_row(const weft_k_scan *row)
{
    const uint32_t units = row->count / WEFT_K_SLICES, changed = units * UNIT_CHANGED;
    each = (stand_in_frames){units, changed, units * UNIT_EXCEPTIONS};
    if (row->total)
        memcpy(at(row->total), &changed, sizeof changed);
}

/* Memory for the next frames, laid out as frame_lists does it. There must be memory for all jobs, because a device
 * would need another pass. */
static const weft_k_frame_lists *lists;

/* Writes a payload, because a caller that copies it finds it where a device left it. Returns where it is. */
static uint8_t *payload_put(uint64_t made, uint32_t job, uint32_t bytes, const weft_k_made *numbers)
{
    const uint32_t room = 1 + (each.changed * 35 / 8 + 256 + 15) / 16;
    uint8_t *payload = (uint8_t *)at(lists->copies) + 16 * (uint64_t)(1 + job * room);
    assert_true((job + 1) * room <= lists->frame_quads && bytes < 16 * room);
    memset(payload, 0x5a, bytes);
    *(weft_k_made *)at(made) = *numbers;
    ((weft_k_made *)at(made))->place = 1 + job * room;
    ((weft_k_made *)at(made))->bytes = bytes;
    return payload;
}

/* Gaps of 100 elements on average, and exceptions of a few steps. */
static void fast_frame_row(const weft_k_fast_frame *row, uint32_t job)
{
    const uint32_t m = each.changed, e = each.exceptions;
    const weft_fast_shape shape = {.changed = m,
                                   .exceptions = e,
                                   .gap_bits = weft_fast_rice(row->changes.elements, m),
                                   .rank_bits = weft_fast_rice(m, e),
                                   .magnitude_bits = 1};
    const uint32_t words = (4 * m + 15) / 16, bytes = (uint32_t)weft_fast_payload(&shape, m + m / 2 + 5 * e / 2, e);
    const weft_k_made made = {.exceptions = e, .gap_bits = (uint16_t)shape.gap_bits, .magnitude_bits = 1};
    if (!row->fast.made)
        return;
    assert_true((job + 1) * 3 * (words + 1) <= lists->list_quads);
    payload_put(row->fast.made, job, bytes, &made);
}

static weft_tight_list list_of(uint32_t members, uint32_t universe)
{
    return (weft_tight_list){.members = members, .low_bits = members ? weft_fast_rice(universe, members) : 0};
}

/* Changes in equal parts of all classes, and what is left in the first. */
static void tight_frame_row(const weft_k_tight_frame *row, uint32_t job)
{
    const uint32_t changed = each.changed / CLASSES, exceptions = each.exceptions / CLASSES;
    weft_tight_shape shape = {.changed = each.changed};
    for (uint32_t c = 0; c < CLASSES; c++) {
        shape.positioned |= 1u << c;
        shape.exceptional |= 1u << c;
        shape.positions[c] = list_of(changed + (c ? 0 : each.changed % CLASSES), row->base.count / CLASSES);
        shape.exceptions[c] = list_of(exceptions, changed);
    }
    const uint32_t unary = 3 * each.changed / 2 + 7 * each.exceptions / 2;
    const weft_k_made made = {.exceptions = weft_tight_parameters(&shape)};
    weft_tight_write_lists(&shape, payload_put(row->payload.made, job,
                                               (uint32_t)weft_tight_payload(&shape, unary, each.exceptions), &made));
}

static void decode_part(const weft_k_part *part)
{
    const weft_k_decode *row = at(part->job);
    memcpy(at(row->kept), &row->changed, sizeof row->changed);
}

/* A sample of the weights, of which one element in 100 is another than in the shadow's, which is loaded next. */
static void load_part(const weft_k_part *part)
{
    static bool is_shadow;
    const weft_k_copy *copy = at(part->job);
    if (part->index > 0 || copy->view.count == UNIT_ELEMENTS) /* a part of the model, not of a sample */
        return;
    uint16_t *elements = memset(at(copy->bytes), 0, 2 * (uint64_t)copy->view.count);
    for (uint32_t i = 0; i < copy->view.count && !is_shadow; i += 100)
        elements[i] = 1;
    is_shadow = !is_shadow;
}

void stand_in(uint32_t kernel, uint32_t blocks, uint64_t rows)
{
    for (uint32_t i = 0; i < blocks; i++) {
        if (kernel == WEFT_GPU_KERNEL_scan)
            scan_row((const weft_k_scan *)at(rows) + i);
        else if (kernel == WEFT_GPU_KERNEL_frame_lists)
            lists = at(rows);
        else if (kernel == WEFT_GPU_KERNEL_fast_frame)
            fast_frame_row((const weft_k_fast_frame *)at(rows) + i, i);
        else if (kernel == WEFT_GPU_KERNEL_tight_frame)
            tight_frame_row((const weft_k_tight_frame *)at(rows) + i, i);
        else if (kernel == WEFT_GPU_KERNEL_decode_steps || kernel == WEFT_GPU_KERNEL_decode_magnitudes)
            decode_part((const weft_k_part *)at(rows) + i);
        else if (kernel == WEFT_GPU_KERNEL_load)
            load_part((const weft_k_part *)at(rows) + i);
    }
}
