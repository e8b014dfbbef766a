/* kernel_tight.h - holds the loops of level tight against ones that go element by element and class by class. */
#ifndef WEFT_TESTS_KERNEL_TIGHT_H
#define WEFT_TESTS_KERNEL_TIGHT_H

#include "backends/host/host_element.h"
#include "backends/host/tight/host_tight_kernels.h"
#include "tests/support/kernel_sets.h"

/* Elements, and what they are split into classes with. */
typedef struct tight_case {
    weft_classes classes;
    weft_class_map map;
    unsigned slot, width, shift; /* shift: bytes by which elements miss alignment */
    uint32_t count, first;
    uint8_t *data;
} tight_case;

/* Ranks by class, each list ended by UINT32_MAX and seven words of anything, in a block of its own. */
typedef struct tight_lists {
    uint32_t population[WEFT_CLASS_MAX];
    uint32_t inverted; /* mask of classes */
    uint32_t *member[WEFT_CLASS_MAX];
} tight_lists;

/* Strictly rising, among them often the lowest and the highest there can be. */
static inline void thresholds_draw(weft_classes *classes, uint32_t count, uint32_t exponents)
{
    const bool ends = any() % 2;
    memset(classes, 0, sizeof *classes);
    for (uint32_t rest = count, e = 1; e < exponents && rest > 0; e++) {
        bool end = ends && (e == 1 || e == exponents - 1);
        if (!end && any() % (exponents - e) >= rest)
            continue;
        classes->threshold[classes->thresholds++] = e;
        rest--;
    }
}

static inline uint32_t exponent_draw(const tight_case *of)
{
    const weft_classes *classes = &of->classes;
    const uint32_t limit = of->map.mask + 1;
    uint32_t threshold = classes->thresholds ? classes->threshold[any() % classes->thresholds] : 0;
    switch (any() % 8) {
    case 0:
        return 0;
    case 1:
        return limit - 1;
    case 2:
        return (uint32_t)any() % limit;
    case 3:
        return threshold ? threshold - 1 : 0;
    default:
        return threshold;
    }
}

static inline tight_case tight_case_of(unsigned slot, uint32_t exponent_bits, uint32_t classes, uint32_t count)
{
    tight_case made = {.slot = slot, .width = 1u << slot, .shift = any() % 4, .count = count};
    weft_parameters parameters = {0};
    made.first = (uint32_t)(any() % 1000);
    made.data = bytes_take((uint64_t)count * made.width, made.shift);
    thresholds_draw(&made.classes, classes - 1, 1u << exponent_bits);
    parameters.classes[weft_kind_of((uint8_t)made.width, (uint8_t)exponent_bits)] = made.classes;
    weft_class_map_make(&made.map, &parameters, (uint8_t)made.width, (uint8_t)exponent_bits);
    const uint32_t alike = 1u << any() % 13; /* elements in a row that have one exponent */
    uint32_t exponent = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || any() % alike == 0)
            exponent = exponent_draw(&made);
        uint64_t mask = (uint64_t)made.map.mask << made.map.shift, bits = any() & ~mask;
        weft_element_put(made.data, i, bits | (uint64_t)exponent << made.map.shift, made.width);
    }
    return made;
}

/* The map that the case was made with borrowed its thresholds. */
static inline const weft_class_map *map_of(tight_case *of)
{
    of->map.classes = &of->classes;
    return &of->map;
}

static inline uint32_t class_at(const tight_case *of, uint32_t index)
{
    uint32_t exponent = weft_class_exponent(&of->map, weft_element_get(of->data, index, of->width)), class = 0;
    for (uint32_t t = 0; t < of->classes.thresholds; t++)
        class += exponent >= of->classes.threshold[t];
    return class;
}

/* One in `sparse` elements. */
static inline uint32_t positions_draw(const tight_case *of, uint64_t sparse, uint32_t *position)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < of->count; i++) {
        if (any() % sparse == 0)
            position[found++] = of->first + i;
    }
    return found;
}

