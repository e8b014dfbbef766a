#include "fleet.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TENSOR_ELEMENTS (UINT64_C(8) << 20)

void bench_die(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

void bench_need(weft_status status, const char *what)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "bench: %s: %s: %s\n", what, weft_status_name(status), weft_last_error());
    exit(1);
}

static bool option_read(bench_options *options, const char *name, const char *value)
{
    const struct {
        const char *name;
        const char **text;
    } texts[] = {{"--provider", &options->provider},
                 {"--listen", &options->listen},
                 {"--cut", &options->cut},
                 {"--mend", &options->mend},
                 {"--peer", options->peer_count < BENCH_PEERS_MAX ? &options->peers[options->peer_count] : NULL},
                 {"--set", options->set_count < BENCH_SETS_MAX ? &options->sets[options->set_count] : NULL}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(name, texts[i].name) == 0 && texts[i].text) {
            *texts[i].text = value;
            options->peer_count += strcmp(name, "--peer") == 0;
            options->set_count += strcmp(name, "--set") == 0;
            return true;
        }
    if (strcmp(name, "--mib") == 0)
        options->mib = strtoull(value, NULL, 10);
    else if (strcmp(name, "--rounds") == 0)
        options->rounds = atoi(value);
    else if (strcmp(name, "--seconds") == 0)
        options->seconds = atoi(value);
    else if (strcmp(name, "--changed") == 0)
        options->changed = atof(value);
    else
        return false;
    return true;
}

void bench_options_read(int argc, char **argv, bench_options *options)
{
    for (int i = 1; i + 1 < argc; i += 2)
        if (!option_read(options, argv[i], argv[i + 1])) {
            fprintf(stderr, "bench: %s?\n", argv[i]);
            bench_die(
                "options are --provider NAME --mib N --rounds N --seconds N --listen HOST:PORT --peer NAME[@NETNS] "
                "--set KEY=VALUE --changed PERCENT --cut COMMAND --mend COMMAND");
        }
    if (argc % 2 == 0 || options->mib == 0 || options->rounds < 1 || options->rounds > BENCH_ROUNDS_MAX ||
        options->seconds < 1 || options->changed < 0 || options->changed > 100)
        bench_die("an option lacks its value, or a number is out of range");
    setvbuf(stdout, NULL, _IOLBF, 0);
}

/* ---- figures */

double bench_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

void bench_sleep_ms(double ms)
{
    struct timespec t = {(time_t)(ms / 1e3), 0};
    t.tv_nsec = (long)((ms - (double)t.tv_sec * 1e3) * 1e6);
    nanosleep(&t, NULL);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(const double *values, int count)
{
    double sorted[BENCH_ROUNDS_MAX];
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    return sorted[count / 2];
}

/* Field 2 of every thread's schedstat, in ns. */
static double queued_ms(void)
{
    double sum = 0;
    DIR *threads = opendir("/proc/self/task");
    if (!threads)
        return 0;
    for (struct dirent *entry; (entry = readdir(threads));) {
        char path[300];
        unsigned long long ran, waited;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file && fscanf(file, "%llu %llu", &ran, &waited) == 2)
            sum += (double)waited / 1e6;
        if (file)
            fclose(file);
    }
    closedir(threads);
    return sum;
}

bench_cpu bench_cpu_now(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (bench_cpu){(double)usage.ru_utime.tv_sec * 1e3 + (double)usage.ru_utime.tv_usec / 1e3,
                       (double)usage.ru_stime.tv_sec * 1e3 + (double)usage.ru_stime.tv_usec / 1e3, queued_ms()};
}

bench_cpu bench_cpu_since(bench_cpu before)
{
    bench_cpu now = bench_cpu_now();
    return (bench_cpu){now.user_ms - before.user_ms, now.kernel_ms - before.kernel_ms,
                       now.queued_ms - before.queued_ms};
}

/* ---- model */

uint64_t bench_draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void describe(bench_model *model)
{
    weft_tensor *tensors = calloc(model->count, sizeof *tensors);
    char(*names)[32] = calloc(model->count, sizeof *names);
    uint64_t *shapes = calloc(model->count, sizeof *shapes);
    model->pieces = calloc(model->count, sizeof *model->pieces);
    if (!tensors || !names || !shapes || !model->pieces)
        bench_die("no memory for a layout");
    for (uint64_t t = 0; t < model->count; t++) {
        uint64_t first = t * TENSOR_ELEMENTS, left = model->elements - first;
        shapes[t] = left < TENSOR_ELEMENTS ? left : TENSOR_ELEMENTS;
        snprintf(names[t], sizeof names[t], "layer.%llu", (unsigned long long)t);
        tensors[t] = (weft_tensor){names[t], WEFT_BF16, 1, &shapes[t]};
        model->pieces[t] = (weft_piece){t, 0, shapes[t], model->weights + first};
    }
    bench_need(weft_layout_create(tensors, model->count, &model->layout), "layout");
    free(shapes);
    free(names);
    free(tensors);
}

