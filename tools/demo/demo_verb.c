#include "tools/demo/demo_verb.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "tools/signals.h"

enum { GRACE_MS = 2000, TAIL_BYTES = 1200, MOST_WORDS = sizeof((weft_demo_line *)0)->words / sizeof(char *) };

void weft_demo_word(weft_demo_line *line, const char *text)
{
    if (line->count + 1 < MOST_WORDS)
        line->words[line->count++] = text;
}

void weft_demo_words(weft_demo_line *line, const char *option, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(line->own[line->made], PATH_MAX, format, values);
    va_end(values);
    if (option)
        weft_demo_word(line, option);
    weft_demo_word(line, line->own[line->made++]);
}

typedef struct verb {
    const weft_demo_line *line;
    const weft_arg_list *overrides;
} verb;

static int run(void *user, int unused)
{
    const verb *v = user;
    const weft_demo_line *line = v->line;
    size_t count = line->count + 1;
    const char **argv = calloc(count + 2 * v->overrides->count + 1, sizeof *argv);
    (void)unused;
    if (!argv)
        return WEFT_EXIT_FAILED;
    argv[0] = "weft";
    memcpy(argv + 1, line->words, line->count * sizeof *argv);
    for (size_t i = 0; i < v->overrides->count; i++) {
        if (strncmp(v->overrides->items[i], "trainer.listen=", 15) == 0)
            continue;
        argv[count++] = "--set";
        argv[count++] = v->overrides->items[i];
    }
    if (line->kernels)
        setenv("WEFT_KERNELS", line->kernels, 1);
    execv("/proc/self/exe", (char *const *)argv);
    fprintf(stderr, "weft: /proc/self/exe cannot be started: %s\n", strerror(errno));
    free(argv);
    return WEFT_EXIT_FAILED;
}

weft_status weft_demo_verb_start(const weft_demo_plan *plan, fleet_process *process, const char *name,
                                 const weft_demo_line *line)
{
    verb v = {line, &plan->args->overrides};
    return fleet_process_start(process,
                               &(fleet_spawn){.name = name, .folder = plan->directory, .body = run, .user = &v});
}

static weft_status out_of_time(const weft_demo_plan *plan, const fleet_process *processes, size_t count)
{
    char names[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof names; i++)
        if (processes[i].running)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", processes[i].name);
    return weft_fail_quiet(WEFT_E_TIMEOUT, "not done after %" PRIu64 " s, still running: %s; raise --timeout",
                           plan->args->timeout, names);
}

weft_status weft_demo_look(const weft_demo_plan *plan, fleet_process *processes, size_t count, size_t *running)
{
    *running = fleet_processes_reap(processes, count);
    const fleet_process *failed = fleet_processes_failed(processes, count);
    if (weft_signals_stopping())
        return weft_fail_quiet(WEFT_E_STATE, "%s", weft_signals_reason());
    if (failed)
        return weft_fail_quiet(WEFT_E_PEER_LOST, "the process of %s ended with exit code %d", failed->name,
                               failed->exit_code);
    if (weft_now_ms() - plan->started > 1e3 * (double)plan->args->timeout)
        return out_of_time(plan, processes, count);
    return WEFT_OK;
}

void weft_demo_tail(const fleet_process *process)
{
    char text[TAIL_BYTES + 1];
    FILE *log = fopen(process->log, "re");
    if (!log)
        return;
    const bool cut = fseek(log, -TAIL_BYTES, SEEK_END) == 0;
    const size_t length = fread(text, 1, TAIL_BYTES, log);
    fclose(log);
    text[length] = '\0';
    char *line = cut && strchr(text, '\n') ? strchr(text, '\n') + 1 : text;
    for (char *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        weft_output_say("  %s: %s", process->name, line);
    }
}

int weft_demo_failed(const weft_demo_plan *plan, const fleet_process *processes, size_t count, weft_tool_phase phase,
                     weft_status status)
{
    const int code = weft_output_error(plan->args->json, phase, status);
    const fleet_process *failed = fleet_processes_failed(processes, count);
    for (size_t i = 0; i < count; i++)
        if (processes[i].pid && (processes[i].running || processes[i].exit_code))
            weft_demo_tail(&processes[i]);
    const bool verdict = failed && (failed->exit_code == WEFT_EXIT_USAGE || failed->exit_code == WEFT_EXIT_DIFFERENT);
    return verdict ? failed->exit_code : code;
}

void weft_demo_end(fleet_process *processes, size_t count)
{
    fleet_processes_end(processes, count, GRACE_MS);
}
