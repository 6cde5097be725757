/* Checks of the use of user threads, in the library gossamer_checked only (base/checked.h). Each
 * public function begins with the one that says who may call it. */
#ifndef GS_THREAD_CHECKED_H
#define GS_THREAD_CHECKED_H

#include "base/checked.h"

#ifdef GS_CHECKED

struct gs_thread;
struct worker;

/* The caller is a user thread. */
void gs_checked_thread(struct gs_call call);
#define CHECKED_THREAD() gs_checked_thread(THIS_CALL)

/* The same, and the call may switch to other threads, until the deadline: it is noted for
 * gs_checked_switch. */
void gs_checked_wait(struct gs_call call, uint64_t deadline_ns);
#define CHECKED_WAIT(deadline_ns_) gs_checked_wait(THIS_CALL, deadline_ns_)

/* The caller is a worker. */
void gs_checked_worker(struct gs_call call);
#define CHECKED_WORKER() gs_checked_worker(THIS_CALL)

/* User threads are running. */
void gs_checked_running(struct gs_call call);
#define CHECKED_RUNNING() gs_checked_running(THIS_CALL)

/* The thread that runs on the worker is about to leave its stack, to wait for something, to yield
 * or to end. */
void gs_checked_switch(const struct worker *worker, const char *verb, const char *object);
#define CHECKED_SWITCH(worker_, verb_, object_) gs_checked_switch(worker_, verb_, object_)

/* What became of the thread of a control block. The blocks of the threads that were released last
 * are not reused for a while, so that later uses of them are noticed. */
enum fate { FATE_LIVE, FATE_JOINED, FATE_DETACHED, FATE_ABANDONED };
#define CHECKED_SET_FATE(thread_, fate_) atomic_store(&(thread_)->fate, fate_)

/* Keep the control block of a thread that was released. Returns another one that may be reused now;
 * NULL: none. */
struct gs_thread *gs_quarantine_thread(struct gs_thread *thread);
void gs_quarantine_after_fork(void);
#define CHECKED_AFTER_FORK()                                                                       \
    (gs_quarantine_after_fork(), gs_cycles_after_fork(), gs_protected_after_fork())

/* The thread has not been joined, nor has it ended when it was detached. */
void gs_checked_handle(struct gs_call call, const struct gs_thread *thread);
#define CHECKED_HANDLE(thread_) gs_checked_handle(THIS_CALL, thread_)

/* The same, and nobody has joined or detached the thread, or is joining it. */
void gs_checked_joinable(struct gs_call call, const struct gs_thread *thread);
#define CHECKED_JOINABLE(thread_) gs_checked_joinable(THIS_CALL, thread_)

/* The thread is about to wait: if this closes a cycle of threads that wait for each other without a
 * deadline, report it (deadlock.c). And the call goes on. Returns the result. */
void gs_checked_blocked(struct gs_thread *thread);
int gs_checked_resumed(struct gs_thread *thread, int result);
void gs_cycles_after_fork(void);
void gs_protected_after_fork(void);
#define CHECKED_BLOCKED(thread_) gs_checked_blocked(thread_)
#define CHECKED_RESUMED(thread_, result_) gs_checked_resumed(thread_, result_)

/* ---- Synchronisation objects ---- */

struct gs_mutex;
struct gs_rwlock;

/* A mutex is to be locked that is not free, and must not be the caller's. */
void gs_checked_mutex_lock(struct gs_call call, const struct gs_mutex *mutex, uint64_t deadline_ns);

/* The caller holds the mutex. */
void gs_checked_mutex_held(struct gs_call call, const struct gs_mutex *mutex);

/* The caller is not the writer; it is the writer, or may be a reader. */
void gs_checked_rwlock_lock(struct gs_call call, struct gs_rwlock *rwlock);
void gs_checked_rwlock_held(struct gs_call call, const struct gs_rwlock *rwlock);

/* ---- Channels: those that were freed last are kept for a while ---- */

struct gs_channel;
struct gs_select;

struct gs_channel_state {
    uint64_t magic;
    size_t size; /* of the channel */
};
void gs_checked_new_channel(struct gs_channel *channel, size_t size);

/* The channel was created and not freed. */
void gs_checked_channel(struct gs_call call, const struct gs_channel *channel);
void gs_checked_cases(struct gs_call call, const struct gs_select *cases, unsigned count);

/* No thread waits for the channel, which may be NULL. Keep it. Returns memory that may be freed. */
void *gs_quarantine_channel(struct gs_call call, struct gs_channel *channel);

/* ---- Stacks that nobody else uses while their thread waits (protected_stack.c) ---- */

void gs_protected_init_thread(struct gs_thread *thread);
#define CHECKED_INIT_PROTECTED(thread_) gs_protected_init_thread(thread_)
#define CHECKED_RUNS_PROTECTED(worker_) ((worker_)->runs_protected)
#define CHECKED_IS_PROTECTED_RESUME(resume_) ((resume_) == gs_thread_resume_protected)

/* ---- Descriptors ---- */

struct descriptor;

/* A loop watches the descriptor from now on. */
void gs_checked_watch(struct descriptor *descriptor, int fd);

/* A loop watches it, and it still refers to the same file. */
void gs_checked_watched(const struct descriptor *descriptor, int fd);

/* The number is that of a file which was just opened: no loop watches it. */
void gs_checked_new_descriptor(const struct descriptor *descriptor, int fd);

#else
#define CHECKED_THREAD() ((void)0)
#define CHECKED_WAIT(deadline_ns_) ((void)0)
#define CHECKED_WORKER() ((void)0)
#define CHECKED_RUNNING() ((void)0)
#define CHECKED_SWITCH(worker_, verb_, object_) ((void)0)
#define CHECKED_SET_FATE(thread_, fate_) ((void)0)
#define CHECKED_BLOCKED(thread_) ((void)0)
#define CHECKED_RESUMED(thread_, result_) (result_)
#define CHECKED_AFTER_FORK() ((void)0)
#define CHECKED_INIT_PROTECTED(thread_) ((void)0)
#define CHECKED_RUNS_PROTECTED(worker_) false
#define CHECKED_IS_PROTECTED_RESUME(resume_) false
#define CHECKED_HANDLE(thread_) ((void)0)
#define CHECKED_JOINABLE(thread_) ((void)0)
#endif

#endif
