/* wire_relay.c - the words that relays add to messages: the route of a HELLO, and the routes that follow an update. */
#include "base/status.h"
#include "wire/wire_body.h"

void weft_out_route(weft_out *out, const weft_wire_hello *hello)
{
    weft_out_word(out, hello->hops, 1);
    if (hello->hops == 0)
        return;
    weft_out_text(out, hello->relay);
    weft_out_word(out, hello->relay_incarnation, 8);
    weft_out_word(out, hello->route, 4);
}

void weft_in_route(weft_in *in, weft_wire_hello *hello)
{
    hello->hops = (uint32_t)weft_in_word(in, 1);
    in->bad = in->bad || hello->hops > WEFT_SITE_HOPS;
    if (hello->hops == 0)
        return;
    weft_in_text(in, hello->relay, sizeof hello->relay);
    hello->relay_incarnation = weft_in_word(in, 8);
    hello->route = (uint32_t)weft_in_word(in, 4);
}

void weft_wire_put_follow(weft_out *out, const weft_wire_follow *follow)
{
    weft_out_version(out, &follow->target);
    weft_out_word(out, follow->count, 2);
    for (uint32_t i = 0; i < follow->count; i++)
        weft_out_word(out, follow->routes[i], 4);
}

weft_status weft_wire_get_follow(const uint8_t *body, uint64_t length, weft_wire_follow *follow)
{
    weft_in in = {body, length, 0, false};
    memset(follow, 0, sizeof *follow);
    follow->target = weft_in_version(&in);
    follow->count = (uint32_t)weft_in_word(&in, 2);
    in.bad = in.bad || follow->count == 0 || follow->count > WEFT_FOLLOW_MAX;
    for (uint32_t i = 0; i < follow->count && !in.bad; i++)
        follow->routes[i] = (uint32_t)weft_in_word(&in, 4);
    weft_status status = weft_wire_done(&in, "FOLLOW");
    if (status == WEFT_OK && follow->target.root)
        return weft_fail(WEFT_E_PROTOCOL, "FOLLOW of version %llu names root %016llx: only the trailer may name it",
                         (unsigned long long)follow->target.number, (unsigned long long)follow->target.root);
    return status;
}
