#include "session/await.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"

#define RETRY_NS (100 * WEFT_NS_PER_MS)

weft_await weft_await_begin(const weft_site *site)
{
    const uint64_t patience_ms = site->session.connect_deadline_ms;
    return (weft_await){patience_ms, weft_clock_ns() + patience_ms * WEFT_NS_PER_MS, ""};
}

static void tell(weft_await *await, uint64_t left_ns)
{
    char why[sizeof await->told];
    snprintf(why, sizeof why, "%s", weft_last_error());
    if (strcmp(why, await->told) == 0)
        return;
    weft_log(WEFT_LOG_WARN, "waiting at most %.1f s more (connect_deadline): %s", (double)left_ns / 1e9, why);
    memcpy(await->told, why, sizeof why);
}

bool weft_await_more(weft_await *await, weft_status status)
{
    const uint64_t now_ns = weft_clock_ns();
    if (status != WEFT_AGAIN || now_ns >= await->deadline_ns)
        return false;
    const uint64_t left_ns = await->deadline_ns - now_ns;
    tell(await, left_ns);
    weft_clock_pass(left_ns < RETRY_NS ? left_ns : RETRY_NS);
    return true;
}

weft_status weft_await_end(const weft_await *await, weft_status status)
{
    if (status != WEFT_AGAIN)
        return status;
    return weft_fail_quiet(WEFT_E_UNREACHABLE, "not there within %llu ms (connect_deadline): %s",
                           (unsigned long long)await->patience_ms, weft_last_error());
}
