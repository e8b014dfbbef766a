/* host.h - the backend that runs on the CPU: the judge of the others and a backend of its own. */
#ifndef WEFT_BACKENDS_HOST_H
#define WEFT_BACKENDS_HOST_H

#include "port/port_backend.h"

#endif
