#include "wire/voucher.h"

#include "base/status.h"

/* Whether the other end has proved the name of a relay that stands before the peer. The nearest one is named in HELLO;
 * over more than one hop, the one that dialed here stands before that one. */
static bool is_vouched(const weft_site *site, const weft_control *control, const weft_wire_hello *hello)
{
    weft_site_peer row;
    bool pattern;
    if (!weft_site_vouches(site, hello->relay, hello->name, 1))
        return false;
    if (hello->hops == 1)
        return weft_control_proves(control, hello->relay);
    for (size_t i = 0; weft_site_row(site, i, &row, &pattern); i++)
        if (!pattern && row.relay[0] && weft_control_proves(control, row.name) &&
            weft_site_vouches(site, row.name, hello->relay, hello->hops - 1u))
            return true;
    return false;
}

weft_status weft_voucher_check(const weft_site *site, const weft_control *control, const weft_wire_hello *hello)
{
    if (!control->guard)
        return WEFT_OK;
    if (hello->hops == 0 ? weft_control_proves(control, hello->name) : is_vouched(site, control, hello))
        return WEFT_OK;
    weft_fail(WEFT_E_REFUSED, "%s says HELLO for %s, and its key or certificate is not %s%s", control->peer,
              hello->name, hello->hops ? "that of a relay which the site puts before " : "",
              hello->hops ? hello->name : "its own");
    weft_fail_outside("HELLO for %s needs the proof of that name, or of a relay in its `via`", hello->name);
    return WEFT_E_REFUSED;
}
