/* The answer of libfabric that is taken, or what is missing if none is. Over recorded lists of hosts that are not at
 * hand (tests/providers), and over the profiles' tables themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "providers/near.h"
#include "providers/select.h"

#define ANSWERS 64

typedef struct host {
    char path[512];
    unsigned line;
    uint32_t library;
    char rdma[128];
    char efa[128];
    uint64_t lock;
    char labels[ANSWERS][16];
    weft_candidate answers[ANSWERS];
    weft_distance distances[ANSWERS]; /* to the device that is asked about */
    size_t count;
    /* the question being judged */
    weft_verdict verdicts[ANSWERS];
    weft_selection selection;
    weft_host_survey survey;
    char address[64];
    unsigned questions;
} host;

#define HOLD(h, condition, ...)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            print_error("%s:%u: ", (h)->path, (h)->line);                                                              \
            fail_msg(__VA_ARGS__);                                                                                     \
        }                                                                                                              \
    } while (0)

/* ---- reading */

static unsigned flags(const host *h, const char *text, const char *const *names, size_t count)
{
    char copy[128], *rest = NULL;
    unsigned result = 0;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        size_t i = 0;
        while (i < count && strcmp(names[i], word) != 0)
            i++;
        HOLD(h, i < count, "unknown word %s", word);
        result |= 1u << i;
    }
    return result;
}

static void set_text(const host *h, char *to, size_t capacity, const char *value)
{
    HOLD(h, (size_t)snprintf(to, capacity, "%s", value) < capacity, "%s is too long", value);
}

static void set_field(const host *h, weft_candidate *c, const char *key, const char *value)
{
    static const char *const caps[] = {"write", "message"};
    static const char *const modes[] = {"local", "virtual", "allocated", "key", "endpoint", "other"};
    if (!strcmp(key, "provider"))
        set_text(h, c->provider, sizeof c->provider, value);
    else if (!strcmp(key, "fabric"))
        set_text(h, c->fabric, sizeof c->fabric, value);
    else if (!strcmp(key, "domain"))
        set_text(h, c->domain, sizeof c->domain, value);
    else if (!strcmp(key, "address"))
        set_text(h, c->address, sizeof c->address, value);
    else if (!strcmp(key, "network"))
        set_text(h, c->network, sizeof c->network, value);
    else if (!strcmp(key, "bus"))
        set_text(h, c->bus, sizeof c->bus, value);
    else if (!strcmp(key, "caps"))
        c->caps = flags(h, value, caps, 2);
    else if (!strcmp(key, "mr"))
        c->registration = flags(h, value, modes, 6);
    else if (!strcmp(key, "immediate"))
        c->immediate_bytes = (uint32_t)strtoul(value, NULL, 10);
    else if (!strcmp(key, "message"))
        c->message_bytes = strtoull(value, NULL, 10);
    else if (!strcmp(key, "tx"))
        c->transmit = strtoull(value, NULL, 10);
    else if (!strcmp(key, "rx"))
        c->receive = strtoull(value, NULL, 10);
    else if (!strcmp(key, "gbit"))
        c->bits_s = strtoull(value, NULL, 10) * 1000000000;
    else if (!strcmp(key, "gids"))
        c->gids = atoi(value);
    else if (!strcmp(key, "link"))
        c->link = strcmp(value, "up") ? WEFT_LINK_DOWN : WEFT_LINK_UP;
    else if (!strcmp(key, "protocol"))
        c->protocol = strcmp(value, "through") ? WEFT_PROTOCOL_OTHER : WEFT_PROTOCOL_RXM_THROUGH;
    else
        HOLD(h, false, "unknown key %s", key);
}

static void read_answer(host *h, char *words)
{
    char *rest = NULL, *label = strtok_r(words, " ", &rest);
    HOLD(h, h->count < ANSWERS && label, "an answer needs a label, and %d at most are kept", ANSWERS);
    weft_candidate *c = &h->answers[h->count];
    *c = (weft_candidate){.gids = -1, .protocol = WEFT_PROTOCOL_OTHER};
    set_text(h, h->labels[h->count++], sizeof h->labels[0], label);
    for (char *pair = strtok_r(NULL, " ", &rest); pair; pair = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(pair, '=');
        HOLD(h, equals, "%s has no value", pair);
        *equals = '\0';
        set_field(h, c, pair, equals + 1);
    }
}

