/* Update files by someone who means harm: bytes changed anywhere and all checks made right again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "tests/support/memory_file.h"
#include "tests/support/reseal.h"
#include "update/update_format.h"
#include "update/update_grid.h"

static uint64_t dice = 0x2545f4914f6cdd1d;

static uint64_t roll(void)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    return dice ^= dice << 17;
}

/* Refusals are expected by the thousand. */
static void mute(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    (void)level;
    (void)line;
}

/* ---- a small model of several units and kinds */

enum { TENSORS = 6 };
static const weft_dtype dtypes[TENSORS] = {WEFT_BF16, WEFT_F32, WEFT_F32, WEFT_U8, WEFT_F8_E5M2, WEFT_F64};
static const uint64_t sizes[TENSORS] = {600000, 500, 700, 300, 90, 40};

static weft_layout *layout;
static uint64_t *base, *target, *work;
static weft_piece base_pieces[TENSORS], target_pieces[TENSORS], work_pieces[TENSORS];

static void place(uint64_t *data, weft_piece *pieces)
{
    uint8_t *at = (uint8_t *)data;
    for (uint64_t t = 0; t < TENSORS; t++) {
        pieces[t] = (weft_piece){t, 0, sizes[t], at};
        at += (layout->entries[t].bytes + 7) / 8 * 8;
    }
}

static int world_make(void **state)
{
    (void)state;
    static const char *const names[TENSORS] = {"a", "b", "c", "d", "e", "f"};
    weft_tensor tensors[TENSORS];
    for (int t = 0; t < TENSORS; t++)
        tensors[t] = (weft_tensor){names[t], dtypes[t], 1, &sizes[t]};
    static weft_log_sink quiet = {WEFT_LOG_ERROR, mute};
    weft_log_enter(&quiet);
    if (weft_layout_create(tensors, TENSORS, &layout) != WEFT_OK)
        return -1;
    uint64_t words = layout->bytes / 8 + 2 * TENSORS;
    base = calloc(words, 8);
    target = calloc(words, 8);
    work = calloc(words, 8);
    for (uint64_t i = 0; i < words; i++)
        base[i] = target[i] = roll() & 0x3f7f3f7f3f7f3f7f;
    for (uint64_t i = 0; i < words; i += 1 + roll() % 600)
        target[i] += roll() % 5 ? 1 : 0x100040000;
    memcpy(work, base, words * 8);
    place(base, base_pieces);
    place(target, target_pieces);
    place(work, work_pieces);
    return 0;
}

static int world_free(void **state)
{
    (void)state;
    free(base);
    free(target);
    free(work);
    weft_layout_free(layout);
    return 0;
}

static void file_make(memory_file *file, const char *level)
{
    static const char header[] = "header header header header header header";
    weft_sink sink = memory_sink(file);
    weft_diff_options options = {
        .size = sizeof options, .level = level, .attachment = header, .attachment_bytes = sizeof header};
    assert_int_equal(weft_diff(layout, base_pieces, TENSORS, target_pieces, TENSORS, &options, NULL, &sink, NULL),
                     WEFT_OK);
}

static uint64_t opened; /* files that were taken for whole */

