/* Update files: wrong bases, wrong bytes, other layouts, too little memory, and callers who ask for an end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/update_pair.h"
#include "update/update_format.h"

static void wrong_bases_are_refused(void **state)
{
    (void)state;
    for (size_t l = 0; l < LEVELS; l++) {
        pair p;
        pair_make(&p, 100);
        pair_diff(&p, levels[l], 1);
        weft_update_file *file = pair_open(&p);
        for (int round = 0; round < 40; round++) {
            uint64_t t = roll() % TENSORS, bytes = p.base.layout->entries[t].bytes;
            if (bytes == 0)
                continue;
            model_copy(&p.work, &p.base);
            ((uint8_t *)p.work.pieces[t].data)[roll() % bytes] ^= (uint8_t)(1u << roll() % 8);
            uint8_t *before = malloc(p.work.bytes);
            memcpy(before, p.work.data, p.work.bytes);
            memory_file out = {0};
            weft_sink sink = memory_sink(&out);
            assert_int_equal(weft_update_apply(file, p.base.layout, p.work.pieces, TENSORS, NULL, NULL), WEFT_E_BASE);
            assert_int_equal(weft_update_rewrite(file, p.base.layout, p.work.pieces, TENSORS, NULL, &sink, NULL),
                             WEFT_E_BASE);
            assert_int_equal(out.bytes, 0);
            weft_update_tensor tensors[TENSORS] = {{.changed = 7}};
            assert_int_equal(weft_update_tensors(file, p.base.layout, p.work.pieces, TENSORS, tensors, NULL),
                             WEFT_E_BASE);
            assert_int_equal(tensors[0].changed, 7); /* as it was */
            assert_memory_equal(before, p.work.data, p.work.bytes);
            free(before);
        }
        weft_update_close(file);
        pair_free(&p);
    }
}

/* Opens and applies; nothing but the target may come of it. */
static weft_status try_bytes(pair *p)
{
    weft_source source = memory_source(&p->file);
    weft_update_file *file = NULL;
    weft_status status = weft_update_open(NULL, &source, &file);
    if (status == WEFT_OK)
        status = weft_update_apply(file, p->base.layout, p->work.pieces, TENSORS, NULL, NULL);
    weft_update_close(file);
    return status;
}

static void cut_files_are_refused(void **state)
{
    (void)state;
    pair p;
    pair_make(&p, 5000);
    pair_diff(&p, "fast", 1);
    uint64_t bytes = p.file.bytes;
    for (uint64_t length = 0; length < bytes; length += length < 600 || length + 600 > bytes ? 1 : 37) {
        p.file.bytes = length;
        weft_status status = try_bytes(&p);
        if (weft_status_scope(status) != WEFT_SCOPE_VERSION)
            fail_msg("%llu bytes: %s", (unsigned long long)length, weft_status_name(status));
    }
    same(&p.work, &p.base);
    pair_free(&p);
}

/* However short, text is no update file, and the beginning of one is one that was cut. */
static void short_files_are_told_apart(void **state)
{
    (void)state;
    const uint64_t lengths[] = {0, 3, 4, 40, 112, 200, 215, 216, 217};
    pair p;
    pair_make(&p, 5000);
    pair_diff(&p, "fast", 1);
    uint8_t text[217];
    memset(text, 't', sizeof text);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memory_file none = {.data = text, .bytes = lengths[i]};
        weft_source sources[] = {memory_source(&none), memory_source(&p.file)};
        weft_update_file *file = NULL;
        sources[1].bytes = lengths[i];
        assert_int_equal(weft_update_open(NULL, &sources[0], &file), lengths[i] < 4 ? WEFT_E_CORRUPT : WEFT_E_FILE);
        assert_non_null(strstr(weft_last_error(), "no update file"));
        assert_int_equal(weft_update_open(NULL, &sources[1], &file), WEFT_E_CORRUPT);
        assert_non_null(strstr(weft_last_error(), "cut short"));
        assert_null(file);
    }
    pair_free(&p);
}

