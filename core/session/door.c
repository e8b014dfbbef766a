/* door.c - accepts guests. If all places are taken, a guest that has not said who it is makes room for the next. */
#include "session/door.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/mem.h"
#include "base/status.h"
#include "layout/layout.h"
#include "session/await.h"

weft_status weft_door_open(weft_door *door, const weft_layout *layout)
{
    weft_log_limit_open(&door->strangers, &door->session->sink, 1);
    door->layout_length = weft_layout_wire_bytes(layout);
    door->layout_bytes = weft_mem_take(1, door->layout_length);
    if (!door->layout_bytes)
        return weft_fail(WEFT_E_MEMORY, "no memory for the layout's %llu bytes",
                         (unsigned long long)door->layout_length);
    weft_layout_write(layout, door->layout_bytes);
    return WEFT_OK;
}

weft_status weft_door_listen(weft_door *door, const char *address, char listen[64])
{
    weft_await await = weft_await_begin(door->session->site);
    weft_status status;
    do
        status = weft_control_listen(address, &door->listen_fd, listen);
    while (weft_await_more(&await, status));
    return weft_await_end(&await, status);
}

static void refuse(weft_door *door, const char *text)
{
    weft_log_sink *before = weft_log_enter(&door->strangers.sink);
    weft_log(WEFT_LOG_WARN, "%s", text);
    weft_log_enter(before);
}

/* Finds a place for a newcomer. `*turned` counts the guests that made room. NULL: there is none. */
static weft_control *find_place(const weft_door *door, uint32_t *place, uint32_t *turned)
{
    weft_guest guests[WEFT_GUESTS_MOST];
    const uint32_t count = door->places->guests(door->owner, guests);
    weft_control *found = count < door->session->site->guests.most ? door->places->find(door->owner, place) : NULL;
    if (found || count == 0)
        return found;
    const weft_guest *guest = &guests[weft_guest_pick(guests, count)];
    ++*turned;
    weft_log(WEFT_LOG_DEBUG, "%s makes room: it did not say who it is", guest->control->peer);
    door->places->clear(door->owner, guest->place);
    return door->places->find(door->owner, place);
}

/* Takes a newcomer, unless the newcomer's host has as many guests as it may have. */
static void adopt(weft_door *door, weft_control *control, uint32_t place)
{
    weft_guest guests[WEFT_GUESTS_MOST];
    char text[160];
    const uint32_t count = door->places->guests(door->owner, guests);
    if (!weft_guest_is_one_more(door->session->site, guests, count, control)) {
        weft_control_guard(control, door->session->guard, NULL);
        door->places->take(door->owner, place);
        return;
    }
    snprintf(text, sizeof text, "a connection from %s was closed: guests_per_address have not said who they are",
             control->peer);
    refuse(door, text);
    weft_control_hang_up(control);
}

void weft_door_accept(weft_door *door, const char *full, weft_waits *waits)
{
    uint32_t turned = 0, place;
    while (turned < WEFT_GUESTS_TURN) {
        int fd = accept4(door->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && weft_descriptors_short(errno))
            continue;
        if (fd < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
            return;
        if (fd < 0)
            break;
        weft_control *control = find_place(door, &place, &turned);
        if (control) {
            weft_control_adopt(control, fd, door->session->site->session.io_deadline_ms);
            adopt(door, control, place);
        } else { /* at once, so that the guest turns to another */
            close(fd);
            refuse(door, full);
        }
    }
    weft_waits_fd(waits, door->listen_fd, POLLIN);
}

weft_status weft_door_answer(const weft_door *door, weft_control *control)
{
    return weft_control_send_long(control, WEFT_MESSAGE_LAYOUT, door->layout_bytes, door->layout_length);
}

void weft_door_close(weft_door *door)
{
    weft_mem_give(door->layout_bytes);
    weft_control_unlisten(door->listen_fd);
}
