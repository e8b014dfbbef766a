#include <math.h>

#include "bucket.h"

/* New samples weigh a quarter: an outlier is forgotten within a few buckets, a tenfold change followed as fast. */
#define WEIGHT 0.25
/* Fixed cost per bucket (post, completion, receipt) until a link shows its own, and the least it is believed to be. */
#define BUCKET_SECONDS 50e-6

static void blend(double *estimate, double sample)
{
    *estimate = *estimate > 0 ? *estimate + WEIGHT * (sample - *estimate) : sample;
}

void weft_estimate_rtt(weft_estimate *estimate, double seconds)
{
    blend(&estimate->rtt_s, seconds > 1e-7 ? seconds : 1e-7);
}

static void flow_in(weft_flow *flow, uint64_t bytes, double seconds, double *rate)
{
    flow->bytes += (double)bytes - WEIGHT * flow->bytes;
    flow->seconds += seconds - WEIGHT * flow->seconds;
    if (flow->seconds > 1e-7)
        *rate = flow->bytes / flow->seconds;
}

void weft_estimate_receipt(weft_estimate *estimate, uint64_t bytes, double seconds, double take_s)
{
    flow_in(&estimate->link, bytes, seconds, &estimate->rate_bytes_s);
    flow_in(&estimate->peer, bytes, take_s, &estimate->apply_bytes_s);
}

static uint64_t clamp(double value, uint64_t low, uint64_t high)
{
    if (!(value > (double)low))
        return low;
    return value < (double)high ? (uint64_t)value : high;
}

uint64_t weft_bucket_size(const weft_site_peer *site, const weft_estimate *estimate, uint64_t stream_bytes,
                          uint64_t slot_payload, weft_bucket_bound *bound)
{
    uint64_t ceiling = site->bucket_max < slot_payload ? site->bucket_max : slot_payload;
    uint64_t floor_bytes = site->bucket_min < ceiling ? site->bucket_min : ceiling;
    *bound = WEFT_BOUND_FIXED;
    if (site->bucket)
        return site->bucket < ceiling ? site->bucket : ceiling;
    double fixed = estimate->bucket_s > BUCKET_SECONDS ? estimate->bucket_s : BUCKET_SECONDS;
    double apply = estimate->apply_bytes_s > 0 ? estimate->apply_bytes_s : 1e9;
    double fill = estimate->rate_bytes_s * estimate->rtt_s / (double)(site->window ? site->window : 1);
    double best = sqrt((double)stream_bytes * fixed * apply);
    uint64_t size = clamp(best > fill ? best : fill, floor_bytes, ceiling);
    *bound = size == ceiling ? WEFT_BOUND_CEILING : size == floor_bytes ? WEFT_BOUND_FLOOR : WEFT_BOUND_MODEL;
    return size;
}
