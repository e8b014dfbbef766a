/* Calls out of their contract: the status that weft.h names, a text, and nothing changed. */
#include "tests/support/fleet.h"

#include <string.h>

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true, .joins = 1};

static void spoken(weft_status status, weft_status expected)
{
    assert_int_equal(status, expected);
    assert_string_not_equal(weft_last_error(), "");
}

/* Neither end's version or bits moved. */
static void unchanged(fleet *f, uint64_t number)
{
    weft_version held;
    assert_int_equal(weft_held(f->trainer.session, &held), WEFT_OK);
    assert_int_equal(held.number, number);
    assert_int_equal(weft_held(f->rollouts[0].session, &held), WEFT_OK);
    assert_int_equal(held.number, number);
    fleet_check(f, 0);
}

static weft_session *unbound_trainer(fleet *f)
{
    weft_session *session = NULL;
    weft_site *site = fleet_site(f, "trainer.listen=127.0.0.1:0");
    weft_options options = {.size = sizeof options, .first_version = 7};
    assert_int_equal(weft_trainer_open(site, f->layout, &options, &session), WEFT_OK);
    weft_site_free(site);
    return session;
}

static void before_bind(void **state)
{
    fleet *f = *state;
    weft_version held = {1, 2, 3};
    weft_staged_info staged = {.size = sizeof staged};
    weft_session *trainer = unbound_trainer(f);
    spoken(weft_publish(trainer, 8, NULL, NULL, NULL), WEFT_E_STATE);
    spoken(weft_held(trainer, &held), WEFT_E_STATE);
    spoken(weft_wait(trainer, 7, NULL, 0, 0), WEFT_E_STATE);
    assert_int_equal(held.number, 2); /* out-parameters are written only on OK */
    weft_close(trainer);
    fleet_open_rollout(f, 1, NULL);
    spoken(weft_staged(f->rollouts[1].session, 10, &staged), WEFT_E_STATE);
    spoken(weft_commit(f->rollouts[1].session, 0, NULL, 0, NULL), WEFT_E_STATE);
    spoken(weft_scrub(f->rollouts[1].session), WEFT_E_STATE);
    spoken(weft_held(f->rollouts[1].session, &held), WEFT_E_STATE);
}

static void versions_in_order(void **state)
{
    fleet *f = *state;
    weft_update_info info = {.size = sizeof info, .changed = 99};
    fleet_publish(f, 10);
    fleet_catch_up(f, 0);
    spoken(weft_publish(f->trainer.session, 1, NULL, NULL, &info), WEFT_E_STATE);
    spoken(weft_publish(f->trainer.session, 0, NULL, NULL, &info), WEFT_E_STATE);
    weft_publish_options none = {.size = sizeof none, .attachment_bytes = 3};
    spoken(weft_publish(f->trainer.session, 2, NULL, &none, &info), WEFT_E_ARGUMENT);
    assert_string_equal(weft_last_error(), "publish: an attachment of 3 bytes at NULL");
    assert_int_equal(info.changed, 99);
    unchanged(f, 1);
    spoken(weft_wait(f->trainer.session, 2, NULL, 0, 10), WEFT_E_STATE);
    f->newest = 40; /* gaps are allowed */
    fleet_publish(f, 10);
    fleet_catch_up(f, 0);
    unchanged(f, 41);
}

static void publish_figures(void **state)
{
    fleet *f = *state;
    weft_update_info info = {.size = sizeof info};
    f->dense[0] ^= 1;
    fleet_model_put(&f->trainer.model, f->dense);
    assert_int_equal(weft_publish(f->trainer.session, 1, NULL, NULL, &info), WEFT_OK);
    assert_int_equal(info.changed, 1);
    assert_int_equal(info.base.number, 0);
    assert_int_equal(info.target.number, 1);
    assert_true(info.base.root == f->history[0].root);
    assert_int_equal(info.dense_bytes, f->bytes);
    assert_true(info.bytes < 1000);
    uint64_t root = 0;
    assert_int_equal(
        weft_digest_tensors(f->layout, f->trainer.model.pieces, f->trainer.model.piece_count, NULL, NULL, &root),
        WEFT_OK);
    assert_true(info.target.root == root);
}

