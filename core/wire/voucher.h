/* voucher.h - who may say HELLO for a name: the end that proved it, or a relay that the site puts before it. */
#ifndef WEFT_CORE_VOUCHER_H
#define WEFT_CORE_VOUCHER_H

#include "wire/control.h"

/* Checks a HELLO against what the other end of its connection has proved. Passes any where no proof is asked for.
 * Errors: WEFT_E_REFUSED. */
weft_status weft_voucher_check(const weft_site *site, const weft_control *control, const weft_wire_hello *hello);

#endif