static void flipped_bits_are_refused(void **state)
{
    (void)state;
    for (size_t l = 0; l < LEVELS; l++) {
        pair p;
        pair_make(&p, l == 0 ? 100000 : 3000);
        pair_diff(&p, levels[l], 1);
        uint64_t bytes = p.file.bytes;
        for (uint64_t at = 0; at < bytes; at += at < 300 || at + 600 > bytes ? 1 : bytes / 60 + 1) {
            p.file.data[at] ^= (uint8_t)(1u << at % 8);
            weft_status status = try_bytes(&p), damaged = at < 4 ? WEFT_E_FILE : WEFT_E_CHECK;
            if (status != damaged && status != WEFT_E_CORRUPT)
                fail_msg("level %s: byte %llu of %llu: %s", levels[l], (unsigned long long)at,
                         (unsigned long long)bytes, weft_status_name(status));
            p.file.data[at] ^= (uint8_t)(1u << at % 8);
        }
        same(&p.work, &p.base);
        pair_free(&p);
    }
}

/* Flips a bit of the file; the error ends with these words. */
static void damage_says(pair *p, uint64_t at, const char *words)
{
    p->file.data[at] ^= 1;
    assert_int_equal(try_bytes(p), WEFT_E_CHECK);
    const char *said = strstr(weft_last_error(), "is damaged: ");
    assert_string_equal(said ? said + strlen("is damaged: ") : weft_last_error(), words);
    p->file.data[at] ^= 1;
}

/* By the tensors of the units that its header says it codes. */
static void a_damaged_frame_is_named(void **state)
{
    static const char *const names[] = {
        "tensor model.layers.0.w tile 0 to tensor model.layers.0.w tile 1",
        "tensor model.layers.2.w tile 0, elements 0..4159",
        "tensor model.layers.3.w tile 0 to tensor model.layers.4.w tile 0",
        "tensor model.layers.5.w tile 0, elements 0..32",
        "tensor model.layers.6.w tile 0, elements 0..216",
        "tensor model.layers.7.w tile 0, elements 0..999",
        "tensor model.layers.8.w tile 0, elements 0..899",
        "tensor model.layers.9.w tile 0, elements 0..5",
        "tensor model.layers.10.w tile 0 to tensor model.layers.12.w tile 0",
        "tensor model.layers.13.w tile 0, elements 0..9",
    };
    (void)state;
    pair p;
    pair_make(&p, 0);
    for (uint64_t t = 0; t < TENSORS; t++)
        if (p.base.layout->entries[t].bytes > 0)
            *(uint8_t *)p.target.pieces[t].data ^= 1;
    pair_diff(&p, "fast", 1);
    weft_update_file *file = pair_open(&p);
    uint64_t at = file->frames_at;
    const uint64_t end = at + file->trailer.frame_bytes;
    weft_update_close(file);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const uint64_t bytes = weft_frame_measure(p.file.data + at, end - at);
        damage_says(&p, at + bytes - 1, names[i]);
        damage_says(&p, at + 3, "its header names no units of the layout"); /* the number of its unit */
        at += bytes;
    }
    assert_true(at == end);
    pair_free(&p);
}

/* A source that gives one byte differently, when it is asked for it the first time or each time but that. */
typedef struct fickle {
    const memory_file *file;
    uint64_t at;
    bool first;
    unsigned asked;
} fickle;

static weft_status fickle_read(void *user, uint64_t offset, void *data, uint64_t bytes)
{
    fickle *source = user;
    memcpy(data, source->file->data + offset, bytes);
    if (source->at - offset < bytes && (source->asked++ == 0) == source->first)
        ((uint8_t *)data)[source->at - offset] ^= 1;
    return WEFT_OK;
}

static void answers_that_change_are_damage(void **state)
{
    (void)state;
    pair p;
    pair_make(&p, 3000);
    pair_diff(&p, "fast", 1);
    for (uint64_t round = 0; round < 600; round++) {
        uint64_t byte = round / 2;
        fickle changing = {&p.file, byte < 150 ? byte : p.file.bytes - 300 + byte, round % 2 == 0, 0};
        weft_source source = {&changing, fickle_read, p.file.bytes};
        weft_update_file *file = NULL;
        weft_status status = weft_update_open(NULL, &source, &file);
        if (status == WEFT_OK)
            status = weft_update_apply(file, p.base.layout, p.work.pieces, TENSORS, NULL, NULL);
        weft_update_close(file);
        if (status == WEFT_E_BASE || status == WEFT_E_TARGET || (status == WEFT_OK) == changing.first)
            fail_msg("byte %llu of %llu: %s", (unsigned long long)changing.at, (unsigned long long)p.file.bytes,
                     weft_status_name(status));
        same(&p.work, status == WEFT_OK ? &p.target : &p.base);
        model_copy(&p.work, &p.base);
    }
    pair_free(&p);
}

