/* control_layout.c - a LAYOUT that comes in: the only message that is longer than a connection's buffer. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "wire/control.h"

bool weft_control_has_layout(const weft_control *control)
{
    return control->layout ||
           (control->in_used >= WEFT_MESSAGE_PREFIX && weft_bytes_get(control->in + 4, 4) == WEFT_MESSAGE_LAYOUT);
}

/* Moves what the buffer has of it, because bytes come there too. */
static void drain(weft_control *control)
{
    const uint64_t left = control->layout_bytes - control->layout_got;
    const uint64_t here = control->in_used < left ? control->in_used : left;
    memcpy(control->layout + control->layout_got, control->in, here);
    control->layout_got += here;
    control->in_used -= here;
    memmove(control->in, control->in + here, control->in_used);
}

static weft_status begin(weft_control *control, uint64_t most)
{
    const uint64_t length = weft_bytes_get(control->in, 4);
    if (length > most)
        return weft_fail_quiet(WEFT_E_BUDGET, "a layout of %llu bytes", (unsigned long long)length);
    control->layout = weft_mem_take(1, length + 1);
    if (!control->layout)
        return weft_fail(WEFT_E_MEMORY, "no memory for a layout of %llu bytes", (unsigned long long)length);
    control->in_used -= WEFT_MESSAGE_PREFIX;
    memmove(control->in, control->in + WEFT_MESSAGE_PREFIX, control->in_used);
    control->layout_bytes = length;
    control->layout_got = 0;
    return WEFT_OK;
}

weft_status weft_control_take_layout(weft_control *control, uint64_t most, const uint8_t **body, uint64_t *length)
{
    weft_status status = control->layout ? WEFT_OK : begin(control, most);
    if (status == WEFT_OK)
        drain(control);
    for (uint64_t moved = 1; status == WEFT_OK && moved > 0 && control->layout_got < control->layout_bytes;) {
        status = weft_control_receive(control, control->layout + control->layout_got,
                                      control->layout_bytes - control->layout_got, &moved);
        control->layout_got += moved;
        if (moved > 0)
            control->heard_ns = weft_clock_ns();
    }
    *body = control->layout;
    *length = control->layout_bytes;
    return status == WEFT_OK && control->layout_got < control->layout_bytes ? WEFT_AGAIN : status;
}
