/* review.h - one profile held against this host: what libfabric answers, a verdict on each answer, what is missing. The
 * same for opening a link and for showing people why it opens or not. */
#ifndef WEFT_PROVIDERS_REVIEW_H
#define WEFT_PROVIDERS_REVIEW_H

#include "providers/interface.h"
#include "providers/select.h"

typedef struct weft_review {
    weft_host_survey survey; /* points into what follows */
    weft_candidate *candidates;
    weft_verdict *verdicts;
    weft_selection selection;
    size_t left_out; /* answers beyond those kept */
    char address[256];
    char numeric[WEFT_INTERFACE_TEXT];
    char here[256];
    char error[256];
    char hindered[192];
} weft_review;

/* Asks libfabric and judges. `address` as in weft_link_options, "" for any; `pin_bytes` 0 where not known yet.
 * That something is missing is no error here but in the selection. The review must be given back with
 * weft_review_close, also after an error.
 * Errors: WEFT_AGAIN and WEFT_E_CONFIG (the address is none of this host's now, or ever; said quietly), WEFT_E_MEMORY,
 * WEFT_E_SYSTEM. */
weft_status weft_review_open(weft_review *review, const weft_profile *profile, const char *address, uint64_t pin_bytes);
void weft_review_close(weft_review *review);

/* Asks libfabric for all candidates of a profile: fills up to `capacity` of them, and returns their number. `known`
 * says whether the library lists the provider at all. `error` gets the word of fi_getinfo if there is no answer
 * (fabric_survey.c, fabric_none.c). */
size_t weft_fabric_candidates(const weft_profile *profile, weft_candidate *list, size_t capacity, bool *known,
                              char *error, size_t error_capacity);
/* Version of the library that is loaded; 0: there is none (fabric_call.c, fabric_none.c). */
uint32_t weft_fabric_version(void);
/* Reason why there is no library, and what to install; "" if there is one. */
const char *weft_fabric_absence(void);
/* Version of the header that this was compiled with. */
uint32_t weft_fabric_header(void);

#endif
