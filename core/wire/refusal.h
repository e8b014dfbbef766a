/* refusal.h - what a guest is told when it is refused: its own name and values, and never other peers, their addresses
 * or this host's files, since anybody may ask. The log at this end has the whole text. */
#ifndef WEFT_CORE_REFUSAL_H
#define WEFT_CORE_REFUSAL_H

#include "wire/wire.h"

/* Whether a refusal says less than the last error does, and no log has it yet: this end is to say it. */
bool weft_refusal_withholds(weft_status why);

/* The notice of a refusal with the thread's last error, which is `why`: its text for the other end; of this end's own
 * trouble, where nobody gave one, that there is some. `from` names this end where several may refuse: "relay a: ", "".
 */
void weft_refusal_notice(weft_status why, const char *from, weft_wire_notice *notice);

#endif
