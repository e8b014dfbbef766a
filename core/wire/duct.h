/* duct.h - a duct is a connection beside a control connection, to the same port, by which buckets go. A provider moves
 * them by it as by any pipe.
 *
 * The end that joins dials, proves its name as on the control connection, and sends DUCT, which names a port of the
 * other end. Nothing waits: what the connection does not allow yet goes on with the pipe's next call. */
#ifndef WEFT_CORE_DUCT_H
#define WEFT_CORE_DUCT_H

#include "wire/control.h"

/* Dials the end of a control connection that this end dialed, and gives the pipe to `port`, which has that end's port
 * as `address`. Does nothing for a provider that needs no pipes. Errors: as weft_control_dial, WEFT_E_MEMORY. */
weft_status weft_duct_dial(const weft_control *control, const weft_provider *provider, weft_port *port,
                           const uint8_t *address, uint32_t bytes);
/* Takes over a connection whose last whole message is DUCT, and gives it to the port that DUCT names. `control` is
 * closed then, but for its buffers. Errors: WEFT_E_PROTOCOL (more came after DUCT, or the port has a connection),
 * WEFT_E_MEMORY. */
weft_status weft_duct_take(weft_control *control, const weft_provider *provider, weft_port *port);
/* True if a port of a piped provider has the address of a DUCT. */
bool weft_duct_leads(const weft_wire_duct *duct, const weft_provider *provider, const weft_port *port);

#endif
