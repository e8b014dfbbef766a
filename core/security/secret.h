/* secret.h - a key that both ends have in a file, and the one page of memory that holds it while it is used.
 *
 * The file is one line of text: "weft-key-1 ID KEY". ID has 16 hexadecimal digits and is no secret: it tells the keys
 * of a name apart while they change. KEY has 64 to 256 hexadecimal digits. */
#ifndef WEFT_CORE_SECRET_H
#define WEFT_CORE_SECRET_H

#include <stdint.h>

#include "weft.h"

#define WEFT_SECRET_LEAST 32u /* bytes of a key */
#define WEFT_SECRET_MOST  128u
#define WEFT_SECRET_ID    17u    /* an ID and its terminator */
#define WEFT_SECRET_FILE  16384u /* bytes of a file of secrets at most: a private key in PEM is longer than a key */

/* Lies in pages of its own, which core dumps leave out. */
typedef struct weft_secret {
    uint8_t key[WEFT_SECRET_MOST];
    uint32_t bytes; /* bytes of the key; 0: none is read */
    char id[WEFT_SECRET_ID];
    char text[WEFT_SECRET_FILE]; /* the file as it was read */
    uint64_t text_bytes;
} weft_secret;

/* Takes the page. NULL: no memory. */
weft_secret *weft_secret_open(void);
/* Wipes the page and gives it back; NULL is allowed. */
void weft_secret_close(weft_secret *secret);
/* Wipes all that was read. */
void weft_secret_wipe(weft_secret *secret);

/* Reads a file that nobody else may read into `text`. Errors, all quiet: WEFT_E_CONFIG (it is absent, others may read
 * it, or it is no file or too long). */
weft_status weft_secret_file(weft_secret *secret, const char *path);
/* Reads a key. Errors, all quiet: as weft_secret_file, and WEFT_E_CONFIG (the file holds no key, or a short one). */
weft_status weft_secret_read(weft_secret *secret, const char *path);

/* Makes a key of 32 random bytes in a new file of mode 0600, and returns its ID. Errors: WEFT_E_FILE (the file exists
 * or cannot be made), WEFT_E_SYSTEM (no random numbers), WEFT_E_MEMORY. */
weft_status weft_secret_make(const char *path, char id[WEFT_SECRET_ID]);

#endif