static void other_layouts_are_refused(void **state)
{
    (void)state;
    pair p;
    pair_make(&p, 100);
    pair_diff(&p, "fast", 1);
    weft_layout *other;
    weft_tensor tensors[TENSORS];
    for (uint64_t t = 0; t < TENSORS; t++)
        weft_layout_tensor(p.base.layout, t, &tensors[t]);
    tensors[3].name = "another";
    assert_int_equal(weft_layout_create(tensors, TENSORS, &other), WEFT_OK);
    weft_update_file *file = pair_open(&p);
    assert_int_equal(weft_update_apply(file, other, p.work.pieces, TENSORS, NULL, NULL), WEFT_E_LAYOUT);
    weft_update_tensor sums[TENSORS];
    assert_int_equal(weft_update_tensors(file, other, p.work.pieces, TENSORS, sums, NULL), WEFT_E_LAYOUT);
    weft_update_close(file);
    weft_layout_free(other);
    pair_free(&p);
}

static void budgets_hold(void **state)
{
    (void)state;
    pair p;
    pair_make(&p, 10);
    pair_diff(&p, "fast", 1);
    weft_update_file *file = pair_open(&p);
    weft_work work = {.size = sizeof work, .threads = 1, .memory_bytes = 100000};
    assert_int_equal(weft_update_apply(file, p.base.layout, p.work.pieces, TENSORS, &work, NULL), WEFT_E_BUDGET);
    work.memory_bytes = 1;
    assert_int_equal(weft_update_apply(file, p.base.layout, p.work.pieces, TENSORS, &work, NULL), WEFT_E_BUDGET);
    assert_non_null(strstr(weft_last_error(), "memory_bytes = 1;"));
    same(&p.work, &p.base);
    work.memory_bytes = UINT64_C(1) << 60;
    assert_int_equal(weft_update_apply(file, p.base.layout, p.work.pieces, TENSORS, &work, NULL), WEFT_E_MEMORY);
    assert_non_null(strstr(weft_last_error(), "memory_bytes"));
    assert_null(strstr(weft_last_error(), "[peers]"));
    same(&p.work, &p.base);
    weft_update_close(file);
    pair_free(&p);
}

static weft_status stop_half(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    return 2 * done > total ? WEFT_E_TIMEOUT : WEFT_OK;
}

static weft_status stop_at_once(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    assert_true(done <= total);
    return WEFT_E_TIMEOUT;
}

/* Changes a weight that the update changes too, once the proof is over. */
typedef struct changer {
    uint8_t *weight;
    uint64_t passes;
} changer;

static weft_status change_after_proof(void *user, uint64_t done, uint64_t total)
{
    const changer *c = user;
    if (done * c->passes == total)
        *c->weight ^= 1;
    return WEFT_OK;
}

/* Nothing is left of an update during which the weights changed, but for that change. */
static void weights_that_change_meanwhile_are_noticed(void **state)
{
    (void)state;
    pair p;
    pair_make(&p, 100);
    for (size_t l = 0; l < LEVELS; l++) {
        memory_file out = {0};
        const weft_sink sink = memory_sink(&out);
        pair_diff(&p, levels[l], 1);
        weft_update_file *file = pair_open(&p);
        uint64_t at = p.base.bytes;
        do
            at--;
        while (p.base.data[at] == p.target.data[at]);
        changer c = {p.work.data + at, 1};
        const weft_work work = {.size = sizeof work, .threads = 1, .progress = change_after_proof, .user = &c};
        assert_int_not_equal(weft_update_apply(file, p.base.layout, p.work.pieces, TENSORS, &work, NULL), WEFT_OK);
        *c.weight ^= 1;
        same(&p.work, &p.base);
        c.passes = 2;
        assert_int_not_equal(weft_update_rewrite(file, p.base.layout, p.work.pieces, TENSORS, &work, &sink, NULL),
                             WEFT_OK);
        *c.weight ^= 1;
        same(&p.work, &p.base);
        memory_free(&out);
        weft_update_close(file);
    }
    pair_free(&p);
}

/* A file of which frames are counted as they are read, until there are no more. */
typedef struct counted {
    memory_file *file;
    uint64_t frames_at, frames_end; /* of the file */
    uint64_t read;                  /* bytes of frames */
    uint64_t most;                  /* and when the source fails */
} counted;

