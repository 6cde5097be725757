/* Cancellation, cleanups, and the values of keys. */
#include "compiler/runtime/memory.h"
#include "compiler/runtime/thread.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

bool gs_cc_test_cancel(struct thread *self)
{
    if (!self || !must_cancel(self))
        return false;
    gs_cc_complete(self);
    gs_cc_exit(self, PTHREAD_CANCELED);
    return true;
}

int gs_cc_pthread_cancel(pthread_t id)
{
    struct thread *thread = (struct thread *)id;
    atomic_fetch_or(&thread->cancel, CANCEL_REQUESTED);
    if (thread != thread_self())
        gs_cc_wake(thread);
    return 0;
}

void gs_cc_pthread_testcancel(void)
{
    gs_cc_test_cancel(thread_self());
}

int gs_cc_pthread_setcancelstate(int state, int *ret_old)
{
    struct thread *self = thread_self();
    unsigned char old = state == PTHREAD_CANCEL_DISABLE
                            ? atomic_fetch_or(&self->cancel, CANCEL_DISABLED)
                            : atomic_fetch_and(&self->cancel, (unsigned char)~CANCEL_DISABLED);
    if (ret_old)
        *ret_old = old & CANCEL_DISABLED ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE;
    return 0;
}

/* Cancellation is deferred in any case. */
int gs_cc_pthread_setcanceltype(int type, int *ret_old)
{
    (void)type;
    if (ret_old)
        *ret_old = PTHREAD_CANCEL_DEFERRED;
    return 0;
}

/* ---- Cleanups ---- */

/* In place of glibc's struct _pthread_cleanup_buffer, which is larger. */
struct cleanup {
    void (*fn)(void *);
    void *argument;
    struct cleanup *next;
};

void gs_cc__pthread_cleanup_push(struct cleanup *cleanup, void (*fn)(void *), void *argument)
{
    struct extra *extra = gs_cc_extra(thread_self());
    *cleanup = (struct cleanup){fn, argument, extra->cleanups};
    extra->cleanups = cleanup;
}

void gs_cc__pthread_cleanup_pop(struct cleanup *cleanup, int execute)
{
    struct thread *self = thread_self();
    if (!execute) {
        self->extra->cleanups = cleanup->next;
        return;
    }
    if (self->phase == PHASE_NEW)
        self->extra->cleanups = cleanup->next;
    gs_cc___on_stack(cleanup->fn, cleanup->argument);
}

bool gs_cc_has_cleanups(const struct thread *self)
{
    return self->extra && (self->extra->cleanups || self->extra->values);
}

void gs_cc_run_cleanups(struct thread *self)
{
    struct cleanup *cleanup;
    while ((cleanup = self->extra->cleanups)) {
        self->extra->cleanups = cleanup->next;
        cleanup->fn(cleanup->argument);
    }
}

/* ---- Keys ---- */

#define KEYS 1024u

static struct key {
    atomic_bool is_used;
    void (*destroy)(void *);
} keys[KEYS];

int gs_cc_pthread_key_create(pthread_key_t *ret_key, void (*destroy)(void *))
{
    for (unsigned i = 0; i < KEYS; i++)
        if (!atomic_exchange(&keys[i].is_used, true)) {
            keys[i].destroy = destroy;
            *ret_key = i;
            return 0;
        }
    return EAGAIN;
}

int gs_cc_pthread_key_delete(pthread_key_t key)
{
    if (key >= KEYS || !atomic_exchange(&keys[key].is_used, false))
        return EINVAL;
    return 0;
}

/* Values set before the run, and after it. */
static void *outside[KEYS];

void *gs_cc_pthread_getspecific(pthread_key_t key)
{
    struct thread *self = thread_self();
    void **values = !self ? outside : self->extra ? self->extra->values : NULL;
    return values && key < KEYS ? values[key] : NULL;
}