void bench_model_open(bench_model *model, uint64_t mib)
{
    uint64_t state = 88172645463325252u;
    model->bytes = mib << 20;
    model->elements = model->bytes / 2;
    model->count = (model->elements + TENSOR_ELEMENTS - 1) / TENSOR_ELEMENTS;
    model->weights = aligned_alloc(2u << 20, (model->bytes + (2u << 20) - 1) >> 21 << 21);
    if (!model->weights)
        bench_die("no memory for the weights");
    for (uint64_t i = 0; i < model->elements; i += 4) {
        uint64_t bits = bench_draw(&state);
        memcpy(model->weights + i, &bits, sizeof bits);
    }
    describe(model);
}

void bench_model_close(bench_model *model)
{
    weft_layout_free(model->layout);
    free(model->pieces);
    free(model->weights);
}

/* ---- sessions */

void bench_host(const char *listen, char text[64])
{
    const char *colon = strrchr(listen, ':');
    snprintf(text, 64, "%.*s", colon ? (int)(colon - listen) : 63, listen);
}

weft_site *bench_site(const bench_options *options, const char *listen, const char *heartbeat)
{
    const char *folder = getenv("TMPDIR");
    char path[4096], address[96];
    const char *override[BENCH_SETS_MAX + 1] = {address};
    weft_site *site;
    snprintf(path, sizeof path, "%s/weft-bench-XXXXXX", folder ? folder : "/tmp");
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file)
        bench_die("no temporary file for the site");
    fprintf(file, "[trainer]\nmax_peers = 8\n[peers]\nprovider = %s\nheartbeat = %s\n[peer.*]\n[log]\nlevel = error\n",
            options->provider, heartbeat);
    for (int i = 0; i < options->peer_count; i++) /* so that --set finds them */
        fprintf(file, "[peer.%.*s]\n", (int)strcspn(options->peers[i], "@"), options->peers[i]);
    if (options->listen)
        fprintf(file, "[security]\nmode = open\n");
    fclose(file);
    snprintf(address, sizeof address, "trainer.listen=%s",
             listen            ? listen
             : options->listen ? options->listen
                               : "127.0.0.1:0");
    memcpy(override + 1, options->sets, (size_t)options->set_count * sizeof *override);
    weft_status status = weft_site_load(path, override, 1 + (size_t)options->set_count, &site);
    unlink(path);
    bench_need(status, "site");
    return site;
}

weft_session *bench_trainer_open(const bench_options *options, const char *heartbeat, const bench_model *model,
                                 char listen[64])
{
    weft_stats_info stats = {.size = sizeof stats};
    weft_session *trainer;
    weft_site *site = bench_site(options, NULL, heartbeat);
    bench_need(weft_trainer_open(site, model->layout, NULL, &trainer), "open the trainer");
    bench_need(weft_bind(trainer, model->pieces, model->count, NULL, 0, 0), "bind the trainer");
    bench_need(weft_stats(trainer, &stats), "stats");
    memcpy(listen, stats.listen, sizeof stats.listen);
    weft_site_free(site);
    return trainer;
}

/* ---- processes */

void bench_send(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes) {
        ssize_t sent = write(fd, at, bytes);
        if (sent < 0 && errno != EINTR)
            bench_die("the other process is gone");
        if (sent > 0) {
            at += sent;
            bytes -= (size_t)sent;
        }
    }
}

bool bench_receive(int fd, void *data, size_t bytes)
{
    char *at = data;
    while (bytes) {
        ssize_t got = read(fd, at, bytes);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        if (got > 0) {
            at += got;
            bytes -= (size_t)got;
        }
    }
    return true;
}

void bench_netns_enter(const char *peer)
{
    char path[128];
    const char *at = peer ? strchr(peer, '@') : NULL;
    if (!at)
        return;
    snprintf(path, sizeof path, "/run/netns/%s", at + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0)
        bench_die("a peer's network namespace cannot be entered");
    close(fd);
}

void bench_child_open(bench_child *child, void (*body)(int in, int out, const void *user), const void *user)
{
    int down[2], up[2];
    if (pipe(down) || pipe(up))
        bench_die("no pipe");
    fflush(NULL);
    signal(SIGPIPE, SIG_IGN);
    child->pid = fork();
    if (child->pid < 0)
        bench_die("no process");
    if (child->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(down[1]);
        close(up[0]);
        body(down[0], up[1], user);
        exit(0);
    }
    close(down[0]);
    close(up[1]);
    child->to = down[1];
    child->from = up[0];
}

void bench_child_close(bench_child *child)
{
    kill(child->pid, SIGKILL);
    waitpid(child->pid, NULL, 0);
    close(child->to);
    close(child->from);
}
