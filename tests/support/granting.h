/* granting.h - a provider for tests that writes into memory of devices: the loop, whose writes land in a buffer and
 * come from there into the memory that was registered, at once or when that is flushed. */
#ifndef WEFT_TESTS_GRANTING_H
#define WEFT_TESTS_GRANTING_H

#include "port/port_provider.h"

typedef enum granting_how {
    GRANTING_ALL,
    GRANTING_NONE,  /* it was not granted */
    GRANTING_HOLLOW /* it was granted, and then no registration is taken */
} granting_how;

/* Lends it under the name "loop". `put` writes into the memory of a device; NULL: what landed is left where it is until
 * granting_flush. */
void granting_lend(granting_how how, void (*put)(void *to, const void *from, uint64_t bytes));
/* Moves what has landed and was polled, by `put`. */
void granting_flush(void (*put)(void *to, const void *from, uint64_t bytes));
/* Takes it back. */
void granting_take_back(void);
/* Writes that came into memory of a device so far, and registrations that are there. */
uint64_t granting_writes(void);
uint32_t granting_regions(void);

#endif
