/* Descriptors that the loops of stuck workers watch: others ask the kernel for them. */
#include "thread/descriptors.h"

#include <gossamer/sys.h>
#include <poll.h>

#define RELIEVED_AT_ONCE 128

struct round {
    struct pollfd polls[RELIEVED_AT_ONCE];
    unsigned count, ready;
};

/* The kernel is asked, and what it says reported. */
static void finish_round(struct round *round)
{
    (void)gs_sys_poll(round->polls, round->count, 0);
    for (unsigned i = 0; i < round->count; i++) {
        unsigned got = (unsigned short)round->polls[i].revents;
        unsigned events = got & POLLIN ? GS_READ : 0;
        events |= got & POLLOUT ? GS_WRITE : 0;
        events |= got & (POLLERR | POLLHUP | POLLNVAL) ? GS_READ | GS_WRITE : 0;
        events |= got & (POLLRDHUP | POLLHUP) ? GS_HANGUP : 0;
        struct descriptor *descriptor = gs_descriptor(round->polls[i].fd);
        if (!events || !descriptor)
            continue;
        spin_lock_always(&descriptor->lock);
        gs_descriptor_report(NULL, descriptor, events, 0);
        spin_unlock_always(&descriptor->lock);
        round->ready++;
    }
    round->count = 0;
}

static void look_at(struct descriptor *descriptor, int fd, void *data)
{
    struct round *round = data;
    struct worker *owner = atomic_load_explicit(&descriptor->owner, memory_order_relaxed);
    if (!owner || !atomic_load_explicit(&owner->is_stuck, memory_order_relaxed))
        return;
    spin_lock_always(&descriptor->lock);
    struct pollfd poll = {.fd = fd};
    poll.events = (short)((descriptor->readers.first ? POLLIN | POLLRDHUP : 0) |
                          (descriptor->writers.first ? POLLOUT : 0));
    spin_unlock_always(&descriptor->lock);
    if (poll.events)
        round->polls[round->count++] = poll;
    if (round->count == RELIEVED_AT_ONCE)
        finish_round(round);
}

/* That nothing is known of the stuck workers' loops makes it sound, and independent of their pollers; a report too many does no
 * harm. Whoever is woken and waits again elsewhere has the descriptor watched there. */
unsigned gs_descriptors_relieve(void)
{
    struct round round = {.count = 0};
    gs_descriptors_each(look_at, &round);
    finish_round(&round);
    return round.ready;
}
