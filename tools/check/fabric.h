/* fabric.h - what libfabric answers on this host, for people: each answer with the reason why it was taken or not. */
#ifndef WEFT_TOOLS_FABRIC_H
#define WEFT_TOOLS_FABRIC_H

#include <jansson.h>

#include "weft.h"

/* Returns the answer to one question on this host: {provider, address, missing, text, memory, candidates}. `device` is
 * the number of the accelerator whose distance counts, or -1. `pin_bytes` are the bytes that will be registered, 0 if
 * not known. A provider without a profile (the loop) gives null. */
json_t *weft_fabric_json(const char *provider, const char *address, int64_t device, uint64_t pin_bytes);

/* The providers that `provider = auto` tries, in its order; NULL past the last. */
const char *weft_fabric_auto(size_t index);

/* The same as lines; `indent` spaces before each. */
void weft_fabric_print(const json_t *fabric, int indent);

/* The lines of a provider's profile: {provider, lines: [{line, value, reason, source}]}; NULL: it has none. */
json_t *weft_fabric_profile_json(const char *provider);
void weft_fabric_profile_print(const json_t *profile);

#endif