static void commits(void **state)
{
    fleet *f = *state;
    weft_session *session = f->rollouts[0].session;
    weft_staged_info staged = {.size = sizeof staged};
    weft_version held = {0, 77, 0};
    spoken(weft_commit(session, 1, NULL, 0, &held), WEFT_E_STATE);
    fleet_publish(f, 100);
    assert_int_equal(weft_staged(session, FLEET_WAIT_MS, &staged), WEFT_OK);
    spoken(weft_commit(session, 2, NULL, 0, &held), WEFT_E_STATE);
    spoken(weft_commit(session, 0, NULL, 0, &held), WEFT_E_STATE);
    spoken(weft_commit(session, 1, NULL, 4, &held), WEFT_E_ARGUMENT);
    assert_int_equal(held.number, 77);
    fleet_check_bytes(f, 0, f->history[0].dense);
    assert_int_equal(weft_staged(session, 0, &staged), WEFT_OK); /* it still stands */
    assert_int_equal(weft_commit(session, 1, NULL, 0, &held), WEFT_OK);
    unchanged(f, 1);
    spoken(weft_commit(session, 1, NULL, 0, &held), WEFT_E_STATE);
    assert_int_equal(weft_staged(session, 0, &staged), WEFT_AGAIN);
}

static void the_other_ends_calls(void **state)
{
    fleet *f = *state;
    weft_staged_info staged = {.size = sizeof staged};
    spoken(weft_staged(f->trainer.session, 10, &staged), WEFT_E_STATE);
    spoken(weft_commit(f->trainer.session, 0, NULL, 0, NULL), WEFT_E_STATE);
    spoken(weft_scrub(f->trainer.session), WEFT_E_STATE);
    spoken(weft_publish(f->rollouts[0].session, 5, NULL, NULL, NULL), WEFT_E_STATE);
    spoken(weft_wait(f->rollouts[0].session, 0, NULL, 0, 10), WEFT_E_STATE);
    unchanged(f, 0);
}

static void binds(void **state)
{
    fleet *f = *state;
    fleet_model *model = &f->rollouts[0].model, *trainers = &f->trainer.model;
    weft_session *session = f->rollouts[0].session;
    spoken(weft_bind(session, model->pieces, model->piece_count, NULL, 0, 2), WEFT_E_ARGUMENT);
    assert_non_null(strstr(weft_last_error(), "flags 2"));
    spoken(weft_bind(session, model->pieces, model->piece_count, NULL, 8, 0), WEFT_E_ARGUMENT);
    assert_string_equal(weft_last_error(), "bind: an attachment of 8 bytes at NULL");
    spoken(weft_bind(session, model->pieces, model->piece_count, f, WEFT_ATTACHMENT_MAX + 1, 0), WEFT_E_ARGUMENT);
    assert_string_equal(weft_last_error(), "bind: an attachment of 268435457 bytes; the most is 268435456");
    spoken(weft_bind(session, model->pieces, model->piece_count - 1, NULL, 0, 0), WEFT_E_LAYOUT);
    spoken(weft_bind(f->trainer.session, trainers->pieces, trainers->piece_count - 1, NULL, 0, 0), WEFT_E_LAYOUT);
    spoken(weft_bind(f->trainer.session, trainers->pieces, trainers->piece_count, NULL, 0, WEFT_BIND_EMPTY),
           WEFT_E_ARGUMENT);
    unchanged(f, 0);
    fleet_publish(f, 100);
    fleet_catch_up(f, 0);
}

/* A rollout takes new addresses for the same bits; with other bits nothing moves. */
static void rebinds(void **state)
{
    fleet *f = *state;
    fleet_end *end = &f->rollouts[0];
    fleet_model fresh;
    fleet_model_open(&fresh, f->layout, 5);
    fleet_model_put(&fresh, f->dense);
    *fleet_model_at(&fresh, 9) ^= 1;
    spoken(weft_bind(end->session, fresh.pieces, fresh.piece_count, NULL, 0, 0), WEFT_E_BASE);
    *fleet_model_at(&fresh, 9) ^= 1;
    assert_int_equal(weft_bind(end->session, fresh.pieces, fresh.piece_count, NULL, 0, 0), WEFT_OK);
    fleet_model_close(&end->model);
    end->model = fresh;
    fleet_publish(f, 300);
    fleet_catch_up(f, 0);
    fleet_check_bytes(f, 0, f->dense);
}

/* A trainer takes new addresses with whatever bits, and the next version is what is there. The old memory is free. */
static void a_trainer_rebinds(void **state)
{
    fleet *f = *state;
    for (unsigned i = 0; i < 4; i++) {
        fleet_model fresh;
        fleet_model_open(&fresh, f->layout, i + 6);
        fleet_change(f->layout, f->dense, i % 2 ? 1000 : 20, &f->seed);
        fleet_model_put(&fresh, f->dense);
        assert_int_equal(weft_bind(f->trainer.session, fresh.pieces, fresh.piece_count, NULL, 0, 0), WEFT_OK);
        fleet_model_close(&f->trainer.model);
        f->trainer.model = fresh;
        fleet_publish_dense(f, NULL);
        fleet_catch_up(f, 0);
        fleet_check_bytes(f, 0, f->dense);
    }
    unchanged(f, f->newest);
}