/* Everything that reads a file. */
static void all_readers(memory_file *file)
{
    weft_source source = memory_source(file);
    weft_update_file *update = NULL;
    weft_update_header header = {.size = sizeof header};
    weft_update_tensor tensors[TENSORS];
    const weft_layout *own;
    uint64_t bytes;
    int named;
    uint8_t attachment[256];
    if (weft_update_open(NULL, &source, &update) != WEFT_OK)
        return;
    opened++;
    weft_update_attachment(update, attachment, sizeof attachment, &bytes);
    weft_update_describe(update, &header);
    if (weft_update_layout(update, &own, &named) == WEFT_OK) {
        weft_update_tensor *sums = calloc(own->count + 1, sizeof *sums);
        if (own->bytes < 1 << 24)
            weft_update_tensors(update, own, NULL, 0, sums, NULL);
        free(sums);
    }
    weft_update_tensors(update, layout, base_pieces, TENSORS, tensors, NULL);
    weft_work work_terms = {.size = sizeof work_terms, .threads = 1, .memory_bytes = 1 << 26};
    weft_status status = weft_update_apply(update, layout, work_pieces, TENSORS, &work_terms, NULL);
    if (status == WEFT_OK) /* what the change did not touch: labels, reports */
        assert_memory_equal(work, target, layout->bytes);
    memory_file out = {.room = layout->bytes};
    weft_sink sink = memory_sink(&out);
    if (roll() % 8 == 0)
        weft_update_rewrite(update, layout, base_pieces, TENSORS, NULL, &sink, NULL);
    memory_free(&out);
    if (status != WEFT_OK)
        assert_memory_equal(work, base, layout->bytes);
    memcpy(work, base, layout->bytes);
    weft_update_close(update);
}

static void mutate(uint8_t *data, uint64_t bytes)
{
    uint64_t ends = 400, at = roll() % bytes;
    if (roll() % 2) /* where the structure is */
        at = roll() % 2 ? roll() % ends : bytes - 1 - roll() % ends;
    for (uint64_t count = 1 + roll() % 3; count > 0; count--, at = (at + 1) % bytes)
        data[at] = roll() % 3 ? data[at] ^ (uint8_t)(1u << roll() % 8) : (uint8_t)roll();
}

static void resealed_mutants(void **state)
{
    static const char *const levels[] = {"full", "pairs", "fast", "tight"};
    (void)state;
    for (size_t l = 0; l < 4; l++) {
        memory_file file = {0};
        file_make(&file, levels[l]);
        uint8_t *kept = malloc(file.bytes);
        memcpy(kept, file.data, file.bytes);
        for (int round = 0; round < 250; round++) {
            mutate(file.data, file.bytes);
            reseal(file.data, file.bytes);
            all_readers(&file);
            memcpy(file.data, kept, file.bytes);
        }
        all_readers(&file);
        free(kept);
        memory_free(&file);
    }
    assert_true(opened > 200); /* or the checks were not made right */
}

/* A refusal of something that only another weft knows speaks of the file, and not of another end. */
static void refused_with(memory_file *file, const char *words)
{
    weft_update_file *update = NULL;
    weft_source source = memory_source(file);
    assert_int_equal(weft_update_open(NULL, &source, &update), WEFT_E_PROTOCOL);
    const char *text = weft_last_error();
    if (strncmp(text, "update file: ", 13) != 0 || !strstr(text, words) || strstr(text, "end"))
        fail_msg("%s", text);
}

static void files_of_another_weft_are_told_as_files(void **state)
{
    static const struct {
        uint64_t at;
        const char *words;
    } news[] = {{8, "this weft, which knows only protocol 1: UPDATE: stream is 7"},
                {16, "layout epoch is 7"},
                {108, "kind 7"},
                {109, "level 7"}};
    (void)state;
    memory_file file = {0};
    file_make(&file, "fast");
    for (size_t i = 0; i < sizeof news / sizeof *news; i++) {
        uint8_t *at = file.data + news[i].at, kept = *at;
        *at = 7;
        reseal(file.data, file.bytes);
        refused_with(&file, news[i].words);
        *at = kept;
    }
    file.data[4] = file.data[file.bytes - WEFT_UPDATE_TRAILER_BYTES + 4] = 2;
    refused_with(&file, "of protocol 2, this weft knows only 1");
    memory_free(&file);
}

