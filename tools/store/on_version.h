/* on_version.h - the command that a rollout runs for each version, so that an engine loads the version anew. */
#ifndef WEFT_TOOLS_ON_VERSION_H
#define WEFT_TOOLS_ON_VERSION_H

#include "weft.h"

/* Runs a command of the shell with WEFT_PATH, WEFT_VERSION, WEFT_RUN and WEFT_DIGEST in its environment, standard input
 * from nowhere and standard output to standard error. Waits for the command's end, at most ten minutes; it is ended
 * then, and at a signal that ends the rollout. What fails is said. */
void weft_on_version(const char *command, const char *path, const weft_version *version);

#endif