static void read_question(host *h, char *words)
{
    char *rest = NULL, *profile = strtok_r(words, " ", &rest), *address = strtok_r(NULL, " ", &rest);
    char *pin = strtok_r(NULL, " ", &rest);
    HOLD(h, profile && address && weft_profile_find(profile), "ask PROFILE ADDRESS");
    set_text(h, h->address, sizeof h->address, strcmp(address, "-") ? address : "");
    bool numeric = strspn(h->address, "0123456789.") == strlen(h->address) || strchr(h->address, ':');
    h->survey = (weft_host_survey){.profile = weft_profile_find(profile),
                                   .library = h->library,
                                   .address = h->address,
                                   .numeric = numeric ? h->address : "",
                                   .candidates = h->answers,
                                   .count = h->count,
                                   .pin_limit = h->lock,
                                   .pin_bytes = pin ? strtoull(strchr(pin, '=') + 1, NULL, 10) << 10 : 0};
    h->survey.here = h->survey.profile->device == WEFT_DEVICE_EFA    ? h->efa
                     : h->survey.profile->device == WEFT_DEVICE_RDMA ? h->rdma
                                                                     : "";
    weft_select(&h->survey, h->verdicts, &h->selection);
    h->questions++;
}

/* ---- judging */

static size_t find_label(const host *h, const char *label)
{
    size_t i = 0;
    while (i < h->count && strcmp(h->labels[i], label) != 0)
        i++;
    HOLD(h, i < h->count, "no answer %s", label);
    return i;
}

/* distance WORD LABELS: of what lies there, as seen from the device that is asked about from now on. */
static void read_distance(host *h, char *words)
{
    static const char *const names[] = {"unknown", "bridge", "complex", "node", "far"};
    char *rest = NULL, *word = strtok_r(words, " ", &rest);
    size_t distance = 0;
    while (distance < 5 && strcmp(names[distance], word) != 0)
        distance++;
    HOLD(h, distance < 5, "unknown distance %s", word);
    for (char *label = strtok_r(NULL, " ", &rest); label; label = strtok_r(NULL, " ", &rest))
        h->distances[find_label(h, label)] = (weft_distance)distance;
}

/* near LABELS: all NICs that would serve, nearest first. */
static void judge_near(const host *h, char *words)
{
    size_t order[ANSWERS], at = 0;
    size_t count = weft_near_order(&h->survey, h->verdicts, h->distances, order, ANSWERS);
    char *rest = NULL;
    for (char *label = strtok_r(words, " ", &rest); label; label = strtok_r(NULL, " ", &rest), at++)
        HOLD(h, at < count && find_label(h, label) == order[at], "place %zu has %s, not %s", at + 1,
             at < count ? h->labels[order[at]] : "nothing", label);
    HOLD(h, at == count, "%zu NICs, not %zu", count, at);
}

static void judge_verdict(const host *h, char *words)
{
    char text[256], *rest = NULL, *verdict = strtok_r(words, " ", &rest);
    for (char *label = strtok_r(NULL, " ", &rest); label; label = strtok_r(NULL, " ", &rest)) {
        const size_t i = find_label(h, label);
        const char *is = weft_verdict_name(h->verdicts[i]);
        HOLD(h, !strcmp(is, verdict), "%s is judged %s, not %s (%s)", label, is, verdict, h->selection.text);
        weft_verdict_text(&h->survey, i, h->verdicts[i], text, sizeof text);
        HOLD(h, text[0], "the verdict on %s has no words", label);
    }
}

/* Returns a word that the message about a missing piece must hold. */
static const char *mend_of(const host *h)
{
    switch (h->selection.missing) {
    case WEFT_MISSING_VERSION:
        return "too old";
    case WEFT_MISSING_PROVIDER:
        return "built without";
    case WEFT_MISSING_DEVICE:
        return h->survey.profile->absent;
    case WEFT_MISSING_ADDRESS:
        return "choose one of these";
    case WEFT_MISSING_LINK:
        return "is down";
    case WEFT_MISSING_ROUTABLE:
        return "routable IP";
    case WEFT_MISSING_GID:
        return "/gids";
    case WEFT_MISSING_PINNING:
        return "raise the limit to";
    default:
        return "";
    }
}

static void judge_missing(const host *h, const char *word)
{
    const weft_selection *s = &h->selection;
    HOLD(h, !strcmp(weft_missing_name(s->missing), word), "missing is %s, not %s: %s", weft_missing_name(s->missing),
         word, s->text);
    HOLD(h, s->text[0] && strstr(s->text, mend_of(h)), "the text lacks \"%s\": %s", mend_of(h), s->text);
    const weft_status status = s->missing == WEFT_MISSING_NOTHING   ? WEFT_OK
                               : s->missing == WEFT_MISSING_LINK    ? WEFT_AGAIN /* may come up */
                               : s->missing == WEFT_MISSING_ADDRESS ? WEFT_E_CONFIG
                                                                    : WEFT_E_MISSING;
    HOLD(h, weft_select_status(s->missing) == status, "status");
    if (s->missing == WEFT_MISSING_NOTHING || s->missing == WEFT_MISSING_PINNING)
        HOLD(h, s->taken < h->count && h->verdicts[s->taken] == WEFT_VERDICT_TAKEN, "taken is not what is taken");
    else
        HOLD(h, s->taken == h->count, "taken though something is missing");
}

