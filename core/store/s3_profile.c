/* s3_profile.c - profiles in the shared files of AWS's tools: [NAME] in credentials, [profile NAME] in config. */
#include "store/s3_login.h"

#ifndef WEFT_NO_S3
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MOST 9000

static const char *variable(const char *name)
{
    const char *value = name ? getenv(name) : NULL;
    return value && *value ? value : NULL;
}

const char *weft_s3_profile_name(bool *named)
{
    const char *name = variable("AWS_PROFILE") ? variable("AWS_PROFILE") : variable("AWS_DEFAULT_PROFILE");
    *named = name != NULL;
    return name ? name : "default";
}

/* Cuts blanks at both ends. */
static char *trimmed(char *text)
{
    text += strspn(text, " \t");
    for (size_t end = strlen(text); end > 0 && strchr(" \t\r\n", text[end - 1]);)
        text[--end] = 0;
    return text;
}

/* Whether a line [SECTION] begins the profile. */
static bool is_section(char *line, const char *profile)
{
    line[strcspn(line, "]")] = 0;
    char *name = trimmed(line + 1);
    if (strncmp(name, "profile ", 8) == 0)
        name = trimmed(name + 8);
    return strcmp(name, profile) == 0;
}

/* Lines that begin with a blank go on with the one before, and none that weft reads does. */
static bool file_get(const char *path, const char *profile, const char *key, char *out, size_t room)
{
    char line[LINE_MOST];
    bool inside = false, found = false;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        char *equals = strchr(line, '=');
        if (line[0] == '[') {
            inside = is_section(line, profile);
        } else if (inside && equals && !strchr(" \t#;", line[0])) {
            *equals = 0;
            const char *value = trimmed(equals + 1);
            found = strcmp(trimmed(line), key) == 0 && *value && snprintf(out, room, "%s", value) < (int)room;
        }
    }
    if (file)
        fclose(file);
    explicit_bzero(line, sizeof line);
    return found;
}

static bool path_make(const char *name, const char *own, char path[PATH_MAX])
{
    const char *home = variable("HOME");
    if (variable(name))
        return snprintf(path, PATH_MAX, "%s", variable(name)) < PATH_MAX;
    return home && snprintf(path, PATH_MAX, "%s/.aws/%s", home, own) < PATH_MAX;
}

bool weft_s3_profile_get(const char *key, char *out, size_t room)
{
    bool named;
    const char *profile = weft_s3_profile_name(&named);
    char path[PATH_MAX];
    return (path_make("AWS_SHARED_CREDENTIALS_FILE", "credentials", path) && file_get(path, profile, key, out, room)) ||
           (path_make("AWS_CONFIG_FILE", "config", path) && file_get(path, profile, key, out, room));
}

bool weft_s3_setting(const char *first, const char *second, const char *key, const char *otherwise, char *out,
                     size_t room)
{
    const char *value = variable(first) ? variable(first) : variable(second);
    if (!value && key && weft_s3_profile_get(key, out, room))
        return true;
    return snprintf(out, room, "%s", value ? value : otherwise) < (int)room;
}
#endif
