/* lanes.c - turns are taken in order, worked on side by side, and handed on in order. */
#include "base/lanes.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

struct weft_lane {
    uint32_t waiting; /* turns that are not handed on; guarded by the lock */
    char text[512];   /* of the turn that failed, its last one */
};

struct weft_lane_place {
    weft_lane_turn turn;
    weft_status status;
    bool made;
};

static weft_mem_list memory_of(weft_lanes *lanes, uint32_t count)
{
    return (weft_mem_list){
        {WEFT_MEM_TAKEN(lanes->lanes, count), WEFT_MEM_TAKEN(lanes->turned, count * WEFT_LANE_AHEAD)}};
}

uint64_t weft_lanes_need(uint32_t count)
{
    return weft_mem_list_bytes(memory_of(&(weft_lanes){0}, count));
}

weft_status weft_lanes_open(weft_lanes *lanes, uint32_t count)
{
    memset(lanes, 0, sizeof *lanes);
    weft_status status = weft_team_open(&lanes->team, count);
    if (status != WEFT_OK)
        return status;
    pthread_mutex_init(&lanes->lock, NULL);
    pthread_cond_init(&lanes->moved, NULL);
    lanes->count = count;
    lanes->places = count * WEFT_LANE_AHEAD;
    status = weft_mem_list_take(memory_of(lanes, count), "for %u lanes", count);
    if (status != WEFT_OK)
        weft_lanes_close(lanes);
    return status;
}

void weft_lanes_close(weft_lanes *lanes)
{
    if (lanes->places == 0)
        return;
    weft_team_close(&lanes->team);
    weft_mem_list_give(memory_of(lanes, lanes->count));
    pthread_cond_destroy(&lanes->moved);
    pthread_mutex_destroy(&lanes->lock);
    memset(lanes, 0, sizeof *lanes);
}

static uint64_t stretch_end(const weft_lane_work *work, uint64_t from)
{
    return work->stretch ? work->stretch(work->user, from) : from + 1;
}

static bool turn_fits(const weft_lanes *lanes, const weft_lane_turn *turn)
{
    const weft_lane_work *work = lanes->work;
    return turn->waiting < WEFT_LANE_AHEAD && (!work->fits || work->fits(work->user, turn));
}

/* The next turn of a lane; false at the end or after a failure. */
static bool turn_take(weft_lanes *lanes, uint32_t lane, weft_lane_turn *turn, uint64_t *number)
{
    bool taken = false;
    pthread_mutex_lock(&lanes->lock);
    while (!taken && !lanes->stopped && lanes->next < lanes->work->count) {
        *number = lanes->taken;
        *turn = (weft_lane_turn){.lane = lane,
                                 .place = (uint32_t)(lanes->taken % lanes->places),
                                 .waiting = lanes->lanes[lane].waiting,
                                 .from = lanes->next,
                                 .end = stretch_end(lanes->work, lanes->next)};
        taken = turn_fits(lanes, turn);
        if (!taken)
            pthread_cond_wait(&lanes->moved, &lanes->lock);
    }
    if (taken) {
        lanes->taken++;
        lanes->next = turn->end;
    }
    pthread_mutex_unlock(&lanes->lock);
    return taken;
}

/* Hands a turn on; the first failure in order is the loop's. */
static void turn_hand(weft_lanes *lanes, const struct weft_lane_place *made)
{
    const weft_lane_work *work = lanes->work;
    weft_status status = made->status;
    if (lanes->status != WEFT_OK)
        return;
    if (status != WEFT_OK) {
        memcpy(lanes->text, lanes->lanes[made->turn.lane].text, sizeof lanes->text);
    } else if (work->hand) {
        status = work->hand(work->user, &made->turn);
        if (status != WEFT_OK)
            snprintf(lanes->text, sizeof lanes->text, "%s", weft_last_error());
    }
    lanes->status = status;
}

/* Puts a turn in its place, and hands on all that come next, unless another lane is at that: it sees this one too. */
static void turn_end(weft_lanes *lanes, const weft_lane_turn *turn, weft_status status, uint64_t number)
{
    pthread_mutex_lock(&lanes->lock);
    lanes->turned[number % lanes->places] = (struct weft_lane_place){*turn, status, true};
    lanes->lanes[turn->lane].waiting++;
    lanes->stopped |= status != WEFT_OK;
    if (!lanes->handing) {
        lanes->handing = true;
        for (struct weft_lane_place *made; (made = &lanes->turned[lanes->handed % lanes->places])->made;
             lanes->handed++) {
            pthread_mutex_unlock(&lanes->lock);
            turn_hand(lanes, made);
            pthread_mutex_lock(&lanes->lock);
            made->made = false;
            lanes->lanes[made->turn.lane].waiting--;
            lanes->stopped |= lanes->status != WEFT_OK;
            pthread_cond_broadcast(&lanes->moved);
        }
        lanes->handing = false;
    }
    pthread_mutex_unlock(&lanes->lock);
}

static void lane_run(void *context, uint32_t lane)
{
    weft_lanes *lanes = context;
    weft_lane_turn turn;
    uint64_t number;
    weft_log_sink *before = lanes->work->heard ? weft_log_enter(lanes->sink) : weft_log_quiet();
    while (turn_take(lanes, lane, &turn, &number)) {
        const weft_status status = lanes->work->work(lanes->work->user, &turn);
        if (status != WEFT_OK)
            snprintf(lanes->lanes[lane].text, sizeof lanes->lanes[lane].text, "%s", weft_last_error());
        turn_end(lanes, &turn, status, number);
    }
    weft_log_enter(before);
}

weft_status weft_lanes_run(weft_lanes *lanes, const weft_lane_work *work)
{
    if (work->count == 0)
        return WEFT_OK;
    lanes->work = work;
    lanes->next = lanes->taken = lanes->handed = 0;
    lanes->stopped = false;
    lanes->status = WEFT_OK;
    lanes->sink = weft_log_enter(NULL);
    weft_log_enter(lanes->sink);
    if (stretch_end(work, 0) < work->count)
        weft_team_run(&lanes->team, lane_run, lanes);
    else
        lane_run(lanes, 0);
    if (lanes->status == WEFT_OK)
        return WEFT_OK;
    return work->heard ? weft_fail_quiet(lanes->status, "%s", lanes->text)
                       : weft_fail(lanes->status, "%s", lanes->text);
}
