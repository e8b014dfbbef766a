/* The locator and iniparser find the same headers and keys in every file that the locator accepts. The locator refuses,
 * with its line, each file on which they would differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#if __has_include(<iniparser/iniparser.h>)
#include <iniparser/iniparser.h>
#else
#include <iniparser.h>
#endif

#include "base/mem.h"
#include "site/site_file.h"
#include "tests/support/site_scratch.h"

static site_scratch scratch;

static weft_status locate(const char *text, size_t count, char **cut, weft_site_lines *lines)
{
    *cut = weft_mem_take(count + 1, 1);
    memcpy(*cut, text, count);
    return weft_site_locate("odd.ini", *cut, count, lines);
}

/* The text's own words on what iniparser found, independent of site_ini.c. */
static void assert_same_set(const char *text, size_t count, const weft_site_lines *lines)
{
    site_scratch_write(&scratch, text, count);
    dictionary *found = iniparser_load(scratch.path);
    assert_non_null(found);
    for (uint64_t i = 0; i < lines->count; i++) {
        char entry[2100];
        const weft_site_line *line = &lines->line[i];
        snprintf(entry, sizeof(entry), "%s%s%s", line->section, line->key ? ":" : "", line->key ? line->key : "");
        if (!iniparser_find_entry(found, entry))
            fail_msg("iniparser lacks [%s] of: %s", entry, text);
    }
    if ((uint64_t)found->n != lines->count)
        fail_msg("iniparser found %d, the locator %llu in: %s", (int)found->n, (unsigned long long)lines->count, text);
    iniparser_freedict(found);
}

static void assert_agree(const char *text, size_t count, uint64_t expected)
{
    char *cut;
    weft_site_lines lines;
    if (locate(text, count, &cut, &lines) != WEFT_OK)
        fail_msg("refused: %s", weft_last_error());
    assert_int_equal(lines.count, expected);
    assert_same_set(text, count, &lines);
    weft_mem_give(lines.line);
    weft_mem_give(cut);
}

static void odd_files_are_read_alike(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t found;
    } odd[] = {
        {"", 0},
        {"\n\n  \n\t\n", 0},
        {"# only a comment", 0},
        {"; a = b", 0},
        {"   # indented = comment\n\t; [x]\n", 0},
        {"[a]", 1},
        {"[a]\n", 1},
        {"  [ a ]  \nk=v\n", 2},
        {"[a]\r\nk = v\r\n", 2},
        {"[a]\nk = v", 2},
        {"[a]\nk=\n", 2},
        {"[a]\nk =   ; nothing but a comment\n", 2},
        {"[a]\nk=;\n", 2},
        {"[a]\nk=#\n", 2},
        {"[a]\nk = \"\"\n", 2},
        {"[a]\nk = ''\n", 2},
        {"[a]\nk = \"a ; b # c\"\n", 2},
        {"[a]\nk = 'it = that'\n", 2},
        {"[a]\nk = \"no end\n", 2},
        {"[a]\nk = v ; [b]\n", 2},
        {"[a]\nk == v\n", 2},
        {"[a]\nk = [v]\n", 2},
        {"[a]\nk = a:b:c\n", 2},
        {"[a]\nk = back\\slash\n", 2},
        {"[a]\nk = \"quoted\\\\\"\n", 2},
        {"[A]\nKey = V\n", 2},
        {"[a.b-c_d*]\nk=v\n", 2},
        {"[a]\nk = 1\n[b]\nk = 1\n", 4},
        {"[a]\nlong key = 1\n", 2},
        {"[a]\nk\t=\tv\t\n", 2},
        {"[a]\n\xc3\xa9 = \xc3\xa9\n", 2},
        {"[a]\nk = \xff\xfe\xfd\n", 2},
        {"[a]\nk = %s%n\n", 2},
        {"[a]\nx = 1\n\n\n# c\n\ny = 2\n", 3},
    };
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        assert_agree(odd[i].text, strlen(odd[i].text), odd[i].found);
}

/* "[a]\nk = xxx" with a second line of just `bytes` bytes. */
static size_t long_line(char *text, size_t bytes, const char *end)
{
    size_t at = (size_t)sprintf(text, "[a]\nk = ");
    memset(text + at, 'x', bytes - 4);
    return at + bytes - 4 + (size_t)sprintf(text + at + bytes - 4, "%s", end);
}

static void the_longest_line_is_read_and_a_longer_refused(void **state)
{
    (void)state;
    char text[2200], *cut;
    weft_site_lines lines;
    assert_agree(text, long_line(text, WEFT_SITE_LINE, "\n"), 2);
    assert_agree(text, long_line(text, WEFT_SITE_LINE, ""), 2);
    assert_int_equal(locate(text, long_line(text, WEFT_SITE_LINE + 1, "\n"), &cut, &lines), WEFT_E_CONFIG);
    assert_string_equal(weft_last_error(), "odd.ini:2: a line of 1023 bytes; need at most 1022");
    weft_mem_give(cut);
}

/* Written by value, because iniparser itself cannot take a longer line. */
static int hush(const char *format, ...)
{
    (void)format;
    return 0;
}

static void the_limit_is_iniparsers(void **state)
{
    (void)state;
    char text[2200];
    size_t count = long_line(text, WEFT_SITE_LINE + 1, "\n");
    site_scratch_write(&scratch, text, count);
    iniparser_set_error_callback(hush);
    dictionary *found = iniparser_load(scratch.path);
    iniparser_set_error_callback(NULL);
    assert_null(found);
}

