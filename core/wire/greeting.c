#include "wire/greeting.h"

#include <sys/random.h>

#include "base/status.h"

weft_status weft_greeting_ask(weft_control *control)
{
    uint8_t body[16];
    weft_out out = {body, sizeof body, 0, false};
    const weft_wire_knock knock = {WEFT_PROTOCOL_LOWEST, WEFT_PROTOCOL};
    weft_wire_put_knock(&out, &knock);
    return weft_control_send(control, WEFT_MESSAGE_HELLO, out.data, out.used);
}

weft_status weft_greeting_take(weft_control *control, const uint8_t *body, uint64_t length)
{
    weft_wire_greeting greeting;
    weft_status status = weft_wire_get_greeting(body, length, &greeting);
    if (status == WEFT_OK)
        control->nonce = greeting.nonce;
    return status;
}

weft_status weft_greeting_give(weft_control *control, const uint8_t *body, uint64_t length)
{
    uint8_t answer[32];
    weft_out out = {answer, sizeof answer, 0, false};
    weft_wire_knock knock;
    weft_wire_greeting greeting = {WEFT_PROTOCOL_LOWEST, WEFT_PROTOCOL, 0};
    weft_status status = weft_wire_get_knock(body, length, &knock);
    if (status == WEFT_OK && knock.highest < WEFT_PROTOCOL_LOWEST)
        greeting.lowest = WEFT_PROTOCOL_HEARD; /* its HELLO has a name, by which it is refused */
    if (status == WEFT_OK && control->nonce)
        status = weft_fail(WEFT_E_PROTOCOL, "%s asks for a second greeting", control->peer);
    if (status != WEFT_OK)
        return status;
    if (getrandom(&greeting.nonce, sizeof greeting.nonce, GRND_NONBLOCK) != sizeof greeting.nonce)
        return weft_fail(WEFT_E_SYSTEM, "no random number for a greeting");
    greeting.nonce += greeting.nonce == 0;
    control->nonce = greeting.nonce;
    weft_wire_put_greeting(&out, &greeting);
    return weft_control_send(control, WEFT_MESSAGE_GREETING, out.data, out.used);
}

weft_status weft_greeting_check(const weft_control *control, const weft_wire_hello *hello)
{
    if (control->nonce && control->nonce == hello->nonce)
        return WEFT_OK;
    const char *what = control->nonce ? "answers the greeting of another connection" : "came before it was greeted";
    weft_fail(WEFT_E_PROTOCOL, "HELLO of %s from %s %s", hello->name, control->peer, what);
    weft_fail_outside("HELLO of %s %s", hello->name, what); /* the address may be a relay's */
    return WEFT_E_PROTOCOL;
}
