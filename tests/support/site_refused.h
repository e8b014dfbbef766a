/* site_refused.h - site files that do not load, and the errors about them; their folder lasts as long as a group of
 * tests. */
#ifndef WEFT_TESTS_SITE_REFUSED_H
#define WEFT_TESTS_SITE_REFUSED_H

#include "tests/support/site_group.h"

typedef struct bad_site {
    const char *text;
    uint32_t line;    /* 0: an override is at fault */
    const char *says; /* what follows "FILE:LINE: ", or the whole */
} bad_site;

static inline void assert_refused(const bad_site *bad, const char *override)
{
    char expected[600];
    weft_site *site = (weft_site *)&scratch;
    site_scratch_write(&scratch, bad->text, strlen(bad->text));
    weft_status status = weft_site_load(scratch.path, &override, override ? 1 : 0, &site);
    if (status != WEFT_E_CONFIG)
        fail_msg("status %d for: %s %s", status, bad->text, override ? override : "");
    assert_ptr_equal(site, &scratch); /* out-parameters are written only on WEFT_OK */
    if (bad->line)
        snprintf(expected, sizeof(expected), "%s:%u: %s", scratch.path, bad->line, bad->says);
    else
        snprintf(expected, sizeof(expected), "%s", bad->says);
    if (strncmp(weft_last_error(), expected, strlen(expected)))
        fail_msg("\n got  '%s'\n want '%s'", weft_last_error(), expected);
}

#endif
