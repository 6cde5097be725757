#include "thread/report/checked.h"

#ifdef GS_CHECKED
#include "thread/io/descriptors.h"
#include "thread/report/backtrace.h"
#include "thread/schedule/thread_extra.h"
#include "thread/stack/stacks.h"
#include "thread/sync/channel.h"

/* ---- Reports ---- */

static void describe(const void *pc, char *ret_text, size_t size)
{
    struct symbol symbol;
    gs_symbols_open(true);
    gs_symbols_find(pc, &symbol);
    gs_symbol_describe(&symbol, ret_text, size);
    gs_symbols_close();
}

__attribute__((constructor)) static void init(void)
{
    gs_checked_reports.describe = describe;
}

/* ---- Who calls ---- */

void gs_checked_running(struct gs_call call)
{
    if (!atomic_load(&gs_runtime.is_running))
        gs_misuse(call, "no user threads are running: it was called outside gs_threads_run");
}

static struct worker *worker_of(struct gs_call call)
{
    struct worker *worker = gs_worker_or_null();
    gs_checked_running(call);
    if (!worker)
        gs_misuse(call, "it was called by a kernel thread that is no worker");
    return worker;
}

void gs_checked_worker(struct gs_call call)
{
    worker_of(call);
}

void gs_checked_thread(struct gs_call call)
{
    struct worker *worker = worker_of(call);
    if (!worker->current)
        gs_misuse(call, "it was called by a worker itself, not by a user thread");
}

void gs_checked_wait(struct gs_call call, uint64_t deadline_ns)
{
    gs_checked_thread(call);
    gs_checked_deadline(call, deadline_ns);
    worker_of(call)->call = call;
}

/* ---- Threads that have been released ---- */

/* Many, so that late uses are found; but not many large stacks. */
#define QUARANTINED 256u
#define QUARANTINED_LARGE 16u
#define LARGE ((size_t)256 << 10)

static struct quarantine {
    struct gs_thread *each[QUARANTINED]; /* a ring */
    unsigned next;
} quarantines[STACK_CLASSES];
static struct gs_spin lock; /* guards quarantines; acquired by any kernel thread */

struct gs_thread *gs_quarantine_thread(struct gs_thread *thread)
{
    struct quarantine *quarantine = &quarantines[thread->stack_class];
    bool is_large = (size_t)(thread->stack_top - gs_stack_bottom(thread)) >= LARGE;
    spin_lock_always(&lock);
    struct gs_thread **place = &quarantine->each[quarantine->next];
    struct gs_thread *released = *place;
    *place = thread;
    quarantine->next = (quarantine->next + 1) % (is_large ? QUARANTINED_LARGE : QUARANTINED);
    spin_unlock_always(&lock);
    return released;
}

/* In the child, all of them are free. */
void gs_quarantine_after_fork(void)
{
    memset(quarantines, 0, sizeof quarantines);
    atomic_store(&lock.held, false);
}

static bool is_on_user_stack(const struct gs_thread *thread)
{
    bool is_found = false;
    spin_lock_always(&gs_runtime.user_stack_lock);
    GS_LIST_FOREACH (link, &gs_runtime.user_stack_threads)
        is_found = is_found || thread_on_user_stack(link) == thread;
    spin_unlock_always(&gs_runtime.user_stack_lock);
    return is_found;
}

/* gs_threads_cancel_all may cancel a thread that ends at the same time. In the child of a fork, an
 * object may still have the threads of the parent that are to be unparked. */
