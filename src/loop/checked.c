#include "loop/checked.h"

#ifdef GS_CHECKED
#include "base/atfork.h"
#include "loop/state.h"

#include <gossamer/sys.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* ---- The table of loops and active watchers: open addressing ---- */

struct entry {
    const void *key; /* NULL: free */
    const struct gs_loop *loop;
    bool was_registered; /* a descriptor watcher that was active when changes were registered */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the table and freed_loops */
static struct entry *entries;
static size_t capacity, count;
static bool is_incomplete; /* memory was exhausted: what is missing may exist */

static void acquire(void)
{
    pthread_mutex_lock(&lock);
}

static void release(void)
{
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void init(void)
{
    static const struct atfork functions = {acquire, release, release};
    gs_atfork_add(ATFORK_CHECKED, &functions);
}

/* Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, 6.4) */
static size_t home_of(const void *key)
{
    return (size_t)((uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (capacity - 1);
}

/* The entry of the key, or the free one where it belongs. There is a free entry. */
static struct entry *find(const void *key)
{
    size_t i = home_of(key);
    while (entries[i].key && entries[i].key != key)
        i = (i + 1) & (capacity - 1);
    return &entries[i];
}

static bool grow(void)
{
    struct entry *old = entries;
    size_t old_capacity = capacity;
    struct entry *larger = calloc(capacity ? 2 * capacity : 256, sizeof *larger);
    if (!larger)
        return false;
    entries = larger;
    capacity = capacity ? 2 * capacity : 256;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].key)
            *find(old[i].key) = old[i];
    free(old);
    return true;
}

static void add(const void *key, const struct gs_loop *loop)
{
    if (2 * count >= capacity && !grow()) {
        is_incomplete = true;
        return;
    }
    struct entry *entry = find(key);
    count += !entry->key;
    *entry = (struct entry){key, loop, false};
}

/* The entries behind a removed one that could no longer be found move up. */
static void remove_entry(struct entry *entry)
{
    size_t hole = (size_t)(entry - entries);
    count--;
    entries[hole].key = NULL;
    for (size_t i = (hole + 1) & (capacity - 1); entries[i].key; i = (i + 1) & (capacity - 1)) {
        size_t distance = (i - home_of(entries[i].key)) & (capacity - 1);
        if (distance < ((i - hole) & (capacity - 1)))
            continue;
        entries[hole] = entries[i];
        entries[i].key = NULL;
        hole = i;
    }
}

static void remove_key(const void *key)
{
    struct entry *entry = capacity ? find(key) : NULL;
    if (entry && entry->key)
        remove_entry(entry);
}

static bool is_listed(const void *key)
{
    acquire();
    bool result = is_incomplete || (capacity && find(key)->key);
    release();
    return result;
}

/* ---- Loops ---- */

#define LOOP_LIVE UINT64_C(0x6c6976656c6f6f70)
#define LOOP_FREED UINT64_C(0x66726565646c6f6f)
#define LOOPS_QUARANTINED 64u

static struct gs_loop *freed_loops[LOOPS_QUARANTINED]; /* a ring */

static int kernel_thread(void)
{
    return (int)gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

void gs_checked_new_loop(struct gs_loop *loop)
{
    loop->state = (struct gs_loop_state){.magic = LOOP_LIVE};
    acquire();
    add(loop, loop);
    release();
}

void gs_checked_forget_loop(struct gs_loop *loop)
{
    acquire();
    for (size_t i = 0; i < capacity;)
        if (entries[i].key && entries[i].loop == loop)
            remove_entry(&entries[i]); /* another one may be at i now */
        else
            i++;
    release();
}

static bool is_freed(const struct gs_loop *loop)
{
    bool result = false;
    acquire();
    for (unsigned i = 0; i < LOOPS_QUARANTINED; i++)
        result = result || freed_loops[i] == loop;
    release();
    return result;
}

/* Another kernel thread may use the loop when this one has ended its run: that is not known. */
static void check_runner(struct gs_call call, const struct gs_loop *loop)
{
    int runner = __atomic_load_n(&loop->state.runner, __ATOMIC_RELAXED);
    if (runner && runner != kernel_thread())
        gs_misuse(call,
                  "loop %p is run by kernel thread %d: others may only call gs_async_send and "
                  "gs_loop_wake",
                  (const void *)loop, runner);
}

void gs_checked_loop(struct gs_call call, struct gs_loop *loop)
{
    if (!loop || !is_listed(loop))
        gs_misuse(call, loop && is_freed(loop) ? "loop %p was freed before" : "%p is no loop",
                  (void *)loop);
    check_runner(call, loop);
}

void gs_checked_any_loop(struct gs_call call, struct gs_loop *loop)
{
    if (!loop)
        gs_misuse(call, "the loop is NULL, or the watcher was not initialised");
    if (loop->state.magic == LOOP_FREED)
        gs_misuse(call, "loop %p was freed before", (void *)loop);
}

/* io_uring takes submissions of one kernel thread only. */
static void check_owner(struct gs_call call, struct gs_loop *loop)
{
    if (!loop->poller->start_op)
        return;
    if (!loop->state.owner)
        loop->state.owner = kernel_thread();
    if (loop->state.owner != kernel_thread())
        gs_misuse(call, "loop %p is one on io_uring, and was run by kernel thread %d before",
                  (void *)loop, loop->state.owner);
}

struct gs_loop *gs_checked_enter(struct gs_call call, struct gs_loop *loop)
{
    gs_checked_loop(call, loop);
    check_owner(call, loop);
    if (!loop->state.depth)
        loop->state.call = call;
    if (!loop->state.depth++)
        __atomic_store_n(&loop->state.runner, kernel_thread(), __ATOMIC_RELAXED);
    return loop;
}

void gs_checked_leave(struct gs_loop **loop)
{
    if (!--(*loop)->state.depth)
        __atomic_store_n(&(*loop)->state.runner, 0, __ATOMIC_RELAXED);
}

void gs_checked_loop_after_fork(struct gs_loop *loop)
{
    loop->state.owner = 0;
    if (loop->state.depth)
        loop->state.runner = kernel_thread();
}

void gs_checked_free(struct gs_call call, struct gs_loop *loop)
{
    gs_checked_loop(call, loop);
    if (loop->state.depth)
        gs_misuse(call, "loop %p is running: it was called by one of its callbacks", (void *)loop);
}

struct gs_loop *gs_quarantine_loop(struct gs_loop *loop)
{
    static unsigned next;
    gs_checked_forget_loop(loop);
    loop->state.magic = LOOP_FREED;
    acquire();
    struct gs_loop *released = freed_loops[next];
    freed_loops[next] = loop;
    next = (next + 1) % LOOPS_QUARANTINED;
    release();
    return released;
}

void gs_checked_loop_deadline(struct gs_call call, const struct gs_loop *loop, uint64_t deadline_ns)
{
    if (!loop->clock)
        gs_checked_deadline(call, deadline_ns);
}

/* ---- Watchers ---- */

/* Of one that has not been initialised, anything may be found in memory. */
static void check_initialised(struct gs_call call, const struct gs_watcher *watcher)
{
    const struct gs_loop *loop = watcher->loop;
    if (loop && is_listed(loop))
        return;
    if (loop && is_freed(loop))
        gs_misuse(call, "the loop %p of watcher %p was freed", (const void *)loop,
                  (const void *)watcher);
    gs_misuse(call, "watcher %p was not initialised", (const void *)watcher);
}

static void check_active(struct gs_call call, const struct gs_watcher *watcher)
{
    if (watcher->active && !is_listed(watcher))
        gs_misuse(call, "watcher %p is a copy of an active one, which must not be moved",
                  (const void *)watcher);
}

void gs_checked_init(struct gs_call call, const struct gs_watcher *watcher)
{
    if (!is_incomplete && is_listed(watcher))
        gs_misuse(call, "watcher %p is active, or was freed while it was active",
                  (const void *)watcher);
}

/* Four kinds start their descriptor watcher. */
void gs_checked_start(struct gs_call call, const struct gs_watcher *watcher, unsigned kind)
{
    check_initialised(call, watcher);
    if (watcher->kind != kind && (kind != KIND_IO || watcher->kind > KIND_OP))
        gs_misuse(call, "watcher %p was not initialised as one of this kind",
                  (const void *)watcher);
    check_active(call, watcher);
    check_runner(call, watcher->loop);
}

void gs_checked_stop(struct gs_call call, const struct gs_watcher *watcher)
{
    if (!watcher->active)
        return;
    check_initialised(call, watcher);
    check_active(call, watcher);
    check_runner(call, watcher->loop);
}

void gs_checked_activate(const struct gs_watcher *watcher)
{
    acquire();
    add(watcher, watcher->loop);
    release();
}

void gs_checked_deactivate(const struct gs_watcher *watcher)
{
    acquire();
    remove_key(watcher);
    release();
}

/* ---- Descriptors ---- */

int gs_file_identify(int fd, struct gs_file_identity *ret_identity)
{
    struct stat status;
    int err = gs_sys_fstat(fd, &status);
    if (!err)
        *ret_identity = (struct gs_file_identity){status.st_dev, status.st_ino};
    return err;
}

/* A watcher of the descriptor that was active when it was registered; NULL: none. */
static const struct gs_io *find_registered(const struct slot *slot)
{
    const struct gs_io *io = slot->first;
    acquire();
    while (io && !(capacity && find(io)->was_registered))
        io = io->next;
    release();
    return io;
}

static void set_registered(const struct gs_io *io)
{
    acquire();
    if (capacity && find(io)->key)
        find(io)->was_registered = true;
    release();
}

void gs_checked_unverified(const struct gs_io *io)
{
    const struct slot *slot = &io->watcher.loop->slots[io->fd];
    if (slot->registered && !(slot->flags & SLOT_VERIFY) && !io->needs_verify)
        set_registered(io);
}

static void check_slot(const struct gs_loop *loop, struct slot *slot)
{
    struct gs_file_identity now = {0};
    int fd = (int)(slot - loop->slots), err = gs_file_identify(fd, &now);
    const struct gs_io *io = find_registered(slot);
    bool is_same = now.device == slot->identity.device && now.inode == slot->identity.inode;
    if (io && (err || !is_same))
        gs_misuse(loop->state.call,
                  "descriptor %d of watcher %p was closed without gs_loop_fd_closed", fd,
                  (const void *)io);
    slot->identity = now;
    for (io = err ? NULL : slot->first; io; io = io->next)
        set_registered(io);
}

void gs_checked_changes(struct gs_loop *loop)
{
    for (unsigned i = 0; i < loop->changed.count; i++)
        check_slot(loop, &loop->slots[loop->changed.fds[i]]);
}
#endif
