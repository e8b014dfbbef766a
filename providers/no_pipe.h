/* no_pipe.h - the slot of providers whose ports connect themselves. */
#ifndef WEFT_PROVIDERS_NO_PIPE_H
#define WEFT_PROVIDERS_NO_PIPE_H

#include "base/status.h"
#include "port/port_provider.h"

static inline weft_status weft_no_pipe(weft_port *port, weft_pipe *pipe)
{
    (void)port;
    (void)pipe;
    return weft_fail(WEFT_E_ARGUMENT, "a port of this provider connects itself, and takes no pipe");
}

#endif