/* One frame less than the trailer says, with a check for each that it says; the frames' bytes are right. */
static void frames_are_counted(void **state)
{
    (void)state;
    memory_file file = {0};
    weft_update_file *update = NULL;
    weft_update_tensor tensors[TENSORS];
    file_make(&file, "fast");
    memory_write(&file, (uint8_t[8]){0}, 8);
    uint8_t *end = file.data + file.bytes - WEFT_TAIL_BYTES - WEFT_UPDATE_TRAILER_BYTES;
    uint8_t *frames = end + WEFT_TAIL_BYTES + 40;
    memmove(end, end - 8, WEFT_TAIL_BYTES + WEFT_UPDATE_TRAILER_BYTES);
    weft_bytes_put(frames, weft_bytes_get(frames, 8) + 1, 8);
    reseal(file.data, file.bytes);
    weft_source source = memory_source(&file);
    assert_int_equal(weft_update_open(NULL, &source, &update), WEFT_OK);
    assert_int_equal(weft_update_tensors(update, layout, base_pieces, TENSORS, tensors, NULL), WEFT_E_CORRUPT);
    assert_int_equal(weft_update_apply(update, layout, work_pieces, TENSORS, NULL, NULL), WEFT_E_CORRUPT);
    assert_non_null(strstr(weft_last_error(), "its trailer says"));
    assert_memory_equal(work, base, layout->bytes);
    weft_update_close(update);
    memory_free(&file);
}

/* What header, tail and trailer say is judged, however well the checks fit. */
static void ends_are_judged(void **state)
{
    enum { END = 1 << 20 }; /* places from the tail on */
    static const struct {
        uint64_t at;
        uint8_t add;
        bool sealed;
        weft_status status;
        const char *words;
    } rows[] = {{108, 1, true, WEFT_E_PROTOCOL, "a snapshot in its header"},
                {76, 1, true, WEFT_E_PROTOCOL, "a root in its header"},
                {100, 1, true, WEFT_E_PROTOCOL, "root"},
                {END + 24 + 8, 1, true, WEFT_E_PROTOCOL, "different versions"},
                {END + 24 + 16, 1, true, WEFT_E_PROTOCOL, "different versions"},
                {END + 24 + 32, 1, true, WEFT_E_CORRUPT, "1 buckets"},
                {END + 8 + 3, 64, false, WEFT_E_CORRUPT, "cut short"}, /* cells, and there are none */
                {END + 12, 1, false, WEFT_E_CORRUPT, "cut short"}};
    memory_file file = {0};
    (void)state;
    file_make(&file, "fast");
    uint8_t *end = file.data + file.bytes - WEFT_TAIL_BYTES - WEFT_UPDATE_TRAILER_BYTES;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t *at = rows[i].at < END ? file.data + rows[i].at : end + rows[i].at - END;
        weft_update_file *update = NULL;
        const weft_source source = memory_source(&file);
        *at = (uint8_t)(*at + rows[i].add);
        if (rows[i].sealed)
            reseal(file.data, file.bytes);
        const weft_status status = weft_update_open(NULL, &source, &update);
        if (status != rows[i].status || !strstr(weft_last_error(), rows[i].words))
            fail_msg("%llu: %s: %s", (unsigned long long)rows[i].at, weft_status_name(status), weft_last_error());
        *at = (uint8_t)(*at - rows[i].add);
    }
    memory_free(&file);
}

static weft_update_file *resealed(memory_file *file)
{
    const weft_source source = memory_source(file);
    weft_update_file *update = NULL;
    reseal(file->data, file->bytes);
    if (weft_update_open(NULL, &source, &update) != WEFT_OK)
        fail_msg("%s", weft_last_error());
    return update;
}

