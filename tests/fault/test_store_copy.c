/* A copy of a store whose place is at fault: bytes that came out otherwise are seen and leave no file, files come in an
 * order that can be read at every moment, and a file of the same size that is another version is in the way. */
#include "tests/support/store_forge.h"

enum { MADE = 5, ANCHORS = 3, MOST = 64 };

/* A folder that notes what is put there, and spoils one file. */
typedef struct place {
    weft_store_port port;
    const weft_store_port *folder;
    weft_status (*fill)(void *user, const weft_sink *sink);
    void *filled;
    const weft_sink *sink;
    uint64_t at, spoiled;
    weft_store_name put[MOST];
    uint64_t count;
} place;

static place there;

static weft_status spoiled_write(void *user, const void *data, uint64_t bytes)
{
    uint8_t *copy = malloc(bytes);
    (void)user;
    assert_non_null(copy);
    memcpy(copy, data, bytes);
    if (there.spoiled - there.at < bytes)
        copy[there.spoiled - there.at] ^= 1;
    there.at += bytes;
    const weft_status status = there.sink->write(there.sink->user, copy, bytes);
    free(copy);
    return status;
}

static weft_status spoiled_fill(void *user, const weft_sink *sink)
{
    const weft_sink own = {user, spoiled_write};
    there.sink = sink;
    there.at = 0;
    return there.fill(there.filled, &own);
}

static weft_status put_noted(void *user, const char *name, weft_status (*fill)(void *user, const weft_sink *sink),
                             void *filled)
{
    assert_true(there.count < MOST && weft_store_name_get(name, &there.put[there.count++]));
    there.fill = fill;
    there.filled = filled;
    return there.folder->put(user, name, spoiled_fill, NULL);
}

static void places_open(world *from, world *to)
{
    world_open(from, ANCHORS);
    world_fill(from, MADE);
    world_open(to, ANCHORS);
    there = (place){.port = *to->store->port, .folder = to->store->port, .spoiled = UINT64_MAX};
    there.port.put = put_noted;
    to->store->port = &there.port;
}

static weft_status copied(world *from, world *to, uint64_t *faults)
{
    return weft_store_copy(from->store, to->store, NULL, NULL, NULL, faults, NULL);
}

static void test_other_bytes_leave_no_file(void **state)
{
    world from, to;
    uint64_t faults;
    (void)state;
    places_open(&from, &to);
    there.spoiled = file_bytes(&from, 0, WEFT_STORE_ANCHOR) / 2; /* between the ends, which stay as they are */
    assert_int_equal(copied(&from, &to, &faults), WEFT_E_CHECK);
    assert_int_equal(there.count, 1);
    assert_int_equal(file_bytes(&to, 0, WEFT_STORE_ANCHOR), 0);
    there.spoiled = UINT64_MAX;
    assert_int_equal(copied(&from, &to, &faults), WEFT_OK);
    assert_int_equal(faults, 0);
    store_reopen(&to);
    assert_int_equal(weft_store_check(to.store, NULL, NULL, NULL, &faults), WEFT_OK);
    assert_int_equal(faults, 0);
    world_close(&to);
    world_close(&from);
}

static void test_a_version_has_its_anchor_first(void **state)
{
    world from, to;
    uint64_t faults;
    bool both = false;
    (void)state;
    places_open(&from, &to);
    assert_int_equal(copied(&from, &to, &faults), WEFT_OK);
    for (uint64_t i = 1; i < there.count; i++) {
        const weft_store_name *before = &there.put[i - 1], *now = &there.put[i];
        assert_true(before->number <= now->number);
        both = both || (before->number == now->number && before->kind == WEFT_STORE_ANCHOR);
        assert_true(before->number < now->number || now->kind != WEFT_STORE_ANCHOR);
    }
    assert_true(both);
    world_close(&to);
    world_close(&from);
}

/* Puts a version 1 that has two elements in each other's place, which moves no byte of the file's length. */
static bool put_other(const world *from, world *to, uint64_t at)
{
    uint16_t *words = (uint16_t *)(void *)to->c.image[0];
    memcpy(words, from->c.image[0], image_bytes(&from->c));
    const uint16_t word = words[at];
    words[at] = words[at + 1];
    words[at + 1] = word;
    return words[at] != word && put(to, 0) == WEFT_OK &&
           file_bytes(to, 0, WEFT_STORE_ANCHOR) == file_bytes(from, 0, WEFT_STORE_ANCHOR);
}

