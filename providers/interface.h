/* interface.h - what a site file calls an address, as a numeric IP of this host. No libfabric: some of its providers
 * silently accept an address or interface that is not there, so weft asks the kernel first. */
#ifndef WEFT_PROVIDERS_INTERFACE_H
#define WEFT_PROVIDERS_INTERFACE_H

#include <stdbool.h>
#include <sys/socket.h>

#include "weft.h"

#define WEFT_INTERFACE_TEXT 64 /* a numeric IP and its terminator */

/* Resolves an interface name ("eth0": its first IPv4 address, else its first global IPv6 one) or a numeric IP to the
 * numeric IP, and proves that a socket can be bound to it. Host names are not looked up: a resolver may block.
 * Errors, with what this host has: WEFT_AGAIN (an interface of that name, its being up, its IP or that IP is missing,
 * which may come), WEFT_E_CONFIG (it is nothing that could come), WEFT_E_SYSTEM. `provider` is for the text. */
weft_status weft_interface_resolve(const char *provider, const char *address, char numeric[WEFT_INTERFACE_TEXT]);

/* Whether `address` still resolves to `numeric`, and the interface that has it is up and has a carrier.
 * Errors, which are not logged: WEFT_E_CONFIG, WEFT_E_SYSTEM. */
weft_status weft_interface_here(const char *provider, const char *address, const char *numeric);

/* Writes what keeps the interface that has this IP from being used, that it is down or has no carrier; "" if nothing
 * does. */
void weft_interface_hindered(const char *numeric, char *text, size_t capacity);

/* Whether `address` is a numeric IP, of this host or not. */
bool weft_interface_is_ip(const char *address);

/* The numeric text of an AF_INET or AF_INET6 address; false for others, and for those that no peer could reach without
 * naming an interface (IPv6 link-local). */
bool weft_interface_text(const struct sockaddr *address, char numeric[WEFT_INTERFACE_TEXT]);

#endif
