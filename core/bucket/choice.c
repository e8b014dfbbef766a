#include "bucket/choice.h"

#include <math.h>
#include <string.h>

/* A level is left for one that takes less than this of its time, and saves what a wake-up may cost. */
#define WORTH_CHANGING (5.0 / 6)
#define WORTH_SECONDS  1e-3
#define NOTE_WEIGHT    0.25
#define DENSITY_GUESS  0.01

/* Nanoseconds of one core, from docs/PERFORMANCE.md (AVX2): per element looked at, per change. `full` is copied and
 * digested whole. Encoding `fast` has the search for the changes in it, the others come besides. */
static const struct {
    double element, change;
} decode_ns[WEFT_LEVEL_COUNT] = {[WEFT_LEVEL_FULL] = {1.0, 0},
                                 [WEFT_LEVEL_PAIRS] = {0.01, 6},
                                 [WEFT_LEVEL_FAST] = {0.02, 21},
                                 [WEFT_LEVEL_TIGHT] = {0.21, 41}},
  encode_ns[WEFT_LEVEL_COUNT] = {[WEFT_LEVEL_FULL] = {0.3, 0},
                                 [WEFT_LEVEL_PAIRS] = {0.02, 4},
                                 [WEFT_LEVEL_FAST] = {0.09, 6},
                                 [WEFT_LEVEL_TIGHT] = {0.12, 20}};

static double width_of(const weft_habit *habit)
{
    return habit->elements > 0 ? habit->dense_bytes / habit->elements : 2;
}

static double density_of(const weft_habit *habit)
{
    return habit->density > 0 ? habit->density : DENSITY_GUESS;
}

/* Bits to say which elements changed, for each that did. */
static double position_bits(double density)
{
    double p = fmin(fmax(density, 1e-9), 0.5);
    return (-p * log2(p) - (1 - p) * log2(1 - p)) / p;
}

static double rule_bytes(const weft_habit *habit, weft_level level)
{
    double density = density_of(habit), changed = density * habit->elements;
    double fast = changed * (position_bits(density) + 1.9) / 8;
    switch (level) {
    case WEFT_LEVEL_FULL:
        return habit->dense_bytes;
    case WEFT_LEVEL_PAIRS:
        return fmin(changed * (4 + width_of(habit)), habit->dense_bytes);
    case WEFT_LEVEL_TIGHT:
        return fmin(0.7 * fast, habit->dense_bytes);
    default:
        return fmin(fast, habit->dense_bytes);
    }
}

void weft_habit_begin(weft_habit *habit, uint64_t elements, uint64_t dense_bytes)
{
    *habit = (weft_habit){.elements = (double)elements, .dense_bytes = (double)dense_bytes};
}

void weft_habit_note(weft_habit *habit, uint64_t changed, uint32_t levels, const uint64_t bytes[WEFT_LEVEL_COUNT])
{
    double density = (double)changed / fmax(habit->elements, 1), before = habit->density;
    if (changed == 0)
        return;
    habit->density = density; /* the scales below are of this update's own */
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
        if (!(levels >> level & 1))
            continue;
        double scale = (double)bytes[level] / fmax(rule_bytes(habit, (weft_level)level), 1);
        double *known = &habit->scale[level];
        *known = *known > 0 ? *known + NOTE_WEIGHT * (scale - *known) : scale;
    }
    if (before > 0)
        habit->density = exp(log(before) + 0.5 * (log(density) - log(before)));
}

double weft_habit_bytes(const weft_habit *habit, weft_level level)
{
    double scale = habit->scale[level];
    if (scale <= 0)
        scale = level == WEFT_LEVEL_TIGHT && habit->scale[WEFT_LEVEL_FAST] > 0 ? habit->scale[WEFT_LEVEL_FAST] : 1;
    return scale * rule_bytes(habit, level);
}

static double core_s(double element_ns, double change_ns, const weft_habit *habit, double changed)
{
    return 1e-9 * (element_ns * habit->elements + change_ns * changed);
}

double weft_habit_decode_s(const weft_habit *habit, weft_level level, double changed)
{
    return core_s(decode_ns[level].element, decode_ns[level].change, habit, changed);
}

static double encode_s(const weft_habit *habit, weft_level level, double changed)
{
    return core_s(encode_ns[level].element, encode_ns[level].change, habit, changed);
}

double weft_habit_encode_s(const weft_habit *habit, weft_level level)
{
    double factor = habit->encoding.bytes > 0 ? habit->encoding.seconds / habit->encoding.bytes : 1;
    return factor * encode_s(habit, level, density_of(habit) * habit->elements);
}