void gs_checked_handle(struct gs_call call, const struct gs_thread *thread)
{
    gs_checked_running(call);
    if (atomic_load(&gs_runtime.canceling_all))
        return;
    if (!thread)
        gs_misuse(call, "the thread is NULL");
    bool is_ours = gs_stacks_find(thread) == thread;
    if (!is_ours && !is_on_user_stack(thread))
        gs_misuse(call, "%p is no thread, or one on a stack of the program's own that was released",
                  (const void *)thread);
    switch ((enum fate)(is_ours ? atomic_load(&thread->fate) : FATE_LIVE)) {
    case FATE_LIVE:
    case FATE_ABANDONED:
        return;
    case FATE_JOINED:
        gs_misuse(call, "thread \"%s\" was joined before", thread_name(thread));
    case FATE_DETACHED:
        gs_misuse(call, "thread \"%s\" was detached, and has ended", thread_name(thread));
    }
}

/* Whether it has been joined or detached, or is being joined. */
static void check_not_joined(struct gs_call call, const struct gs_thread *thread)
{
    gs_checked_handle(call, thread);
    if (atomic_load(&thread->fate) == FATE_ABANDONED)
        gs_misuse(call, "thread \"%s\" was one of an earlier run, or of the parent process",
                  thread_name(thread));
    if (thread->is_detached)
        gs_misuse(call, "thread \"%s\" was detached before", thread_name(thread));
    const struct gs_thread *joiner = *(struct gs_thread *const volatile *)&thread->joiner;
    if (joiner)
        gs_misuse(call, "thread \"%s\" is being joined by thread \"%s\"", thread_name(thread),
                  thread_name(joiner));
}

void gs_checked_joinable(struct gs_call call, const struct gs_thread *thread)
{
    check_not_joined(call, thread);
    const struct thread_extra *extra = thread_extra(thread);
    if (extra && *(struct gs_waiter *const volatile *)&extra->watchers.first)
        gs_misuse(call, "a gs_select waits for the end of thread \"%s\"", thread_name(thread));
}

/* ---- Synchronisation objects ---- */

/* The live thread whose stack or control block contains the address; NULL: none. */
static const struct gs_thread *holder_at(uintptr_t address)
{
    const struct gs_thread *thread = gs_stacks_find((const void *)address);
    bool is_holder = thread && thread_is_live(thread) && thread_contains(thread, address);
    return is_holder ? thread : NULL;
}

void gs_checked_mutex_lock(struct gs_call call, const struct gs_mutex *mutex, uint64_t deadline_ns)
{
    gs_checked_wait(call, deadline_ns);
    if (gs_mutex_is_owned(mutex))
        gs_misuse(call, "mutex %p is held by the calling thread, \"%s\", already",
                  (const void *)mutex, thread_name(thread_current()));
}

void gs_checked_mutex_held(struct gs_call call, const struct gs_mutex *mutex)
{
    gs_checked_thread(call);
    if (gs_mutex_is_owned(mutex))
        return;
    uintptr_t owner = atomic_load(&mutex->owner) & ~GS_MUTEX_CONTENDED;
    const struct gs_thread *holder = holder_at(owner);
    if (holder)
        gs_misuse(call, "mutex %p is held by thread \"%s\", not by the calling thread, \"%s\"",
                  (const void *)mutex, thread_name(holder), thread_name(thread_current()));
    gs_misuse(call, "mutex %p is not held by the calling thread, \"%s\"%s", (const void *)mutex,
              thread_name(thread_current()), owner ? "" : ": it is not locked");
}

void gs_checked_rwlock_lock(struct gs_call call, struct gs_rwlock *rwlock)
{
    struct gs_thread *self = thread_current();
    spin_lock(&rwlock->lock);
    bool is_writer = rwlock->has_writer && rwlock->holders == (uintptr_t)self;
    spin_unlock(&rwlock->lock);
    if (is_writer)
        gs_misuse(call, "reader-writer lock %p is held by the calling thread, \"%s\", as a writer",
                  (void *)rwlock, thread_name(self));
}

/* Of several readers, it is not known who they are. */
void gs_checked_rwlock_held(struct gs_call call, const struct gs_rwlock *rwlock)
{
    const struct gs_thread *self = thread_current();
    if (!rwlock->has_writer && !rwlock->readers)
        gs_misuse(call, "reader-writer lock %p is not locked", (const void *)rwlock);
    if ((rwlock->has_writer || rwlock->readers == 1) && rwlock->holders != (uintptr_t)self)
        gs_misuse(call, "reader-writer lock %p is not held by the calling thread, \"%s\"",
                  (const void *)rwlock, thread_name(self));
}

