/* refusal.h - a refusal is the answer to a guest that is turned away. It has the guest's own name and values, and never
 * other peers, their addresses or this host's files, because anybody may ask. The log of this end has the whole text.
 */
#ifndef WEFT_CORE_REFUSAL_H
#define WEFT_CORE_REFUSAL_H

#include "wire/wire.h"

/* True if a refusal says less than the last error, and that error is not logged yet, so that this end must log it. */
bool weft_refusal_withholds(weft_status why);

/* Writes the notice of a refusal, from the thread's last error, which is `why`. The text is the one for another host.
 * If the trouble is this end's own and has no such text, the notice says only that there is trouble. `from` names this
 * end where several may refuse: "relay a: ", or "". */
void weft_refusal_notice(weft_status why, const char *from, weft_wire_notice *notice);

#endif
