/* Waiting for descriptors: all are in one epoll instance, disarmed after each event (EPOLLONESHOT),
 * and one user thread collects the events and wakes tasks. Tasks wait in a list of the descriptor's
 * entry; a task that waits for several is in several lists. O_NONBLOCK is never set: it belongs to
 * the open file, which other processes may share.
 *
 * A task is put into the list before the descriptor is armed, and an event is delivered under the
 * lock of the entry: so an event that comes in between finds the task.
 *
 * As in the kernel, an event wakes all that poll, and one of those that read (receive, accept) or
 * write, which are in lists of their own. The one that was chosen has its side in hand until it
 * leaves for the program or waits again, whether it has consumed what was there or not; meanwhile
 * no other one of its side is woken. Then it wakes the next one if there is something left, or has
 * the descriptor armed again:
 *
 *     free --- deliver: the first of the side is woken ---> in hand
 *      ^                                                     | gs_descriptor_hand_on
 *      `--- nothing is left, or nobody waits ----------------+---> the next one is woken: in hand
 *
 * A task that is chosen while a signal, a cancellation or its deadline ends its wait finds that its
 * waiter is in no list any more, and has the side in hand, too. Errors and hang-ups wake all. */
#include "compat/pthread/task.h"
#include "src/base/chaos.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/clock.h>
#include <gossamer/io.h>
#include <gossamer/list.h>
#include <gossamer/own_descriptors.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define CHUNK 1024u
#define CHUNKS 1024u
#define EVENTS_MAX 128
#define WAITERS_ON_STACK 8u
/* Beyond what programs use that count on the lowest numbers or close all up to some limit. */

enum side { POLLING, READING, WRITING, SIDES };

struct entry {
    struct gs_run_lock lock;
    atomic_uchar
        unasked; /* waits that polls may still begin without asking: gs_poll_expects_wait */
    uint16_t wanted[SIDES]; /* events: of its waiters, at least */
    uint32_t turn; /* a futex: 1: a task is between gs_descriptor_lock and unlock; 2: others wait */
    uint32_t in_hand : 8;          /* bits: of sides */
    uint32_t armings : 24;         /* so far; events of earlier ones are ignored */
    struct gs_list waiters[SIDES]; /* zero: not initialized */
};
_Static_assert(sizeof(struct entry) == 64, "a cache line");

/* What epoll keeps with an armed descriptor. */
union arming {
    struct {
        uint64_t fd : 20, number : 24, events : 16;
    };
    uint64_t word;
};
struct waiter {
    struct gs_list link;
    struct task *task;
    unsigned events;
    unsigned ready; /* those of them that woke it; 0: not known */
    int fd;
    enum side side;
};

static struct entry *_Atomic chunks[CHUNKS];
static int poller = -1;

static struct entry *entry_of(int fd)
{
    if (fd < 0 || (unsigned)fd >= CHUNK * CHUNKS)
        return NULL;
    struct entry *_Atomic *slot = &chunks[(unsigned)fd / CHUNK];
    struct entry *chunk = atomic_load_explicit(slot, memory_order_acquire), *none = NULL;
    if (!chunk) {
        long address = gs_syscall(SYS_mmap, 0, CHUNK * sizeof *chunk, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (address < 0)
            return NULL;
        chunk = (struct entry *)address;
        if (!atomic_compare_exchange_strong(slot, &none, chunk)) {
            gs_syscall(SYS_munmap, address, CHUNK * sizeof *chunk, 0, 0, 0, 0);
            chunk = none;
        }
    }
    return &chunk[(unsigned)fd % CHUNK];
}

static struct entry *lock_entry(int fd)
{
    struct entry *entry = entry_of(fd);
    if (!entry)
        return NULL;
    gs_run_acquire(&entry->lock);
    for (enum side side = 0; !entry->waiters[POLLING].next && side < SIDES; side++)
        gs_list_init(&entry->waiters[SIDES - 1 - side]);
    return entry;
}

/* ---- Arming and events ---- */

static bool is_waited_for(struct entry *entry, enum side side)
{
    return entry->waiters[side].next != &entry->waiters[side];
}

/* Exactly for those that poll, as an event that none of them wants would come again and again.
 * Those that read all want input, which there is at the end of a connection, too. */
static unsigned wanted_by(struct entry *entry, enum side side)
{
    if (side != POLLING)
        return entry->wanted[side];
    struct gs_list *first = &entry->waiters[POLLING];
    entry->wanted[POLLING] = 0;
    for (struct gs_list *link = first->next; link != first; link = link->next)
        entry->wanted[POLLING] |= (uint16_t)gs_container_of(link, struct waiter, link)->events;
    return entry->wanted[POLLING];
}

/* Watch for what all waiters want whose side is not in hand. The caller holds the lock. What is
 * ready is reported again with the new number. */
static int arm(struct entry *entry, int fd)
{
    struct epoll_event event = {.events = EPOLLONESHOT};
    bool is_needed = false;
    for (enum side side = 0; side < SIDES; side++) {
        if (!is_waited_for(entry, side)) {
            entry->wanted[side] = 0;
        } else if (!(entry->in_hand >> side & 1)) {
            event.events |= wanted_by(entry, side);
            is_needed = true; /* also for errors and hang-ups only */
        }
    }
    if (!is_needed)
        return 0;
    entry->armings++;
    const union arming arming = {.fd = (unsigned)fd & (CHUNK * CHUNKS - 1),
                                 .number = entry->armings,
                                 .events = event.events & UINT16_MAX};
    event.data.u64 = arming.word;
    long err = gs_syscall(SYS_epoll_ctl, poller, EPOLL_CTL_MOD, fd, (long)&event, 0, 0);
    if (err == -ENOENT)
        err = gs_syscall(SYS_epoll_ctl, poller, EPOLL_CTL_ADD, fd, (long)&event, 0, 0);
    return (int)err;
}

/* Wake those of the side that wait for one of the events: all, or the first one, which has the side
 * in hand then. watched: of which events it is known whether they are ready. */
static void wake(struct entry *entry, enum side side, unsigned events, unsigned watched, bool all)
{
    struct gs_list *link = entry->waiters[side].next;
    if (!(events & (entry->wanted[side] | EPOLLERR | EPOLLHUP)))
        return;
    while (link != &entry->waiters[side] && (all || !(entry->in_hand >> side & 1))) {
        struct waiter *waiter = gs_container_of(link, struct waiter, link);
        link = link->next;
        if (!(events & (waiter->events | EPOLLERR | EPOLLHUP)))
            continue;
        struct task *task = waiter->task;
        if (!(waiter->events & ~watched))
            waiter->ready = events & (waiter->events | EPOLLERR | EPOLLHUP);
        if (!all)
            entry->in_hand |= 1u << side & 0xff;
        gs_list_remove(&waiter->link);
        gs_task_wake(task, WAKE_DONE);
    }
}

/* The caller holds the lock. */
static void deliver_locked(struct entry *entry, int fd, unsigned events, unsigned watched)
{
    bool all = events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP);
    wake(entry, POLLING, events, watched, true);
    wake(entry, READING, events, watched, all);
    wake(entry, WRITING, events, watched, all);
    arm(entry, fd);
}