/* Notes that work which takes `reference` seconds by the reference took `seconds` here. */
static void flow_note(weft_flow *flow, double reference, double seconds)
{
    if (seconds <= 0 || reference <= 0)
        return;
    if (flow->bytes <= 0)
        *flow = (weft_flow){reference, seconds};
    flow->bytes += NOTE_WEIGHT * (reference - flow->bytes);
    flow->seconds += NOTE_WEIGHT * (seconds - flow->seconds);
}

void weft_habit_note_encoding(weft_habit *habit, uint64_t changed, uint32_t levels, double seconds)
{
    double reference = 0;
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        if (levels >> level & 1)
            reference += encode_s(habit, (weft_level)level, (double)changed);
    flow_note(&habit->encoding, reference, seconds);
}

void weft_decoding_note(weft_decoding *decoding, const weft_habit *habit, weft_level level, uint64_t changed,
                        double seconds)
{
    flow_note(&decoding->level[level], weft_habit_decode_s(habit, level, (double)changed), seconds);
}

double weft_decoding_factor(const weft_decoding *decoding, weft_level level)
{
    weft_flow all = decoding->level[level];
    for (int other = 0; all.bytes <= 0 && other < WEFT_LEVEL_COUNT; other++)
        all = decoding->level[other];
    return all.bytes > 0 ? all.seconds / all.bytes : 1;
}

/* T at the size that would be chosen for it, with what is encoded meanwhile: the longer of the two, and a bucket's part
 * of the other. */
static double stream_seconds(const weft_level_wish *wish, weft_level level, double bytes, double decode, double encode)
{
    weft_bucket_bound bound;
    weft_estimate as_if = *wish->estimate;
    as_if.decode[level] = (weft_flow){bytes, decode};
    uint64_t size = weft_bucket_size(wish->site, &as_if, level, (uint64_t)bytes + 1, wish->slot_payload, 0, &bound);
    weft_sizing sizing = weft_sizing_of(wish->site, &as_if, level);
    double stream = weft_bucket_time(&sizing, bytes, (double)size), buckets = ceil(fmax(bytes / (double)size, 1));
    return fmax(stream, encode) + fmin(stream, encode) / buckets;
}

double weft_level_seconds(const weft_level_wish *wish, weft_level level)
{
    const weft_habit *habit = wish->habit;
    double changed = density_of(habit) * habit->elements, workers = wish->encode_workers ? wish->encode_workers : 1;
    double decode = weft_habit_decode_s(habit, level, changed) * weft_decoding_factor(wish->decoding, level);
    double encode = wish->in_use >> level & 1 ? 0 : weft_habit_encode_s(habit, level) / workers;
    return stream_seconds(wish, level, weft_habit_bytes(habit, level), decode, encode);
}

/* The journal takes all levels: one that would fill it would make every peer need snapshots. So would a list of changes
 * beyond the peer's staging. */
static bool can_be(const weft_level_wish *wish, int level)
{
    const weft_habit *habit = wish->habit;
    bool room = level == WEFT_LEVEL_FAST || weft_habit_bytes(habit, (weft_level)level) <= (double)wish->room;
    bool stages =
        level != WEFT_LEVEL_FULL || (4 + 2 * width_of(habit)) * habit->elements <= 0.9 * (double)wish->staging;
    return wish->levels >> level & 1 && room && stages;
}

weft_level weft_level_choose(const weft_level_wish *wish)
{
    static const weft_level named[] = {WEFT_LEVEL_FAST, WEFT_LEVEL_FULL, WEFT_LEVEL_PAIRS, WEFT_LEVEL_FAST,
                                       WEFT_LEVEL_TIGHT};
    weft_level best = can_be(wish, wish->present) ? wish->present : WEFT_LEVEL_FAST;
    if (wish->site->level != WEFT_CHOICE_AUTO)
        return named[wish->site->level];
    if (wish->estimate->rate_bytes_s <= 0)
        return WEFT_LEVEL_FAST;
    double now = weft_level_seconds(wish, best), least = fmin(WORTH_CHANGING * now, now - WORTH_SECONDS);
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
        double seconds =
            can_be(wish, level) && level != (int)wish->present ? weft_level_seconds(wish, (weft_level)level) : INFINITY;
        if (seconds < least) {
            least = seconds;
            best = (weft_level)level;
        }
    }
    return best;
}
