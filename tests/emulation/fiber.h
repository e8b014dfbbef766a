/* fiber.h - one fiber of a thread: what a function must preserve, and no call of the system. */
#ifndef WEFT_TESTS_EMULATION_FIBER_H
#define WEFT_TESTS_EMULATION_FIBER_H

#include <cstddef>

#if defined(__x86_64__)
struct weft_fiber {
    void *stack;
};
#else
#include <ucontext.h>
typedef ucontext_t weft_fiber;
#endif

/* Lays a fiber out on a stack of so many bytes; `entry` must not return. */
void weft_fiber_make(weft_fiber *made, char *stack, size_t bytes, void (*entry)());

/* Leaves the fiber `from` and goes on with `to`, until a switch back. */
extern "C" void weft_fiber_switch(weft_fiber *from, const weft_fiber *to);

#endif
