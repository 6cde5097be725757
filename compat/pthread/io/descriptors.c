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
 * waiter is in no list any more, and has the side in hand, too. Errors and hang-ups wake all.
 *
 * A TCP connection from which tasks only read stays armed (EPOLLET), so that a wait needs no system
 * call. Then it must be known that what is ready will still be reported, which is QUIET:
 *
 *              deliver: an event was reported
 *     QUIET ------------------------------------> not QUIET: the next wait arms it again, and what
 *       ^                                             |       is ready is reported once more
 *       `--- arm, or a receive that took everything --'
 *
 * A receive that stores fewer bytes than it was asked for, or finds none, has taken everything; it
 * sets QUIET before the system call, since what comes afterwards is reported. If it has not taken
 * everything, it takes that back, and arms the descriptor for those that began to wait meanwhile.
 * At the end of a connection, or with urgent data, something is left after such a receive, too, and
 * is reported by the flags of an event: from then on it is disarmed as all others. So are all once
 * the program has done what closes files or divides streams unseen (io_uring, TCP_ULP). */
#include "compat/pthread/io/io.h"
#include "compat/pthread/threads/task.h"
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
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define CHUNK 1024u
#define CHUNKS 1024u
#define EVENTS_MAX 128
#define WAITERS_ON_STACK 8u

/* What the descriptor stays armed for, and what else an entry's state has. */
#define EDGE_EVENTS ((unsigned)(EPOLLIN | EPOLLPRI | EPOLLRDNORM | EPOLLRDHUP))
enum {
    UNASKED = 7,  /* waits that polls may still begin without asking: gs_poll_expects_wait */
    IGNORED = 24, /* events in succession for which nobody waited, up to 3 */
    ONE_IGNORED = 8,
    NO_EDGE = 32, /* it is disarmed after each event */
    QUIET = 64,
    EDGE = 128, /* it stays armed */
};

enum side { POLLING, READING, WRITING, SIDES };

struct entry {
    struct gs_run_lock lock;
    atomic_uchar state;     /* EDGE and NO_EDGE are changed under the lock */
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
    unsigned since; /* the value of `collections` when it began to wait */
};

static struct entry *_Atomic chunks[CHUNKS];
static int poller = -1;
static atomic_bool has_no_edges;
static atomic_uint collections; /* of events: odd while one is in progress */

/* NULL: nobody has waited for it yet. */
static struct entry *find_entry(int fd)
{
    struct entry *chunk =
        (unsigned)fd < CHUNK * CHUNKS
            ? atomic_load_explicit(&chunks[(unsigned)fd / CHUNK], memory_order_acquire)
            : NULL;
    return chunk ? &chunk[(unsigned)fd % CHUNK] : NULL;
}

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

static void change_state(struct entry *entry, unsigned clear, unsigned set)
{
    unsigned char state = atomic_load(&entry->state);
    while (!atomic_compare_exchange_weak(&entry->state, &state,
                                         (unsigned char)((state & ~clear) | set)))
        ;
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

/* Whether it may stay armed. Another protocol may divide a stream. */
static bool can_be_edge(struct entry *entry, int fd, unsigned events)
{
    int protocol = 0;
    socklen_t length = sizeof protocol;
    unsigned char state = atomic_load(&entry->state);
    if (!(events & EPOLLIN) || events & ~EDGE_EVENTS || state & NO_EDGE ||
        atomic_load(&has_no_edges))
        return false;
    if (state & EDGE)
        return true;
    gs_syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_PROTOCOL, (long)&protocol, (long)&length, 0);
    if (protocol != IPPROTO_TCP)
        change_state(entry, 0, NO_EDGE);
    return protocol == IPPROTO_TCP;
}

/* What is ready is reported again with the new number. */
static int arm_for(struct entry *entry, int fd, unsigned events)
{
    bool is_edge = can_be_edge(entry, fd, events);
    if (is_edge && (atomic_load(&entry->state) & (EDGE | QUIET)) == (EDGE | QUIET))
        return 0;
    struct epoll_event event = {.events = is_edge ? EDGE_EVENTS | EPOLLET : events | EPOLLONESHOT};
    entry->armings++;
    const union arming arming = {.fd = (unsigned)fd & (CHUNK * CHUNKS - 1),
                                 .number = entry->armings,
                                 .events = event.events & UINT16_MAX};
    event.data.u64 = arming.word;
    long err = gs_syscall(SYS_epoll_ctl, poller, EPOLL_CTL_MOD, fd, (long)&event, 0, 0);
    if (err == -ENOENT)
        err = gs_syscall(SYS_epoll_ctl, poller, EPOLL_CTL_ADD, fd, (long)&event, 0, 0);
    change_state(entry, EDGE | QUIET, is_edge && !err ? EDGE | QUIET : 0);
    return (int)err;
}

/* Watch for what all waiters want whose side is not in hand. The caller holds the lock. */
static int arm(struct entry *entry, int fd)
{
    unsigned events = 0;
    bool is_needed = false;
    for (enum side side = 0; side < SIDES; side++) {
        if (!is_waited_for(entry, side)) {
            entry->wanted[side] = 0;
        } else if (!(entry->in_hand >> side & 1)) {
            events |= wanted_by(entry, side);
            is_needed = true; /* also for errors and hang-ups only */
        }
    }
    return is_needed ? arm_for(entry, fd, events) : 0;
}

/* What was reported, and when. */
struct report {
    unsigned events;
    unsigned watched; /* of which events it is known whether they are ready */
    /* It is known to those that began to wait before: others may have consumed it meanwhile. */
    unsigned collection;
    bool is_edge;
};

/* Wake those of the side that wait for one of the events: all, or the first one, which has the side
 * in hand then. */
static void wake(struct entry *entry, enum side side, const struct report *report, bool all)
{
    unsigned events = report->events;
    struct gs_list *link = entry->waiters[side].next;
    if (!(events & (entry->wanted[side] | EPOLLERR | EPOLLHUP)))
        return;
    while (link != &entry->waiters[side] && (all || !(entry->in_hand >> side & 1))) {
        struct waiter *waiter = gs_container_of(link, struct waiter, link);
        link = link->next;
        if (!(events & (waiter->events | EPOLLERR | EPOLLHUP)))
            continue;
        struct task *task = waiter->task;
        bool is_known = !report->is_edge || (int)(waiter->since - report->collection) < 0;
        if (is_known && !(waiter->events & ~report->watched))
            waiter->ready = events & (waiter->events | EPOLLERR | EPOLLHUP);
        if (!all)
            entry->in_hand |= 1u << side & 0xff;
        gs_list_remove(&waiter->link);
        gs_task_wake(task, WAKE_DONE);
    }
}

/* The caller holds the lock. */
static void deliver_locked(struct entry *entry, int fd, const struct report *report)
{
    bool all = report->events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP);
    wake(entry, POLLING, report, true);
    wake(entry, READING, report, all);
    wake(entry, WRITING, report, all);
    arm(entry, fd);
}

/* One that stays armed has reported an event. If nobody waits, again and again, it is disarmed, as
 * each event wakes a worker. */
static void note_event(struct entry *entry, int fd, unsigned events)
{
    struct epoll_event none = {.events = EPOLLET, .data.u64 = (unsigned)fd};
    bool is_wanted = is_waited_for(entry, POLLING) || is_waited_for(entry, READING);
    unsigned ignored = atomic_load(&entry->state) & IGNORED;
    if (events & (EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        change_state(entry, EDGE | QUIET, NO_EDGE);
    } else if (is_wanted || ignored != IGNORED) {
        change_state(entry, IGNORED | QUIET, is_wanted ? 0 : ignored + ONE_IGNORED);
    } else {
        change_state(entry, IGNORED | EDGE | QUIET, 0);
        entry->armings++;
        gs_syscall(SYS_epoll_ctl, poller, EPOLL_CTL_MOD, fd, (long)&none, 0, 0);
    }
}

/* The event may be of a file that had the same number and is still open elsewhere, or of a wait
 * that has ended: then the descriptor has been armed since, if anyone waits for it. */
static void deliver(const struct epoll_event *event, unsigned collection)
{
    const union arming arming = {.word = event->data.u64};
    struct report report = {event->events, arming.events, collection, false};
    int fd = arming.fd;
    gs_chaos(CHAOS_WAKE);
    struct entry *entry = lock_entry(fd);
    if (!entry)
        return;
    if (GS_LIKELY(entry->armings == arming.number)) {
        report.is_edge = atomic_load(&entry->state) & EDGE;
        if (report.is_edge)
            note_event(entry, fd, event->events);
        deliver_locked(entry, fd, &report);
    }
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
        const struct report report = {.events = (unsigned short)poll.revents & ~(unsigned)POLLNVAL};
        deliver_locked(entry, fd, &report);
    }
    gs_run_release(&entry->lock);
}

void gs_descriptor_closed(int fd)
{
    const struct report everything = {.events = ~0u};
    if (poller < 0 || !find_entry(fd))
        return;
    struct entry *entry = lock_entry(fd);
    entry->in_hand = 0;
    atomic_store(&entry->state, 0);
    deliver_locked(entry, fd, &everything);
    gs_run_release(&entry->lock);
}

void gs_descriptors_closed(unsigned first, unsigned last)
{
    for (unsigned fd = first; fd <= last && fd < CHUNK * CHUNKS; fd++)
        if (find_entry((int)fd))
            gs_descriptor_closed((int)fd);
        else
            fd |= CHUNK - 1;
}

void gs_descriptors_disarm_always(void)
{
    atomic_store(&has_no_edges, true);
}

/* ---- Receiving from what stays armed ---- */

bool gs_descriptor_begins_receive(int fd)
{
    struct entry *entry = find_entry(fd);
    unsigned char state = entry ? atomic_load_explicit(&entry->state, memory_order_relaxed) : 0;
    if (GS_LIKELY(!(state & EDGE)))
        return false;
    atomic_fetch_or(&entry->state, QUIET);
    return true;
}

void gs_descriptor_has_more(int fd)
{
    struct entry *entry = lock_entry(fd);
    if (!entry)
        return;
    change_state(entry, QUIET, 0);
    arm(entry, fd);
    gs_run_release(&entry->lock);
}

_Noreturn void gs_descriptors_serve(void)
{
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        unsigned collection = atomic_fetch_add(&collections, 1) + 1;
        long count = gs_syscall(SYS_epoll_pwait, poller, (long)events, EVENTS_MAX, 0, 0, 8);
        atomic_fetch_add(&collections, 1);
        for (long i = 0; i < count; i++)
            deliver(&events[i], collection);
        if (count >= EVENTS_MAX)
            continue;
        int err = gs_wait_readable(poller, GS_NEVER);
        if (err && err != -ENOMEM)
            gs_thread_yield();
    }
}

int gs_descriptors_start(void)
{
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
    waiter->since = atomic_load(&collections);
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
bool gs_poll_expects_wait(int fd)
{
    struct entry *entry = find_entry(fd);
    unsigned char state = entry ? atomic_load_explicit(&entry->state, memory_order_relaxed) : 0;
    if (!(state & UNASKED))
        return false;
    atomic_compare_exchange_strong(&entry->state, &state, state - 1);
    return true;
}

void gs_poll_was_asked(int fd, bool had_to_wait)
{
    struct entry *entry = entry_of(fd);
    if (entry)
        change_state(entry, UNASKED, had_to_wait ? UNASKED : 0);
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