static void test_another_version_of_the_same_size_is_in_the_way(void **state)
{
    world from, to;
    uint64_t faults, at = 0;
    (void)state;
    world_open(&from, ANCHORS);
    world_fill(&from, MADE);
    for (world_open(&to, ANCHORS); !put_other(&from, &to, at); at += 2) {
        assert_true(at < 100);
        world_close(&to);
        world_open(&to, ANCHORS);
    }
    assert_int_equal(copied(&from, &to, &faults), WEFT_OK);
    assert_int_equal(faults, 1);
    store_reopen(&to);
    memset(to.c.work, 0, image_bytes(&to.c));
    moves(&to, 0, NULL); /* the bits that were there */
    world_close(&to);
    world_close(&from);
}

/* A store that goes on from another version: its update has the name, the length and the target of ours. */
static void test_another_base_is_in_the_way(void **state)
{
    world from, to;
    uint64_t faults;
    (void)state;
    places_open(&from, &to);
    assert_int_equal(copied(&from, &to, &faults), WEFT_OK);
    assert_int_equal(faults, 0);
    weft_update_file *update = NULL;
    weft_store_file *file = &from.store->versions[1].files[WEFT_STORE_UPDATE];
    assert_int_equal(weft_store_file_open(from.store, file, &update), WEFT_OK);
    memory_file bytes = {0};
    const uint64_t size = file_bytes(&from, 1, WEFT_STORE_UPDATE);
    bytes.data = malloc(bytes.bytes = size);
    assert_int_equal(update->source.read(update->source.user, 0, bytes.data, size), WEFT_OK);
    root_replace(&bytes, update->header.base.root, 77);
    file_write(&to, 1, WEFT_STORE_UPDATE, &bytes);
    store_reopen(&to);
    assert_int_equal(copied(&from, &to, &faults), WEFT_OK);
    assert_int_equal(faults, 1);
    weft_update_close(update);
    memory_free(&bytes);
    world_close(&to);
    world_close(&from);
}

static struct {
    unsigned faults;
    weft_status status, returns;
    char text[512];
} noted;

static weft_status fault_noted(void *user, const weft_store_fault *fault)
{
    (void)user;
    noted.faults++;
    noted.status = fault->status;
    snprintf(noted.text, sizeof noted.text, "%s", fault->text);
    return noted.returns;
}

/* Copies, and compares the figures, which are there after an error too. */
static void copies(world *from, world *to, weft_status status, uint64_t files, uint64_t stayed, unsigned faults)
{
    weft_store_copied info = {.size = sizeof info};
    uint64_t count = 99;
    noted.faults = 0;
    assert_int_equal(weft_store_copy(from->store, to->store, NULL, fault_noted, NULL, &count, &info), status);
    assert_true(info.files == files && info.there == stayed && count == faults && noted.faults == faults);
}

/* Six files, of which one is longer over there, and then one is damaged here. */
static void test_faults_are_told_and_the_others_copied(void **state)
{
    world from, to;
    char path[512];
    (void)state;
    noted.returns = WEFT_OK;
    places_open(&from, &to);
    copies(&from, &to, WEFT_OK, 6, 0, 0);
    file_path(&to, 4, WEFT_STORE_UPDATE, path);
    assert_int_equal(truncate(path, (off_t)file_bytes(&to, 4, WEFT_STORE_UPDATE) + 4), 0);
    copies(&from, &to, WEFT_OK, 0, 5, 1);
    assert_int_equal(noted.status, WEFT_E_STATE);
    assert_non_null(strstr(noted.text, "a store overwrites nothing"));
    file_path(&from, 1, WEFT_STORE_UPDATE, path);
    assert_int_equal(truncate(path, 100), 0);
    copies(&from, &to, WEFT_OK, 0, 4, 2);
    noted.returns = WEFT_E_LAYOUT; /* whatever the report says ends the copy */
    copies(&from, &to, WEFT_E_LAYOUT, 0, 1, 1);
    world_close(&to);
    world_close(&from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_bytes_leave_no_file),
        cmocka_unit_test(test_a_version_has_its_anchor_first),
        cmocka_unit_test(test_faults_are_told_and_the_others_copied),
        cmocka_unit_test(test_another_version_of_the_same_size_is_in_the_way),
        cmocka_unit_test(test_another_base_is_in_the_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
