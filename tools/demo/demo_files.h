/* demo_files.h - the demo's directory: its site file, and the comparison of saved models. */
#ifndef WEFT_TOOLS_DEMO_FILES_H
#define WEFT_TOOLS_DEMO_FILES_H

#include <stdbool.h>

#include "tools/demo/demo.h"

/* Makes the directory and fills the plan. `plan->args` is set. Errors: WEFT_E_FILE, WEFT_E_ARGUMENT. */
weft_status weft_demo_files_open(weft_demo_plan *plan);
/* Removes the directory with its files, unless it is to be kept. */
void weft_demo_files_close(const weft_demo_plan *plan);

/* Name of a rollout, from 0: near, mid, far, near2, mid2, far2, ... */
void weft_demo_peer_name(size_t index, char *text, size_t capacity);

/* Writes the site: the trainer's address, and a peer a rollout, links of unequal rate as in conf/demo.ini. */
weft_status weft_demo_site_write(const weft_demo_plan *plan, const char *listen);

/* Whether both files can be read and hold the same bytes. */
bool weft_demo_files_equal(const char *a, const char *b);

/* A port of loopback that nobody has now; 0: there is none. */
uint16_t weft_demo_port_free(void);
/* Appends the lines of a file to another. */
void weft_demo_file_append(const char *path, FILE *to);

/* The last line of a file as JSON, or NULL. */
json_t *weft_demo_last_object(const char *path);

#endif