/* The event may be of a file that had the same number and is still open elsewhere, or of a wait
 * that has ended: then the descriptor has been armed since, if anyone waits for it. */
static void deliver(const struct epoll_event *event)
{
    const union arming arming = {.word = event->data.u64};
    int fd = arming.fd;
    gs_chaos(CHAOS_WAKE);
    struct entry *entry = lock_entry(fd);
    if (!entry)
        return;
    if (GS_LIKELY(entry->armings == arming.number))
        deliver_locked(entry, fd, event->events, arming.events);
    gs_run_release(&entry->lock);
}

void gs_descriptor_hand_on(struct task *task)
{
    enum side side = task->side_in_hand;
    int fd = task->fd_in_hand;
    task->side_in_hand = 0;
    gs_chaos(CHAOS_WAKE);
    struct entry *entry = lock_entry(fd);
    if (!entry)
        return;
    entry->in_hand &= ~(1u << side) & 0xff;
    struct pollfd poll = {.fd = fd, .events = (short)entry->wanted[side]};
    if (is_waited_for(entry, side)) {
        gs_syscall(SYS_poll, (long)&poll, 1, 0, 0, 0, 0);
        deliver_locked(entry, fd, (unsigned short)poll.revents & ~(unsigned)POLLNVAL, 0);
    }
    gs_run_release(&entry->lock);
}

void gs_descriptor_closed(int fd)
{
    if (poller < 0)
        return;
    struct entry *entry = lock_entry(fd);
    if (!entry)
        return;
    entry->in_hand = 0;
    deliver_locked(entry, fd, ~0u, 0);
    gs_run_release(&entry->lock);
}

_Noreturn void gs_descriptors_serve(void)
{
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        long count = gs_syscall(SYS_epoll_pwait, poller, (long)events, EVENTS_MAX, 0, 0, 8);
        for (long i = 0; i < count; i++)
            deliver(&events[i]);
        if (count >= EVENTS_MAX)
            continue;
        int err = gs_wait_readable(poller, GS_NEVER);
        if (err && err != -ENOMEM)
            gs_thread_yield();
    }
}

int gs_descriptors_start(void)
{
    gs_own_descriptors_start();
    poller = gs_own_descriptor(gs_sys_epoll_create(EPOLL_CLOEXEC));
    return poller < 0 ? poller : 0;
}

void gs_descriptors_forget(void)
{
    poller = -1;
    gs_own_descriptors_close();
    for (unsigned i = 0; i < CHUNKS; i++) {
        struct entry *chunk = atomic_load(&chunks[i]);
        if (chunk)
            memset(chunk, 0, CHUNK * sizeof *chunk);
    }
}

/* ---- Waiting ---- */

/* A task that was woken together with all others of its side may take itself for chosen: then it
 * wakes one more. */
