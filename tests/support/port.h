/* port.h - ports of this machine that others must know beforehand, or that somebody leaves and comes back to. */
#ifndef WEFT_TESTS_PORT_H
#define WEFT_TESTS_PORT_H

/* A port of 127.0.0.1 that is free now, another at each call; processes begin at different ones. 0: none. */
unsigned port_free(void);

#endif
