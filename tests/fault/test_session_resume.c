/* A trainer that comes back takes versions out of its store, so that peers of the run before are led to its weights
 * without a snapshot. */
#include "layout/digest.h"
#include "peer/peer.h"
#include "tests/support/fleet_stored.h"
#include "trainer/recorder.h"

static weft_publisher *publisher_of(const fleet *f)
{
    return &f->trainer.session->trainer->publisher;
}

/* ---- the journal that it begins with */

static unsigned told;

static void hear(void *f, weft_log_level level, const char *line)
{
    (void)f;
    told += level == WEFT_LOG_WARN && strstr(line, "gets a snapshot");
}

/* Publishes versions 0 to 4. The attachment is "first", and from version 3 on "xth". */
static void run_write(fleet *f)
{
    fleet_start_trainer(f, "first");
    for (int i = 1; i < 5; i++) {
        fleet_change(f->layout, f->dense, 20, &f->seed);
        fleet_publish_dense(f, i == 3 ? "xth" : NULL);
    }
    wait_recorded(f, 5);
    fleet_stop_trainer(f);
}

static void other_layout_of_4(weft_store *store)
{
    store->versions[4].files[WEFT_STORE_UPDATE].layout[1] ^= 1;
}

static void other_layout_of_1(weft_store *store)
{
    store->versions[1].files[WEFT_STORE_UPDATE].layout[1] ^= 1;
}

static void other_bits_of_4(weft_store *store)
{
    store->versions[4].version.root ^= 1;
}

/* Another run follows version 2. */
static void branch_write(fleet *f)
{
    memcpy(f->dense, f->history[2].dense, f->bytes);
    fleet_start_trainer(f, "first");
    wait_recorded(f, 1);
    fleet_publish(f, 20);
    wait_recorded(f, 2);
    fleet_stop_trainer(f);
}

/* Names the journal's versions, each with the first letter of its attachment. */
static const char *journal_names(weft_journal *journal)
{
    static char text[128];
    int used = 0;
    text[0] = 0;
    for (uint64_t order = journal->oldest; order < journal->next; order++) {
        const weft_update *update = weft_journal_at(journal, order);
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%u%c", used ? " " : "",
                         (unsigned)update->target.number, update->attachment ? update->attachment->data[0] : '-');
    }
    return text;
}

/* The bits of a version are bound as version 0 of a later run, with the attachment "new". The row of versions goes back
 * from there, forward, and back. */
