/* Stores with up to four damaged files, 20 of them, or 200 (WEFT_FULL): bytes flipped, files cut short, lengthened,
 * emptied, removed, or put in place of another. A version comes back bit for bit or not at all, before the store was
 * checked and after. The check names each file that is not what its name says, and every version that cannot be had. */
#define CHAIN_FIRST 5000 /* because a store is made for each file that could be damaged */

#include "tests/support/store_world.h"

#include "base/mem.h"

#define STORES  20u
#define FULL    200u
#define NUMBERS 7u
#define DAMAGES 4u

/* Faults that the check of a store named. */
typedef struct report {
    uint64_t files, lost;
    bool is_lost[NUMBERS];
} report;

static weft_status take_fault(void *user, const weft_store_fault *fault)
{
    report *said = user;
    assert_true(fault->text && fault->text[0]);
    said->files += fault->file != NULL;
    said->lost += fault->file == NULL;
    if (!fault->file)
        said->is_lost[fault->version.number - 1] = true;
    return WEFT_OK;
}

/* Draws a file that is there. */
static void draw_file(const world *w, char path[512])
{
    uint64_t bytes = 0;
    while (bytes == 0) {
        const uint32_t v = (uint32_t)(roll() % NUMBERS);
        const weft_store_kind kind = roll() % 2 ? WEFT_STORE_ANCHOR : WEFT_STORE_UPDATE;
        file_path(w, v, kind, path);
        bytes = file_bytes(w, v, kind);
    }
}

static uint64_t bytes_of(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 ? (uint64_t)facts.st_size : 0;
}

static void flip(const char *path)
{
    uint8_t byte = 0;
    const off_t at = (off_t)(roll() % bytes_of(path));
    const int file = open(path, O_RDWR);
    assert_true(file >= 0 && pread(file, &byte, 1, at) == 1);
    byte ^= (uint8_t)(1u << roll() % 8);
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
    close(file);
}

static void lengthen(const char *path)
{
    const int file = open(path, O_WRONLY | O_APPEND);
    assert_true(file >= 0 && write(file, "more", 4) == 4);
    close(file);
}

/* Puts a copy of another file there. */
static void replace(const char *path, const char *by)
{
    const uint64_t bytes = bytes_of(by);
    uint8_t *text = malloc(bytes);
    int file = open(by, O_RDONLY);
    assert_true(file >= 0 && read(file, text, bytes) == (ssize_t)bytes);
    close(file);
    file = open(path, O_WRONLY | O_TRUNC);
    assert_true(file >= 0 && write(file, text, bytes) == (ssize_t)bytes);
    close(file);
    free(text);
}

/* A word for the bytes of a file; 0: there is none. */
static uint64_t word_of(const world *w, uint32_t v, weft_store_kind kind)
{
    char path[512];
    uint64_t word = 0;
    int byte;
    file_path(w, v, kind, path);
    FILE *file = fopen(path, "rb");
    for (; file && (byte = fgetc(file)) != EOF;)
        word = (word ^ (uint64_t)(byte + 1)) * UINT64_C(0x9e3779b97f4a7c15);
    if (file)
        fclose(file);
    return file ? word | 1 : 0;
}

static void words_of(const world *w, uint64_t words[NUMBERS][2])
{
    for (uint32_t v = 0; v < NUMBERS; v++) {
        words[v][0] = word_of(w, v, WEFT_STORE_UPDATE);
        words[v][1] = word_of(w, v, WEFT_STORE_ANCHOR);
    }
}

static void damage(const world *w)
{
    char path[512], other[512];
    draw_file(w, path);
    switch (roll() % 6) {
    case 0:
    case 1:
        flip(path);
        break;
    case 2:
        assert_int_equal(truncate(path, (off_t)(roll() % bytes_of(path))), 0);
        break;
    case 3:
        lengthen(path);
        break;
    case 4:
        draw_file(w, other);
        if (strcmp(path, other) != 0)
            replace(path, other);
        break;
    default:
        assert_int_equal(unlink(path), 0);
    }
}

/* A version comes back whole, or is said to be missing. Returns which of these. */
static bool comes_back(world *w, uint32_t v)
{
    if (roll() % 3 == 0)
        memset(w->c.work, (int)roll(), 64); /* weights of no version */
    const weft_status status = move(w, v, NULL);
    if (status == WEFT_OK)
        assert_memory_equal(w->c.work, w->c.image[v], image_bytes(&w->c));
    else if (status != WEFT_E_MISSING && !strstr(weft_last_error(), "no whole files lead to version"))
        fail_msg("version %u: %s: %s", v + 1, weft_status_name(status), weft_last_error());
    return status == WEFT_OK;
}

static void play(uint32_t number, report *all)
{
    world w;
    report said = {0};
    uint64_t faults, damaged = 0, before[NUMBERS][2], after[NUMBERS][2];
    bool had[NUMBERS];
    world_open(&w, 2 + roll() % 5);
    world_fill(&w, NUMBERS);
    words_of(&w, before);
    for (uint64_t i = 0, count = 1 + roll() % DAMAGES; i < count; i++)
        damage(&w);
    words_of(&w, after);
    for (uint32_t i = 0; i < 2 * NUMBERS; i++)
        damaged += after[i / 2][i % 2] && after[i / 2][i % 2] != before[i / 2][i % 2];
    store_reopen(&w);
    for (uint32_t v = 0; v < NUMBERS; v++)
        had[v] = comes_back(&w, v);
    store_reopen(&w);
    if (weft_store_check(w.store, NULL, take_fault, &said, &faults) != WEFT_OK)
        fail_msg("store %u is not checked: %s", number, weft_last_error());
    assert_int_equal(faults, said.files + said.lost);
    if (said.files != damaged)
        fail_msg("store %u: %llu files are damaged, the check names %llu", number, (unsigned long long)damaged,
                 (unsigned long long)said.files);
    for (uint32_t v = 0; v < NUMBERS; v++) {
        const bool has = comes_back(&w, v);
        const bool known = after[v][0] || after[v][1]; /* nobody can name a version that has no file left */
        if (has == said.is_lost[v] && known)
            fail_msg("store %u: version %u is %s, and the check says otherwise", number, v + 1, has ? "there" : "lost");
        if (had[v] != has)
            fail_msg("store %u: version %u %s before the check alone", number, v + 1, had[v] ? "came" : "was lost");
    }
    all->files += said.files;
    all->lost += said.lost;
    world_close(&w);
}

static void test_damaged_stores(void **state)
{
    const uint64_t blocks = weft_mem_blocks();
    report all = {0};
    const uint32_t stores = getenv("WEFT_FULL") ? FULL : STORES;
    (void)state;
    for (uint32_t i = 0; i < stores; i++)
        play(i, &all);
    print_message("%llu damaged files, %llu versions lost\n", (unsigned long long)all.files,
                  (unsigned long long)all.lost);
    assert_true(all.files > stores / 2 && all.lost > 0);
    assert_int_equal(weft_mem_blocks(), blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_damaged_stores)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