static inline uint32_t *words_take(uint32_t count)
{
    return (uint32_t *)(void *)bytes_take(4 * (uint64_t)count, 0);
}

static inline void ranks_judge(const tight_case *of, const uint32_t *position, uint32_t changes, uint32_t *population,
                               uint32_t *ranks)
{
    for (uint32_t i = 0, c = 0; i < of->count; i++) {
        uint32_t class = class_at(of, i);
        if (c < changes && position[c] - of->first == i)
            ranks[c++] = population[class];
        population[class]++;
    }
}

/* In one call, or in two where `cut` says. */
static inline void compare_ranks(const weft_host_tight_kernels *set, tight_case *of, uint64_t sparse, uint32_t cut)
{
    uint32_t a[WEFT_CLASS_MAX], b[WEFT_CLASS_MAX], *position = words_take(of->count);
    uint32_t changes = positions_draw(of, sparse, position), early = 0;
    uint32_t *x = words_take(changes), *y = words_take(changes);
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++)
        a[c] = b[c] = c < of->map.count ? (uint32_t)any() % 100000 : 0;
    while (early < changes && position[early] - of->first < cut)
        early++;
    ranks_judge(of, position, changes, a, x);
    set->rank[of->slot](of->data, cut, of->first, map_of(of), position, early, b, y);
    set->rank[of->slot](of->data + (uint64_t)cut * of->width, of->count - cut, of->first + cut, map_of(of),
                        position + early, changes - early, b, y + early);
    assert_memory_equal(a, b, sizeof a);
    if (changes > 0)
        assert_memory_equal(x, y, 4 * (uint64_t)changes);
    free(position);
    free(x);
    free(y);
}

/* Compares the differing elements, with rank and class of each, in two calls with exactly the room that they need. */
static inline void compare_finds(const weft_host_tight_kernels *set, const weft_host_kernels *kernels, tight_case *of,
                                 uint64_t sparse, uint32_t cut)
{
    const uint32_t cuts[] = {0, cut, of->count};
    uint32_t a[WEFT_CLASS_MAX] = {0}, b[WEFT_CLASS_MAX] = {0}, *position = words_take(of->count);
    uint32_t changes = positions_draw(of, sparse, position), *rank = words_take(changes), made = 0;
    uint8_t *now = bytes_take((uint64_t)of->count * of->width, 1);
    memcpy(now, of->data, (uint64_t)of->count * of->width);
    for (uint32_t i = 0; i < changes; i++)
        now[(position[i] - of->first) * of->width + any() % of->width] ^= (uint8_t)(1 + any() % 255);
    ranks_judge(of, position, changes, a, rank);
    for (unsigned call = 0; call < 2; call++) {
        const uint32_t from = cuts[call], room = cuts[call + 1] - from;
        const uint64_t offset = (uint64_t)from * of->width;
        const weft_host_pair pair = {now + offset, of->data + offset, room, of->first + from};
        const weft_host_found found = {words_take(room), bytes_take((uint64_t)room * of->width, 0),
                                       bytes_take((uint64_t)room * of->width, 0), words_take(room),
                                       bytes_take(room, 0)};
        uint32_t here = set->find[of->slot](kernels, &pair, map_of(of), b, &found);
        assert_true(here <= changes - made);
        for (uint32_t i = 0; i < here; i++) {
            const uint32_t index = position[made + i] - of->first;
            assert_int_equal(found.position[i], position[made + i]);
            assert_int_equal(found.rank[i], rank[made + i]);
            assert_int_equal(found.class[i], class_at(of, index));
            assert_true(weft_element_get(found.before, i, of->width) == weft_element_get(of->data, index, of->width));
            assert_true(weft_element_get(found.after, i, of->width) == weft_element_get(now, index, of->width));
        }
        made += here;
        free(found.position);
        free(found.before);
        free(found.after);
        free(found.rank);
        free(found.class);
    }
    assert_int_equal(made, changes);
    assert_memory_equal(a, b, sizeof a);
    free(position);
    free(rank);
    free(now - 1);
}

