/* bench_fabric.c - who the two ends are: two processes here, or this host and the peer's. */
#include "tools/bench/bench_fabric.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "site/site_link.h"
#include "site/site_text.h"
#include "tools/bench/fabric/meet.h"
#include "tools/output.h"

#define RUNS_MAX      15u
#define MEGABYTES_MAX 4096u

typedef struct plan {
    const weft_args *args;
    weft_site *site;
    char provider[WEFT_SITE_NAME];
    char listen[WEFT_SITE_TEXT];  /* host:port */
    char address[WEFT_SITE_TEXT]; /* of this end's endpoint */
    uint32_t accelerator;         /* that "near1" is near to */
} plan;

/* ---- the three shapes */

static weft_link_options link_of(const plan *plan)
{
    weft_link_options options = weft_site_link(plan->site, plan->provider, plan->address);
    options.accelerator = plan->accelerator;
    return options;
}

static weft_status measure(const plan *plan, weft_bench_line *line, const char *other, weft_fabric_found *found)
{
    weft_bench_fabric_terms terms = {.provider = plan->provider,
                                     .link = link_of(plan),
                                     .runs = (uint32_t)plan->args->runs,
                                     .bytes = plan->args->megabytes * 1000000,
                                     .line = line};
    *found = (weft_fabric_found){.provider = plan->provider, .address = plan->address, .other = other};
    return weft_bench_fabric_measure(&terms, &found->figures);
}

/* Once it has come, what fails is told by the end that measures; before, here. */
static int be_other_end(const plan *plan, const char *bound, int grave)
{
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    weft_bench_line line = {.fd = -1};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (nowhere >= 0)
        dup2(nowhere, STDERR_FILENO);
    weft_status status = weft_bench_meet_dial(bound, &line.fd);
    if (status != WEFT_OK) {
        const char *why = weft_last_error();
        return write(grave, why, strlen(why)) < 0 ? 2 : 1;
    }
    const weft_link_options options = link_of(plan);
    return weft_bench_fabric_serve(plan->provider, &options, &line) == WEFT_OK ? 0 : 1;
}

/* Before either end knows a fabric. */
static weft_status fork_other_end(const plan *plan, const char *bound, pid_t *child, int *grave)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return weft_fail_quiet(WEFT_E_SYSTEM, "pipe: %s", strerror(errno));
    *child = fork();
    if (*child == 0)
        _exit(be_other_end(plan, bound, ends[1]));
    close(ends[1]);
    *grave = ends[0];
    return *child < 0 ? weft_fail_quiet(WEFT_E_SYSTEM, "fork: %s", strerror(errno)) : WEFT_OK;
}

static weft_status measure_here(const plan *plan, weft_fabric_found *found)
{
    char bound[64];
    int listener = -1, grave = -1, code;
    weft_bench_line line = {.fd = -1}; /* this host's own processes prove nothing to each other */
    pid_t child = -1;
    weft_status status = weft_bench_meet_listen("127.0.0.1:0", &listener, bound);
    if (status != WEFT_OK)
        return status;
    status = fork_other_end(plan, bound, &child, &grave);
    if (status == WEFT_OK)
        status = weft_bench_meet_accept(listener, grave, &line.fd);
    close(listener);
    if (grave >= 0)
        close(grave);
    if (status == WEFT_OK)
        status = measure(plan, &line, "a process here", found);
    weft_bench_line_close(&line); /* its end too, if it still waits */
    if (child > 0 && status != WEFT_OK)
        kill(child, SIGKILL);
    if (child > 0)
        waitpid(child, &code, 0);
    return status;
}

/* Says who was turned away, once a second at most, because whoever reaches the port causes such lines. */
static void say_refused(const char *from, uint64_t *said_ns)
{
    const uint64_t now_ns = weft_clock_ns();
    if (*said_ns && now_ns < *said_ns + 1000 * WEFT_NS_PER_MS)
        return;
    *said_ns = now_ns;
    weft_output_say("weft: refused: %s: %s", from, weft_last_error());
}

/* Waits for the peer, however many others come. */
static weft_status wait_for_peer(const plan *plan, int listener, weft_bench_line *line)
{
    uint64_t said_ns = 0;
    for (;;) {
        char from[64];
        int fd = -1;
        weft_status status = weft_bench_meet_accept(listener, -1, &fd);
        if (status != WEFT_OK)
            return status;
        if (weft_bench_meet_remote(fd, from, sizeof from) != WEFT_OK)
            snprintf(from, sizeof from, "?");
        if (weft_bench_line_admit(line, fd, plan->args->peer) == WEFT_OK)
            return WEFT_OK;
        say_refused(from, &said_ns);
    }
}

static weft_status measure_with_peer(const plan *plan, weft_fabric_found *found)
{
    char bound[64];
    int listener = -1;
    weft_bench_line line;
    weft_status status = weft_bench_line_open(&line, plan->site, NULL);
    if (status == WEFT_OK)
        status = weft_bench_meet_listen(plan->listen, &listener, bound);
    if (status == WEFT_OK) {
        weft_output_say("weft: waiting on %s for `weft bench fabric SITE.ini --peer %s --join`", bound,
                        plan->args->peer);
        status = wait_for_peer(plan, listener, &line);
        close(listener);
    }
    if (status == WEFT_OK) {
        weft_output_say("weft: %s has come", plan->args->peer);
        status = measure(plan, &line, plan->args->peer, found);
    }
    weft_bench_line_close(&line);
    return status;
}