static void attachment_is(weft_session *session, const char *text)
{
    const void *data;
    uint64_t bytes;
    assert_int_equal(weft_attachment(session, &data, &bytes), WEFT_OK);
    assert_int_equal(bytes, strlen(text));
    assert_memory_equal(data, text, bytes);
}

/* Called again as at first, when another version's attachment is held: that one stays. A rollout's bits are proved
 * whatever the flags say. */
static void rebinds_keep_the_attachment(void **state)
{
    fleet *f = *state;
    fleet_end *ends[] = {&f->trainer, &f->rollouts[0]};
    fleet_publish_dense(f, "published");
    fleet_catch_up(f, 0);
    for (size_t i = 0; i < 2; i++) {
        fleet_end *end = ends[i];
        const weft_piece *pieces = end->model.pieces;
        const uint64_t count = end->model.piece_count;
        const uint32_t flags = i == 0 ? 0 : WEFT_BIND_EMPTY;
        assert_int_equal(weft_bind(end->session, pieces, count, "first", 5, flags), WEFT_OK);
        attachment_is(end->session, "published");
        *fleet_model_at(&end->model, 9) ^= 1;
        if (i == 1)
            spoken(weft_bind(end->session, pieces, count, "first", 5, flags), WEFT_E_BASE);
        *fleet_model_at(&end->model, 9) ^= 1;
    }
    unchanged(f, 1);
}

/* A number that is taken, and a site that names what is not there. */
static void opens(void **state)
{
    fleet *f = *state;
    weft_session *session = NULL;
    weft_site *site = fleet_site(f, NULL);
    spoken(weft_trainer_open(site, f->layout, NULL, &session), WEFT_E_SYSTEM); /* the port is in use */
    assert_null(session);
    assert_int_not_equal(weft_rollout_open(site, "nobody", f->layout, NULL, &session), WEFT_OK);
    assert_non_null(strstr(weft_last_error(), "nobody"));
    assert_null(session);
    const weft_options source = {.size = sizeof source, .source = 1};
    spoken(weft_trainer_open(site, f->layout, &source, &session), WEFT_E_CONFIG);
    assert_non_null(strstr(weft_last_error(), "no section [source.1]"));
    assert_null(session);
    weft_site_free(site);
    weft_stats_info stats = {0};
    spoken(weft_stats(f->trainer.session, &stats), WEFT_E_ARGUMENT);
}

#define TEST(name) FLEET_TEST(name, plain_fleet)

static void what_is_asked_needs_room(void **state)
{
    fleet *f = *state;
    weft_session *session = f->trainer.session;
    weft_peer_info peer = {.name = "as it was"};
    weft_event event = {.peer = "as it was"};
    const void *data = "as it was";
    uint64_t bytes = 7;
    size_t count = 7;
    spoken(weft_peers(session, NULL, 1, &count), WEFT_E_ARGUMENT);
    spoken(weft_peers(session, &peer, 1, NULL), WEFT_E_ARGUMENT);
    spoken(weft_peers(session, &peer, 1, &count), WEFT_E_ARGUMENT); /* no size */
    spoken(weft_events(session, NULL), WEFT_E_ARGUMENT);
    spoken(weft_events(session, &event), WEFT_E_ARGUMENT);
    spoken(weft_stats(session, NULL), WEFT_E_ARGUMENT);
    spoken(weft_stats(session, &(weft_stats_info){0}), WEFT_E_ARGUMENT);
    spoken(weft_attachment(session, NULL, &bytes), WEFT_E_ARGUMENT);
    spoken(weft_attachment(session, &data, NULL), WEFT_E_ARGUMENT);
    assert_string_equal(peer.name, "as it was");
    assert_string_equal(event.peer, "as it was");
    assert_string_equal(data, "as it was");
    assert_true(bytes == 7 && count == 7);
    assert_int_equal(weft_peers(session, NULL, 0, &count), WEFT_OK);
    assert_int_equal(count, 1);
    unchanged(f, f->newest);
}

static void forgotten(weft_status status, const char *text)
{
    spoken(status, WEFT_E_ARGUMENT);
    assert_string_equal(weft_last_error(), text);
}

