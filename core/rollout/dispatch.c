/* dispatch.c - reads the trainer's messages and does what each one asks for.
 *
 * A connection begins with GREETING, which this end answers by HELLO, and WELCOME or REFUSE. HELLO says which version
 * the rollout holds. WELCOME says under which label the trainer knows that version, and from then on the rollout is
 * joined. PASSING in place of WELCOME means that the other end has nothing to join yet.
 *
 * The trainer then announces updates one after the other. UPDATE names base and target, and is queued. Its buckets land
 * in slots and not here, because they come by the fabric. TRAILER names the root that the bits must lead to. stage.c
 * takes up the first update of the queue after its buckets have come. A trailer without a root withdraws its update.
 *
 * A rollout that no update can serve gets OFFER. If its bits should be a version, it first asks for digests (search.c)
 * to find out which units are wrong, because a repair of a few units costs less than a snapshot. Else the offer waits
 * for the caller's commit, or is accepted at once if snapshots are staged beside the weights. Messages that end the
 * connection only set `verdict`, which join.c carries out, because the connection must outlive the message. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "rollout/rollout.h"
#include "wire/greeting.h"

static weft_status take_greeting(weft_rollout *rollout, const uint8_t *body, uint64_t length)
{
    weft_status status = weft_greeting_take(&rollout->joining.control, body, length);
    if (status != WEFT_OK)
        return status;
    return rollout->joining.comparing.asks ? weft_compare_ask(rollout) : weft_greet_hello(rollout);
}

static bool is_none(const weft_version *version)
{
    return (version->run | version->number | version->root) == 0;
}

/* Goes on with what is staged if the trainer knows that, under the trainer's label. Else nothing leads on from there,
 * and nobody offers that version any more. */
static void take_staged(weft_rollout *rollout, const weft_version *label)
{
    weft_incoming *incoming = &rollout->arriving.queue[0];
    const weft_version was = incoming->trailer.target;
    char trainer[WEFT_SITE_NAME + 8];
    if (rollout->course.state != WEFT_COURSE_STAGED)
        return;
    if (!is_none(label) && label->root == was.root) {
        if (label->number != was.number)
            rollout->arriving.given_up = was; /* that name, by which the caller may be about to commit it */
        incoming->trailer.target = *label;
        incoming->header.target = (weft_version){label->run, label->number, 0};
        return;
    }
    weft_gateway_trainer(&rollout->joining.route, trainer);
    weft_log(WEFT_LOG_WARN, "version %llu was staged and is given up, because %s does not know it",
             (unsigned long long)was.number, trainer);
    weft_stage_give_up(rollout);
}

static weft_status take_welcome(weft_rollout *rollout, const uint8_t *body, uint64_t length)
{
    weft_wire_welcome *welcome = &rollout->joining.welcome;
    weft_status status = weft_wire_get_welcome(body, length, welcome);
    if (status == WEFT_OK && memcmp(welcome->layout, rollout->layout->hash, sizeof welcome->layout) != 0)
        status = weft_fail(WEFT_E_PROTOCOL, "the trainer's WELCOME names another layout");
    if (status == WEFT_OK)
        status = weft_inlet_connect(&rollout->intake, &rollout->joining, welcome);
    if (status != WEFT_OK)
        return status;
    if (welcome->held.run && rollout->current.known && welcome->held.root == rollout->current.version.root)
        rollout->current.version = welcome->held;
    take_staged(rollout, &welcome->staged);
    rollout->joining.state = WEFT_JOIN_JOINED;
    rollout->joining.was_joined = true;
    rollout->joining.heartbeat_ms = welcome->heartbeat_ms ? welcome->heartbeat_ms : 1000;
    rollout->joining.retries = rollout->joining.faults;
    rollout->joining.said_goodbye = rollout->joining.later = false;
    rollout->joining.away_status = rollout->joining.doubted = WEFT_OK;
    rollout->joining.comparing.turns = 0;
    char name[WEFT_SITE_NAME + 8], trainer[WEFT_SITE_NAME + 8];
    weft_gateway_name(&rollout->joining.route, name);
    weft_gateway_trainer(&rollout->joining.route, trainer);
    weft_log(WEFT_LOG_INFO, "joined %s at %s by %s; %s has version %llu", name, rollout->joining.control.peer,
             rollout->intake.facts.fabric, trainer, (unsigned long long)welcome->newest.number);
    const bool behind = rollout->joining.route.gateways[rollout->joining.route.at].relay[0];
    weft_session_event(rollout->session, WEFT_EVENT_JOINED, WEFT_OK, rollout->joining.route.source ? name : "trainer",
                       &rollout->current.version, behind ? name : "");
    weft_session_changed(rollout->session);
    return weft_wishing_begin(rollout, welcome->newest.number);
}

