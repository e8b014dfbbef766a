#include "base/log_limit.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define EVERY_NS (1000 * WEFT_NS_PER_MS)

/* Uses up one line if a line may pass now. */
static bool take(weft_log_limit *limit, uint64_t now_ns)
{
    const uint64_t back = (now_ns - limit->since_ns) / EVERY_NS;
    if (back >= limit->burst - limit->left) {
        limit->left = limit->burst;
        limit->since_ns = now_ns;
    } else {
        limit->left += (uint32_t)back;
        limit->since_ns += back * EVERY_NS;
    }
    if (limit->left == 0)
        return false;
    limit->left--;
    return true;
}

/* "text (and 41 more like it in 1.0 s)", whatever has to give way for that. */
static void write_with_count(weft_log_limit *limit, weft_log_level level, const char *line, uint64_t now_ns)
{
    char more[64], text[WEFT_LOG_LINE];
    int length = snprintf(more, sizeof more, " (and %llu more like it in %.1f s)", (unsigned long long)limit->held,
                          weft_clock_ms(limit->held_ns, now_ns) / 1e3);
    size_t room = sizeof text - (size_t)length;
    if ((size_t)snprintf(text, room, "%s", line) >= room)
        weft_log_cut(text, room);
    memcpy(text + strlen(text), more, (size_t)length + 1);
    limit->held = 0;
    limit->to->write(limit->to, level, text);
}

static void write_limited(weft_log_sink *sink, weft_log_level level, const char *line)
{
    weft_log_limit *limit = (weft_log_limit *)sink;
    const uint64_t now_ns = weft_clock_ns();
    if (level == WEFT_LOG_DEBUG) {
        limit->to->write(limit->to, level, line);
    } else if (!take(limit, now_ns)) {
        limit->held_ns = limit->held ? limit->held_ns : now_ns;
        limit->held++;
    } else if (limit->held) {
        write_with_count(limit, level, line, now_ns);
    } else {
        limit->to->write(limit->to, level, line);
    }
}

void weft_log_limit_open(weft_log_limit *limit, weft_log_sink *to, uint32_t burst)
{
    *limit = (weft_log_limit){
        .sink = {to->level, write_limited}, .to = to, .burst = burst, .left = burst, .since_ns = weft_clock_ns()};
}

void weft_log_limit_end(weft_log_limit *limit)
{
    char line[80];
    if (limit->held == 0)
        return;
    snprintf(line, sizeof line, "%llu more line%s like the last of this kind in %.1f s",
             (unsigned long long)limit->held, limit->held == 1 ? "" : "s",
             weft_clock_ms(limit->held_ns, weft_clock_ns()) / 1e3);
    limit->held = 0;
    limit->to->write(limit->to, limit->sink.level < WEFT_LOG_WARN ? WEFT_LOG_ERROR : WEFT_LOG_WARN, line);
}

void weft_log_limit_tell(weft_log_limit *limit)
{
    const uint64_t now_ns = weft_clock_ns();
    if (limit->held && now_ns >= limit->held_ns + EVERY_NS && take(limit, now_ns))
        weft_log_limit_end(limit);
}
