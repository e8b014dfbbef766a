/* s3.h - one prefix of an object server, and requests to it, signed by libcurl.
 *
 * A request that the server could not serve is made again, with pauses that grow. Any thread, several at once. */
#ifndef WEFT_CORE_STORE_S3_H
#define WEFT_CORE_STORE_S3_H

#include <stdatomic.h>

#include "store/store.h"

typedef struct weft_s3 weft_s3;

#define WEFT_S3_LIST_MOST (UINT64_C(16) << 20) /* bytes of a page of a listing, which has a thousand names */
#define WEFT_S3_ABREAST   32u /* requests at once, each by a connection of its own, that a store makes */

/* One request. */
typedef struct weft_s3_request {
    const char *method; /* GET, PUT, POST, DELETE */
    const char *name;   /* of the object, within the prefix; NULL: of the bucket */
    const char *query;  /* in the order of its names, with an = after each; NULL: none */
    const void *body;
    uint64_t body_bytes;
    const char *range; /* of bytes, as HTTP has it; NULL: all */
    bool fresh;        /* only if there is no such object */
    uint64_t most;     /* bytes that are to come at most, beside the text of an error */
    const char *root;  /* element of XML that an answer of 200 is; NULL: it may be anything */
    uint32_t work_s;   /* seconds that the server may need by itself, while it sends blanks; 0: nearly none */
} weft_s3_request;

/* The answer to a request. The caller gives the body back with weft_mem_give. */
typedef struct weft_s3_answer {
    long code; /* of HTTP */
    uint8_t *body;
    uint64_t bytes, capacity;
    uint64_t total; /* bytes of the object, of which the body may be a range */
    char etag[80];  /* with its quotes */
    const weft_s3_request *asked;
    const atomic_bool *ended;     /* ends the request */
    const atomic_uint *asked_now; /* requests that share the line with this one, itself too */
    uint32_t abreast;             /* the most of them so far */
    uint64_t most;                /* bytes that the body may have */
    uint64_t begun_ns;            /* when the request was made last */
    bool over, late;              /* it was broken off, because more came, or less than a second's share */
} weft_s3_answer;

/* Opens s3://BUCKET/PREFIX or gs://BUCKET/PREFIX, with the credentials, region and endpoint that the environment and
 * the shared files of AWS's tools say (docs/STORE.md). Credentials that end are renewed. Errors: WEFT_E_ARGUMENT (no
 * bucket), WEFT_E_CONFIG (no credentials), WEFT_E_FILE (who was to give them does not), WEFT_E_MISSING (libcurl),
 * WEFT_E_MEMORY. */
weft_status weft_s3_open(const char *url, weft_s3 **s3);
void weft_s3_close(weft_s3 *s3);
/* Ends the request that is under way, and all later ones. Any thread. */
void weft_s3_end(weft_s3 *s3);
/* The URL that it was opened with, and the prefix with a slash at its end, or "". */
const char *weft_s3_url(const weft_s3 *s3);
const char *weft_s3_prefix(const weft_s3 *s3);

/* Asks, and asks again where that helps. Codes 404, 409, 412 and 501 are answers like 200; any other is an error. The
 * answer has at most as many bytes as are asked for, and takes a time that grows with these.
 * Errors: WEFT_E_FILE, with what the server says; WEFT_E_TIMEOUT (it does not serve: no other request would fare
 * better); WEFT_E_MEMORY. */
weft_status weft_s3_ask(weft_s3 *s3, const weft_s3_request *request, weft_s3_answer *answer);

/* ---- s3_answer.c: what comes back */

/* Readies an answer for a request that is made now. The body before stays as memory. */
void weft_s3_answer_begin(weft_s3_answer *answer, const weft_s3_request *request);
/* Appends what libcurl got to a weft_s3_answer, without a bound, and up to its own. */
size_t weft_s3_body_take(char *data, size_t one, size_t count, void *answer);
size_t weft_s3_body_take_bounded(char *data, size_t one, size_t count, void *answer);
/* Takes what the headers of an answer announce. */
size_t weft_s3_header_take(char *data, size_t one, size_t count, void *answer);
/* Tells whether so many bytes, up and down, are too few for the time since the request, on a line that others share. */
bool weft_s3_answer_is_late(weft_s3_answer *answer, uint64_t moved);
/* Tells whether an answer of 200 is the element of XML that it is to be, with its end; and whether it begins so. */
bool weft_s3_answer_is_whole(const weft_s3_answer *answer);
bool weft_s3_answer_is_cut(const weft_s3_answer *answer);
/* The beginning of a body, for a message. */
void weft_s3_answer_show(const weft_s3_answer *answer, char *text, size_t room);

/* ---- s3_text.c: what goes into URLs, and comes in XML */

/* Writes text for a URL: all but letters, digits and -_.~ as %XX, slashes too unless `path`. Returns the length, as
 * snprintf does. */
size_t weft_s3_encode(const char *text, bool path, char *out, size_t room);
/* Finds the next <NAME>...</NAME> from `*at` on, and moves `*at` behind it. Copies what is in it, without the five
 * escapes of XML. False: there is none, or no room. */
bool weft_s3_element(const char **at, const char *name, char *out, size_t room);
/* Finds "NAME": "..." in flat JSON, and copies what is in it. False: there is none, or no room. */
bool weft_s3_json(const char *text, const char *name, char *out, size_t room);
/* Reads 2026-11-26T12:00:00.000Z, as seconds since 1970; 0: it is none. */
uint64_t weft_s3_time(const char *text);

/* ---- s3_reader.c */

/* Opens an object as an update file, which is read by ranges. */
weft_status weft_s3_reader_open(weft_s3 *s3, const char *name, weft_update_file **update);

/* ---- s3_writer.c */

/* Writes an object by `fill`, in parts if it is large, whole or not at all. Errors: WEFT_E_STATE (there is one). */
weft_status weft_s3_write(weft_s3 *s3, const char *name, weft_status (*fill)(void *user, const weft_sink *sink),
                          void *user);
/* Gives up parts of objects that were begun before `time_s` and never finished, where no part came since. */
weft_status weft_s3_tidy(weft_s3 *s3, uint64_t time_s);

#endif