static void the_journal_leads_to_it(void **state)
{
    static const struct {
        uint64_t bound;
        const char *room; /* the journal has room for the updates of these versions; NULL: of all */
        void (*spoil)(weft_store *store);
        bool branch;
        const char *journal; /* "": given up, and told */
    } rows[] = {
        {2, NULL, NULL, false, "1f 0f 1f 2f 3x 4x 3x 0n"},
        {0, NULL, NULL, false, "1f 2f 3x 4x 3x 2f 1f 0n"},
        {4, NULL, NULL, false, "3x 2f 1f 0f 1f 2f 3x 0n"},
        {2, "3", NULL, false, "3x 0n"}, /* the nearest */
        {2, "34", NULL, false, "3x 4x 3x 0n"},
        {2, "342", NULL, false, "1f 2f 3x 4x 3x 0n"},
        {4, "4", NULL, false, "3x 0n"},
        {2, NULL, other_layout_of_4, false, "1f 0f 1f 2f 3x 0n"},
        {2, NULL, other_layout_of_1, false, "1f 2f 3x 4x 3x 0n"},
        {2, NULL, other_bits_of_4, false, ""},
        {3, NULL, NULL, true, "2f 1f 0f 1f 2f 3x 4x 0n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fleet *f = open_stored(FLEET_SMALL, NULL);
        weft_update_info info = {.size = sizeof info};
        told = 0;
        run_write(f);
        if (rows[i].branch)
            branch_write(f);
        f->heard = hear;
        fleet_open_trainer(f);
        weft_publisher *publisher = publisher_of(f);
        weft_arena *arena = &publisher->journal.arena;
        const weft_store_version *versions = publisher->recorder->store->versions;
        const uint64_t bytes = arena->bytes;
        arena->bytes = rows[i].room ? 0 : bytes;
        for (const char *at = rows[i].room; at && *at; at++)
            arena->bytes += 6 * versions[*at - '0'].files[WEFT_STORE_UPDATE].item.bytes;
        if (rows[i].spoil)
            rows[i].spoil(publisher->recorder->store);
        memcpy(f->dense, f->history[rows[i].bound].dense, f->bytes);
        fleet_bind_trainer(f, "new");
        arena->bytes = bytes;
        assert_string_equal(journal_names(&publisher->journal), rows[i].journal);
        if (!rows[i].journal[0])
            assert_int_equal(weft_arena_free_blocks(arena), arena->block_count);
        assert_true(weft_digest_parts_root(f->layout, publisher->newest.digests) == publisher->newest.version.root);
        assert_int_equal(weft_publish(f->trainer.session, 1, NULL, NULL, &info), WEFT_OK);
        assert_int_equal(info.changed, 0); /* the shadow has what was bound */
        fleet_stop_trainer(f);
        assert_int_equal(told, !rows[i].journal[0]);
        teardown((void **)&f);
    }
}

/* A bind that fails after versions were taken out of the store leaves nothing to the next one. */
static void a_bind_that_fails(void **state)
{
    fleet *f = *state;
    image at;
    run_write(f);
    image_open(f, &at);
    weft_site *site = fleet_site(f, NULL);
    weft_options options = {.size = sizeof options, .log = f->log, .log_user = f->trainer.name};
    options.run = at.store->versions[0].version.run;
    assert_int_equal(weft_trainer_open(site, f->layout, &options, &f->trainer.session), WEFT_OK);
    weft_publisher *publisher = publisher_of(f);
    for (int i = 2; i >= 0; i -= 2) { /* bits of version 2 are not version 0 of this run */
        fleet_model_put(&at.model, f->history[i].dense);
        assert_int_equal(weft_bind(f->trainer.session, at.model.pieces, at.model.piece_count, "new", 3, 0),
                         i ? WEFT_E_STATE : WEFT_OK);
        assert_int_equal(publisher->weights.runs != NULL, i == 0);
        assert_int_equal(publisher->newest.version.run != 0, i == 0);
        assert_int_equal(publisher->newest.attachment != NULL, i == 0);
        assert_int_equal(publisher->bound, i == 0);
    }
    assert_string_equal(journal_names(&publisher->journal), "1f 2f 3x 4x 3x 2f 1f 0n");
    weft_site_free(site);
    fleet_stop_trainer(f);
    image_close(&at);
}

/* ---- who is led */

/* The bytes that version `from` + 1 to `to` took one by one. */
static uint64_t update_bytes(const fleet *f, uint64_t from, uint64_t to)
{
    image at;
    uint64_t bytes = 0;
    image_open(f, &at);
    for (uint64_t i = from + 1; i <= to; i++)
        bytes += at.store->versions[i].files[WEFT_STORE_UPDATE].item.bytes;
    image_close(&at);
    return bytes;
}

/* Since the trainer came back, the rollout took no snapshot, and no more bytes than the versions in between. */
static void took_updates(fleet *f, unsigned at, uint64_t most)
{
    weft_peer_info info = {0};
    const char *name = f->rollouts[at].name;
    fleet_catch_up(f, at);
    assert_int_equal(weft_wait(f->trainer.session, f->newest, &name, 1, FLEET_WAIT_MS), WEFT_OK);
    assert_true(fleet_peer(f, name, &info));
    assert_int_equal(info.snapshot_bytes, 0);
    if (info.bytes > most)
        fail_msg("%s took %llu bytes, not %llu at most", name, (unsigned long long)info.bytes,
                 (unsigned long long)most);
}

static void attachment_is(fleet *f, unsigned at, const char *text)
{
    const void *data;
    uint64_t bytes;
    assert_int_equal(weft_attachment(f->rollouts[at].session, &data, &bytes), WEFT_OK);
    assert_int_equal(bytes, strlen(text));
    assert_memory_equal(data, text, bytes);
}

/* A trainer that comes back three versions earlier leads rollouts back, and others forward, without a snapshot. */
static void rollouts_are_led_to_it(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, "first");
    wait_recorded(f, 1);
    fleet_join(f, 0, FLEET_EMPTY);
    for (int i = 0; i < 3; i++)
        fleet_publish(f, 20);
    fleet_change(f->layout, f->dense, 20, &f->seed);
    fleet_publish_dense(f, "fourth");
    for (int i = 0; i < 2; i++)
        fleet_publish(f, 20);
    fleet_catch_up(f, 0);
    attachment_is(f, 0, "fourth");
    fleet_stop_trainer(f);
    memcpy(f->dense, f->history[3].dense, f->bytes);
    fleet_start_trainer(f, "first");
    fleet_join_bits(f, 1, f->history[1].dense);
    fleet_join_bits(f, 2, f->history[5].dense);
    fleet_join_bits(f, 3, f->history[3].dense);
    const uint64_t back = update_bytes(f, 3, 6), forward = update_bytes(f, 1, 3);
    took_updates(f, 0, back * 11 / 10);
    took_updates(f, 1, forward * 11 / 10 + 64);
    took_updates(f, 2, back * 11 / 10);
    took_updates(f, 3, 1024); /* the attachment, which its bits did not bring */
    attachment_is(f, 0, "first");
    for (int i = 0; i < 3; i++) {
        fleet_publish(f, 20);
        for (unsigned at = 0; at < 4; at++)
            fleet_catch_up(f, at);
    }
    for (unsigned at = 0; at < 4; at++)
        assert_int_equal(weft_scrub(f->rollouts[at].session), WEFT_OK);
}

