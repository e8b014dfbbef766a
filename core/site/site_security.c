/* site_security.c - rules on [security]: what mode = tls needs, and whose key a peer's is. */
#include <stdio.h>
#include <string.h>

#include "site/site_resolve.h"

static const char *const certificate_keys[] = {"ca", "certificate", "key"};
static const char *const shared_keys[] = {"key_file", "key_file_next"};

/* The entry of a key of [security] that is not empty; NULL: there is none. */
static const weft_site_entry *find(const weft_site *site, const char *key)
{
    const uint32_t section = weft_site_section_find(site->source, "security");
    const weft_site_entry *entry =
        section == WEFT_SITE_NOWHERE ? NULL
                                     : weft_site_entry_find(site->source, section, weft_site_field_of("security", key));
    return entry && entry->value.text[0] ? entry : NULL;
}

static weft_status refuse_entry(const weft_site *site, const weft_site_entry *entry, const char *text)
{
    const weft_site_place place = {site->path, entry->line, site->source->sections[entry->section].header,
                                   entry->field->key.key, entry->value.text};
    return weft_site_refuse(&place, "%s", text);
}

static weft_status refuse_mode(const weft_site *site, const char *text)
{
    const uint32_t section = weft_site_section_find(site->source, "security");
    const weft_site_entry *mode =
        section == WEFT_SITE_NOWHERE
            ? NULL
            : weft_site_entry_find(site->source, section, weft_site_field_of("security", "mode"));
    const weft_site_place place = {site->path, mode ? mode->line : 0, "security", "mode", "tls"};
    return weft_site_refuse(&place, "%s", text);
}

/* Any entry of these two keys in a section of peers. */
static const weft_site_entry *find_of_peers(const weft_site *site)
{
    for (uint64_t i = 0; i < site->source->entry_count; i++) {
        const weft_site_entry *entry = &site->source->entries[i];
        const bool own =
            !strcmp(entry->field->key.section, "peer") &&
            (!strcmp(entry->field->key.key, "key_file") || !strcmp(entry->field->key.key, "key_file_next"));
        if (own && entry->value.text[0])
            return entry;
    }
    return NULL;
}

/* A file that is named and not used would look like protection. */
static weft_status check_unused(const weft_site *site)
{
    const weft_site_entry *entry = find_of_peers(site);
    for (size_t i = 0; i < 3 && !entry; i++)
        entry = find(site, certificate_keys[i]);
    for (size_t i = 0; i < 2 && !entry; i++)
        entry = find(site, shared_keys[i]);
    if (!entry && site->replace == WEFT_REPLACE_YES)
        return refuse_entry(site, find(site, "replace"), "only [security] mode = tls asks for proof of a name");
    return entry ? refuse_entry(site, entry,
                                "only [security] mode = tls uses this file; write that mode, or leave it out")
                 : WEFT_OK;
}

static weft_status check_certificates(const weft_site *site)
{
    const weft_site_entry *entry = find_of_peers(site);
    for (size_t i = 0; i < 2 && !entry; i++)
        entry = find(site, shared_keys[i]);
    if (entry)
        return refuse_entry(site, entry,
                            "names are proved by certificates here (ca, certificate, key), or by keys: not by both");
    if (weft_site_peer_find(site->source, "trainer") != WEFT_SITE_NOWHERE)
        return refuse_mode(site, "a peer named trainer would prove what the trainer proves; give it another name");
    for (size_t i = 0; i < 3; i++)
        if (!find(site, certificate_keys[i]))
            return refuse_mode(site, "certificates need all three of ca, certificate and key");
    return WEFT_OK;
}

static weft_status check_keys(const weft_site *site)
{
    char path[WEFT_SITE_TEXT], text[WEFT_SITE_TEXT];
    weft_site_peer row;
    bool pattern;
    for (size_t i = 0; weft_site_row(site, i, &row, &pattern); i++) {
        if (weft_site_key(site, &row, false, path))
            continue;
        snprintf(text, sizeof text,
                 "[peer.%s%s] has no key: name one by key_file (`weft key FILE` makes one), there or "
                 "here, or name ca, certificate and key here",
                 row.name, pattern ? "*" : "");
        return refuse_mode(site, text);
    }
    return WEFT_OK;
}

weft_status weft_site_rules_security(const weft_site *site)
{
    if (site->security != WEFT_SECURITY_TLS)
        return check_unused(site);
    return find(site, "ca") || find(site, "certificate") || find(site, "key") ? check_certificates(site)
                                                                              : check_keys(site);
}

/* Writes `form` with a name in place of each star. */
static bool put_name(const char *form, const char *name, char path[WEFT_SITE_TEXT])
{
    size_t used = 0;
    for (; *form; form++) {
        const char one[2] = {*form, 0}, *part = *form == '*' ? name : one;
        const size_t bytes = strlen(part);
        if (used + bytes >= WEFT_SITE_TEXT)
            return false;
        memcpy(path + used, part, bytes);
        used += bytes;
    }
    path[used] = 0;
    return used > 0;
}

bool weft_site_key(const weft_site *site, const weft_site_peer *peer, bool next, char path[WEFT_SITE_TEXT])
{
    const bool own = peer->key_file[0] != 0;
    const char *form =
        own ? (next ? peer->key_file_next : peer->key_file) : (next ? site->proof.key_file_next : site->proof.key_file);
    return put_name(form, peer->name, path);
}

bool weft_site_vouches(const weft_site *site, const char *relay, const char *peer, uint32_t hops)
{
    char names[WEFT_SITE_VIAS][WEFT_SITE_NAME];
    weft_site_peer row;
    if (hops == 0 || weft_site_resolve(site, peer, &row) != WEFT_OK)
        return false;
    const uint32_t count = weft_site_via(&row, names);
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(names[i], relay))
            return true;
    for (uint32_t i = 0; i < count; i++)
        if (weft_site_vouches(site, relay, names[i], hops - 1))
            return true;
    return false;
}
