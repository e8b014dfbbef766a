/* standin.h - providers that this host has no device for, played by the real tcp provider with the rules of the other
 * imposed: what fi_getinfo demands and grants, keys, addresses, order, queues, what a dead peer looks like.
 *
 * It stands between fabric*.c and libfabric (the linker turns fi_getinfo, fi_fabric and fi_version of fabric_call.c,
 * getrandom and getrlimit to it), so that all of fabric*.c is run as on a device. Whatever breaks a rule of the
 * provider's contract ends the process with the rule. Without a call of standin_use everything goes to libfabric
 * untouched. */
#ifndef WEFT_TESTS_STANDIN_H
#define WEFT_TESTS_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The report on a write to a peer that is gone. */
typedef enum standin_death {
    STANDIN_DEATH_LATE,  /* it fails, long after */
    STANDIN_DEATH_SILENT /* nothing, ever: its place in the queue stays taken */
} standin_death;

typedef struct standin_rules {
    const char *provider;   /* weft's name */
    const char *play;       /* what tests call it where the provider itself is here too; NULL: as the provider */
    const char *fabric;     /* libfabric's */
    const char *network;    /* the name of its fabric */
    const char *domain;     /* the device's name */
    bool own_keys;          /* weft chooses them, and local buffers need no descriptor */
    bool passes_through;    /* rxm that hands each call on */
    bool raw_address;       /* addresses are bytes of the provider's own, no sockaddr */
    bool message_caps;      /* grants nothing to who does not ask for messages too */
    bool scribbles;         /* FI_CONTEXT2: writes into the context while the operation is under way */
    bool has_fd;            /* completion queues have a descriptor */
    bool lands_after_close; /* of the writes under way when the sender's endpoint closes, some land yet */
    int option_error;       /* what every fi_setopt gives; 0: accepted */
    uint32_t version;       /* of libfabric, at least */
    uint32_t tx_size;       /* writes under way; more are refused */
    uint32_t rx_size;       /* receives; a completion queue holds what was asked for, and no more; 0: it grows */
    uint64_t message_bytes; /* the largest write */
    uint32_t window;        /* so many writes wait, and go out in any order; 0: in order */
    uint32_t again_every;   /* this many posts, and then none is taken for again_ms */
    uint32_t again_ms;
    uint32_t stall_every; /* this many posts, and then nothing goes out for stall_ms: the receiver was not ready */
    uint32_t stall_ms;
    standin_death death;
    uint32_t late_ms; /* of errors */
} standin_rules;

/* Returns the rules at `index`; NULL past the last. */
const standin_rules *standin_at(size_t index);
/* Plays the provider of that name from now on in this process, before it is opened, and no other one; for a name
 * without rules all go to libfabric untouched. */
void standin_use(const char *provider);
/* weft's name of what tests call "played-shm"; of all others the same. */
const char *standin_provider(const char *play);
/* Sets the result of every registration from now on; 0: it is made. */
void standin_registers(int error);
/* The next `times` numbers of 8 bytes that this process draws by getrandom are `number`. */
void standin_draw(uint64_t number, unsigned times);
/* Sets how many bytes this process may lock. Without a call any number is allowed, because a played provider locks
 * nothing, whatever the host allows. */
void standin_lock_limit(uint64_t bytes);
/* Counts of the rules' effects so far: posts refused, writes that overtook another one, completions withheld, receivers
 * that were not ready. */
typedef struct standin_counts {
    uint64_t refused, overtaken, withheld, stalled;
} standin_counts;
standin_counts standin_counted(void);

#endif
