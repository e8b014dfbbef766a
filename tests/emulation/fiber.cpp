#include "tests/emulation/fiber.h"

#if defined(__x86_64__)
__asm__(".text\n.globl weft_fiber_switch\n.type weft_fiber_switch,@function\nweft_fiber_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp,(%rdi)\nmovq (%rsi),%rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size weft_fiber_switch,.-weft_fiber_switch\n");

void weft_fiber_make(weft_fiber *made, char *stack, size_t bytes, void (*entry)())
{
    void **at = reinterpret_cast<void **>(stack + bytes);
    *--at = nullptr; /* where entry would return to */
    *--at = reinterpret_cast<void *>(entry);
    for (int i = 0; i < 6; i++)
        *--at = nullptr;
    made->stack = at;
}
#else
void weft_fiber_switch(weft_fiber *from, const weft_fiber *to)
{
    swapcontext(from, to);
}

void weft_fiber_make(weft_fiber *made, char *stack, size_t bytes, void (*entry)())
{
    getcontext(made);
    made->uc_stack.ss_sp = stack;
    made->uc_stack.ss_size = bytes;
    made->uc_link = nullptr;
    makecontext(made, entry, 0);
}
#endif