static weft_status counted_read(void *user, uint64_t offset, void *data, uint64_t bytes)
{
    counted *c = user;
    if (c->frames_end && offset >= c->frames_at && offset < c->frames_end)
        c->read += bytes;
    return c->read > c->most ? WEFT_E_FILE : memory_read(c->file, offset, data, bytes);
}

/* What was proved is written without the source, if there is memory for the frames. */
static void frames_are_read_once(void **state)
{
    static const struct {
        uint64_t memory;
        int readings; /* that the source allows */
        weft_status status;
    } rows[] = {{0, 1, WEFT_OK}, {1, 2, WEFT_OK}, {1, 1, WEFT_E_FILE}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pair p;
        pair_make(&p, 100);
        pair_diff(&p, "tight", 1);
        memory_file out = {0};
        counted c = {.file = &p.file, .most = UINT64_MAX};
        const weft_source source = {&c, counted_read, p.file.bytes};
        const weft_sink sink = memory_sink(&out);
        const weft_work work = {.size = sizeof work, .threads = 1, .memory_bytes = rows[i].memory};
        weft_update_file *file = NULL;
        assert_int_equal(weft_update_open(NULL, &source, &file), WEFT_OK);
        const uint64_t frames = file->trailer.frame_bytes;
        c.frames_at = file->frames_at;
        c.frames_end = file->frames_at + frames;
        c.most = rows[i].readings * frames;
        assert_int_equal(weft_update_rewrite(file, p.base.layout, p.work.pieces, TENSORS, &work, &sink, NULL),
                         rows[i].status);
        if (rows[i].status == WEFT_OK)
            assert_int_equal(c.read, rows[i].readings * frames);
        assert_ptr_equal(file->source.read, counted_read); /* the file has its own source again */
        weft_update_close(file);
        memory_free(&out);
        pair_free(&p);
    }
}

/* A caller of an earlier weft has shorter structs. */
static void shorter_structs_are_taken(void **state)
{
    (void)state;
    pair p;
    pair_make(&p, 100);
    pair_diff(&p, "fast", 1);
    weft_update_file *file = pair_open(&p);
    weft_work work = {.size = offsetof(weft_work, progress), .threads = 1, .progress = stop_at_once};
    weft_apply_info info = {.size = offsetof(weft_apply_info, changed), .changed = 99, .apply_ms = -1};
    weft_update_header header = {.size = offsetof(weft_update_header, layout), .layout = {5, 6}, .changed = 99};
    assert_int_equal(weft_update_describe(file, &header), WEFT_OK);
    assert_true(header.layout[0] == 5 && header.layout[1] == 6 && header.changed == 99 && header.target.number == 4);
    assert_int_equal(weft_update_apply(file, p.base.layout, p.work.pieces, TENSORS, &work, &info), WEFT_OK);
    assert_true(info.changed == 99 && info.apply_ms < 0 && info.version.number == 4);
    weft_update_close(file);
    pair_free(&p);
}

/* A file whose checks fit, and whose target is another. */
static void wrong_targets_are_refused(void **state)
{
    (void)state;
    pair p;
    pair_make(&p, 100);
    for (size_t l = 0; l < LEVELS; l++) {
        memory_file out = {0};
        const weft_sink sink = memory_sink(&out);
        pair_diff(&p, levels[l], 1);
        weft_update_file *file = pair_open(&p);
        file->header.target.root++;
        assert_int_equal(weft_update_apply(file, p.base.layout, p.work.pieces, TENSORS, NULL, NULL), WEFT_E_TARGET);
        same(&p.work, &p.base);
        assert_int_equal(weft_update_rewrite(file, p.base.layout, p.work.pieces, TENSORS, NULL, &sink, NULL),
                         WEFT_E_TARGET);
        assert_int_equal(out.bytes, 0);
        weft_update_close(file);
    }
    pair_free(&p);
}

/* A caller that stops the work while parameters are chosen does not wait for a pass over the weights. */
static void callers_may_stop_the_choice(void **state)
{
    (void)state;
    pair p;
    pair_make(&p, 100);
    weft_work work = {.size = sizeof work, .threads = 2, .progress = stop_at_once};
    weft_sink sink = memory_sink(&p.file);
    for (size_t fast = 2; fast < sizeof levels / sizeof *levels; fast++) {
        weft_diff_options options = {.size = sizeof options, .level = levels[fast]};
        assert_int_equal(
            weft_diff(p.base.layout, p.base.pieces, TENSORS, p.target.pieces, TENSORS, &options, &work, &sink, NULL),
            WEFT_E_TIMEOUT);
        assert_int_equal(p.file.bytes, 0);
    }
    pair_free(&p);
}

