/* demo_verb.h - verbs of this command as processes of the demo: started, watched, and told of where they failed. */
#ifndef WEFT_TOOLS_DEMO_VERB_H
#define WEFT_TOOLS_DEMO_VERB_H

#include "harness/process.h"
#include "tools/demo/demo.h"
#include "tools/output.h"

/* A command line: words that stay, and words of its own. */
typedef struct weft_demo_line {
    const char *words[24];
    char own[6][PATH_MAX];
    size_t count, made;
    const char *kernels; /* WEFT_KERNELS of the process; NULL: as here */
} weft_demo_line;

/* Adds a word that stays; then an option (NULL: none) with a value that is written. */
void weft_demo_word(weft_demo_line *line, const char *text);
void weft_demo_words(weft_demo_line *line, const char *option, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Starts `weft LINE`, with the demo's --set but for the trainer's address, because the site has the port that it got.
 */
weft_status weft_demo_verb_start(const weft_demo_plan *plan, fleet_process *process, const char *name,
                                 const weft_demo_line *line);
/* Takes note of processes that ended. Errors: WEFT_E_PEER_LOST (one failed), WEFT_E_STATE (a signal), WEFT_E_TIMEOUT.
 */
weft_status weft_demo_look(const weft_demo_plan *plan, fleet_process *processes, size_t count, size_t *running);
/* Reports an error, and the last lines of the processes that failed or still run. Returns the exit code: a process's
 * own verdict on its input or on the bits is the demo's. */
int weft_demo_failed(const weft_demo_plan *plan, const fleet_process *processes, size_t count, weft_tool_phase phase,
                     weft_status status);
/* The last lines of its standard error. */
void weft_demo_tail(const fleet_process *process);
/* Ends all processes, with a grace of two seconds. */
void weft_demo_end(fleet_process *processes, size_t count);

#endif