/* offers LABELS: those and no others are named as what to choose instead ("-": none). */
static void judge_offers(const host *h, char *words)
{
    bool wanted[ANSWERS] = {false};
    char name[128], *rest = NULL;
    const char *list = strstr(h->selection.text, "choose one of these: ");
    HOLD(h, list, "nothing is offered: %s", h->selection.text);
    for (char *label = strtok_r(words, " ", &rest); label && strcmp(label, "-"); label = strtok_r(NULL, " ", &rest))
        wanted[find_label(h, label)] = true;
    for (size_t i = 0; i < h->count; i++) {
        snprintf(name, sizeof name, "%.63s %.63s", h->answers[i].domain, h->answers[i].address);
        HOLD(h, (strstr(list, name) != NULL) == wanted[i], "%s is %s: %s", h->labels[i],
             wanted[i] ? "not offered" : "offered", h->selection.text);
    }
}

static void play_line(host *h, char *line)
{
    char *word = line, *rest = strchr(line, ' ');
    if (rest)
        *rest++ = '\0';
    HOLD(h, rest, "%s alone", word);
    unsigned major, minor;
    if (!strcmp(word, "library") && sscanf(rest, "%u.%u", &major, &minor) == 2)
        h->library = WEFT_FABRIC_VERSION(major, minor);
    else if (!strcmp(word, "rdma"))
        set_text(h, h->rdma, sizeof h->rdma, rest);
    else if (!strcmp(word, "efa"))
        set_text(h, h->efa, sizeof h->efa, rest);
    else if (!strcmp(word, "lock"))
        h->lock = strcmp(rest, "any") ? strtoull(rest, NULL, 10) << 10 : UINT64_MAX;
    else if (!strcmp(word, "answer"))
        read_answer(h, rest);
    else if (!strcmp(word, "ask"))
        read_question(h, rest);
    else if (!strcmp(word, "verdict"))
        judge_verdict(h, rest);
    else if (!strcmp(word, "distance"))
        read_distance(h, rest);
    else if (!strcmp(word, "near"))
        judge_near(h, rest);
    else if (!strcmp(word, "offers"))
        judge_offers(h, rest);
    else if (!strcmp(word, "missing"))
        judge_missing(h, rest);
    else
        HOLD(h, false, "unknown line %s", word);
}

static void a_host_is_judged_as_recorded(void **state)
{
    static host h;
    char line[1024];
    memset(&h, 0, sizeof h);
    const char *source = getenv("WEFT_SOURCE");
    snprintf(h.path, sizeof h.path, "%s/tests/providers/%s.txt", source ? source : ".", (const char *)*state);
    FILE *file = fopen(h.path, "r");
    HOLD(&h, file, "cannot be read");
    while (fgets(line, sizeof line, file)) {
        h.line++;
        line[strcspn(line, "\n")] = '\0';
        if (line[0] && line[0] != '#')
            play_line(&h, line);
    }
    fclose(file);
    HOLD(&h, h.questions > 0, "asks nothing");
}

/* ---- what lists cannot say */

static void a_build_without_libfabric_says_so(void **state)
{
    (void)state;
    weft_host_survey survey = {
        .profile = &weft_profile_tcp, .address = "", .numeric = "", .here = "", .error = "no libfabric"};
    weft_verdict verdict;
    weft_selection selection;
    weft_select(&survey, &verdict, &selection);
    assert_int_equal(selection.missing, WEFT_MISSING_LIBRARY);
    assert_non_null(strstr(selection.text, "no libfabric"));
}

static void near_is_a_word_of_its_own(void **state)
{
    (void)state;
    static const char *const others[] = {"", "near", "near0", "near10", "near1x", "nearby", "eth0", "Near1"};
    char address[64], bus[WEFT_PLACE_BUS];
    assert_int_equal(weft_near_rank("near1"), 1);
    assert_int_equal(weft_near_rank("near8"), 8);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(weft_near_rank(others[i]), 0);
    assert_int_equal(weft_near_resolve(&weft_profile_tcp, "192.0.2.1", 0, address, sizeof address), WEFT_OK);
    assert_string_equal(address, "192.0.2.1");
    assert_int_equal(weft_near_resolve(&weft_profile_shm, "near1", 0, address, sizeof address), WEFT_OK);
    weft_near_accelerator(0, bus);
    assert_string_equal(bus, "");
}

