#include "harness/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PEERS_MOST = 80 };

void fleet_need(weft_status status, const char *what)
{
    if (status != WEFT_OK)
        fleet_fail("%s: %s: %s", what, weft_status_name(status), weft_last_error());
}

weft_site *fleet_site_load(const char *text, const char *const *overrides, size_t count)
{
    const char *base = getenv("TMPDIR");
    char path[4096];
    weft_site *site = NULL;
    snprintf(path, sizeof path, "%.4000s/weft-site-XXXXXX", base && base[0] ? base : "/tmp");
    const int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        fleet_fail("%s: the site cannot be written", path);
    const weft_status status = weft_site_load(path, overrides, count, &site);
    unlink(path);
    fleet_need(status, "site");
    return site;
}

weft_session *fleet_trainer_open(const weft_site *site, const weft_layout *layout, const weft_options *options,
                                 char listen[64])
{
    weft_session *trainer = NULL;
    fleet_need(weft_trainer_open(site, layout, options, &trainer), "open a trainer");
    snprintf(listen, 64, "%s", fleet_stats(trainer).listen);
    return trainer;
}

weft_session *fleet_rollout_open(const weft_site *site, const char *name, const weft_layout *layout,
                                 const weft_options *options)
{
    weft_session *rollout = NULL;
    fleet_need(weft_rollout_open(site, name, layout, options, &rollout), "open a rollout");
    return rollout;
}

weft_stats_info fleet_stats(weft_session *session)
{
    weft_stats_info stats = {.size = sizeof stats};
    fleet_need(weft_stats(session, &stats), "stats");
    return stats;
}

weft_version fleet_held(weft_session *session)
{
    weft_version held = {0, 0, 0};
    weft_held(session, &held);
    return held;
}

bool fleet_find(weft_session *trainer, const char *name, weft_peer_info *info)
{
    weft_peer_info peers[PEERS_MOST] = {{.size = sizeof peers[0]}};
    size_t count = 0;
    fleet_need(weft_peers(trainer, peers, PEERS_MOST, &count), "peers");
    for (size_t i = 0; i < count && i < PEERS_MOST; i++)
        if (strcmp(peers[i].name, name) == 0) {
            *info = peers[i];
            return true;
        }
    return false;
}

void fleet_step(weft_session *session)
{
    weft_event event = {.size = sizeof event};
    fleet_need(weft_progress(session, 0), "a step");
    while (weft_events(session, &event) == WEFT_OK)
        ;
}

weft_status fleet_take(weft_session *rollout)
{
    weft_staged_info info = {.size = sizeof info};
    const weft_status status = weft_staged(rollout, 0, &info);
    return status == WEFT_OK ? weft_commit(rollout, info.target.number, NULL, 0, NULL) : status;
}
