#include "security/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"

#define WORD "weft-key-1 "

weft_secret *weft_secret_open(void)
{
    weft_secret *secret = weft_mem_map(sizeof *secret);
    if (secret)
        madvise(secret, sizeof *secret, MADV_DONTDUMP);
    return secret;
}

void weft_secret_wipe(weft_secret *secret)
{
    explicit_bzero(secret, sizeof *secret);
}

void weft_secret_close(weft_secret *secret)
{
    if (!secret)
        return;
    weft_secret_wipe(secret);
    weft_mem_unmap(secret, sizeof *secret);
}

/* ---- reading */

/* As others do with private keys: the owner's alone, or root's and one group's that may read. */
static weft_status check_mode(const char *path, const struct stat *file)
{
    const bool mine = file->st_uid == geteuid();
    const mode_t forbidden = mine ? S_IRWXG | S_IRWXO : S_IWGRP | S_IXGRP | S_IRWXO;
    if (!S_ISREG(file->st_mode))
        return weft_fail_quiet(WEFT_E_CONFIG, "%s is no file", path);
    if (!mine && file->st_uid != 0)
        return weft_fail_quiet(WEFT_E_CONFIG, "%s belongs to user %u, who is neither root nor who runs this (%u)", path,
                               (unsigned)file->st_uid, (unsigned)geteuid());
    if (file->st_mode & forbidden)
        return weft_fail_quiet(WEFT_E_CONFIG, "%s has mode %04o, so that others may read or write it: chmod 600 %s",
                               path, (unsigned)file->st_mode & 07777u, path);
    return WEFT_OK;
}

static weft_status read_text(weft_secret *secret, int fd, const char *path)
{
    ssize_t got = 1;
    while (got > 0 && secret->text_bytes < sizeof secret->text) {
        got = read(fd, secret->text + secret->text_bytes, sizeof secret->text - secret->text_bytes);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            secret->text_bytes += (uint64_t)got;
    }
    if (got < 0)
        return weft_fail_quiet(WEFT_E_CONFIG, "%s: %s", path, strerror(errno));
    if (secret->text_bytes == sizeof secret->text)
        return weft_fail_quiet(WEFT_E_CONFIG, "%s has more than %u bytes: it is no key", path, WEFT_SECRET_FILE - 1);
    secret->text[secret->text_bytes] = 0;
    return WEFT_OK;
}

weft_status weft_secret_file(weft_secret *secret, const char *path)
{
    struct stat file;
    weft_secret_wipe(secret);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return weft_fail_quiet(WEFT_E_CONFIG, "%s: %s", path, strerror(errno));
    weft_status status = fstat(fd, &file) == 0 ? check_mode(path, &file)
                                               : weft_fail_quiet(WEFT_E_CONFIG, "%s: %s", path, strerror(errno));
    if (status == WEFT_OK)
        status = read_text(secret, fd, path);
    close(fd);
    return status;
}

/* The value of a digit; -1: it is none. */
static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static size_t count_digits(const char *text)
{
    size_t count = 0;
    while (digit(text[count]) >= 0)
        count++;
    return count;
}

/* Takes the line apart; false: it is no key. `bytes` stays 0 for a key that is too short. */
static bool take_line(weft_secret *secret)
{
    const char *id = secret->text + sizeof WORD - 1;
    if (strncmp(secret->text, WORD, sizeof WORD - 1) != 0 || count_digits(id) != WEFT_SECRET_ID - 1 ||
        id[WEFT_SECRET_ID - 1] != ' ')
        return false;
    const char *key = id + WEFT_SECRET_ID;
    const size_t digits = count_digits(key), line = (size_t)(key - secret->text) + digits;
    const bool ends = secret->text_bytes == line || (secret->text_bytes == line + 1 && secret->text[line] == '\n');
    if (!ends || digits % 2 || digits / 2 > WEFT_SECRET_MOST)
        return false;
    if (digits / 2 < WEFT_SECRET_LEAST)
        return true;
    memcpy(secret->id, id, WEFT_SECRET_ID - 1);
    for (size_t i = 0; i < digits / 2; i++) /* all are digits, as they were counted */
        secret->key[i] = (uint8_t)((unsigned)digit(key[2 * i]) << 4 | (unsigned)digit(key[2 * i + 1]));
    secret->bytes = (uint32_t)(digits / 2);
    return true;
}

weft_status weft_secret_read(weft_secret *secret, const char *path)
{
    weft_status status = weft_secret_file(secret, path);
    if (status != WEFT_OK)
        return status;
    if (!take_line(secret))
        status = weft_fail_quiet(WEFT_E_CONFIG, "%s holds no key of weft: make one by `weft key FILE`", path);
    else if (secret->bytes == 0)
        status = weft_fail_quiet(WEFT_E_CONFIG, "%s holds a key of less than %u bytes: make one by `weft key FILE`",
                                 path, WEFT_SECRET_LEAST);
    if (status != WEFT_OK)
        weft_secret_wipe(secret);
    explicit_bzero(secret->text, sizeof secret->text);
    return status;
}

/* ---- making */

static weft_status draw(void *random, size_t bytes)
{
    ssize_t got;
    do
        got = getrandom(random, bytes, 0);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)bytes ? WEFT_OK : weft_fail_quiet(WEFT_E_SYSTEM, "no random numbers: %s", strerror(errno));
}

static char *put_digits(char *to, const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        *to++ = "0123456789abcdef"[bytes[i] >> 4];
        *to++ = "0123456789abcdef"[bytes[i] & 15];
    }
    return to;
}

/* Writes the line to `text`: the ID first, then the key. */
static weft_status compose(weft_secret *secret)
{
    uint8_t id[(WEFT_SECRET_ID - 1) / 2];
    weft_status status = draw(secret->key, WEFT_SECRET_LEAST);
    if (status == WEFT_OK)
        status = draw(id, sizeof id);
    if (status != WEFT_OK)
        return status;
    memcpy(secret->text, WORD, sizeof WORD - 1);
    char *at = put_digits(secret->text + sizeof WORD - 1, id, sizeof id);
    memcpy(secret->id, at - (WEFT_SECRET_ID - 1), WEFT_SECRET_ID - 1);
    *at++ = ' ';
    at = put_digits(at, secret->key, WEFT_SECRET_LEAST);
    *at++ = '\n';
    secret->text_bytes = (uint64_t)(at - secret->text);
    return WEFT_OK;
}

static weft_status write_new(const weft_secret *secret, const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0 && errno == EEXIST)
        return weft_fail_quiet(WEFT_E_FILE, "%s exists: a key is never written over; choose another name", path);
    if (fd < 0)
        return weft_fail_quiet(WEFT_E_FILE, "%s: %s", path, strerror(errno));
    const bool whole = write(fd, secret->text, secret->text_bytes) == (ssize_t)secret->text_bytes && fsync(fd) == 0;
    const int error = errno;
    close(fd);
    if (whole)
        return WEFT_OK;
    unlink(path);
    return weft_fail_quiet(WEFT_E_FILE, "%s: %s", path, strerror(error));
}

weft_status weft_secret_make(const char *path, char id[WEFT_SECRET_ID])
{
    weft_secret *secret = weft_secret_open();
    if (!secret)
        return weft_fail_quiet(WEFT_E_MEMORY, "no memory for a key");
    weft_status status = compose(secret);
    if (status == WEFT_OK)
        status = write_new(secret, path);
    memcpy(id, secret->id, WEFT_SECRET_ID);
    weft_secret_close(secret);
    return status;
}
