/* follow.h - the checkpoints that appear in a directory, each when it is complete, in natural order. */
#ifndef WEFT_TOOLS_FOLLOW_H
#define WEFT_TOOLS_FOLLOW_H

#include <stdbool.h>

#include "weft.h"

typedef struct weft_follow weft_follow;

/* Watches a directory. Checkpoints are its *.safetensors files, and folders of such with a number in their names. Those
 * that come after `model` in natural order (v9 before v10) count as appearing. If the model is in another directory, a
 * checkpoint counts if its name differs from the model's only by a higher number, or, with another name, if it is
 * newer; with `all` every one counts. A checkpoint of the model's own name and number is a copy of the model, and comes
 * when it is written to. A checkpoint before the model, or later on before the last published one, is past: nothing
 * reads it, and one warning says that it changed or is new. Errors: WEFT_E_FILE, WEFT_E_MEMORY. */
weft_status weft_follow_open(const char *directory, const char *model, bool all, weft_follow **follow);
void weft_follow_close(weft_follow *follow);

/* The next whole checkpoint: renamed into the directory; a folder with a file STABLE or .done; or of steady size and
 * time for two seconds, with every byte that the headers of its files announce. One that changes still holds back those
 * after it in order. One that stands still and is not whole is told of once, passed over, and looked at again when it
 * changes. The model and the last published checkpoint come again when their content changes; one that was not
 * published, at every change. Never blocks for longer than reading the directory and headers. A directory that cannot
 * be read for a reason that may pass (no descriptor, no memory, away, replaced, not let in) is said once and looked at
 * again. `path` lives until the next call. Errors: WEFT_AGAIN (none now), WEFT_E_FILE (another reason). */
weft_status weft_follow_next(weft_follow *follow, const char **path);

/* Returns true if the model found last failed for a reason that may pass: no descriptor, no memory, or for a minute an
 * error of input. The thread's last error has the reason, which is reported once. The model comes again. */
bool weft_follow_again(weft_follow *follow, weft_status status);

/* Notes that the model found last was published, and is the newest from now on. */
void weft_follow_published(weft_follow *follow);

#endif