static void callers_may_stop_it(void **state)
{
    (void)state;
    pair p;
    pair_make(&p, 100);
    weft_work work = {.size = sizeof work, .threads = 2, .progress = stop_half};
    weft_sink sink = memory_sink(&p.file);
    assert_int_equal(
        weft_diff(p.base.layout, p.base.pieces, TENSORS, p.target.pieces, TENSORS, NULL, &work, &sink, NULL),
        WEFT_E_TIMEOUT);
    pair_diff(&p, "fast", 2);
    weft_update_file *file = pair_open(&p);
    assert_int_equal(weft_update_apply(file, p.base.layout, p.work.pieces, TENSORS, &work, NULL), WEFT_E_TIMEOUT);
    same(&p.work, &p.base);
    weft_update_close(file);
    uint64_t bytes = p.file.bytes;
    for (uint64_t room = 1; room < bytes; room += bytes / 7) {
        p.file.bytes = 0;
        p.file.room = room;
        assert_int_equal(
            weft_diff(p.base.layout, p.base.pieces, TENSORS, p.target.pieces, TENSORS, NULL, NULL, &sink, NULL),
            WEFT_E_FILE);
    }
    pair_free(&p);
}

/* Tied weights are nothing that an update could be undone in. */
static void shared_memory_is_refused(void **state)
{
    (void)state;
    pair p;
    pair_make(&p, 100);
    pair_diff(&p, "fast", 1);
    weft_update_file *file = pair_open(&p);
    weft_piece pieces[TENSORS];
    memcpy(pieces, p.work.pieces, sizeof pieces);
    pieces[11].data = pieces[10].data;
    assert_int_equal(weft_update_apply(file, p.base.layout, pieces, TENSORS, NULL, NULL), WEFT_E_LAYOUT);
    assert_non_null(strstr(weft_last_error(), "model.layers.10.w"));
    assert_non_null(strstr(weft_last_error(), "model.layers.11.w"));
    same(&p.work, &p.base);
    weft_update_close(file);
    pair_free(&p);
}

/* A caller's function that ends the work says no text: the last error is not one from before. */
static void callers_are_named(void **state)
{
    (void)state;
    pair p;
    pair_make(&p, 100);
    weft_sink sink = memory_sink(&p.file);
    weft_work work = {.size = sizeof work, .threads = 1, .progress = stop_half};
    weft_layout *none = NULL;
    assert_int_not_equal(weft_layout_create(&(weft_tensor){NULL, WEFT_F32, 0, NULL}, 1, &none), WEFT_OK);
    p.file.room = 1;
    assert_int_equal(
        weft_diff(p.base.layout, p.base.pieces, TENSORS, p.target.pieces, TENSORS, NULL, NULL, &sink, NULL),
        WEFT_E_FILE);
    assert_string_equal(weft_last_error(), "the caller's sink ended the work with 'file'");
    p.file.room = 0;
    p.file.bytes = 0;
    pair_diff(&p, "fast", 1);
    weft_update_file *file = pair_open(&p);
    assert_int_equal(weft_update_apply(file, p.base.layout, p.work.pieces, TENSORS, &work, NULL), WEFT_E_TIMEOUT);
    assert_string_equal(weft_last_error(), "the caller's progress ended the work with 'timeout'");
    weft_update_close(file);
    pair_free(&p);
}

static weft_status count_progress(void *user, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    ++*(uint64_t *)user;
    return WEFT_OK;
}