static void sections_are_what_they_say(void **state)
{
    memory_file file = {0};
    const weft_layout *own;
    uint8_t attachment[256] = {77};
    uint64_t bytes;
    int named;
    (void)state;
    file_make(&file, "fast");
    uint8_t *end = file.data + file.bytes - WEFT_TAIL_BYTES - WEFT_UPDATE_TRAILER_BYTES;
    file.data[120] ^= 1; /* the attachment's hash */
    weft_update_file *update = resealed(&file);
    assert_int_equal(weft_update_attachment(update, attachment, sizeof attachment, &bytes), WEFT_E_CHECK);
    assert_int_equal(attachment[0], 77);
    weft_update_close(update);
    file.data[120] ^= 1;
    file.data[28] ^= 1; /* the layout's, in both places */
    file.data[44] ^= 1;
    update = resealed(&file);
    assert_int_equal(weft_update_layout(update, &own, &named), WEFT_E_CORRUPT);
    weft_update_close(update);
    file.data[28] ^= 1;
    file.data[44] ^= 1;
    const uint64_t packed = weft_bytes_get(end + 12, 4), whole = weft_bytes_get(file.data + 112, 8);
    const weft_source source = memory_source(&file);
    assert_true(packed > 1);
    weft_bytes_put(file.data + 112, packed - 1, 8);
    reseal(file.data, file.bytes);
    assert_int_equal(weft_update_open(NULL, &source, &update), WEFT_E_CORRUPT);
    weft_bytes_put(file.data + 112, whole, 8);
    uint8_t *frame_bytes = end + WEFT_TAIL_BYTES + 48; /* the shape begins two bytes earlier */
    weft_bytes_put(frame_bytes, weft_bytes_get(frame_bytes, 8) - 2, 8);
    weft_bytes_put(end + 8, weft_bytes_get(end + 8, 4) + 2, 4);
    reseal(file.data, file.bytes);
    assert_int_equal(weft_update_open(NULL, &source, &update), WEFT_E_CORRUPT);
    weft_bytes_put(frame_bytes, weft_bytes_get(frame_bytes, 8) + 2, 8);
    weft_bytes_put(end + 8, weft_bytes_get(end + 8, 4) - 2, 4);
    memory_write(&file, (uint8_t[8]){0}, 8); /* bytes that no section has */
    end = file.data + file.bytes - WEFT_TAIL_BYTES - WEFT_UPDATE_TRAILER_BYTES;
    memmove(end, end - 8, WEFT_TAIL_BYTES + WEFT_UPDATE_TRAILER_BYTES);
    const weft_source longer = memory_source(&file);
    assert_int_equal(weft_update_open(NULL, &longer, &update), WEFT_E_CORRUPT);
    memory_free(&file);
}

/* Frames whose units fall, and frames of one unit twice. */
static void frames_rise(void **state)
{
    (void)state;
    for (int twice = 0; twice < 2; twice++) {
        memory_file file = {0};
        weft_update_tensor tensors[TENSORS];
        uint8_t both[1 << 16];
        file_make(&file, "fast");
        uint8_t *first = file.data + weft_frame_pad(128 + 2 * weft_bytes_get(file.data + 110, 2));
        const uint64_t one = weft_frame_measure(first, file.bytes), two = weft_frame_measure(first + one, file.bytes);
        assert_true(one + two < sizeof both);
        memcpy(both, first + one, two);
        memcpy(both + two, first, one);
        if (twice)
            weft_bytes_put(first + one, weft_bytes_get(first, 4), 4);
        else
            memcpy(first, both, one + two);
        weft_update_file *update = resealed(&file);
        assert_int_equal(weft_update_apply(update, layout, work_pieces, TENSORS, NULL, NULL), WEFT_E_CORRUPT);
        assert_int_equal(weft_update_tensors(update, layout, base_pieces, TENSORS, tensors, NULL), WEFT_E_CORRUPT);
        assert_memory_equal(work, base, layout->bytes);
        weft_update_close(update);
        memory_free(&file);
    }
}

/* ---- grids */

static void grids_are_not_trusted(void **state)
{
    (void)state;
    for (int round = 0; round < 20000; round++) {
        uint64_t length = roll() % 24;
        uint8_t *bytes = malloc(length ? length : 1);
        weft_layout *made = NULL;
        for (uint64_t i = 0; i < length; i++)
            bytes[i] = (uint8_t)(roll() % 4 ? roll() % 24 : roll());
        if (weft_update_grid_read(bytes, length, &made) == WEFT_OK)
            weft_layout_free(made);
        free(bytes);
    }
}

