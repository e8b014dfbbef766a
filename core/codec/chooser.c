/* chooser.c - thresholds by dynamic programming over the exponents, E and the run's length by cost. */
#include "codec/chooser.h"

#include <string.h>

#include "base/mix64.h"
#include "codec/tight.h"

/* Each stretch of so many elements is looked at in one go: a few cache lines. */
#define SURVEY_COUNT 256u
/* Bounds of the sample: its least size, and at most one element in so many. `tight` needs the changes at each exponent,
 * `fast` only their number. */
#define SURVEY_LEAST_TIGHT    (UINT64_C(1) << 18)
#define SURVEY_SPARSEST_TIGHT 128u
#define SURVEY_LEAST_FAST     (UINT64_C(1) << 16)
#define SURVEY_SPARSEST_FAST  1024u
/* The most elements of a sample, about: 10 us of a thread for each 8,192. Then whole units are left out, because each
 * that is looked at costs its handling; of the others one element in so many is looked at. */
#define SURVEY_MOST           (UINT64_C(1) << 20)
#define SURVEY_SPARSEST_UNITS 128u
/* Changes that a frame should code at the least, so that its header and lists weigh little. Level fast fits its gaps to
 * the density of a frame and knows no classes: there, shorter runs of more even density are worth more than fewer
 * headers. A large update has FRAMES of them, because each costs its handling on both sides, up to FRAME_CHANGES_MOST:
 * the runs of uneven tensors change a multiple of that, and may not change more than WEFT_FRAME_RUN_CHANGES. */
#define FRAME_CHANGES_TIGHT 12288u
#define FRAME_CHANGES_FAST  2048u
#define FRAME_CHANGES_MOST  16384u
#define FRAMES              4096u
/* Classes that the chooser uses of those a frame may have: more cost speed and gain little. */
#define CLASSES_WANTED 8u
/* Bits that one more class costs a frame: two descriptors, and bits that do not fill a byte. */
#define CLASS_BITS 40u
/* Exponents that the search tells apart; more are taken together, so that its time is bounded. */
#define STEPS_MAX 128u
/* Fixed point of the logarithms. */
#define FRACTION 16u

weft_survey_plan weft_survey_plan_for(uint64_t elements, uint32_t levels)
{
    const bool tight = levels >> WEFT_LEVEL_TIGHT & 1;
    const uint64_t most = tight ? SURVEY_SPARSEST_TIGHT : SURVEY_SPARSEST_FAST;
    uint64_t sparsity = elements / (tight ? SURVEY_LEAST_TIGHT : SURVEY_LEAST_FAST);
    sparsity = sparsity < 1 ? 1 : sparsity > most ? most : sparsity;
    const uint64_t wanted = elements / SURVEY_MOST;
    if (wanted <= sparsity)
        return (weft_survey_plan){SURVEY_COUNT, SURVEY_COUNT * (uint32_t)sparsity, 1};
    return (weft_survey_plan){SURVEY_COUNT, SURVEY_COUNT * SURVEY_SPARSEST_UNITS, wanted / SURVEY_SPARSEST_UNITS + 1};
}

uint64_t weft_survey_units(const weft_survey_plan *plan, uint64_t from, uint64_t end)
{
    return (end - from) / plan->each + ((end - from) % plan->each > 0);
}

uint64_t weft_survey_unit(const weft_survey_plan *plan, uint64_t from, uint64_t end, uint64_t i)
{
    const uint64_t first = from + i * plan->each, left = end - first;
    return first + weft_mix64(first) % (left < plan->each ? left : plan->each);
}

static uint32_t exponents_of(uint32_t kind)
{
    return 1u << weft_kinds[kind].exponent_bits;
}

/* log2 in 1/65536, by squaring the mantissa bit by bit. */
static uint64_t log2_fixed(uint64_t x)
{
    if (x <= 1)
        return 0;
    uint32_t whole = 63 - (uint32_t)__builtin_clzll(x);
    uint64_t mantissa = whole > 31 ? x >> (whole - 31) : x << (31 - whole); /* in [2^31, 2^32) */
    uint64_t result = whole;
    for (uint32_t i = 0; i < FRACTION; i++) {
        mantissa = mantissa * mantissa >> 31;
        uint64_t carry = mantissa >> 32;
        mantissa >>= carry;
        result = result << 1 | carry;
    }
    return result;
}