/* One in `sparse` of each class or all, some of them short, and some with ranks that no element has. */
static inline tight_lists lists_draw(const tight_case *of, uint64_t sparse)
{
    tight_lists made = {.inverted = (uint32_t)(any() & any()) & ((1u << of->map.count) - 1)};
    uint32_t ranks[WEFT_CLASS_MAX] = {0}, listed[WEFT_CLASS_MAX] = {0};
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++) {
        made.population[c] = ranks[c] = (uint32_t)(any() % 100000);
        made.member[c] = words_take(of->count + 4 + 7);
    }
    for (uint32_t i = 0; i < of->count; i++) {
        uint32_t class = class_at(of, i), rank = ranks[class]++;
        if (any() % sparse == 0)
            made.member[class][listed[class]++] = rank;
    }
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++) {
        if (any() % 8 == 0)
            listed[c] = (uint32_t)(any() % (listed[c] + 1));
        for (uint32_t beyond = (uint32_t)(any() % 3); beyond > 0; beyond--)
            made.member[c][listed[c]++] = ranks[c] += (uint32_t)(any() % 9) + 1;
        made.member[c][listed[c]] = UINT32_MAX;
        for (uint32_t i = 0; i < 7; i++)
            made.member[c][listed[c] + 1 + i] = (uint32_t)any();
        made.member[c] = realloc(made.member[c], 4 * (uint64_t)(listed[c] + 8));
    }
    return made;
}

static inline void lists_begin(const tight_lists *lists, weft_host_class classes[WEFT_CLASS_MAX])
{
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++)
        classes[c] = (weft_host_class){lists->population[c], lists->inverted >> c & 1, lists->member[c]};
}

static inline uint32_t places_judge(const tight_case *of, weft_host_class *classes, uint32_t *position)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < of->count; i++) {
        weft_host_class *class = &classes[class_at(of, i)];
        bool listed = *class->next == class->population++;
        if (listed)
            class->next++;
        if (listed != (bool)class->inverted)
            position[found++] = of->first + i;
    }
    return found;
}

/* In two calls with exactly the room that is needed, then with less. */
static inline void compare_places(const weft_host_tight_kernels *set, tight_case *of, uint64_t sparse, uint32_t cut)
{
    const tight_lists lists = lists_draw(of, sparse);
    weft_host_class a[WEFT_CLASS_MAX], b[WEFT_CLASS_MAX];
    lists_begin(&lists, a);
    lists_begin(&lists, b);
    uint32_t *x = words_take(of->count), found = places_judge(of, a, x), *y = words_take(found);
    uint32_t here = set->place[of->slot](of->data, cut, of->first, map_of(of), b, y, found);
    assert_true(here <= found);
    uint32_t rest = set->place[of->slot](of->data + (uint64_t)cut * of->width, of->count - cut, of->first + cut,
                                         map_of(of), b, y + here, found - here);
    assert_int_equal(here + rest, found);
    assert_memory_equal(x, y, 4 * (uint64_t)found);
    for (uint32_t c = 0; c < of->map.count; c++) {
        assert_int_equal(a[c].population, b[c].population);
        assert_ptr_equal(a[c].next, b[c].next);
    }
    for (uint32_t room = found; room > 0 && room + 3 > found; room = any() % 2 ? room - 1 : (uint32_t)any() % room) {
        uint32_t *small = words_take(room - 1);
        lists_begin(&lists, b);
        assert_int_equal(set->place[of->slot](of->data, of->count, of->first, map_of(of), b, small, room - 1), room);
        free(small);
    }
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++)
        free(lists.member[c]);
    free(x);
    free(y);
}

static inline void compare_case(const weft_host_tight_kernels *set, const weft_host_kernels *kernels, unsigned slot,
                                uint32_t exponent_bits, uint32_t classes, uint32_t count, uint64_t sparse)
{
    tight_case of = tight_case_of(slot, exponent_bits, classes, count);
    compare_ranks(set, &of, sparse, (uint32_t)(any() % (count + 1)));
    compare_finds(set, kernels, &of, sparse, (uint32_t)(any() % (count + 1)));
    compare_places(set, &of, sparse, (uint32_t)(any() % (count + 1)));
    free(of.data - of.shift);
}