/* Layers that repeat cost next to nothing, whatever their number. */
static void grids_are_short_and_true(void **state)
{
    enum { LAYERS = 64, EACH = 9, COUNT = 2 + LAYERS * EACH };
    static const uint64_t each[EACH] = {512, 262144, 65536, 65536, 262144, 512, 700000, 700000, 700000};
    static char names[COUNT][16];
    static uint64_t elements[COUNT];
    static weft_tensor tensors[COUNT];
    (void)state;
    for (uint64_t t = 0; t < COUNT; t++) {
        bool outer = t == 0 || t == COUNT - 1;
        snprintf(names[t], sizeof names[t], "t%u", (unsigned)t);
        elements[t] = outer ? 40000000 : each[(t - 1) % EACH];
        tensors[t] = (weft_tensor){names[t], WEFT_BF16, 1, &elements[t]};
    }
    weft_layout *model, *read;
    uint8_t *bytes;
    uint64_t length;
    assert_int_equal(weft_layout_create(tensors, COUNT, &model), WEFT_OK);
    assert_int_equal(weft_update_grid_write(model, &bytes, &length), WEFT_OK);
    assert_true(length < 60);
    assert_int_equal(weft_update_grid_read(bytes, length, &read), WEFT_OK);
    assert_int_equal(read->unit_count, model->unit_count);
    assert_memory_equal(read->units, model->units, model->unit_count * sizeof *model->units);
    for (uint64_t cut = 0; cut < length; cut++) { /* shorter ones are grids of less, or none */
        weft_layout *less = NULL;
        if (weft_update_grid_read(bytes, cut, &less) == WEFT_OK)
            weft_layout_free(less);
    }
    weft_layout_free(read);
    weft_layout_free(model);
    free(bytes);
}

/* A copy may begin at the first tensor: it reaches back over all that stand before it. */
static void grids_of_alike_tensors_are_copies(void **state)
{
    static const uint64_t elements = 4096;
    static const weft_tensor tensors[] = {
        {"a", WEFT_BF16, 1, &elements}, {"b", WEFT_BF16, 1, &elements}, {"c", WEFT_BF16, 1, &elements}};
    weft_layout *model, *read;
    uint8_t *bytes;
    uint64_t length;
    (void)state;
    assert_int_equal(weft_layout_create(tensors, 3, &model), WEFT_OK);
    assert_int_equal(weft_update_grid_write(model, &bytes, &length), WEFT_OK);
    assert_int_equal(length, 6); /* a literal of 3 bytes, a copy of 3 */
    assert_int_equal(weft_update_grid_read(bytes, length, &read), WEFT_OK);
    assert_int_equal(read->count, 3);
    weft_layout_free(read);
    weft_layout_free(model);
    free(bytes);
}

/* A few bytes that ask for more than anyone has. */
static void bombs_are_refused(void **state)
{
    static const uint8_t many[] = {13, 1, 0, 1, 0xff, 0xff, 0x3f, 0, 1, 0xff, 0xff, 0x3f};
    static const uint8_t endless[] = {13, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1};
    static const uint8_t huge[] = {2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1};
    weft_layout *made;
    (void)state;
    assert_int_equal(weft_update_grid_read(many, sizeof many, &made), WEFT_E_CORRUPT);
    assert_int_equal(weft_update_grid_read(endless, sizeof endless, &made), WEFT_E_CORRUPT);
    assert_int_equal(weft_update_grid_read(huge, sizeof huge, &made), WEFT_E_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resealed_mutants),
        cmocka_unit_test(files_of_another_weft_are_told_as_files),
        cmocka_unit_test(ends_are_judged),
        cmocka_unit_test(sections_are_what_they_say),
        cmocka_unit_test(frames_rise),
        cmocka_unit_test(grids_are_not_trusted),
        cmocka_unit_test(grids_are_short_and_true),
        cmocka_unit_test(grids_of_alike_tensors_are_copies),
        cmocka_unit_test(bombs_are_refused),
        cmocka_unit_test(frames_are_counted),
    };
    return cmocka_run_group_tests(tests, world_make, world_free);
}
