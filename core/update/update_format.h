/* update_format.h - the places of an update file's sections (docs/WIRE_FORMAT.md, Update files).
 *
 *   head     header 128, parameter words, zeros to a multiple of 4
 *   frames   as on the fabric
 *   shape    the grid, or the layout in short form
 *   cells    where the layout is of cells: they, and the shape is then the model's (update_cells.h)
 *   attachment, checks of the frames, tail, trailer
 *
 * No section before the frames depends on them, so that a file is written in one go. */
#ifndef WEFT_CORE_UPDATE_FORMAT_H
#define WEFT_CORE_UPDATE_FORMAT_H

#include "base/turn.h"
#include "codec/classes.h"
#include "update/update_cells.h"
#include "wire/wire.h"

#define WEFT_TAIL_BYTES 24u
#define WEFT_HEAD_MAX   (WEFT_UPDATE_HEADER_BYTES + 2 * (WEFT_PARAMETER_WORDS_MAX + 1))
#define WEFT_SHAPE_MAX  (64u << 20) /* bytes of a grid or of a layout in short form */

typedef struct weft_update_tail {
    uint64_t base_root;
    uint32_t shape_bytes;
    bool whole;            /* the shape is a layout, else the grid */
    bool divided;          /* the layout is of cells, and the shape is the layout of their model */
    uint32_t packed_bytes; /* bytes of the attachment in the file; 0: none */
    uint64_t check;
} weft_update_tail;

void weft_update_tail_put(uint8_t out[WEFT_TAIL_BYTES], const weft_update_tail *tail);
void weft_update_tail_get(const uint8_t in[WEFT_TAIL_BYTES], weft_update_tail *tail);

/* An open update file: everything but its frames. */
typedef struct weft_update_file {
    weft_alone alone_in;
    weft_source source;
    char *path;              /* path of the file; NULL: opened by a source */
    int descriptor;          /* descriptor of a file opened by path; else -1 */
    weft_wire_update header; /* header, with the roots filled in */
    weft_wire_trailer trailer;
    weft_update_tail tail;
    void (*release)(void *user); /* called with the source's user when the file is closed; NULL: no call */
    uint64_t frames_at;          /* offset in the file */
    uint8_t *end;                /* bytes of the file after the frames */
    uint64_t end_bytes;
    const uint8_t *shape, *cells, *packed, *checks; /* sections in `end` */
    uint64_t cells_bytes;                           /* 0: there are none */
    weft_layout *layout;                            /* layout of the frames, made at the first call that needs it */
    weft_update_cells division; /* cells of that layout, made with it; no model: the layout is not of cells */
} weft_update_file;

/* Returns a name for messages. */
static inline const char *weft_update_name(const weft_update_file *file)
{
    return file->path ? file->path : "update file";
}

/* All bytes of a file that are no frames. */
typedef struct weft_update_sections {
    const uint8_t *head, *shape, *cells, *packed, *checks; /* checks: 8 bytes for each frame, as in the file */
    uint64_t head_bytes, shape_bytes, cells_bytes, packed_bytes, checks_bytes;
    const uint8_t *tail;    /* tail, without the check itself */
    const uint8_t *trailer; /* 128 bytes */
} weft_update_sections;

/* Computes the tail's check: xxh3-64 over the xxh3-64 of each section, each as a u64, in the order of the file. Cells
 * count only where there are any. */
uint64_t weft_update_check(const weft_update_sections *sections);

/* Returns the layout of an open file, and its cells; NULL where the layout is not of cells. Errors: those of
 * weft_update_layout. */
weft_status weft_update_division(weft_update_file *update, const weft_update_cells **cells);

/* ---- numbers of a file's shape: seven bits a byte, lowest first, the top bit set in all but the last */

static inline void weft_number_put(weft_out *out, uint64_t value)
{
    for (; value >> 7; value >>= 7)
        weft_out_word(out, (value & 0x7f) | 0x80, 1);
    weft_out_word(out, value, 1);
}

static inline uint64_t weft_number_get(weft_in *in)
{
    uint64_t value = 0;
    for (uint32_t shift = 0;; shift += 7) {
        uint64_t byte = weft_in_word(in, 1);
        in->bad = in->bad || (shift == 63 && byte > 1) ||
                  (shift > 0 && byte == 0); /* a number beyond 64 bits, or a useless zero byte */
        if (in->bad)
            return 0;
        value |= (byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

#endif
