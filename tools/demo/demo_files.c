#include "tools/demo/demo_files.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "tools/demo/demo_mixed.h"

static bool directory_is_empty(const char *path)
{
    DIR *directory = opendir(path);
    if (!directory)
        return false;
    size_t items = 0;
    while (items < 3 && readdir(directory))
        items++;
    closedir(directory);
    return items == 2; /* . and .. */
}

static weft_status directory_make(weft_demo_plan *plan)
{
    const char *keep = plan->args->keep, *base = getenv("TMPDIR");
    if (keep) {
        snprintf(plan->directory, sizeof plan->directory, "%.3900s", keep);
        if (mkdir(keep, 0700) != 0 && (errno != EEXIST || !directory_is_empty(keep)))
            return weft_fail_quiet(WEFT_E_FILE, "--keep %s: %s", keep,
                                   errno == EEXIST ? "exists and is not empty; name a new directory" : strerror(errno));
        return WEFT_OK;
    }
    snprintf(plan->directory, sizeof plan->directory, "%.3900s/weft-demo-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(plan->directory)) {
        weft_fail_quiet(WEFT_E_FILE, "%s cannot be created: %s", plan->directory, strerror(errno));
        plan->directory[0] = '\0';
        return WEFT_E_FILE;
    }
    return WEFT_OK;
}

weft_status weft_demo_files_open(weft_demo_plan *plan)
{
    weft_status status = directory_make(plan);
    snprintf(plan->site, sizeof plan->site, "%.4000s/site.ini", plan->directory);
    snprintf(plan->start, sizeof plan->start, "%.4000s/v0.safetensors", plan->directory);
    snprintf(plan->final, sizeof plan->final, "%.4000s/trainer.safetensors", plan->directory);
    return status;
}

static int entry_remove(const char *path, const struct stat *facts, int kind, struct FTW *at)
{
    (void)facts;
    (void)kind;
    (void)at;
    return remove(path);
}

void weft_demo_files_close(const weft_demo_plan *plan)
{
    if (!plan->args->keep && plan->directory[0])
        nftw(plan->directory, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* Links as on one switch, across a campus, and over a WAN. */
typedef struct demo_link {
    const char *name;
    const char *rate_limit;
    const char *bucket_max;
    const char *level;
} demo_link;

static const demo_link links[] = {
    {"near", "none", "4MiB", "fast"},
    {"mid", "500Mbit/s", "4MiB", "tight"},
    {"far", "100Mbit/s", "2MiB", "tight"},
};

enum { LINK_COUNT = sizeof links / sizeof *links };

void weft_demo_peer_name(size_t index, char *text, size_t capacity)
{
    const char *name = links[index % LINK_COUNT].name;
    if (index < LINK_COUNT)
        snprintf(text, capacity, "%s", name);
    else
        snprintf(text, capacity, "%s%zu", name, index / LINK_COUNT + 1);
}

static void print_site(FILE *site, const weft_demo_plan *plan, const char *listen)
{
    const weft_args *args = plan->args;
    fprintf(site, "[site]\nname = demo\n\n[trainer]\nlisten = %s\n\n[peers]\nprovider = %s\n", listen, args->provider);
    for (size_t i = 0; i < args->peers; i++) {
        char name[32];
        weft_demo_peer_name(i, name, sizeof name);
        const demo_link *link = &links[i % LINK_COUNT];
        fprintf(site, "\n[peer.%s]\nrate_limit = %s\nbucket_max = %s\nlevel = %s\n", name, link->rate_limit,
                link->bucket_max, link->level);
        if (plan->mixed.count > 0)
            fprintf(site, "backend = %s\n", weft_demo_mixed_at(&plan->mixed, i)->backend);
    }
}

weft_status weft_demo_site_write(const weft_demo_plan *plan, const char *listen)
{
    FILE *site = fopen(plan->site, "we");
    if (!site)
        return weft_fail_quiet(WEFT_E_FILE, "%s cannot be written: %s", plan->site, strerror(errno));
    print_site(site, plan, listen);
    bool failed = ferror(site);
    if (fclose(site) != 0 || failed)
        return weft_fail_quiet(WEFT_E_FILE, "%s cannot be written: %s", plan->site, strerror(errno));
    return WEFT_OK;
}

static bool streams_equal(FILE *a, FILE *b)
{
    enum { BLOCK = 1 << 16 };
    char left[BLOCK], right[BLOCK];
    size_t length;
    do {
        length = fread(left, 1, BLOCK, a);
        if (fread(right, 1, BLOCK, b) != length || memcmp(left, right, length) != 0)
            return false;
    } while (length == BLOCK);
    return !ferror(a) && !ferror(b);
}

bool weft_demo_files_equal(const char *a, const char *b)
{
    FILE *left = fopen(a, "re"), *right = fopen(b, "re");
    bool equal = left && right && streams_equal(left, right);
    if (left)
        fclose(left);
    if (right)
        fclose(right);
    return equal;
}

uint16_t weft_demo_port_free(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
        address.sin_port = 0;
    if (fd >= 0)
        close(fd);
    return ntohs(address.sin_port);
}

void weft_demo_file_append(const char *path, FILE *to)
{
    char text[4096];
    FILE *from = fopen(path, "re");
    while (from && fgets(text, sizeof text, from))
        fputs(text, to);
    if (from)
        fclose(from);
}

json_t *weft_demo_last_object(const char *path)
{
    char *line = NULL;
    size_t room = 0;
    json_t *last = NULL;
    FILE *file = fopen(path, "re");
    while (file && getline(&line, &room, file) > 0) {
        json_t *object = json_loads(line, 0, NULL);
        if (object) {
            json_decref(last);
            last = object;
        }
    }
    free(line);
    if (file)
        fclose(file);
    return last;
}
