/* Whatever becomes of the manual's bytes, loading it either gives a site that can be used and copied, or refuses it
 * with a text that names the file. Sanitizers watch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "site/site.h"
#include "tests/support/site_scratch.h"

#define ROUNDS 4000

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
    seed += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

/* Half of the defaults are written out, so that values are mutated and not only comments. */
static size_t manual(char *text, size_t room)
{
    char path[512];
    size_t count;
    char *read = site_scratch_conf("weft.ini", path, &count);
    assert_true(count < room / 2);
    size_t at = 0;
    for (char *rest, *line = strtok_r(read, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (line[0] == '#')
            continue;
        at += (size_t)snprintf(text + at, room - at, "%s\n", line + (line[0] == ';' && draw(2)));
    }
    free(read);
    return at;
}

static size_t splice(char *text, size_t count, size_t at, size_t cut, const char *insert, size_t bytes)
{
    memmove(text + at + bytes, text + at + cut, count - at - cut);
    memcpy(text + at, insert, bytes);
    return count - cut + bytes;
}

static size_t mutate(char *text, size_t count)
{
    static const char *const words[] = {"*",
                                        "[",
                                        "]",
                                        "=",
                                        "\\\n",
                                        "\n",
                                        ";",
                                        "#",
                                        "\"",
                                        "'",
                                        "\t",
                                        "\r\n",
                                        "[peer.x]\n",
                                        "MiB",
                                        "99999999999999999999GiB",
                                        "%n%s",
                                        "[peer.g-*]\nwindow = 3\n",
                                        "\xff",
                                        "\xef\xbb\xbf",
                                        "bucket = 1MiB\n",
                                        "-1"};
    char piece[128];
    size_t at = draw(count + 1), left = count - at, length;
    switch (draw(6)) {
    case 0: /* flip a bit */
        if (left)
            text[at] = (char)(text[at] ^ (1 << draw(8)));
        return count;
    case 1: /* any byte */
        if (left)
            text[at] = (char)draw(256);
        return count;
    case 2: /* drop some */
        return splice(text, count, at, draw(left < 40 ? left + 1 : 40), "", 0);
    case 3: /* repeat some elsewhere */
        length = left < sizeof(piece) ? left : draw(sizeof(piece));
        memcpy(piece, text + at, length);
        return splice(text, count, draw(count + 1), 0, piece, length);
    case 4: /* cut the file short */
        return draw(20) ? count : at;
    default:
        length = draw(sizeof(words) / sizeof(words[0]));
        return splice(text, count, at, 0, words[length], strlen(words[length]));
    }
}

static void use(weft_site *site)
{
    weft_site *copy;
    weft_site_peer peer;
    char text[WEFT_SITE_TEXT];
    assert_int_equal(weft_site_copy(site, &copy), WEFT_OK);
    weft_site_free(site);
    for (uint64_t i = 0; i < copy->peer_count; i++) {
        assert_int_equal(weft_site_resolve(copy, copy->peers[i].name, &peer), WEFT_OK);
        assert_true((peer.bucket_max == 0 || peer.bucket_min <= peer.bucket_max) && peer.window >= 1 &&
                    peer.window <= 256);
        assert_int_equal(weft_site_get(copy, peer.name, "peer.bucket", text, sizeof(text)), WEFT_OK);
    }
    assert_int_equal(weft_site_get(copy, NULL, "trainer.listen", text, sizeof(text)), WEFT_OK);
    weft_site_free(copy);
}

static void mutated_manuals_load_or_are_refused(void **state)
{
    (void)state;
    static char text[1 << 17];
    site_scratch scratch;
    uint64_t loaded = 0, refused = 0;
    site_scratch_open(&scratch);
    for (seed = 0; loaded + refused < ROUNDS; seed = (loaded + refused) << 32) {
        size_t count = manual(text, sizeof(text));
        for (uint64_t n = 1 + draw(4); n; n--)
            count = mutate(text, count);
        weft_site *site = NULL;
        site_scratch_write(&scratch, text, count);
        weft_status status = weft_site_load(scratch.path, NULL, 0, &site);
        if (status == WEFT_OK) {
            use(site);
            loaded++;
            continue;
        }
        assert_int_equal(status, WEFT_E_CONFIG);
        assert_null(site);
        assert_non_null(strstr(weft_last_error(), scratch.path));
        refused++;
    }
    site_scratch_close(&scratch);
    print_message("%llu loaded, %llu refused\n", (unsigned long long)loaded, (unsigned long long)refused);
    assert_true(loaded > ROUNDS / 20 && refused > ROUNDS / 20); /* both ways are walked */
}

static void mutated_overrides_are_taken_or_refused(void **state)
{
    (void)state;
    static const char *const good[] = {"trainer.listen=127.0.0.1:7000", "peer.a.bucket=1MiB", "peers.rate_limit=none",
                                       "provider.tcp.depth=4", "peer.gpu-7.level=fast"};
    site_scratch scratch;
    const char *file = "[peer.a]\n[peer.gpu-*]\n";
    site_scratch_open(&scratch);
    site_scratch_write(&scratch, file, strlen(file));
    for (uint64_t round = 0; round < ROUNDS; round++) {
        char text[1024];
        const char *list = text;
        weft_site *site = NULL;
        seed = round << 32;
        size_t count = (size_t)snprintf(text, sizeof(text), "%s", good[draw(5)]);
        for (uint64_t n = 1 + draw(2); n; n--)
            count = mutate(text, count);
        text[count] = 0;
        weft_status status = weft_site_load(scratch.path, &list, 1, &site);
        assert_true(status == WEFT_OK || status == WEFT_E_CONFIG);
        if (status == WEFT_OK)
            use(site);
        else
            assert_non_null(strstr(weft_last_error(), "override"));
    }
    site_scratch_close(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutated_manuals_load_or_are_refused),
        cmocka_unit_test(mutated_overrides_are_taken_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
