/* port.h - ports of this machine that must be known beforehand, or to which a process comes back. */
#ifndef WEFT_TESTS_PORT_H
#define WEFT_TESTS_PORT_H

/* A port of 127.0.0.1 that is free now, another at each call; processes begin at different ones. 0: none. */
unsigned port_free(void);

/* The first of so many ports in a row that are free now. 0: none. */
unsigned port_free_row(unsigned count);

#endif
