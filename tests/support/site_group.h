/* site_group.h - one scratch folder for the site files of a group of tests. */
#ifndef WEFT_TESTS_SITE_GROUP_H
#define WEFT_TESTS_SITE_GROUP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "site/site.h"
#include "tests/support/site_scratch.h"

static site_scratch scratch;

static inline int set_up(void **state)
{
    (void)state;
    site_scratch_open(&scratch);
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    site_scratch_close(&scratch);
    return 0;
}

#endif