/* Returns true if a refusal is to be heard once more before it is final. A byte that was damaged on the way may have
 * caused the first, in a knock, a greeting or a handshake, and no end can tell. It is not damaged again. */
static bool doubts(weft_joining *joining, weft_status refusal)
{
    const bool first = joining->doubted != refusal;
    joining->doubted = refusal;
    return first;
}

static weft_status take_refusal(weft_joining *joining, const uint8_t *body, uint64_t length)
{
    weft_wire_notice notice;
    weft_status status = weft_wire_get_notice(body, length, &notice);
    if (status != WEFT_OK)
        return status;
    if (notice.status == WEFT_OK)
        notice.status = WEFT_E_REFUSED;
    weft_bytes_clean(notice.text);
    weft_scope scope = weft_status_scope(notice.status);
    if (scope != WEFT_SCOPE_CALL && scope != WEFT_SCOPE_PEER) /* the trainer's own trouble, which may pass */
        return weft_fail_quiet(WEFT_E_PEER_LOST, "the trainer cannot take this rollout now: %s", notice.text);
    const bool unheard = notice.status == WEFT_E_PROTOCOL; /* and not unwanted */
    if (unheard && !joining->control.guard && doubts(joining, notice.status))
        return weft_fail_quiet(WEFT_E_PEER_LOST, "the trainer refuses, and is asked once more: %s", notice.text);
    joining->refusal = notice.status;
    joining->unproved =
        joining->state == WEFT_JOIN_KNOCKING && notice.status == WEFT_E_CONFIG;           /* no name was said yet */
    const bool differs = notice.status == WEFT_E_LAYOUT && joining->comparing.differs[0]; /* in this end's own words */
    snprintf(joining->refusal_text, sizeof joining->refusal_text, "%s",
             differs ? joining->comparing.differs : notice.text);
    joining->verdict = WEFT_VERDICT_REFUSED;
    return WEFT_OK;
}

/* After so many COMPARE in a row the trainer is one that this end cannot talk to, which is reported, and the next way
 * is tried. */
#define COMPARES_MOST 4u

static weft_status take_compare(weft_joining *joining)
{
    if (joining->comparing.turns++ == COMPARES_MOST) {
        joining->comparing.turns = 0;
        return weft_fail(WEFT_E_PROTOCOL, "COMPARE for the %uth time, and this end has compared", COMPARES_MOST + 1);
    }
    joining->comparing.asks = true;
    joining->verdict = WEFT_VERDICT_COMPARE;
    return WEFT_OK;
}

static weft_status take_update(weft_rollout *rollout, const uint8_t *body, uint64_t length)
{
    weft_wire_update update;
    weft_status status = weft_wire_get_update(body, length, &update);
    if (status != WEFT_OK)
        return status;
    const weft_incoming *before =
        rollout->arriving.queued ? &rollout->arriving.queue[rollout->arriving.queued - 1] : NULL;
    const weft_version *base = before ? &before->trailer.target : &rollout->current.version;
    const bool from_nothing = update.base.run == 0 && update.base.number == 0 && update.base.root == 0;
    bool follows = update.snapshot ? rollout->arriving.queued == 0 && from_nothing
                                   : rollout->current.known && update.base.root == base->root;
    const bool open = before && (!before->has_trailer || before->withdrawn);
    if (rollout->arriving.queued == WEFT_UPDATES_AHEAD || open ||
        memcmp(update.layout, rollout->layout->hash, sizeof update.layout))
        return weft_fail(WEFT_E_PROTOCOL, "UPDATE of version %llu: %u under way already%s, or another layout",
                         (unsigned long long)update.target.number, rollout->arriving.queued,
                         open ? ", the last not ended" : "");
    if (!follows)
        return weft_fail(WEFT_E_BASE, "UPDATE of version %llu starts from digest %016llx, here it would meet %016llx",
                         (unsigned long long)update.target.number, (unsigned long long)update.base.root,
                         (unsigned long long)base->root);
    status = weft_course_move(&rollout->course, update.snapshot ? WEFT_COURSE_ON_SNAPSHOT : WEFT_COURSE_ON_UPDATE);
    if (status != WEFT_OK)
        return status;
    rollout->arriving.queue[rollout->arriving.queued++] = (weft_incoming){.header = update};
    if (rollout->arriving.queued == 1)
        weft_stage_clear(rollout);
    return WEFT_OK;
}

