#include "bucket/bucket.h"

/* Bytes that may go at once after a pause, in seconds of the rate: short enough to look even to the receiver. */
#define BURST_SECONDS 0.002
#define CHUNK_MIN     4096u

void weft_pace_begin(weft_pace *pace, uint64_t bytes_s)
{
    *pace = (weft_pace){.bytes_s = (double)bytes_s};
}

uint64_t weft_pace_chunk(uint64_t bytes_s)
{
    uint64_t chunk = (uint64_t)((double)bytes_s * BURST_SECONDS);
    if (bytes_s == 0)
        return UINT32_MAX;
    return chunk > CHUNK_MIN ? chunk / 64 * 64 : CHUNK_MIN;
}

uint64_t weft_pace_wait(weft_pace *pace, uint64_t now_ns)
{
    if (pace->bytes_s <= 0)
        return 0;
    double burst = pace->bytes_s * BURST_SECONDS;
    double passed = pace->filled_ns ? (double)(now_ns - pace->filled_ns) / 1e9 : BURST_SECONDS;
    pace->filled_ns = now_ns;
    pace->tokens += passed * pace->bytes_s;
    if (pace->tokens > burst)
        pace->tokens = burst;
    return pace->tokens < 0 ? (uint64_t)(-pace->tokens / pace->bytes_s * 1e9) + 1 : 0;
}

void weft_pace_charge(weft_pace *pace, uint64_t bytes)
{
    if (pace->bytes_s > 0)
        pace->tokens -= (double)bytes;
}