static void lines_that_would_be_misread_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t count; /* 0: strlen */
        const char *says;
    } bad[] = {
        {"[a]\nk = v \\\nl = w\n", 0, "odd.ini:2: a \\ at the end"},
        {"[a]\n# comment \\\nl = w\n", 0, "odd.ini:2: a \\ at the end"},
        {"[a]\nk = v\\ \t\r\n", 0, "odd.ini:2: a \\ at the end"},
        {"\\", 0, "odd.ini:1: a \\ at the end"},
        {"[a]\nlonely\n", 0, "odd.ini:2: need key = value"},
        {"[a]\nx", 0, "odd.ini:2: need key = value"},
        {"[a]\nkey: value\n", 0, "odd.ini:2: need key = value"},
        {"[a] ; comment\n", 0, "odd.ini:1: nothing may follow"},
        {"[a] k = v\n", 0, "odd.ini:1: nothing may follow"},
        {"[a]]\n", 0, "odd.ini:1: nothing may follow"},
        {"[a\n", 0, "odd.ini:1: a header needs its ]"},
        {"[a = b\n", 0, "odd.ini:1: a header needs its ]"},
        {"[]\n", 0, "odd.ini:1: a header needs a name"},
        {"[  ]\n", 0, "odd.ini:1: a header needs a name"},
        {"k = v\n", 0, "odd.ini:1: a key before the first [header]"},
        {"[a]\n = v\n", 0, "odd.ini:2: no key before the ="},
        {"[a]\n=\n", 0, "odd.ini:2: no key before the ="},
        {"\xef\xbb\xbf[a]\n", 0, "odd.ini:1: begins with a byte order mark"},
        {"[a]\nk = \0v\n", 11, "odd.ini:2: a control character"},
        {"[a]\n\0\n", 6, "odd.ini:2: a control character"},
        {"[a]\nk = v\x1b[1m\n", 0, "odd.ini:2: a control character"},
        {"[a]\nk = 1\rl = 2\n", 0, "odd.ini:2: a control character"},
        {"[a]\nk = 1\fl\n", 0, "odd.ini:2: a control character"},
        {"# \x7f\n", 0, "odd.ini:1: a control character"},
        {"[a]\nk = v\xc2\x9b\n", 0, "odd.ini:2: a control character"},
        {"\x7f"
         "ELF\x02\x01\x01",
         0, "odd.ini:1: a control character"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char *cut;
        weft_site_lines lines;
        size_t count = bad[i].count ? bad[i].count : strlen(bad[i].text);
        assert_int_equal(locate(bad[i].text, count, &cut, &lines), WEFT_E_CONFIG);
        if (strncmp(weft_last_error(), bad[i].says, strlen(bad[i].says)))
            fail_msg("'%s' instead of '%s'", weft_last_error(), bad[i].says);
        weft_mem_give(cut);
    }
}

static void lines_bear_their_numbers(void **state)
{
    (void)state;
    const char *text = "# one\n\n[a]\r\n k = v\n\n;\n[ b ]\nl=";
    char *cut;
    weft_site_lines lines;
    assert_int_equal(locate(text, strlen(text), &cut, &lines), WEFT_OK);
    assert_int_equal(lines.count, 4);
    assert_int_equal(lines.line[0].number, 3);
    assert_null(lines.line[0].key);
    assert_int_equal(lines.line[1].number, 4);
    assert_string_equal(lines.line[1].section, "a");
    assert_string_equal(lines.line[1].key, "k");
    assert_int_equal(lines.line[2].number, 7);
    assert_string_equal(lines.line[3].section, "b");
    assert_string_equal(lines.line[3].key, "l");
    assert_int_equal(lines.line[3].number, 8);
    weft_mem_give(lines.line);
    weft_mem_give(cut);
}

/* Random lines of the characters that matter to either; whatever the locator lets through must agree, unless it holds
 * a duplicate, which the next stage finds. */
static bool holds_duplicate(const weft_site_lines *lines)
{
    for (uint64_t i = 0; i < lines->count; i++) {
        for (uint64_t j = 0; j < i; j++) {
            const weft_site_line *a = &lines->line[i], *b = &lines->line[j];
            if (!a->key == !b->key && !strcasecmp(a->section, b->section) && (!a->key || !strcasecmp(a->key, b->key)))
                return true;
        }
    }
    return false;
}

static void random_files_are_read_alike_or_refused(void **state)
{
    (void)state;
    static const char alphabet[] = "ab[]==\"\"'';#\\  \t\r\n\n\n.*1";
    uint64_t seed = 1, agreed = 0;
    for (int round = 0; round < 20000; round++) {
        char text[40], *cut;
        weft_site_lines lines;
        size_t count = (size_t)snprintf(text, sizeof(text), "[s%d]\n", round % 7);
        for (size_t length = count + (size_t)round % 24; count < length; count++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            text[count] = alphabet[(seed >> 33) % (sizeof(alphabet) - 1)];
        }
        text[count] = 0;
        if (locate(text, count, &cut, &lines) == WEFT_OK) {
            if (!holds_duplicate(&lines)) {
                assert_same_set(text, count, &lines);
                agreed++;
            }
            weft_mem_give(lines.line);
        }
        weft_mem_give(cut);
    }
    assert_true(agreed > 1000); /* the rounds must not all be refused */
}

static int set_up(void **state)
{
    (void)state;
    site_scratch_open(&scratch);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    site_scratch_close(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_files_are_read_alike), cmocka_unit_test(the_longest_line_is_read_and_a_longer_refused),
        cmocka_unit_test(the_limit_is_iniparsers),  cmocka_unit_test(lines_that_would_be_misread_are_refused),
        cmocka_unit_test(lines_bear_their_numbers), cmocka_unit_test(random_files_are_read_alike_or_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