/* ---- Channels ---- */

#define CHANNEL_LIVE UINT64_C(0x6c6976656368616e)
#define CHANNEL_FREED UINT64_C(0x6672656564636861)
#define CHANNELS_QUARANTINED 64u
/* A larger channel is freed at once. */
#define CHANNEL_SIZE_MAX ((size_t)64 << 10)

void gs_checked_new_channel(struct gs_channel *channel, size_t size)
{
    channel->state = (struct gs_channel_state){CHANNEL_LIVE, size};
}

void gs_checked_channel(struct gs_call call, const struct gs_channel *channel)
{
    if (!channel)
        gs_misuse(call, "the channel is NULL");
    if (channel->state.magic == CHANNEL_FREED)
        gs_misuse(call, "channel %p was freed before", (const void *)channel);
    if (channel->state.magic != CHANNEL_LIVE)
        gs_misuse(call, "%p is no channel", (const void *)channel);
}

void gs_checked_cases(struct gs_call call, const struct gs_select *cases, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        bool is_event = cases[i].events || cases[i].signals || cases[i].child || cases[i].thread;
        if (cases[i].channel || !is_event)
            gs_checked_channel(call, cases[i].channel);
        else if (cases[i].thread)
            check_not_joined(call, cases[i].thread);
    }
}

void *gs_quarantine_channel(struct gs_call call, struct gs_channel *channel)
{
    static struct gs_channel *each[CHANNELS_QUARANTINED]; /* a ring */
    static unsigned next;
    if (!channel)
        return NULL;
    gs_checked_channel(call, channel);
    const struct gs_waiter *waiter =
        channel->senders.first ? channel->senders.first : channel->receivers.first;
    if (waiter)
        gs_misuse(call, "thread \"%s\" waits for channel %p", thread_name(waiter->thread),
                  (const void *)channel);
    channel->state.magic = CHANNEL_FREED;
    if (channel->state.size > CHANNEL_SIZE_MAX)
        return channel;
    spin_lock_always(&lock);
    struct gs_channel *released = each[next];
    each[next] = channel;
    next = (next + 1) % CHANNELS_QUARANTINED;
    spin_unlock_always(&lock);
    return released;
}

/* ---- Descriptors ---- */

void gs_checked_watch(struct descriptor *descriptor, int fd)
{
    if (gs_file_identify(fd, &descriptor->identity))
        descriptor->identity = (struct gs_file_identity){0};
}

_Noreturn static void stop_for_closed(int fd)
{
    gs_misuse(worker_current()->call,
              "descriptor %d was closed without gs_close or gs_forget, and was in use before", fd);
}

/* Not known: it was closed with gs_close at that time. */
void gs_checked_watched(const struct descriptor *descriptor, int fd)
{
    struct gs_file_identity now = {0};
    if (!descriptor->identity.inode || atomic_load(&descriptor->closing))
        return;
    if (gs_file_identify(fd, &now) || now.device != descriptor->identity.device ||
        now.inode != descriptor->identity.inode)
        stop_for_closed(fd);
}

void gs_checked_new_descriptor(const struct descriptor *descriptor, int fd)
{
    if (atomic_load(&descriptor->owner) && !atomic_load(&descriptor->closing))
        stop_for_closed(fd);
}

/* ---- Switches ---- */

void gs_checked_switch(const struct worker *worker, const char *verb, const char *object)
{
    if (worker->is_stack_in_use)
        gs_misuse(worker->call,
                  "thread \"%s\" would %s%s on the worker's stack "
                  "(gs_thread_call_on_worker_stack, gs_recv_with)",
                  thread_name(worker->current), verb, object);
}
#endif