static void withdraw(struct waiter *waiters, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        struct entry *entry = waiters[i].fd < 0 ? NULL : lock_entry(waiters[i].fd);
        if (!entry)
            continue;
        if (gs_list_is_linked(&waiters[i].link)) {
            gs_list_remove(&waiters[i].link);
        } else if (waiters[i].side != POLLING && entry->in_hand >> waiters[i].side & 1) {
            waiters[i].task->fd_in_hand = waiters[i].fd;
            waiters[i].task->side_in_hand = (unsigned char)waiters[i].side;
        }
        gs_run_release(&entry->lock);
    }
}

static int enlist(struct waiter *waiter)
{
    struct entry *entry = lock_entry(waiter->fd);
    if (!entry)
        return -ENOMEM;
    gs_list_append(&entry->waiters[waiter->side], &waiter->link);
    entry->wanted[waiter->side] |= (uint16_t)waiter->events;
    gs_chaos(CHAOS_PUBLISH);
    int err = arm(entry, waiter->fd);
    gs_run_release(&entry->lock);
    return err;
}

/* A closed descriptor is ready: the call that is tried again finds it. */
static int wait_enlisted(struct task *task, struct waiter *waiters, const struct pollfd *polls,
                         unsigned long count, uint64_t deadline_ns)
{
    enum side side = waiters[0].side;
    int err = 0;
    unsigned long enlisted = 0;
    gs_task_prepare(task, true);
    for (; enlisted < count && !err; enlisted++) {
        struct waiter *waiter = &waiters[enlisted];
        *waiter = (struct waiter){.task = task,
                                  .side = side,
                                  .fd = polls[enlisted].fd,
                                  .events = (unsigned short)polls[enlisted].events};
        if (waiter->fd >= 0)
            err = enlist(waiter);
    }
    if (!err)
        err = gs_task_wait(task, deadline_ns);
    else
        atomic_store(&task->wake, WAKE_DONE);
    withdraw(waiters, enlisted);
    return err == -EBADF ? 0 : err;
}

int gs_wait_for_descriptors(struct task *task, const struct pollfd *polls, unsigned long count,
                            uint64_t deadline_ns)
{
    struct waiter on_stack[WAITERS_ON_STACK], *waiters = on_stack;
    on_stack[0].side = POLLING;
    if (count > WAITERS_ON_STACK)
        waiters = calloc(count, sizeof *waiters);
    if (!waiters)
        return -ENOMEM;
    int err = wait_enlisted(task, waiters, polls, count, deadline_ns);
    if (waiters != on_stack)
        free(waiters);
    return err;
}

int gs_wait_for_descriptor(struct task *task, int fd, unsigned events, uint64_t deadline_ns)
{
    const struct pollfd poll = {.fd = fd, .events = (short)events};
    struct waiter waiter = {.side = events & POLLIN ? READING : WRITING};
    return wait_enlisted(task, &waiter, &poll, 1, deadline_ns);
}

/* ---- Polls of one descriptor ---- */

int gs_wait_to_poll(struct task *task, struct pollfd *poll, uint64_t deadline_ns)
{
    const struct pollfd copy = *poll;
    struct waiter waiter = {.side = POLLING};
    int err = wait_enlisted(task, &waiter, &copy, 1, deadline_ns);
    poll->revents = (short)waiter.ready;
    return err;
}

/* A thread that serves a connection polls it after each response, in vain. So when a poll had to
 * wait, the next ones of this descriptor begin to wait at once; epoll reports also what is ready
 * already. Occasionally one is asked, lest threads wait for others to run where none must wait. */
enum { UNASKED_MAX = 7 };

bool gs_poll_expects_wait(int fd)
{
    struct entry *entry = entry_of(fd);
    unsigned char left = entry ? atomic_load_explicit(&entry->unasked, memory_order_relaxed) : 0;
    if (left)
        atomic_store_explicit(&entry->unasked, left - 1, memory_order_relaxed);
    return left;
}

void gs_poll_was_asked(int fd, bool had_to_wait)
{
    struct entry *entry = entry_of(fd);
    if (entry)
        atomic_store_explicit(&entry->unasked, had_to_wait ? UNASKED_MAX : 0, memory_order_relaxed);
}

/* ---- One at a time ---- */

void gs_descriptor_lock(struct task *task, int fd)
{
    struct entry *entry = entry_of(fd);
    uint32_t none = 0;
    if (!entry || __atomic_compare_exchange_n(&entry->turn, &none, 1, false, __ATOMIC_SEQ_CST,
                                              __ATOMIC_SEQ_CST))
        return;
    while (__atomic_exchange_n(&entry->turn, 2, __ATOMIC_SEQ_CST))
        if (gs_futex_wait(task, &entry->turn, 2, GS_NEVER) == -EINTR) {
            /* Maybe it was a cancellation, which the next wait must find. */
            atomic_store(&task->must_cancel, true);
            gs_task_yield(task);
        }
}

void gs_descriptor_unlock(int fd)
{
    struct entry *entry = entry_of(fd);
    if (entry && __atomic_exchange_n(&entry->turn, 0, __ATOMIC_SEQ_CST) == 2)
        gs_futex_wake(&entry->turn, 1, FUTEX_BITSET_MATCH_ANY);
}