/* Too many tensors for a file are refused before the work, because the work takes long. */
static void too_many_tensors_are_refused_at_once(void **state)
{
    (void)state;
    const uint64_t count = (UINT64_C(1) << 20) + 1, shape = 1;
    weft_tensor *tensors = calloc(count, sizeof *tensors);
    weft_piece *pieces = calloc(count, sizeof *pieces);
    char(*names)[12] = calloc(count, sizeof *names), byte = 0;
    assert_true(tensors && pieces && names);
    for (uint64_t t = 0; t < count; t++) {
        snprintf(names[t], sizeof names[t], "t%u", (unsigned)t);
        tensors[t] = (weft_tensor){names[t], WEFT_U8, 1, &shape};
        pieces[t] = (weft_piece){t, 0, 1, &byte};
    }
    weft_layout *layout;
    assert_int_equal(weft_layout_create(tensors, count, &layout), WEFT_OK);
    uint64_t told = 0;
    const weft_work work = {.size = sizeof work, .threads = 1, .progress = count_progress, .user = &told};
    memory_file file = {0};
    const weft_sink sink = memory_sink(&file);
    assert_int_equal(weft_diff(layout, pieces, count, pieces, count, NULL, &work, &sink, NULL), WEFT_E_LAYOUT);
    assert_non_null(strstr(weft_last_error(), "at most 1048576 tensors, the layout has 1048577"));
    assert_int_equal(told + file.bytes, 0);
    free(file.data);
    weft_layout_free(layout);
    free(names);
    free(pieces);
    free(tensors);
}

static void forgotten(weft_status status, const char *type)
{
    char text[120];
    snprintf(text, sizeof text, "%s has size 0: set it to sizeof(%s)", type, type);
    assert_int_equal(status, WEFT_E_ARGUMENT);
    assert_string_equal(weft_last_error(), text);
}

/* Without its size a caller's struct would have no settings, and would receive no figures. */
static void forgotten_sizes_are_refused(void **state)
{
    (void)state;
    pair p;
    pair_make(&p, 100);
    pair_diff(&p, "fast", 1);
    weft_update_file *file = pair_open(&p);
    memory_file out = {0};
    const weft_sink sink = memory_sink(&out);
    const weft_layout *layout = p.base.layout;
    const weft_piece *base = p.base.pieces, *target = p.target.pieces, *own = p.work.pieces;
    const weft_diff_options options = {.level = "fast"};
    const weft_work work = {.threads = 1};
    weft_update_info info = {.changed = 99};
    weft_apply_info applied = {.changed = 99};
    weft_update_header header = {.changed = 99};
    uint64_t root = 7;
    forgotten(weft_diff(layout, base, TENSORS, target, TENSORS, &options, NULL, &sink, NULL), "weft_diff_options");
    forgotten(weft_diff(layout, base, TENSORS, target, TENSORS, NULL, &work, &sink, NULL), "weft_work");
    forgotten(weft_diff(layout, base, TENSORS, target, TENSORS, NULL, NULL, &sink, &info), "weft_update_info");
    forgotten(weft_update_merge(&file, 1, NULL, NULL, 0, NULL, &work, &sink, NULL), "weft_work");
    forgotten(weft_update_merge(&file, 1, layout, base, TENSORS, NULL, NULL, &sink, &info), "weft_update_info");
    forgotten(weft_update_rewrite(file, layout, own, TENSORS, &work, &sink, NULL), "weft_work");
    forgotten(weft_update_rewrite(file, layout, own, TENSORS, NULL, &sink, &applied), "weft_apply_info");
    forgotten(weft_update_apply(file, layout, own, TENSORS, &work, NULL), "weft_work");
    forgotten(weft_update_apply(file, layout, own, TENSORS, NULL, &applied), "weft_apply_info");
    forgotten(weft_update_describe(file, &header), "weft_update_header");
    forgotten(weft_digest_tensors(layout, base, TENSORS, &work, NULL, &root), "weft_work");
    assert_true(info.changed == 99 && applied.changed == 99 && header.changed == 99 && root == 7);
    assert_int_equal(out.bytes, 0);
    same(&p.work, &p.base);
    weft_update_close(file);
    pair_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_bases_are_refused),     cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(flipped_bits_are_refused),    cmocka_unit_test(a_damaged_frame_is_named),
        cmocka_unit_test(short_files_are_told_apart),  cmocka_unit_test(answers_that_change_are_damage),
        cmocka_unit_test(other_layouts_are_refused),   cmocka_unit_test(budgets_hold),
        cmocka_unit_test(callers_may_stop_it),         cmocka_unit_test(weights_that_change_meanwhile_are_noticed),
        cmocka_unit_test(shorter_structs_are_taken),   cmocka_unit_test(wrong_targets_are_refused),
        cmocka_unit_test(callers_may_stop_the_choice), cmocka_unit_test(shared_memory_is_refused),
        cmocka_unit_test(callers_are_named),           cmocka_unit_test(frames_are_read_once),
        cmocka_unit_test(forgotten_sizes_are_refused), cmocka_unit_test(too_many_tensors_are_refused_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