static inline void compare_split(const weft_host_tight_kernels *set, const uint32_t *ranks, uint32_t count)
{
    uint32_t *places = words_take(count), *members = words_take(count), marked = 0;
    memcpy(places, ranks, 4 * (uint64_t)count);
    const uint32_t found = set->split(places, count, members);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(members[i], ranks[i] & ~WEFT_HOST_MARK);
        if (ranks[i] & WEFT_HOST_MARK)
            assert_int_equal(places[marked++], i);
    }
    assert_int_equal(found, marked);
    free(places);
    free(members);
}

/* Compares ranks of `count` changes in `classes` classes, one in `sparse` marked; words after the last may be written.
 */
static inline void compare_sort(const weft_host_tight_kernels *set, uint32_t count, uint32_t classes, uint64_t sparse)
{
    uint8_t *class_of = bytes_take(count, 0);
    uint32_t *rank = words_take(count), *sorted = words_take(count + 64), changed[WEFT_CLASS_MAX], at = 0;
    for (uint32_t i = 0; i < count; i++) {
        class_of[i] = (uint8_t)(any() % 4 ? any() % classes : classes - 1);
        rank[i] = (uint32_t)any() % WEFT_HOST_MARK | (any() % sparse ? 0 : WEFT_HOST_MARK);
    }
    set->sort(class_of, rank, count, changed, sorted);
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++) {
        const uint32_t begin = at;
        for (uint32_t i = 0; i < count; i++) {
            if (class_of[i] == c)
                assert_int_equal(sorted[at++], rank[i]);
        }
        assert_int_equal(changed[c], at - begin);
        compare_split(set, sorted + begin, changed[c]);
    }
    assert_int_equal(at, count);
    free(class_of);
    free(rank);
    free(sorted);
}

static inline void sorts_are_right(const weft_host_tight_kernels *set, const uint64_t *sparse, size_t sparses)
{
    for (uint32_t count = 0; count <= 200; count++)
        compare_sort(set, count, 1 + any() % WEFT_CLASS_MAX, sparse[any() % sparses]);
    for (uint32_t classes = 1; classes <= WEFT_CLASS_MAX; classes++)
        compare_sort(set, 1000 + any() % 5000, classes, sparse[classes % sparses]);
}

/* `kernels` are those that go with the set, or others that run here. */
static inline void tight_is_right(const weft_host_tight_kernels *set, const weft_host_kernels *kernels)
{
    static const struct {
        unsigned slot;
        uint32_t exponent_bits;
    } kinds[] = {{0, 0}, {0, 4}, {0, 5}, {1, 0}, {1, 5}, {1, 8}, {2, 0}, {2, 8}, {3, 0}, {3, 11}};
    static const uint64_t sparse[] = {1, 2, 13, 90, 3000};
    static const uint32_t large[] = {1000, 4096, 9001, 70000};
    sorts_are_right(set, sparse, COUNT(sparse));
    for (size_t k = 0; k < COUNT(kinds); k++) {
        const uint32_t most = kinds[k].exponent_bits ? WEFT_CLASS_MAX : 1;
        for (uint32_t count = 0; count <= 200; count++)
            compare_case(set, kernels, kinds[k].slot, kinds[k].exponent_bits, 1 + any() % most, count,
                         sparse[any() % COUNT(sparse)]);
        for (uint32_t classes = 1; classes <= most; classes++)
            compare_case(set, kernels, kinds[k].slot, kinds[k].exponent_bits, classes, 200 + any() % 700,
                         sparse[classes % 5]);
        for (size_t i = 0; i < COUNT(large) * COUNT(sparse); i++)
            compare_case(set, kernels, kinds[k].slot, kinds[k].exponent_bits, 1 + any() % most, large[i % COUNT(large)],
                         sparse[i / COUNT(large)]);
    }
}

#endif