static void open_without_size(fleet *f)
{
    const char *text = "weft_options has size 0: set it to sizeof(weft_options)";
    const weft_options options = {.first_version = 7};
    weft_session *session = NULL;
    weft_site *site = fleet_site(f, "trainer.listen=127.0.0.1:0");
    forgotten(weft_trainer_open(site, f->layout, &options, &session), text);
    forgotten(weft_rollout_open(site, f->rollouts[0].name, f->layout, &options, &session), text);
    assert_null(session);
    weft_site_free(site);
}

/* A forgotten size would lose the attachment, the log or the figures without a word. */
static void sizes_that_were_forgotten(void **state)
{
    fleet *f = *state;
    weft_session *session = f->trainer.session;
    weft_publish_options options = {.attachment = "header", .attachment_bytes = 6};
    weft_update_info info = {.changed = 99};
    weft_staged_info staged = {.changed = 99};
    const void *data;
    uint64_t bytes;
    size_t count;
    open_without_size(f);
    forgotten(weft_publish(session, 1, NULL, &options, NULL),
              "weft_publish_options has size 0: set it to sizeof(weft_publish_options)");
    forgotten(weft_publish(session, 1, NULL, NULL, &info),
              "weft_update_info has size 0: set it to sizeof(weft_update_info)");
    forgotten(weft_staged(f->rollouts[0].session, 0, &staged),
              "weft_staged_info has size 0: set it to sizeof(weft_staged_info)");
    forgotten(weft_peers(session, &(weft_peer_info){0}, 1, &count),
              "weft_peer_info has size 0: set it to sizeof(weft_peer_info)");
    forgotten(weft_stats(session, &(weft_stats_info){0}),
              "weft_stats_info has size 0: set it to sizeof(weft_stats_info)");
    forgotten(weft_events(session, &(weft_event){0}), "weft_event has size 0: set it to sizeof(weft_event)");
    assert_true(info.changed == 99 && staged.changed == 99);
    unchanged(f, 0);
    options.size = sizeof options;
    assert_int_equal(weft_publish(session, 1, NULL, &options, NULL), WEFT_OK);
    assert_int_equal(weft_attachment(session, &data, &bytes), WEFT_OK);
    assert_int_equal(bytes, 6);
}

/* A caller of another age has another size: each entry of an array is where that caller looks for it. */
static void callers_of_another_age(void **state)
{
    fleet *f = *state;
    struct {
        weft_peer_info info;
        char more[40];
    } later[2];
    struct {
        size_t size;
        char name[64];
        weft_peer_state state;
    } earlier[3];
    struct {
        size_t size;
        weft_event_kind kind;
        weft_status status;
    } event = {.size = sizeof event};
    size_t count = 0;
    fleet_join(f, 1, FLEET_SAME);
    fleet_catch_up(f, 1);
    memset(later, 'x', sizeof later);
    later[0].info.size = sizeof later[0];
    assert_int_equal(weft_peers(f->trainer.session, &later[0].info, 2, &count), WEFT_OK);
    memset(earlier, 'x', sizeof earlier);
    earlier[0].size = sizeof earlier[0];
    assert_int_equal(weft_peers(f->trainer.session, (weft_peer_info *)earlier, 2, &count), WEFT_OK);
    assert_int_equal(count, 2);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(later[i].info.name, f->rollouts[i].name);
        assert_int_equal(later[i].info.size, sizeof later[i].info);
        assert_true(later[i].info.rail_count == 1 && later[i].more[0] == 'x' && later[i].more[39] == 'x');
        assert_string_equal(earlier[i].name, f->rollouts[i].name);
        assert_int_equal(earlier[i].size, sizeof earlier[i]);
        assert_int_equal(earlier[i].state, later[i].info.state);
    }
    assert_int_equal(earlier[2].name[0], 'x');
    while (weft_events(f->trainer.session, (weft_event *)&event) == WEFT_OK)
        assert_true(event.kind >= WEFT_EVENT_JOINED && event.size == sizeof event);
    assert_int_equal(weft_events(f->trainer.session, (weft_event *)&event), WEFT_AGAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(before_bind),
        TEST(versions_in_order),
        TEST(publish_figures),
        TEST(commits),
        TEST(the_other_ends_calls),
        TEST(binds),
        TEST(rebinds),
        TEST(a_trainer_rebinds),
        TEST(rebinds_keep_the_attachment),
        TEST(opens),
        TEST(what_is_asked_needs_room),
        TEST(sizes_that_were_forgotten),
        TEST(callers_of_another_age),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
