/* site_file.c - reads a site file whole, so that locator and iniparser see the same bytes, pipes included. */
#include "site/site_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"

static weft_status read_more(const char *path, int fd, char *text, uint64_t room, uint64_t *taken)
{
    for (;;) {
        ssize_t got = read(fd, text, room);
        if (got >= 0) {
            *taken = (uint64_t)got;
            return WEFT_OK;
        }
        if (errno != EINTR)
            return weft_fail(WEFT_E_FILE, "cannot read site file %s: %s", path, strerror(errno));
    }
}

static weft_status read_whole(const char *path, int fd, char **text, uint64_t *bytes)
{
    uint64_t room = 0, taken = 0;
    *bytes = 0;
    for (*text = NULL;; *bytes += taken) {
        if (*bytes > WEFT_SITE_BYTES)
            return weft_fail(WEFT_E_CONFIG, "%s: larger than %" PRIu64 " bytes: is it a site file?", path,
                             WEFT_SITE_BYTES);
        if (*bytes == room) {
            char *grown = weft_mem_grow(*text, *text ? room + 1 : 0, room * 2 + 4096 + 1, 1);
            if (!grown)
                return weft_fail(WEFT_E_MEMORY, "no memory to read site file %s", path);
            *text = grown;
            room = room * 2 + 4096;
        }
        weft_status status = read_more(path, fd, *text + *bytes, room - *bytes, &taken);
        if (status)
            return status;
        if (!taken)
            return WEFT_OK;
    }
}

weft_status weft_site_file_read(const char *path, char **text, uint64_t *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return weft_fail(WEFT_E_FILE, "cannot open site file %s: %s", path, strerror(errno));
    weft_status status = read_whole(path, fd, text, bytes);
    close(fd);
    if (status) {
        weft_mem_give(*text);
        *text = NULL;
        return status;
    }
    (*text)[*bytes] = 0;
    return WEFT_OK;
}
