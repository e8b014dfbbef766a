/* bucket_size.c - how large a peer's buckets are. */
#include <math.h>

#include "bucket/bucket.h"

/* Sizes within this of the least time are as good; one chosen before stays within the second. */
#define AS_GOOD 1.01
#define STAYS   1.03
/* From one size tried to the next: the eighth root of two. T is flat: nothing between them is 1 % better. */
#define NEXT_SIZE 1.0905077326652577

const char *weft_bucket_bound_name(weft_bucket_bound bound)
{
    static const char *const names[] = {"fixed", "model", "floor", "ceiling", "window", "start"};
    return (size_t)bound < sizeof names / sizeof names[0] ? names[bound] : "?";
}

weft_sizing weft_sizing_of(const weft_site_peer *site, const weft_estimate *estimate, weft_level level)
{
    return (weft_sizing){.rate_bytes_s = estimate->rate_bytes_s,
                         .apply_bytes_s = weft_estimate_apply(estimate, level),
                         .rtt_s = estimate->rtt_s,
                         .post_s = weft_estimate_post(estimate),
                         .accept_s = weft_estimate_accept(estimate),
                         .window = (double)site->window};
}

double weft_bucket_time(const weft_sizing *sizing, double stream_bytes, double size)
{
    double b = fmin(size, stream_bytes), full = floor(stream_bytes / b), rest = stream_bytes - full * b;
    if (!(b > 0))
        return sizing->rtt_s;
    double w = sizing->post_s + b / sizing->rate_bytes_s, a = sizing->accept_s + b / sizing->apply_bytes_s;
    double w_rest = rest > 0 ? sizing->post_s + rest / sizing->rate_bytes_s : 0;
    double a_rest = rest > 0 ? sizing->accept_s + rest / sizing->apply_bytes_s : 0;
    double work = fmax(w + full * a + a_rest, full * w + fmax(a, w_rest) + a_rest);
    double rounds = sizing->window > 0 ? floor((full - (rest > 0 ? 0 : 1)) / sizing->window) : 0;
    double pause = sizing->rtt_s + w + sizing->accept_s - sizing->window * fmax(w, a);
    return sizing->rtt_s + work + rounds * fmax(0, pause);
}

typedef struct choice {
    double size, seconds; /* the largest that is as good as the best, and the least time */
} choice;

static choice choose(const weft_sizing *sizing, double stream, double low, double high)
{
    choice made = {low, weft_bucket_time(sizing, stream, low)};
    double size = high;
    uint32_t steps = high > low ? (uint32_t)ceil(log(high / low) / log(NEXT_SIZE)) : 0;
    for (uint32_t i = 0; i < steps; i++, size /= NEXT_SIZE)
        made.seconds = fmin(made.seconds, weft_bucket_time(sizing, stream, size));
    size = high;
    for (uint32_t i = 0; i < steps; i++, size /= NEXT_SIZE)
        if (weft_bucket_time(sizing, stream, size) <= AS_GOOD * made.seconds)
            return (choice){size, made.seconds};
    return made;
}

uint64_t weft_bucket_size(const weft_site_peer *site, const weft_estimate *estimate, weft_level level,
                          uint64_t stream_bytes, uint64_t slot_payload, uint64_t before, weft_bucket_bound *bound)
{
    uint64_t ceiling = site->bucket_max < slot_payload ? site->bucket_max : slot_payload;
    uint64_t low = site->bucket_min < ceiling ? site->bucket_min : ceiling;
    uint64_t wanted = site->bucket ? site->bucket : site->bucket_start;
    *bound = site->bucket ? WEFT_BOUND_FIXED : WEFT_BOUND_START;
    if (site->bucket || estimate->rate_bytes_s <= 0)
        return wanted > ceiling ? ceiling : site->bucket || wanted > low ? wanted : low;
    weft_sizing sizing = weft_sizing_of(site, estimate, level);
    double stream = (double)stream_bytes;
    choice made = choose(&sizing, stream, (double)low, (double)ceiling);
    uint64_t size = (uint64_t)made.size;
    if (before >= low && before <= ceiling && weft_bucket_time(&sizing, stream, (double)before) <= STAYS * made.seconds)
        size = before;
    sizing.window = 0;
    bool window = (double)size > 1.5 * choose(&sizing, stream, (double)low, (double)ceiling).size;
    *bound = size == ceiling ? WEFT_BOUND_CEILING
             : window        ? WEFT_BOUND_WINDOW
             : size == low   ? WEFT_BOUND_FLOOR
                             : WEFT_BOUND_MODEL;
    return size;
}
