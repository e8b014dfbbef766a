/* Memory comes zeroed and counted; sizes that overflow are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"

static void assert_zero(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(bytes[i], 0);
}

/* Dirties the heap first, so that a block handed out again would show it. */
static void what_is_taken_is_zero(void **state)
{
    (void)state;
    uint8_t *dirty = weft_mem_take(7, 101);
    assert_non_null(dirty);
    memset(dirty, 0xff, 707);
    weft_mem_give(dirty);
    uint8_t *clean = weft_mem_take(7, 101);
    assert_non_null(clean);
    assert_zero(clean, 707);
    weft_mem_give(clean);
}

static void growing_keeps_the_old_and_zeroes_the_new(void **state)
{
    (void)state;
    uint32_t *words = weft_mem_take(3, sizeof *words);
    assert_non_null(words);
    for (uint32_t i = 0; i < 3; i++)
        words[i] = i + 1;
    words = weft_mem_grow(words, 3, 1000, sizeof *words);
    assert_non_null(words);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(words[i], i + 1);
    assert_zero((const uint8_t *)(words + 3), 997 * sizeof *words);
    words = weft_mem_grow(words, 1000, 2, sizeof *words);
    assert_non_null(words);
    assert_int_equal(words[1], 2);
    weft_mem_give(words);
}

static void growing_from_nothing_is_taking(void **state)
{
    (void)state;
    uint8_t *bytes = weft_mem_grow(NULL, 0, 64, 1);
    assert_non_null(bytes);
    assert_zero(bytes, 64);
    weft_mem_give(bytes);
}

static void sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    assert_null(weft_mem_take(UINT64_MAX / 2, 3));
    uint8_t *bytes = weft_mem_take(8, 1);
    assert_non_null(bytes);
    bytes[7] = 9;
    assert_null(weft_mem_grow(bytes, 8, UINT64_MAX / 2, 3));
    assert_int_equal(bytes[7], 9);
    assert_null(weft_mem_grow(bytes, 8, (UINT64_C(1) << 61) + 1, 8)); /* which would be eight bytes */
    assert_int_equal(bytes[7], 9);
    weft_mem_give(bytes);
    assert_null(weft_mem_map(UINT64_MAX - 1));
}

static void nothing_is_a_block_too(void **state)
{
    (void)state;
    void *none = weft_mem_take(0, 16);
    assert_non_null(none);
    none = weft_mem_grow(none, 0, 0, 16);
    assert_non_null(none);
    weft_mem_give(none);
    weft_mem_give(NULL);
    weft_mem_unmap(NULL, 4096);
}

static void texts_are_copied(void **state)
{
    (void)state;
    char text[] = "bucket";
    char *copy = weft_mem_text(text);
    assert_non_null(copy);
    text[0] = 'x';
    assert_string_equal(copy, "bucket");
    weft_mem_give(copy);
}

static void maps_are_whole_zeroed_pages(void **state)
{
    (void)state;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t sizes[] = {0, 1, page, page + 1, (UINT64_C(2) << 20) + 5};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t whole = (sizes[i] / page + 1) * page;
        if (sizes[i] && sizes[i] % page == 0)
            whole = sizes[i];
        uint8_t *memory = weft_mem_map(sizes[i]);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % page, 0);
        assert_int_equal(memory[0], 0);
        assert_int_equal(memory[whole - 1], 0);
        memory[whole - 1] = 1;
        weft_mem_unmap(memory, sizes[i]);
    }
}

static void every_block_is_counted(void **state)
{
    (void)state;
    uint64_t before = weft_mem_allocations(), blocks = weft_mem_blocks();
    void *one = weft_mem_take(1, 1);
    one = weft_mem_grow(one, 1, 2, 1);
    void *two = weft_mem_map(1);
    char *three = weft_mem_text("");
    assert_int_equal(weft_mem_allocations() - before, 4);
    assert_int_equal(weft_mem_blocks() - blocks, 3);
    weft_mem_give(one);
    weft_mem_unmap(two, 1);
    weft_mem_give(three);
    assert_int_equal(weft_mem_blocks(), blocks);
    assert_int_equal(weft_mem_allocations() - before, 4);
    assert_null(weft_mem_take(UINT64_MAX, 2));
    assert_int_equal(weft_mem_allocations() - before, 4);
}

typedef struct thing {
    uint32_t *words;
    uint8_t *pages, *none, *more;
    uint64_t count;
} thing;

static weft_mem_list memory_of(thing *t)
{
    return (weft_mem_list){{WEFT_MEM_TAKEN(t->words, t->count), WEFT_MEM_PAGES(t->pages, 5000),
                            WEFT_MEM_TAKEN(t->none, 0), WEFT_MEM_PAGES(t->more, 1)}};
}

/* A list is taken whole or not at all, and what it adds up is what it takes. A block of no bytes is none. */
static void lists_are_taken_whole(void **state)
{
    thing t = {.count = 3};
    (void)state;
    const uint64_t blocks = weft_mem_blocks();
    assert_int_equal(weft_mem_list_bytes(memory_of(&t)), 12 + 5000 + 1);
    assert_int_equal(weft_mem_list_take(memory_of(&t), "for %s", "a test"), WEFT_OK);
    assert_int_equal(weft_mem_blocks() - blocks, 3);
    t.words[2] = t.pages[4999] = t.more[0] = 1;
    assert_null(t.none);
    weft_mem_list_give(memory_of(&t));
    weft_mem_list_give(memory_of(&t));
    assert_int_equal(weft_mem_blocks(), blocks);
    t.count = UINT64_MAX / 2;
    assert_int_equal(weft_mem_list_take(memory_of(&t), "for %s", "a test"), WEFT_E_MEMORY);
    assert_non_null(strstr(weft_last_error(), "bytes for a test"));
    assert_int_equal(weft_mem_blocks(), blocks);
    assert_true(!t.words && !t.pages && !t.more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_taken_is_zero),          cmocka_unit_test(growing_keeps_the_old_and_zeroes_the_new),
        cmocka_unit_test(growing_from_nothing_is_taking), cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(nothing_is_a_block_too),         cmocka_unit_test(texts_are_copied),
        cmocka_unit_test(maps_are_whole_zeroed_pages),    cmocka_unit_test(every_block_is_counted),
        cmocka_unit_test(lists_are_taken_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
