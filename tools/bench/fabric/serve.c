/* serve.c - the end that obeys. */
#include "base/clock.h"
#include "base/status.h"
#include "tools/bench/fabric/end.h"
#include "tools/bench/fabric/meet.h"
#include "tools/bench/fabric/noise.h"

static weft_status arrive(weft_bench_end *end, uint64_t count, bool asleep)
{
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && end->arrived < count)
        status = weft_bench_end_step(end, asleep);
    return status;
}

static weft_status echo(weft_bench_end *end, const weft_bench_message *order, uint64_t before)
{
    bool asleep = order->order == WEFT_BENCH_ECHO_WOKEN;
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; i < order->count && status == WEFT_OK; i++) {
        status = arrive(end, before + i + 1, asleep);
        while (status == WEFT_OK && (status = weft_bench_end_post(end, i, order->bytes)) == WEFT_AGAIN)
            status = weft_bench_end_step(end, false);
    }
    while (status == WEFT_OK && end->under_way)
        status = weft_bench_end_step(end, false);
    return status;
}

static weft_status raw_echo(weft_bench_end *end, const weft_bench_message *order)
{
    weft_bench_line raw = {.fd = end->line->fd};
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; i < order->count && status == WEFT_OK; i++) {
        status = weft_bench_line_take(&raw, end->in, order->bytes);
        if (status == WEFT_OK)
            status = weft_bench_line_give(&raw, end->out, order->bytes);
    }
    return status;
}

static weft_status raw_take(weft_bench_end *end, const weft_bench_message *order)
{
    weft_bench_line raw = {.fd = end->line->fd};
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; i < order->count && status == WEFT_OK; i++)
        status = weft_bench_line_take(&raw, end->in, order->bytes);
    return status;
}

static weft_status spin(const weft_bench_message *order, weft_bench_message *done)
{
    weft_bench_turns turns = {0, 0};
    weft_bench_spin((uint32_t)order->count, &turns);
    done->address = turns.wanted_ns;
    done->key = turns.had_ns;
    return WEFT_OK;
}

/* `before`: writes that all orders until now have made. */
static weft_status obey(weft_bench_end *end, const weft_bench_message *order, uint64_t before, weft_bench_message *done)
{
    end->progress_ns = weft_clock_ns();
    switch (order->order) {
    case WEFT_BENCH_ECHO:
    case WEFT_BENCH_ECHO_WOKEN:
        return echo(end, order, before);
    case WEFT_BENCH_TAKE:
        return arrive(end, before + order->count, true);
    case WEFT_BENCH_RAW_ECHO:
        return raw_echo(end, order);
    case WEFT_BENCH_RAW_TAKE:
        return raw_take(end, order);
    case WEFT_BENCH_SPIN:
        return spin(order, done);
    default:
        return weft_fail_quiet(WEFT_E_PROTOCOL, "order %u is none for this end", order->order);
    }
}

/* This end goes on making progress meanwhile: the last completions of the one that measures may need it. */
static weft_status next_order(weft_bench_end *end, weft_bench_message *order)
{
    weft_status status = WEFT_OK;
    for (int waited = 0; waited < WEFT_BENCH_STALL_MS && status == WEFT_OK && !weft_bench_line_has_word(end->line, 1);
         waited++) {
        end->progress_ns = weft_clock_ns();
        status = weft_bench_end_step(end, false);
    }
    return status == WEFT_OK ? weft_bench_hear(end->line, order) : status;
}

static bool makes_writes(const weft_bench_message *order)
{
    return order->order == WEFT_BENCH_ECHO || order->order == WEFT_BENCH_ECHO_WOKEN || order->order == WEFT_BENCH_TAKE;
}

weft_status weft_bench_fabric_serve(const char *provider, const weft_link_options *link, weft_bench_line *line)
{
    weft_bench_end end;
    uint64_t before = 0;
    weft_bench_message order = {0}, done;
    weft_status status = weft_bench_end_open(&end, provider, link, line, true);
    while (status == WEFT_OK && (status = next_order(&end, &order)) == WEFT_OK && order.order != WEFT_BENCH_END) {
        done = (weft_bench_message){.order = WEFT_BENCH_DONE};
        status = obey(&end, &order, before, &done);
        before += makes_writes(&order) ? order.count : 0;
        if (status == WEFT_OK)
            status = weft_bench_say(line, &done);
    }
    weft_bench_end_close(&end);
    return status;
}