static int setup_least_journal(void **state)
{
    *state = open_stored(FLEET_TILES, "trainer.journal=16MiB");
    return 0;
}

/* The least journal takes many small versions out of the store, and 120 before and after the bound one at most. */
static void many_small_versions_lead_to_it(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    for (int i = 0; i < 130; i++)
        fleet_publish(f, 1);
    wait_recorded(f, 131);
    fleet_stop_trainer(f);
    fleet_start_trainer(f, NULL);
    fleet_join_bits(f, 0, f->history[10].dense);
    took_updates(f, 0, update_bytes(f, 10, 130) + 1024);
    fleet_stop_trainer(f);
    memcpy(f->dense, f->history[0].dense, f->bytes);
    fleet_start_trainer(f, NULL);
    weft_journal *journal = &publisher_of(f)->journal;
    assert_int_equal(journal->next, 241);
    assert_int_equal(weft_journal_at(journal, 120)->target.number, 120);
}

/* A damaged file is told, the trainer serves its weights all the same, and who is elsewhere gets a snapshot. */
static void a_damaged_store_serves(void **state)
{
    fleet *f = *state;
    image at;
    char path[700], name[WEFT_STORE_NAME_MAX];
    fleet_start_trainer(f, NULL);
    wait_recorded(f, 1);
    fleet_join(f, 0, FLEET_SAME);
    for (int i = 0; i < 4; i++)
        fleet_publish(f, 20);
    fleet_catch_up(f, 0);
    fleet_stop_trainer(f);
    image_open(f, &at);
    const weft_store_file *file = &at.store->versions[3].files[WEFT_STORE_UPDATE];
    weft_store_name_put(&file->item.name, name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *damaged = fopen(path, "r+");
    fseek(damaged, (long)(file->item.bytes / 2), SEEK_SET);
    fwrite("damage", 6, 1, damaged);
    fclose(damaged);
    image_close(&at);
    memcpy(f->dense, f->history[2].dense, f->bytes);
    fleet_start_trainer(f, NULL);
    fleet_catch_up(f, 0);
    weft_peer_info info = {0};
    assert_true(fleet_peer(f, "a", &info));
    assert_true(info.snapshot_bytes > 0); /* because the journal was left empty */
    fleet_publish(f, 20);
    fleet_catch_up(f, 0);
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_journal_leads_to_it),
        TEST(a_bind_that_fails),
        TEST(rollouts_are_led_to_it),
        cmocka_unit_test_setup_teardown(many_small_versions_lead_to_it, setup_least_journal, teardown),
        TEST(a_damaged_store_serves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
