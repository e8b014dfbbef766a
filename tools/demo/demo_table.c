/* demo_table.c - what the demo shows while it runs. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/demo/demo.h"
#include "tools/output.h"

void weft_demo_table_open(weft_demo_table *table, bool on_stderr, uint64_t updates)
{
    const char *term = getenv("TERM");
    *table = (weft_demo_table){.on_stderr = on_stderr, .updates = updates};
    table->live = isatty(on_stderr ? STDERR_FILENO : STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

void weft_demo_table_close(weft_demo_table *table)
{
    json_decref(table->update);
    *table = (weft_demo_table){0};
}

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "-";
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static void print_line(weft_demo_table *table)
{
    fputs(table->live ? "\033[K\n" : "\n", table->out);
    table->drawn_lines++;
}

static void print_update(weft_demo_table *table)
{
    const json_t *update = table->update;
    fprintf(table->out,
            "version %.0f/%llu: %.3f %% changed, %s %s, %.1f x less than dense, %.2f bits a change, diff %.1f "
            "ms, encode %.1f ms",
            number_of(update, "target"), (unsigned long long)table->updates,
            100 * ratio(number_of(update, "changed"), number_of(update, "elements")),
            weft_output_size(number_of(update, "bytes")).text, text_of(update, "level"),
            ratio(number_of(update, "dense_bytes"), number_of(update, "bytes")), number_of(update, "bits_per_change"),
            number_of(update, "diff_ms"), number_of(update, "encode_ms"));
    print_line(table);
}

static void print_head(weft_demo_table *table)
{
    fprintf(table->out, "  %-6s %-11s %7s %4s %11s %8s %-5s %11s %-7s %8s %7s %10s %7s", "peer", "state", "version",
            "lag", "bytes", "x dense", "level", "bucket", "bound", "MB/s", "rtt ms", "apply MB/s", "cost us");
    fprintf(table->out, " %9s %9s %9s  %s", "send ms", "apply ms", "commit ms", "via");
    print_line(table);
}

typedef struct cell {
    char text[24];
} cell;

/* A value that is not known yet is a dash. */
static cell cell_of(const json_t *object, const char *key, double unit)
{
    cell made = {"-"};
    const json_t *value = json_object_get(object, key);
    if (json_is_number(value))
        snprintf(made.text, sizeof made.text, "%.1f", json_number_value(value) / unit);
    return made;
}

static void print_peer(weft_demo_table *table, const json_t *peer)
{
    double bytes = number_of(peer, "bytes"), held = number_of(peer, "held");
    fprintf(table->out, "  %-6s %-11s %7.0f %4.0f %11s %8.1f %-5s %11s %-7s", text_of(peer, "name"),
            text_of(peer, "state"), held, number_of(peer, "lag"), weft_output_size(bytes).text,
            ratio(held * number_of(table->update, "dense_bytes"), bytes), text_of(peer, "level"),
            weft_output_size(number_of(peer, "bucket_bytes")).text, text_of(peer, "bucket_bound"));
    fprintf(table->out, " %8s %7s %10s %7s", cell_of(peer, "rate_bytes_s", 1e6).text, cell_of(peer, "rtt_ms", 1).text,
            cell_of(peer, "apply_bytes_s", 1e6).text, cell_of(peer, "bucket_cost_ms", 1e-3).text);
    fprintf(table->out, " %9s %9s %9s  %s", cell_of(peer, "send_ms", 1).text, cell_of(peer, "apply_ms", 1).text,
            cell_of(peer, "commit_ms", 1).text, text_of(peer, "via"));
    print_line(table);
}

static void draw_page(weft_demo_table *table, const json_t *message)
{
    size_t index;
    json_t *peer;
    if (table->live) /* a wrapped line would be two for the cursor */
        fputs("\033[?7l", table->out);
    if (table->live && table->drawn_lines)
        fprintf(table->out, "\033[%dA\r", table->drawn_lines);
    table->drawn_lines = 0;
    print_update(table);
    if (table->live || number_of(message, "version") <= 1)
        print_head(table);
    json_array_foreach(json_object_get(message, "peers"), index, peer) print_peer(table, peer);
    if (table->live)
        fputs("\033[?7h", table->out);
}

/* The page leaves whole, or is dropped where nobody reads. */
static void draw(weft_demo_table *table, const json_t *message)
{
    char *page = NULL;
    size_t bytes = 0;
    table->out = open_memstream(&page, &bytes);
    if (!table->out)
        return;
    draw_page(table, message);
    if (fclose(table->out) == 0)
        weft_output_page(table->on_stderr, page, bytes);
    free(page);
    table->out = NULL;
}

void weft_demo_table_take(weft_demo_table *table, const char *kind, json_t *message)
{
    if (strcmp(kind, "update") == 0) {
        json_decref(table->update);
        table->update = json_incref(message);
        return;
    }
    /* without a terminal only what is settled is worth lines */
    if (table->update && (strcmp(kind, "held") == 0 || (table->live && strcmp(kind, "peers") == 0)))
        draw(table, message);
}