/* The trailer names the root; a snapshot's the final version too, whose label may be withheld until the attachment
 * follows. */
static bool fits_header(const weft_wire_update *header, const weft_version *target)
{
    if (header->snapshot)
        return target->run == header->target.run || (target->run == 0 && target->number == 0);
    return target->run == header->target.run && target->number == header->target.number;
}

static weft_status take_trailer(weft_arriving *arriving, weft_intake *intake, const uint8_t *body, uint64_t length)
{
    weft_wire_trailer trailer;
    weft_status status = weft_wire_get_trailer(body, length, &trailer);
    if (status != WEFT_OK)
        return status;
    weft_incoming *last = arriving->queued ? &arriving->queue[arriving->queued - 1] : NULL;
    const bool withdrawn = is_none(&trailer.target);
    if (!last || last->has_trailer ||
        (withdrawn ? last->header.snapshot : !fits_header(&last->header, &trailer.target)))
        return weft_fail(WEFT_E_PROTOCOL, "TRAILER of version %llu without its UPDATE",
                         (unsigned long long)trailer.target.number);
    last->trailer = trailer;
    last->has_trailer = true;
    last->withdrawn = withdrawn;
    intake->moved_ns = weft_clock_ns();
    return WEFT_OK;
}

static weft_status take_offer(weft_rollout *rollout, const uint8_t *body, uint64_t length)
{
    weft_status status = weft_wire_get_version(body, length, &rollout->course.offer);
    if (status != WEFT_OK)
        return status;
    status = weft_course_move(&rollout->course, WEFT_COURSE_ON_OFFER);
    if (status != WEFT_OK)
        return status;
    char name[WEFT_SITE_NAME + 8];
    weft_gateway_trainer(&rollout->joining.route, name);
    weft_log(WEFT_LOG_INFO, "%s offers a snapshot of version %llu", name,
             (unsigned long long)rollout->course.offer.number);
    const weft_version *label = &rollout->joining.welcome.held;
    bool unknown =
        weft_rollout_trusts(&rollout->current, &rollout->joining) && is_none(label) && !rollout->searching.done;
    return unknown ? weft_search_join(rollout) : weft_ask_offered(rollout);
}

static weft_status act(weft_rollout *rollout, weft_message type, const uint8_t *body, uint64_t length)
{
    const bool knocking = rollout->joining.state == WEFT_JOIN_KNOCKING;
    if (type == WEFT_MESSAGE_GREETING && knocking)
        return take_greeting(rollout, body, length);
    const bool greeting = rollout->joining.state == WEFT_JOIN_GREETING;
    if (type == WEFT_MESSAGE_REFUSE && (knocking || greeting || rollout->joining.state == WEFT_JOIN_ASKING))
        return take_refusal(&rollout->joining, body, length);
    if (type == WEFT_MESSAGE_WELCOME && greeting)
        return take_welcome(rollout, body, length);
    if (type == WEFT_MESSAGE_COMPARE && greeting)
        return take_compare(&rollout->joining);
    if (type == WEFT_MESSAGE_PASSING && greeting) {
        rollout->joining.verdict = WEFT_VERDICT_LATER;
        return WEFT_OK;
    }
    if (rollout->joining.state != WEFT_JOIN_JOINED)
        return weft_fail(WEFT_E_PROTOCOL, "%s instead of %s", weft_message_name(type),
                         knocking   ? "GREETING"
                         : greeting ? "WELCOME"
                                    : "LAYOUT");
    weft_out echo = {(uint8_t *)(uintptr_t)body, length, length, false};
    weft_status status;
    uint64_t word;
    bool any;
    switch (type) {
    case WEFT_MESSAGE_UPDATE:
        return take_update(rollout, body, length);
    case WEFT_MESSAGE_TRAILER:
        return take_trailer(&rollout->arriving, &rollout->intake, body, length);
    case WEFT_MESSAGE_OFFER:
        return take_offer(rollout, body, length);
    case WEFT_MESSAGE_DIGESTS:
        return weft_search_answer(rollout, body, length);
    case WEFT_MESSAGE_PING:
        status = weft_wire_get_word(body, length, &word);
        return status == WEFT_OK ? weft_rollout_send(&rollout->joining, WEFT_MESSAGE_PONG, &echo) : status;
    case WEFT_MESSAGE_PONG:
        return weft_wire_get_word(body, length, &word);
    case WEFT_MESSAGE_FOLLOW:
        if (rollout->relay)
            return rollout->hooks->follow(rollout->relay, body, length);
        return weft_fail(WEFT_E_PROTOCOL, "FOLLOW, to a rollout that is no relay");
    case WEFT_MESSAGE_OFFERED:
        return weft_wishing_take_offered(rollout, body, length);
    case WEFT_MESSAGE_PASSED:
        return weft_wishing_take_passed(rollout, body, length);
    case WEFT_MESSAGE_LOOK: /* what lies there already counts */
        status = weft_receive_poll(rollout, &any);
        return status == WEFT_OK ? weft_inlet_tell(&rollout->intake, &rollout->joining) : status;
    case WEFT_MESSAGE_CLOSE:
        return weft_inlet_shut(&rollout->intake, &rollout->joining, body, length);
    case WEFT_MESSAGE_OPEN:
        return weft_inlet_reopen(rollout, body, length);
    case WEFT_MESSAGE_PASSING:
        rollout->intake.moved_ns = weft_clock_ns();
        return WEFT_OK;
    case WEFT_MESSAGE_BYE:
        rollout->joining.said_goodbye = true;
        rollout->joining.verdict = WEFT_VERDICT_GOODBYE;
        return WEFT_OK;
    default:
        return weft_fail(WEFT_E_PROTOCOL, "%s, which no trainer sends here", weft_message_name(type));
    }
}

