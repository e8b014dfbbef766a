/* near.h - which NIC lies nearest to an accelerator: "near1" for the nearest of a provider, "near2" for the next,
 * stands for an address wherever one may be named. */
#ifndef WEFT_PROVIDERS_NEAR_H
#define WEFT_PROVIDERS_NEAR_H

#include "providers/place.h"
#include "providers/select.h"

/* 1 for "near1", up to 9; 0: the address is another one. */
unsigned weft_near_rank(const char *address);

/* The NICs among the candidates that would serve, nearest first: by distance, then by speed, then as they are listed.
 * One whose place is unknown comes after those whose is; loopback only where nothing else is. Of several answers for
 * one NIC the first IPv4 one stands for it, else the first. Fills up to `capacity` indices and returns how many there
 * are. */
size_t weft_near_order(const weft_host_survey *survey, const weft_verdict *verdicts, const weft_distance *distances,
                       size_t *order, size_t capacity);

/* PCI address of an accelerator, counted from 1 in the order of these addresses, of those that the environment leaves
 * visible; "": there is none, or the environment names it by something else than a number. */
void weft_near_accelerator(uint32_t accelerator, char bus[WEFT_PLACE_BUS]);

/* The address that is meant: of "nearN" the interface's IP or the device's name, any other is copied. Without an
 * accelerator (0) NICs are taken as they are listed. Where devices are named, an address that names none takes the
 * nearest to an accelerator. Where none serves the
 * address is empty, and a review of that tells why. Errors: WEFT_E_CONFIG (there are fewer NICs), WEFT_E_MEMORY,
 * WEFT_E_SYSTEM. */
weft_status weft_near_resolve(const weft_profile *profile, const char *asked, uint32_t accelerator, char *address,
                              size_t capacity);

#endif