/* Bits, in fixed point, that it takes to say which `members` of `universe` belong to a set, by its entropy. */
static uint64_t set_cost(uint64_t universe, uint64_t members)
{
    if (members == 0 || members >= universe)
        return 0;
    uint64_t rest = universe - members;
    return universe * log2_fixed(universe) - members * log2_fixed(members) - rest * log2_fixed(rest);
}

/* Counts of the exponents below each step: the exponents that occur, or groups of them. */
typedef struct steps {
    uint32_t count;
    uint32_t exponent[STEPS_MAX]; /* first of the step */
    uint64_t elements[STEPS_MAX + 1], changed[STEPS_MAX + 1], exceptions[STEPS_MAX + 1];
} steps;

static void steps_take(const weft_survey_kind *kind, uint32_t exponents, steps *steps)
{
    uint32_t used = 0, seen = 0;
    for (uint32_t e = 0; e < exponents; e++)
        used += kind->elements[e] > 0;
    uint32_t group = (used + STEPS_MAX - 1) / STEPS_MAX;
    memset(steps, 0, sizeof *steps);
    for (uint32_t e = 0; e < exponents; e++) {
        if (kind->elements[e] == 0)
            continue;
        if (seen++ % group == 0) {
            uint32_t at = steps->count++;
            steps->exponent[at] = e;
            steps->elements[at + 1] = steps->elements[at];
            steps->changed[at + 1] = steps->changed[at];
            steps->exceptions[at + 1] = steps->exceptions[at];
        }
        steps->elements[steps->count] += kind->elements[e];
        steps->changed[steps->count] += kind->changed[e];
        steps->exceptions[steps->count] += kind->exceptions[e];
    }
}

static uint64_t class_cost(const steps *s, uint32_t from, uint32_t to, uint64_t price)
{
    uint64_t changed = s->changed[to] - s->changed[from];
    return price + set_cost(s->elements[to] - s->elements[from], changed) +
           set_cost(changed, s->exceptions[to] - s->exceptions[from]);
}

/* The cheapest split of the steps into at most CLASSES_WANTED classes: cost[c][j] is that of the first j steps in c + 1
 * classes, begin[c][j] where the last of them begins. */
static void thresholds_choose(const steps *s, uint64_t price, weft_classes *classes)
{
    uint64_t cost[CLASSES_WANTED][STEPS_MAX + 1], of[STEPS_MAX][STEPS_MAX + 1]; /* of: one class from step to step */
    uint8_t begin[CLASSES_WANTED][STEPS_MAX + 1];
    uint32_t best = 0;
    for (uint32_t j = 1; j <= s->count; j++) {
        for (uint32_t i = 0; i < j; i++)
            of[i][j] = class_cost(s, i, j, price);
        cost[0][j] = of[0][j];
        begin[0][j] = 0;
    }
    for (uint32_t c = 1; c < CLASSES_WANTED; c++) {
        for (uint32_t j = 1; j <= s->count; j++) {
            cost[c][j] = UINT64_MAX;
            for (uint32_t i = c; i < j; i++) {
                uint64_t total = cost[c - 1][i] + of[i][j];
                if (total < cost[c][j]) {
                    cost[c][j] = total;
                    begin[c][j] = (uint8_t)i;
                }
            }
        }
        if (c < s->count && cost[c][s->count] < cost[best][s->count])
            best = c;
    }
    classes->thresholds = best;
    for (uint32_t c = best, j = s->count; c > 0; c--) {
        j = begin[c][j];
        classes->threshold[c - 1] = s->exponent[j];
    }
}

