#include "bench.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

void fleet_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
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
        if (!option_read(options, argv[i], argv[i + 1]))
            fleet_fail("%s? options are --provider NAME --mib N --rounds N --seconds N --listen HOST:PORT "
                       "--peer NAME[@NETNS] --set KEY=VALUE --changed PERCENT --cut COMMAND --mend COMMAND",
                       argv[i]);
    if (argc % 2 == 0 || options->mib == 0 || options->rounds < 1 || options->rounds > BENCH_ROUNDS_MAX ||
        options->seconds < 1 || options->changed < 0 || options->changed > 100)
        fleet_fail("an option lacks its value, or a number is out of range");
    setvbuf(stdout, NULL, _IOLBF, 0);
}

/* ---- figures */

double bench_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

double bench_thread_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
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

/* ---- weights */

uint64_t bench_draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

void bench_noise(void *data, uint64_t bytes)
{
    uint64_t state = 88172645463325252u;
    for (uint64_t at = 0; at < bytes; at += sizeof state) {
        const uint64_t bits = bench_draw(&state), left = bytes - at;
        memcpy((uint8_t *)data + at, &bits, left < sizeof bits ? left : sizeof bits);
    }
}

/* ---- sessions */

void bench_host(const char *listen, char text[64])
{
    const char *colon = strrchr(listen, ':');
    snprintf(text, 64, "%.*s", colon ? (int)(colon - listen) : 63, listen);
}

weft_site *bench_site(const bench_options *options, const char *listen, const char *heartbeat)
{
    char text[4096], address[96];
    const char *override[BENCH_SETS_MAX + 1] = {address};
    int used = snprintf(text, sizeof text,
                        "[trainer]\nmax_peers = 8\n[peers]\nprovider = %s\nheartbeat = %s\n[peer.*]\n[log]\n"
                        "level = error\n",
                        options->provider, heartbeat);
    for (int i = 0; i < options->peer_count; i++) /* so that --set finds them */
        used += snprintf(text + used, sizeof text - (size_t)used, "[peer.%.*s]\n", (int)strcspn(options->peers[i], "@"),
                         options->peers[i]);
    if (options->listen)
        snprintf(text + used, sizeof text - (size_t)used, "[security]\nmode = open\n");
    if (!listen)
        listen = options->listen ? options->listen : "127.0.0.1:0";
    snprintf(address, sizeof address, "trainer.listen=%s", listen);
    memcpy(override + 1, options->sets, (size_t)options->set_count * sizeof *override);
    return fleet_site_load(text, override, 1 + (size_t)options->set_count);
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
        fleet_fail("a peer's network namespace cannot be entered");
    close(fd);
}
