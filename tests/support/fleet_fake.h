/* fleet_fake.h - one end of a control connection in a test's own hands: it sends what the test says and no more. */
#ifndef WEFT_TESTS_FLEET_FAKE_H
#define WEFT_TESTS_FLEET_FAKE_H

#include "security/seal.h"
#include "tests/support/fleet.h"
#include "wire/wire.h"

typedef struct fleet_fake {
    int fd;
    weft_link *link;
    weft_port *port;
    weft_region *region;
    uint8_t *memory; /* of its slots */
    weft_site *site; /* of `guard` */
    weft_guard *guard;
    weft_seal *seal; /* NULL: it speaks without tls */
} fleet_fake;

/* Connects to the fleet's trainer. */
void fake_open(fleet_fake *fake, const fleet *f);
/* The same from 127.0.0.`host`, to an address that ends in ":PORT" of this host. */
void fake_open_from(fleet_fake *fake, const char *listen, uint32_t host);
/* Proves on the open connection that it is `name`, by the site's key for it. Everything after goes by tls. */
void fake_prove(fleet_fake *fake, const fleet *f, const char *name);
/* Opens only what HELLO speaks of; fills a HELLO that the trainer accepts, for a rollout that holds `root`. */
void fake_hello(fleet_fake *fake, const fleet *f, const char *name, uint64_t root, weft_wire_hello *hello);
/* Knocks; the nonce of the greeting, 0: there is none. */
uint64_t fake_knock(fleet_fake *fake);
/* A whole message; its bytes. */
uint64_t fake_put_hello(uint8_t message[WEFT_MESSAGE_PREFIX + WEFT_MESSAGE_MAX], const weft_wire_hello *hello);
/* Knocks, and answers the greeting with this HELLO. */
void fake_send_hello(fleet_fake *fake, const weft_wire_hello *hello);
void fake_send(fleet_fake *fake, const void *bytes, size_t count);
/* Sends what the connection takes now; the bytes, -1: it is closed. */
int64_t fake_send_some(fleet_fake *fake, const void *bytes, size_t count);
/* Reads the bytes that are here, at most `count`; -1: it is closed. */
int64_t fake_read_some(fleet_fake *fake, void *to, uint64_t count);
/* Reads the next message within FLEET_WAIT_MS; 0: the trainer closed the connection. `body` takes WEFT_MESSAGE_MAX. */
uint32_t fake_read(fleet_fake *fake, uint8_t *body, uint64_t *length);
/* Reads until a message of `type` comes; false: the trainer closed before. */
bool fake_read_until(fleet_fake *fake, uint32_t type, uint8_t *body, uint64_t *length);
/* ---- the trainer's end */
/* Listens where the fleet's trainer would; the descriptor. */
int fake_listen(const fleet *f);
/* A rollout's next connection. */
int fake_accept(int listener);
#define FAKE_NONCE UINT64_C(0x5ca1ab1e)
/* Sends GREETING. */
void fake_greet(fleet_fake *fake);
/* Takes a rollout's next connection, greets it, and takes its HELLO. */
void fake_take_hello(fleet_fake *fake, int listener, weft_wire_hello *hello);
/* Sends a WELCOME as a trainer of this layout would, of run 9, to rollout a, which takes it. */
void fake_welcome(fleet_fake *fake, fleet *f, const weft_wire_hello *hello, uint32_t heartbeat_ms);
void fake_say(fleet_fake *fake, weft_message type, const weft_out *body);
/* Closes the socket without a word. */
void fake_close(fleet_fake *fake);

/* One in a trainer's place, and the socket that it listens on, for tests of a kind whose `opened` and `close` these
 * are: rollout a dials it. */
extern fleet_fake fake_trainer;
extern int fake_listener;
void fake_takes_the_place(fleet *f);
void fake_leaves_the_place(fleet *f);

#endif
