#include "wire/refusal.h"

#include <stdio.h>

#include "base/status.h"

/* True if the guest is wrong, and not this end's site, devices or memory. */
static bool is_of_the_guest(weft_status why)
{
    const weft_scope scope = weft_status_scope(why);
    return why != WEFT_E_CONFIG && (scope == WEFT_SCOPE_CALL || scope == WEFT_SCOPE_PEER);
}

bool weft_refusal_withholds(weft_status why)
{
    return !weft_last_error_outside() && !is_of_the_guest(why) && !weft_fail_was_logged();
}

void weft_refusal_notice(weft_status why, const char *from, weft_wire_notice *notice)
{
    const char *outside = weft_last_error_outside();
    *notice = (weft_wire_notice){.status = why};
    if (outside || is_of_the_guest(why))
        snprintf(notice->text, sizeof notice->text, "%s%s", from, outside ? outside : weft_last_error());
    else
        snprintf(notice->text, sizeof notice->text, "%sthis end cannot take you now (%s): its log says why", from,
                 weft_status_name(why));
}
