/* site_load.h - site files that load, from a folder that lasts as long as a group of tests. */
#ifndef WEFT_TESTS_SITE_LOAD_H
#define WEFT_TESTS_SITE_LOAD_H

#include "tests/support/site_group.h"

static inline weft_site *load_with(const char *text, const char *const *overrides, size_t count)
{
    weft_site *site = NULL;
    site_scratch_write(&scratch, text, strlen(text));
    if (weft_site_load(scratch.path, overrides, count, &site) != WEFT_OK)
        fail_msg("%s", weft_last_error());
    return site;
}

static inline weft_site *load(const char *text)
{
    return load_with(text, NULL, 0);
}

static inline void assert_get(const weft_site *site, const char *peer, const char *key, const char *expected)
{
    char text[WEFT_SITE_TEXT];
    if (weft_site_get(site, peer, key, text, sizeof(text)) != WEFT_OK)
        fail_msg("%s: %s", key, weft_last_error());
    assert_string_equal(text, expected);
}

#endif
