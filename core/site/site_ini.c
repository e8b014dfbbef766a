/* site_ini.c - the only file that knows iniparser. It decides every value; 4.1 and 4.2 serve alike. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if __has_include(<iniparser/iniparser.h>)
#include <iniparser/iniparser.h>
#else
#include <iniparser.h>
#endif

#include "base/status.h"
#include "site/site_file.h"

/* iniparser cuts its own copies of names at 1024; a located line is shorter. */
#define ENTRY 1100

static weft_site_ini *wrap(dictionary *d)
{
    return (weft_site_ini *)(void *)d;
}

static const dictionary *unwrap(const weft_site_ini *ini)
{
    return (const dictionary *)(const void *)ini;
}

static weft_status write_whole(const char *path, int fd, const char *text, uint64_t bytes)
{
    while (bytes) {
        ssize_t put = write(fd, text, bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return weft_fail(WEFT_E_SYSTEM, "cannot hold site file %s in memory: %s", path, strerror(errno));
        text += put;
        bytes -= (uint64_t)put;
    }
    return WEFT_OK;
}

static int keep_quiet(const char *format, ...)
{
    (void)format;
    return 0;
}

/* The error callback is one for the process and cannot be asked for: it is ours only under this lock, and iniparser's
 * default again behind it. */
static dictionary *load_quietly(int fd)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    char name[32];
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    pthread_mutex_lock(&lock);
    iniparser_set_error_callback(keep_quiet);
    dictionary *d = iniparser_load(name);
    iniparser_set_error_callback(NULL);
    pthread_mutex_unlock(&lock);
    return d;
}

weft_status weft_site_ini_open(const char *path, const char *text, uint64_t bytes, weft_site_ini **ini)
{
    /* 4.1 loads by name only: a file in memory has one, and holds just what the locator saw. */
    int fd = memfd_create("weft-site", MFD_CLOEXEC);
    if (fd < 0)
        return weft_fail(WEFT_E_SYSTEM, "cannot hold site file %s in memory: %s", path, strerror(errno));
    weft_status status = write_whole(path, fd, text, bytes);
    dictionary *d = status ? NULL : load_quietly(fd);
    close(fd);
    if (status)
        return status;
    if (!d)
        return weft_fail(WEFT_E_CONFIG, "%s: iniparser cannot read this file (is /proc mounted?)", path);
    *ini = wrap(d);
    return WEFT_OK;
}

const char *weft_site_ini_value(const weft_site_ini *ini, const char *section, const char *key)
{
    char entry[ENTRY];
    if (snprintf(entry, sizeof(entry), "%s:%s", section, key) >= (int)sizeof(entry))
        return NULL;
    return iniparser_getstring(unwrap(ini), entry, NULL);
}

bool weft_site_ini_agrees(const weft_site_ini *ini, const weft_site_lines *lines)
{
    const dictionary *d = unwrap(ini);
    for (uint64_t i = 0; i < lines->count; i++) {
        const weft_site_line *line = &lines->line[i];
        if (line->key ? !weft_site_ini_value(ini, line->section, line->key) : !iniparser_find_entry(d, line->section))
            return false;
    }
    return (uint64_t)d->n == lines->count;
}

void weft_site_ini_close(weft_site_ini *ini)
{
    if (ini)
        iniparser_freedict((dictionary *)(void *)ini);
}
