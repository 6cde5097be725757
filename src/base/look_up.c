/* All look-ups are guarded by one lock, under which that of the pool is acquired. It is not held
 * while a waiter is completed: that may free the waiter, and its reference may be the last one. So
 * a kernel thread that has found waiters does not use the record any more.
 *
 * A resolver cannot be told that nobody waits: as long as it has the record, it is as a kernel
 * thread that is running.
 *
 *                                  in the table   users   freed by
 *     gs_look_up_new                    no          1
 *     started, and joined               yes         n
 *     completed                         no          n     the last gs_look_up_release
 *     the last user has released it
 *         while it was queued           no          0     that call
 *         while it was running          no          0     the kernel thread: `discard`
 *         before `complete` got the lock no         0     the kernel thread: `complete`
 *         while a resolver had it       no          0     gs_look_up_complete
 *     a fork, and the resolver is the child's  no    any  gs_look_up_discard */
#include "base/look_up.h"

#include "base/atfork.h"
#include "base/chaos.h"
#include "base/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 256u

struct look_up {
    struct job job;
    struct pool_user *user;
    struct resolver *resolver; /* NULL: the pool makes it */
    struct resolution *resolution;
    struct look_up *next; /* in the bucket */
    bool is_done;         /* without a kernel thread */
    bool is_known;        /* in the table: others may join */
    unsigned users;
    struct gs_list waiters;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct look_up *table[BUCKETS];

static void lock_all(void)
{
    gs_chaos(CHAOS_LOCK);
    pthread_mutex_lock(&mutex);
}

static void unlock_all(void)
{
    gs_chaos(CHAOS_UNLOCK);
    pthread_mutex_unlock(&mutex);
    gs_chaos(CHAOS_UNLOCK);
}

/* ---- The table ---- */

static struct look_up **bucket_of(const struct resolution *resolution)
{
    unsigned hash = 0;
    for (const char *at = resolution->node; at && *at; at++)
        hash = hash * 31 + (unsigned char)*at;
    return &table[hash % BUCKETS];
}

/* Returns NULL if there is none. */
static struct look_up *find(const struct resolution *resolution, const struct pool_user *user)
{
    struct look_up *at = *bucket_of(resolution);
    while (at && (at->user != user || !gs_resolution_is_same(at->resolution, resolution)))
        at = at->next;
    return at;
}

static void make_known(struct look_up *look_up, struct pool_user *user)
{
    struct look_up **bucket = bucket_of(look_up->resolution);
    look_up->user = user;
    look_up->next = *bucket;
    look_up->is_known = true;
    *bucket = look_up;
}

static void forget(struct look_up *look_up)
{
    struct look_up **place = bucket_of(look_up->resolution);
    if (!look_up->is_known)
        return;
    while (*place != look_up)
        place = &(*place)->next;
    *place = look_up->next;
    look_up->is_known = false;
}

static void free_look_up(struct look_up *look_up)
{
    gs_resolution_free(look_up->resolution);
    free(look_up);
}

/* ---- In a kernel thread of the pool, or of a resolver ---- */

static void run(void *argument)
{
    gs_resolution_run(((struct look_up *)argument)->resolution);
}

static void discard(struct job *job)
{
    free_look_up(gs_container_of(job, struct look_up, job));
}

void gs_look_up_complete(struct look_up *look_up)
{
    struct gs_list waiters;
    gs_list_init(&waiters);
    lock_all();
    forget(look_up);
    gs_list_append_all(&waiters, &look_up->waiters);
    GS_LIST_FOREACH (link, &waiters)
        gs_container_of(link, struct look_up_waiter, link)->is_waiting = false;
    bool is_unused = !look_up->users;
    unlock_all();
    if (is_unused)
        free_look_up(look_up);
    while (!gs_list_is_empty(&waiters)) {
        struct look_up_waiter *waiter =
            gs_container_of(gs_list_first(&waiters), struct look_up_waiter, link);
        gs_list_remove(&waiter->link);
        waiter->complete(waiter);
    }
}

static void complete(struct job *job)
{
    gs_look_up_complete(gs_container_of(job, struct look_up, job));
}

void gs_look_up_discard(struct look_up *look_up)
{
    free_look_up(look_up);
}

struct resolution *gs_look_up_resolution(struct look_up *look_up)
{
    return look_up->resolution;
}

bool gs_look_up_is_wanted(struct look_up *look_up)
{
    lock_all();
    bool is_wanted = look_up->users;
    unlock_all();
    return is_wanted;
}

/* ---- In the kernel thread of the waiter ---- */

struct look_up *gs_look_up_new(const char *node, const char *service, const struct addrinfo *hints)
{
    struct look_up *look_up = malloc(sizeof *look_up);
    if (!look_up)
        return NULL;
    *look_up = (struct look_up){
        .job = {.fn = run, .argument = look_up, .complete = complete, .discard = discard},
        .resolution = gs_resolution_new(node, service, hints),
        .users = 1,
    };
    gs_list_init(&look_up->waiters);
    if (look_up->resolution)
        return look_up;
    free(look_up);
    return NULL;
}

void gs_look_up_classify(struct look_up *look_up)
{
    look_up->is_done = gs_resolution_run_here(look_up->resolution);
    if (!look_up->is_done)
        look_up->job.kind = gs_resolution_kind(look_up->resolution);
}

bool gs_look_up_is_done(const struct look_up *look_up)
{
    return look_up->is_done;
}

bool gs_look_up_is_foreign(const struct look_up *look_up)
{
    return !look_up->is_done && look_up->job.kind == JOB_NAME && look_up->resolution->is_in_no_file;
}

static int submit(struct look_up *look_up, struct pool_user *user, struct resolver *resolver)
{
    look_up->resolver = resolver;
    return resolver ? resolver->ask(resolver, look_up) : gs_pool_submit(user, &look_up->job);
}

int gs_look_up_start(struct look_up_waiter *waiter, struct pool_user *user,
                     struct resolver *resolver)
{
    struct look_up *own = waiter->look_up;
    lock_all();
    struct look_up *same = find(own->resolution, user);
    int err = same ? 0 : submit(own, user, resolver);
    if (same) {
        waiter->look_up = same;
        same->users++;
    } else if (!err) {
        make_known(own, user);
    }
    if (!err) {
        waiter->is_waiting = true;
        gs_list_append(&waiter->look_up->waiters, &waiter->link);
    }
    unlock_all();
    if (same)
        free_look_up(own);
    return err;
}

bool gs_look_up_leave(struct look_up_waiter *waiter)
{
    lock_all();
    bool was_waiting = waiter->is_waiting;
    if (was_waiting)
        gs_list_remove(&waiter->link);
    waiter->is_waiting = false;
    unlock_all();
    return was_waiting;
}

/* The caller has the lock, and has released the last reference. Returns whether neither a kernel
 * thread nor a resolver frees the record. */
static bool give_up(struct look_up *look_up)
{
    if (!look_up->is_known)
        return true;
    forget(look_up);
    return !look_up->resolver && gs_pool_cancel(&look_up->job) == JOB_QUEUED;
}

void gs_look_up_release(struct look_up *look_up)
{
    lock_all();
    bool is_unused = !--look_up->users && give_up(look_up);
    unlock_all();
    if (is_unused)
        free_look_up(look_up);
}

int gs_look_up_result(const struct look_up *look_up)
{
    return gs_resolution_result(look_up->resolution);
}

const struct addrinfo *gs_look_up_addresses(const struct look_up *look_up)
{
    return look_up->resolution->addresses;
}

/* Nobody joins a look-up that is completed. */
int gs_look_up_take(struct look_up *look_up, struct addrinfo **ret_addresses)
{
    lock_all();
    bool is_last = look_up->users == 1;
    unlock_all();
    return is_last ? gs_resolution_take(look_up->resolution, ret_addresses)
                   : gs_resolution_copy(look_up->resolution, ret_addresses);
}

/* ---- Forks: the look-ups of the parent do not exist in a child ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&mutex);
}

static void in_child(void)
{
    memset(table, 0, sizeof table);
    pthread_mutex_unlock(&mutex);
}

__attribute__((constructor)) static void prepare_for_forks(void)
{
    static const struct atfork functions = {before_fork, in_parent, in_child};
    gs_atfork_add(ATFORK_LOOK_UPS, &functions);
}