/* Bits of the listed magnitudes with the base `e_base`. */
static uint64_t magnitudes_cost(const weft_survey_kind *kind, const weft_kind_row *row, uint32_t e_base)
{
    weft_classes classes = {.magnitude_base = e_base};
    weft_class_map map = {.classes = &classes, .width = row->width};
    uint64_t bits = 0, large = 0, further = 0;
    for (uint32_t i = 0; i < kind->magnitudes; i++) {
        const weft_survey_magnitude *m = &kind->magnitude[i];
        bool is_large = m->exponent > e_base;
        large += is_large;
        further += is_large && m->excess > 0;
        if (is_large && m->excess == 0)
            continue;
        weft_tight_code code = weft_tight_code_of(is_large ? m->excess - 1 : m->excess,
                                                  is_large ? 0 : weft_class_magnitude_bits(&map, m->exponent));
        bits += code.unary + 1 + code.low_count;
    }
    return bits + (set_cost(large, further) >> FRACTION);
}

static uint32_t magnitude_base_choose(const weft_survey_kind *kind, const weft_kind_row *row)
{
    uint32_t low = UINT32_MAX, high = 0, best = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < kind->magnitudes; i++) {
        low = kind->magnitude[i].exponent < low ? kind->magnitude[i].exponent : low;
        high = kind->magnitude[i].exponent > high ? kind->magnitude[i].exponent : high;
    }
    for (uint32_t base = low; kind->magnitudes > 0 && base <= high + 8u * row->width; base++) {
        uint64_t cost = magnitudes_cost(kind, row, base);
        if (cost < least) {
            least = cost;
            best = base;
        }
    }
    return best;
}

/* Counts of a sample, which is of an update of `all` elements. */
typedef struct seen {
    uint64_t elements, changed, all;
} seen;

/* Units of 2^18 elements that together change as many elements as wanted, as a power of two. */
static uint32_t run_shift_choose(const seen *seen, uint64_t least)
{
    const uint64_t elements = seen->elements ? seen->elements : 1;
    uint64_t wanted = seen->changed * (seen->all / elements) / FRAMES;
    uint32_t shift = 0;
    wanted = wanted < least ? least : wanted > FRAME_CHANGES_MOST ? FRAME_CHANGES_MOST : wanted;
    while (shift < WEFT_RUN_SHIFT_MAX && (seen->changed << (18 + shift)) / elements < wanted)
        shift++;
    return shift;
}

static seen seen_of(const weft_survey *survey, uint64_t all)
{
    seen seen = {.all = all};
    for (uint32_t k = 0; k < WEFT_KIND_COUNT; k++) {
        for (uint32_t e = 0; e < exponents_of(k); e++) {
            seen.elements += survey->kinds[k].elements[e];
            seen.changed += survey->kinds[k].changed[e];
        }
    }
    return seen;
}

double weft_survey_density(const weft_survey *survey)
{
    const seen seen = seen_of(survey, 0);
    return seen.elements ? (double)seen.changed / (double)seen.elements : 0;
}

void weft_parameters_choose(const weft_survey *survey, uint64_t elements, uint32_t levels, weft_parameters *parameters)
{
    const bool tight = levels >> WEFT_LEVEL_TIGHT & 1, fast = levels >> WEFT_LEVEL_FAST & 1;
    const seen seen = seen_of(survey, elements);
    memset(parameters, 0, sizeof *parameters);
    if (tight || fast)
        parameters->run_shift = run_shift_choose(&seen, tight ? FRAME_CHANGES_TIGHT : FRAME_CHANGES_FAST);
    for (uint32_t k = 0; tight && k < WEFT_KIND_COUNT; k++) {
        const weft_survey_kind *kind = &survey->kinds[k];
        steps s;
        steps_take(kind, exponents_of(k), &s);
        if (s.count == 0 || s.changed[s.count] == 0)
            continue;
        /* a frame's price of a class, for the part of a frame that was seen here */
        uint64_t frame = (seen.changed << (18 + parameters->run_shift)) / seen.elements + 1;
        uint64_t price = (CLASS_BITS * s.changed[s.count] << FRACTION) / frame + ((uint64_t)CLASS_BITS / 8 << FRACTION);
        thresholds_choose(&s, price, &parameters->classes[k]);
        parameters->classes[k].magnitude_base = magnitude_base_choose(kind, &weft_kinds[k]);
    }
}