/* The first of several rails is measured. */
static void first_of(const char *addresses, char address[WEFT_SITE_TEXT])
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    weft_site_rails(addresses, list);
    snprintf(address, WEFT_SITE_TEXT, "%s", list[0]);
}

/* The peer's own address, or the one that reaches the trainer. */
static weft_status join_trainer(plan *plan, const weft_site_peer *peer)
{
    int fd = -1;
    weft_bench_line line;
    weft_status status = weft_bench_line_open(&line, plan->site, peer->name);
    if (status == WEFT_OK)
        status = weft_bench_meet_dial(plan->listen, &fd);
    first_of(peer->address, plan->address);
    plan->accelerator = weft_site_accelerator(peer->backend, peer->device);
    if (status == WEFT_OK)
        status = weft_bench_line_join(&line, fd);
    if (status == WEFT_OK && !*plan->address)
        status = weft_bench_meet_local(line.fd, plan->address, sizeof plan->address);
    const weft_link_options options = link_of(plan);
    if (status == WEFT_OK)
        status = weft_bench_fabric_serve(plan->provider, &options, &line);
    weft_bench_line_close(&line);
    return status;
}

/* ---- the command line */

static weft_status check_words(const weft_args *args)
{
    if (!args->words[1])
        return weft_fail_quiet(WEFT_E_ARGUMENT, "weft bench fabric needs a SITE.ini");
    if (args->serve && args->join)
        return weft_fail_quiet(WEFT_E_ARGUMENT,
                               "--serve runs on the trainer's host and --join on the peer's: give one of them");
    if ((args->serve || args->join) && !args->peer)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--%s needs --peer NAME", args->serve ? "serve" : "join");
    if (args->runs < 1 || args->runs > RUNS_MAX)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--runs must be 1 to %u", RUNS_MAX);
    if (args->megabytes < 1 || args->megabytes > MEGABYTES_MAX)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--megabytes must be 1 to %u", MEGABYTES_MAX);
    return WEFT_OK;
}

static weft_status choose_peer(const plan *plan, weft_site_peer *peer)
{
    const char *name = plan->args->peer;
    if (!name && weft_site_peer_name(plan->site, 0, &name) != WEFT_OK)
        return weft_fail_quiet(WEFT_E_CONFIG, "%s has no [peer.NAME] section of its own: say --peer NAME",
                               plan->args->words[1]);
    return weft_site_resolve(plan->site, name, peer);
}

static weft_status choose_provider(plan *plan, const weft_site_peer *peer)
{
    if (strcmp(peer->provider, "auto") == 0)
        return weft_fail_quiet(WEFT_E_CONFIG,
                               "[peer.%s] provider = auto: name the one to measure, as in --set peers.provider=tcp",
                               peer->name);
    if (strcmp(peer->provider, "loop") == 0)
        return weft_fail_quiet(
            WEFT_E_CONFIG, "[peer.%s] provider = loop joins no processes: there is no fabric to measure", peer->name);
    if (strcmp(peer->provider, "stream") == 0)
        return weft_fail_quiet(WEFT_E_CONFIG,
                               "[peer.%s] provider = stream goes by the connections of a rollout that joined: there is "
                               "no fabric to measure; the trainer prints the rate of each peer",
                               peer->name);
    snprintf(plan->provider, sizeof plan->provider, "%s", peer->provider);
    return WEFT_OK;
}

/* The trainer's fabric address for the provider; loopback where that is no address at all. */
static void choose_address(plan *plan)
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    weft_site_trainer_rails(plan->site, plan->provider, list);
    plan->accelerator = weft_site_accelerator(plan->site->trainer.backend, plan->site->trainer.device);
    snprintf(plan->listen, sizeof plan->listen, "%s", plan->site->trainer.listen);
    snprintf(plan->address, sizeof plan->address, "%s", weft_site_is_wildcard(list[0]) ? "127.0.0.1" : list[0]);
}

static int finish(const weft_args *args, weft_tool_phase phase, weft_status status, const weft_fabric_found *found)
{
    if (status != WEFT_OK)
        return weft_output_error(args->json, phase, status);
    if (found)
        (args->json ? weft_bench_fabric_print_json : weft_bench_fabric_print)(found);
    return WEFT_EXIT_DONE;
}

int weft_bench_fabric(const weft_args *args)
{
    plan plan = {.args = args};
    weft_site_peer peer;
    weft_fabric_found found;
    weft_status status = check_words(args);
    if (status == WEFT_OK)
        status = weft_site_load(args->words[1], args->overrides.items, args->overrides.count, &plan.site);
    if (status == WEFT_OK)
        status = choose_peer(&plan, &peer);
    if (status == WEFT_OK)
        status = choose_provider(&plan, &peer);
    if (status == WEFT_OK) {
        choose_address(&plan);
        status = args->join    ? join_trainer(&plan, &peer)
                 : args->serve ? measure_with_peer(&plan, &found)
                               : measure_here(&plan, &found);
    }
    int code = finish(args, WEFT_TOOL_INPUT, status, args->join ? NULL : &found);
    weft_site_free(plan.site);
    return code;
}