int gs_cc_pthread_setspecific(pthread_key_t key, const void *value)
{
    struct thread *self = thread_self();
    if (key >= KEYS || !atomic_load(&keys[key].is_used))
        return EINVAL;
    void **values = self ? gs_cc_extra(self)->values : outside;
    if (!values)
        values = self->extra->values = calloc(KEYS, sizeof *values);
    if (!values)
        return ENOMEM;
    values[key] = (void *)value;
    return 0;
}

void gs_cc_destroy_values(struct thread *self)
{
    void **values = self->extra->values;
    for (int round = 0; values && round < PTHREAD_DESTRUCTOR_ITERATIONS; round++)
        for (unsigned i = 0; i < KEYS; i++) {
            void *value = values[i];
            values[i] = NULL;
            if (value && atomic_load(&keys[i].is_used) && keys[i].destroy)
                keys[i].destroy(value);
        }
    self->extra->values = NULL;
    free(values);
}

/* ---- Environments and thread-local variables ---- */

struct environment {
    struct environment *next;
    uint64_t size;
};
_Static_assert(sizeof(struct environment) == 16, "what follows is aligned");

void *gs_cc_environment(uint64_t size)
{
    struct thread *self = thread_self();
    size += sizeof(struct environment);
    struct environment *environment = gs_cc_allocate_aligned(size);
    environment->size = size;
    if (self) {
        environment->next = self->environments;
        self->environments = environment;
    }
    return environment + 1;
}

void gs_cc_environment_free(void *block)
{
    struct thread *self = thread_self();
    struct environment *environment = (struct environment *)block - 1;
    if (self)
        self->environments = environment->next;
    gs_cc_release_aligned(environment, environment->size);
}

void *gs_cc_thread_local(uint64_t offset)
{
    static char *outside_locals;
    struct thread *self = thread_self();
    char **locals = self ? &gs_cc_extra(self)->locals : &outside_locals;
    if (!*locals) {
        *locals = aligned_alloc(16, (gs_cc_thread_image_size + 15) & ~UINT64_C(15));
        if (!*locals)
            abort();
        memcpy(*locals, gs_cc_thread_image, gs_cc_thread_image_size);
    }
    return *locals + offset;
}

/* ---- Attributes of threads that have no meaning here ---- */

int gs_cc_pthread_kill(pthread_t thread, int number)
{
    (void)thread;
    return number && raise(number) ? errno : 0;
}

int gs_cc_pthread_setname_np(pthread_t id, const char *name)
{
    struct extra *extra = gs_cc_extra((struct thread *)id);
    size_t n = strlen(name);
    if (n >= sizeof extra->name)
        return ERANGE;
    memcpy(extra->name, name, n + 1);
    return 0;
}

int gs_cc_pthread_getname_np(pthread_t id, char *ret_name, size_t size)
{
    struct extra *extra = gs_cc_extra((struct thread *)id);
    if (size < sizeof extra->name)
        return ERANGE;
    memcpy(ret_name, extra->name, sizeof extra->name);
    return 0;
}

int gs_cc_pthread_getattr_np(pthread_t id, pthread_attr_t *ret_attributes)
{
    (void)id;
    return pthread_getattr_np(pthread_self(), ret_attributes);
}

int gs_cc_pthread_setschedparam(pthread_t id, int policy, const struct sched_param *parameter)
{
    (void)id, (void)policy, (void)parameter;
    return 0;
}

int gs_cc_pthread_getschedparam(pthread_t id, int *ret_policy, struct sched_param *ret_parameter)
{
    (void)id;
    return pthread_getschedparam(pthread_self(), ret_policy, ret_parameter);
}

int gs_cc_pthread_setaffinity_np(pthread_t id, size_t size, const cpu_set_t *cpus)
{
    (void)id;
    return pthread_setaffinity_np(pthread_self(), size, cpus);
}

int gs_cc_pthread_getaffinity_np(pthread_t id, size_t size, cpu_set_t *ret_cpus)
{
    (void)id;
    return pthread_getaffinity_np(pthread_self(), size, ret_cpus);
}