static void the_limit_on_locked_memory_names_the_number_needed(void **state)
{
    (void)state;
    char text[320];
    assert_true(weft_select_may_pin(&weft_profile_verbs, 4096, 0, 4096, text, sizeof text));
    assert_true(weft_select_may_pin(&weft_profile_tcp, 4096, 4096, 4096, text, sizeof text));
    assert_true(weft_select_may_pin(&weft_profile_verbs, UINT64_MAX, UINT64_MAX, 1, text, sizeof text));
    assert_false(weft_select_may_pin(&weft_profile_verbs, 8192, 4096, 4097, text, sizeof text));
    assert_non_null(strstr(text, "may lock 8 KiB"));
    assert_non_null(strstr(text, "to 9 KiB or more"));
    assert_false(weft_select_may_pin(&weft_profile_efa, 8192, UINT64_MAX - 1, 4, text, sizeof text));
}

static void every_line_of_every_profile_has_a_value(void **state)
{
    (void)state;
    const weft_profile *profile;
    size_t count = 0;
    for (; (profile = weft_profile_at(count)); count++) {
        char value[512], shorter[8];
        const char *name;
        size_t line = 0;
        assert_ptr_equal(weft_profile_find(profile->name), profile);
        for (; (name = weft_profile_line(profile, line, value, sizeof value)); line++) {
            if (!value[0])
                fail_msg("%s: %s lacks a value", profile->name, name);
            assert_string_equal(weft_profile_line(profile, line, shorter, sizeof shorter), name);
            assert_int_equal(strncmp(shorter, value, sizeof shorter - 1), 0);
        }
        assert_int_equal(line, 13);
    }
    assert_int_equal(count, 6);
    assert_null(weft_profile_find("loop"));
}

/* The code takes these things for granted of each row. */
static void every_profile_can_work(void **state)
{
    (void)state;
    const weft_profile *profile;
    for (size_t i = 0; (profile = weft_profile_at(i)); i++) {
        assert_true(profile->caps & WEFT_CAP_WRITE);
        assert_true(profile->immediate_bytes >= 4);
        assert_in_range(profile->chunk_bytes, 1, profile->chunk_max);
        assert_in_range(profile->depth, 1, profile->depth_max);
        assert_false(profile->registration & WEFT_MR_OTHER);
        assert_string_equal(weft_profile_fabric(profile, 0), profile->names[profile->names[1].fabric ? 1 : 0].fabric);
        assert_true(profile->pins == (profile->device != WEFT_DEVICE_NONE));
        assert_true(profile->absent[0] && profile->completion[0] && profile->abort[0]);
    }
}

static void the_name_and_the_rules_follow_the_version(void **state)
{
    (void)state;
    const weft_profile *tcp = &weft_profile_tcp;
    assert_string_equal(weft_profile_fabric(tcp, WEFT_FABRIC_VERSION(1, 17)), "net");
    assert_string_equal(weft_profile_fabric(tcp, WEFT_FABRIC_VERSION(1, 18)), "tcp");
    assert_int_equal(weft_profile_api(tcp, WEFT_FABRIC_VERSION(1, 17), WEFT_FABRIC_VERSION(2, 1)),
                     WEFT_FABRIC_VERSION(1, 17));
    assert_int_equal(weft_profile_api(tcp, WEFT_FABRIC_VERSION(2, 1), WEFT_FABRIC_VERSION(1, 17)),
                     WEFT_FABRIC_VERSION(1, 17));
    assert_int_equal(weft_profile_api(tcp, WEFT_FABRIC_VERSION(2, 7), WEFT_FABRIC_VERSION(2, 1)),
                     WEFT_FABRIC_VERSION(2, 0));
}

#define RECORDED(name)                                                                                                 \
    {                                                                                                                  \
        "a host is judged as recorded: " name, a_host_is_judged_as_recorded, NULL, NULL, (void *)(uintptr_t)name       \
    }

int main(void)
{
    static const struct CMUnitTest tests[] = {
        RECORDED("efa"),
        RECORDED("rails"),
        RECORDED("efa_old"),
        RECORDED("infiniband"),
        RECORDED("roce"),
        RECORDED("nothing"),
        RECORDED("unbuilt"),
        RECORDED("late_switch"),
        cmocka_unit_test(a_build_without_libfabric_says_so),
        cmocka_unit_test(near_is_a_word_of_its_own),
        cmocka_unit_test(the_limit_on_locked_memory_names_the_number_needed),
        cmocka_unit_test(every_line_of_every_profile_has_a_value),
        cmocka_unit_test(every_profile_can_work),
        cmocka_unit_test(the_name_and_the_rules_follow_the_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
