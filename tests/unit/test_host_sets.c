/* Every kernel set that this CPU runs gives the bytes of the portable one, however it asks for memory. */
#include <stdio.h>

#include "tests/support/kernel_fast.h"
#include "tests/support/sanitized.h"

#include "backends/host/host_ahead.h"
#include "backends/host/host_state.h"

/* The first row asks as the last does. A sanitizer does not see what is asked for: with it, rows that differ in code
 * are enough, for one set, and the portable one is what the others are compared with. */
#ifdef SANITIZED
#define ROWS_END      3
#define ROWS_OF_OTHER 2
#else
#define ROWS_END      WEFT_HOST_AHEAD_ROWS
#define ROWS_OF_OTHER ROWS_END
#endif

static void set_equals_portable(const char *name, int end)
{
    const weft_host_kernels *kernels;
    if (weft_host_choose(name, &kernels) != WEFT_OK)
        skip();
    assert_string_equal(kernels->name, name);
    const weft_host_ahead here = weft_host_ahead_here;
    for (int row = 1; row < end; row++) {
        weft_host_ahead_here = weft_host_ahead_rows[row];
        sets_give_equal_bytes(&weft_host_portable, kernels);
        fast_gives_equal_bytes(&weft_host_portable, kernels);
    }
    weft_host_ahead_here = here;
}

#ifndef SANITIZED
static void portable_equals_itself(void **state)
{
    (void)state;
    set_equals_portable("portable", 2);
}
#endif

static void avx2_equals_portable(void **state)
{
    (void)state;
    set_equals_portable("avx2", ROWS_OF_OTHER);
}

static void avx512_equals_portable(void **state)
{
    (void)state;
    set_equals_portable("avx512", ROWS_END);
}

static void asks_alike(const weft_host_ahead *a, const weft_host_ahead *b)
{
    assert_true(a->streams == b->streams && a->scattered == b->scattered);
    assert_true(a->blocks.distance == b->blocks.distance && a->blocks.second == b->blocks.second);
    assert_true(a->blocks.reading == b->blocks.reading && a->blocks.counting == b->blocks.counting);
    assert_true(a->blocks.collecting == b->blocks.collecting && a->blocks.listing == b->blocks.listing);
}

static void a_cpu_has_its_row(void **state)
{
    (void)state;
    const weft_host_ahead *five = weft_host_ahead_of("AuthenticAMD", 0x1a);
    const weft_host_ahead *four = weft_host_ahead_of("AuthenticAMD", 0x19);
    const weft_host_ahead *other = weft_host_ahead_of("GenuineIntel", 0x19);
    const weft_host_ahead *intel = weft_host_ahead_of("GenuineIntel", 6);
    assert_string_equal(five->cpus, "Zen 5");
    assert_string_equal(four->cpus, "Zen 3 and 4");
    assert_string_equal(intel->cpus, "Intel's family 6");
    asks_alike(&weft_host_ahead_rows[0], other); /* set_equals_portable passes over the first row on that ground */
    assert_true(!four->streams && four->scattered);
    assert_true(intel->streams && intel->scattered);
    assert_string_equal(other->cpus, "any");
    assert_ptr_equal(weft_host_ahead_of("AuthenticAMD", 0x17), other);
}

/* Linux gives the vendor and the family too. */
static void this_cpu_has_its_own(void **state)
{
    (void)state;
    const weft_host_kernels *kernels;
    char line[4096], vendor[16] = "";
    unsigned family = 0;
    FILE *facts = fopen("/proc/cpuinfo", "re");
    while (facts && family == 0 && fgets(line, sizeof line, facts)) {
        (void)sscanf(line, "vendor_id : %15s", vendor);
        (void)sscanf(line, "cpu family : %u", &family);
    }
    if (facts)
        fclose(facts);
    assert_int_equal(weft_host_choose("portable", &kernels), WEFT_OK);
    assert_string_equal(weft_host_ahead_here.cpus, weft_host_ahead_of(vendor, family)->cpus);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cpu_has_its_row),      cmocka_unit_test(this_cpu_has_its_own),
#ifndef SANITIZED
        cmocka_unit_test(portable_equals_itself),
#endif
        cmocka_unit_test(avx2_equals_portable),   cmocka_unit_test(avx512_equals_portable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