/* A trainer of protocol 1 says why it refuses one of another, its relays do not. */
static weft_status fail_closed(const weft_joining *joining)
{
    if (joining->state == WEFT_JOIN_KNOCKING)
        return weft_fail_quiet(
            WEFT_E_PEER_LOST,
            "%s closed the connection before it greeted: it ends, has no place now, or is a relay of "
            "protocol 1 (this end speaks %u to %u)",
            joining->control.peer, WEFT_PROTOCOL_LOWEST, WEFT_PROTOCOL);
    char name[WEFT_SITE_NAME + 8];
    weft_gateway_name(&joining->route, name);
    return weft_fail_quiet(WEFT_E_PEER_LOST, "%s closed the connection", name);
}

weft_status weft_dispatch_unproved(weft_joining *joining)
{
    const char *away = joining->away_text;
    if (joining->was_joined) {
        if (!away[0] || strncmp(away, weft_last_error(), strlen(away)) != 0)
            weft_log(WEFT_LOG_WARN, "cannot join again: %s; tried again", weft_last_error());
        return WEFT_E_CONFIG;
    }
    if (doubts(joining, WEFT_E_CONFIG))
        return WEFT_E_PEER_LOST;
    joining->unproved = true;
    joining->refusal = WEFT_E_CONFIG;
    snprintf(joining->refusal_text, sizeof joining->refusal_text, "%s", weft_last_error());
    joining->verdict = WEFT_VERDICT_REFUSED;
    return WEFT_OK;
}

/* Messages that move data, or close and open ports: one of them in a turn. */
static bool is_costly(weft_message type)
{
    return type == WEFT_MESSAGE_LOOK || type == WEFT_MESSAGE_CLOSE || type == WEFT_MESSAGE_OPEN;
}

weft_status weft_dispatch_step(weft_rollout *rollout, weft_waits *waits)
{
    weft_status lost = weft_control_fill(&rollout->joining.control), status = WEFT_OK;
    bool costly = false;
    while (status == WEFT_OK && !costly && rollout->joining.verdict == WEFT_VERDICT_NONE) {
        weft_message type;
        const uint8_t *body;
        uint64_t length;
        if (rollout->joining.state == WEFT_JOIN_ASKING && weft_control_has_layout(&rollout->joining.control)) {
            status = weft_compare_take(rollout);
            break;
        }
        status = weft_control_next(&rollout->joining.control, &type, &body, &length);
        if (status != WEFT_OK)
            break;
        rollout->session->stirred = true;
        status = act(rollout, type, body, length);
        weft_control_drop(&rollout->joining.control);
        costly = is_costly(type);
    }
    waits->busy = waits->busy || costly; /* there may be more, of which no descriptor tells */
    if (status == WEFT_AGAIN && lost == WEFT_E_CONFIG)
        return weft_dispatch_unproved(&rollout->joining);
    if (status == WEFT_AGAIN)
        status = lost == WEFT_OK ? WEFT_OK : fail_closed(&rollout->joining);
    return status;
}
