/* resume.h - versions of a store, brought into the journal when weights of the store are bound.
 *
 * A trainer that comes back has lost its journal, and its peers hold versions of the run before. The store has what
 * leads from these to the bound weights. The journal is one row of updates, so the row goes back from the bound version
 * to the oldest, forward to the latest, and back to the bound version. Whoever holds one of them takes the merge of all
 * that is behind it, in which each step there and back comes to nothing. */
#ifndef WEFT_CORE_RESUME_H
#define WEFT_CORE_RESUME_H

#include "trainer/publish.h"

/* Fills the journal and the history from the recorder's store. The shadow has the bound weights before and after. An
 * error of the store, or a lack of room, is told, and leaves the journal empty. Not under the lock, before anybody
 * looks at journal or shadow. Errors: WEFT_E_DEVICE, because the shadow is lost. */
weft_status weft_resume(weft_publisher *publisher, const weft_version *bound, weft_blob *attachment);

#endif
