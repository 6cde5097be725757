/* Cancellation, cleanups, and the values of keys. */
#include "compiler/runtime/libraries/libraries.h"
#include "compiler/runtime/signals/signals.h"
#include "compiler/runtime/start/memory.h"
#include "compiler/runtime/threads/pool.h"
#include "compiler/runtime/threads/thread.h"
#include "compiler/runtime/threads/threads.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

bool gs_cc_test_cancel(struct thread *self)
{
    if (!self)
        return false;
    jump_if_told(self);
    if (!is_canceled(self))
        return false;
    gs_cc_complete(self);
    gs_cc_exit(self, PTHREAD_CANCELED);
    return true;
}

int gs_cc_pthread_cancel(pthread_t id)
{
    struct thread *thread = (struct thread *)id;
    if (!gs_cc_is_thread(id))
        return pthread_cancel(id);
    atomic_fetch_or(&thread->cancel, CANCEL_REQUESTED);
    if (thread == thread_self()) {
        if (must_leave(thread))
            gs_cc_test_cancel(thread);
        return 0;
    }
    /* A stack on which the thread is canceled is not used any more. */
    struct gs_thread *stack = __atomic_load_n(&thread->stack, __ATOMIC_ACQUIRE);
    if (stack && is_canceled(thread))
        gs_thread_cancel(stack);
    gs_cc_pool_interrupt(thread);
    gs_cc_wake(thread);
    return 0;
}

void gs_cc_pthread_testcancel(void)
{
    struct thread *self = thread_self();
    if (!self && gs_cc_is_outside())
        pthread_testcancel();
    else
        gs_cc_test_cancel(self);
}

int gs_cc_pthread_setcancelstate(int state, int *ret_old)
{
    struct thread *self = thread_self();
    if (!self && gs_cc_is_outside())
        return pthread_setcancelstate(state, ret_old);
    if (state != PTHREAD_CANCEL_DISABLE && state != PTHREAD_CANCEL_ENABLE)
        return EINVAL;
    unsigned char old = 0;
    if (self)
        old = state == PTHREAD_CANCEL_DISABLE
                  ? atomic_fetch_or(&self->cancel, CANCEL_DISABLED)
                  : atomic_fetch_and(&self->cancel, (unsigned char)~CANCEL_DISABLED);
    if (ret_old)
        *ret_old = old & CANCEL_DISABLED ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE;
    if (self && must_leave(self))
        gs_cc_test_cancel(self);
    return 0;
}

/* Asynchronous cancellation ends also calls that wait and are no cancellation points, and loops
 * that let others run (must_leave). */
int gs_cc_pthread_setcanceltype(int type, int *ret_old)
{
    struct thread *self = thread_self();
    if (!self && gs_cc_is_outside())
        return pthread_setcanceltype(type, ret_old);
    if (type != PTHREAD_CANCEL_DEFERRED && type != PTHREAD_CANCEL_ASYNCHRONOUS)
        return EINVAL;
    unsigned char old = 0;
    if (self)
        old = type == PTHREAD_CANCEL_ASYNCHRONOUS
                  ? atomic_fetch_or(&self->cancel, CANCEL_ASYNCHRONOUS)
                  : atomic_fetch_and(&self->cancel, (unsigned char)~CANCEL_ASYNCHRONOUS);
    if (ret_old)
        *ret_old =
            old & CANCEL_ASYNCHRONOUS ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED;
    if (self && must_leave(self))
        gs_cc_test_cancel(self);
    return 0;
}

/* ---- Cleanups ---- */

void libc_cleanup_push(struct _pthread_cleanup_buffer *buffer, void (*fn)(void *),
                       void *argument) __asm__("_pthread_cleanup_push");
void libc_cleanup_pop(struct _pthread_cleanup_buffer *buffer,
                      int execute) __asm__("_pthread_cleanup_pop");

void gs_cc__pthread_cleanup_push(struct gs_cc_cleanup *cleanup, void (*fn)(void *), void *argument)
{
    struct thread *self = thread_self();
    if (!self && gs_cc_is_outside()) {
        libc_cleanup_push(&((union gs_cc_cleanup_buffer *)cleanup)->of_libc, fn, argument);
        return;
    }
    *cleanup = (struct gs_cc_cleanup){fn, argument, NULL};
    if (!self)
        return; /* a handler outside of the threads is not canceled */
    struct extra *extra = gs_cc_extra(self);
    cleanup->next = extra->cleanups;
    extra->cleanups = cleanup;
}

void gs_cc__pthread_cleanup_pop(struct gs_cc_cleanup *cleanup, int execute)
{
    struct thread *self = thread_self();
    if (!self && gs_cc_is_outside()) {
        libc_cleanup_pop(&((union gs_cc_cleanup_buffer *)cleanup)->of_libc, execute);
        return;
    }
    if (!execute) {
        if (self)
            self->extra->cleanups = cleanup->next;
        return;
    }
    if (self && self->phase == PHASE_NEW)
        self->extra->cleanups = cleanup->next;
    gs_cc_call_on_stack(cleanup->fn, cleanup->argument);
}

bool gs_cc_has_cleanups(const struct thread *self)
{
    return self->extra && (self->extra->cleanups || self->extra->enders || self->extra->values);
}

void gs_cc_run_cleanups(struct thread *self)
{
    struct gs_cc_cleanup *cleanup;
    while ((cleanup = self->extra->cleanups)) {
        self->extra->cleanups = cleanup->next;
        cleanup->fn(cleanup->argument);
    }
}

/* Those of libraries are in frames of their functions, whose stack the thread has still: it jumps
 * to them, and they end it again. */

static void jump(void *buffer)
{
    gs_cc_jump(((__pthread_unwind_buf_t *)buffer)->__cancel_jmp_buf, 1);
}

void gs_cc_register_cleanup(struct thread *self, __pthread_unwind_buf_t *buffer)
{
    struct extra *extra = gs_cc_extra(self);
    struct gs_cc_cleanup *cleanup = (struct gs_cc_cleanup *)buffer->__pad;
    _Static_assert(sizeof *cleanup <= sizeof buffer->__pad, "the C library leaves room");
    *cleanup = (struct gs_cc_cleanup){jump, buffer, extra->cleanups};
    extra->cleanups = cleanup;
}

void gs_cc_unregister_cleanup(struct thread *self, __pthread_unwind_buf_t *buffer)
{
    self->extra->cleanups = ((struct gs_cc_cleanup *)buffer->__pad)->next;
}

void gs_cc_run_cleanups_on_stack(struct thread *self)
{
    if (!self->extra || !self->extra->cleanups)
        return;
    atomic_fetch_or(&self->cancel, CANCEL_DISABLED);
    gs_thread_set_cancelable(false);
    gs_cc_run_cleanups(self);
}

/* ---- Keys ---- */

#define KEYS 1024u

/* A key that is deleted, and its number used again, is another one: values know their key by the
 * generation. */
static struct key {
    atomic_uint generation; /* odd: it is used */
    void (*destroy)(void *);
} keys[KEYS];

struct value {
    unsigned generation;
    void *value;
};

/* Those of the first keys. */
struct values {
    unsigned count;
    struct value at[];
};

int gs_cc_pthread_key_create(pthread_key_t *ret_key, void (*destroy)(void *))
{
    for (unsigned i = 0; i < KEYS; i++) {
        unsigned generation = atomic_load(&keys[i].generation);
        if (generation % 2 ||
            !atomic_compare_exchange_strong(&keys[i].generation, &generation, generation + 1))
            continue;
        keys[i].destroy = destroy;
        *ret_key = i;
        return 0;
    }
    return EAGAIN;
}

int gs_cc_pthread_key_delete(pthread_key_t key)
{
    unsigned generation = key < KEYS ? atomic_load(&keys[key].generation) : 0;
    if (generation % 2 == 0 ||
        !atomic_compare_exchange_strong(&keys[key].generation, &generation, generation + 1))
        return EINVAL;
    return 0;
}

/* Values set before the run, and after it. */
static struct values *outside;

static struct values **values_of(struct thread *self)
{
    return self ? &gs_cc_extra(self)->values : &outside;
}

void *gs_cc_pthread_getspecific(pthread_key_t key)
{
    struct thread *self = thread_self() ? thread_self() : gs_cc_handling.target;
    const struct values *values = self && !self->extra ? NULL : *values_of(self);
    if (!values || key >= values->count)
        return NULL;
    const struct value *one = &values->at[key];
    return one->generation == atomic_load(&keys[key].generation) ? one->value : NULL;
}

/* Returns NULL if there is no memory. */
static struct values *make_room(struct values **values, unsigned key)
{
    unsigned before = *values ? (*values)->count : 0, count = key | 7;
    if (key < before)
        return *values;
    struct values *more = realloc(*values, sizeof *more + (count + 1) * sizeof *more->at);
    if (!more)
        return NULL;
    more->count = count + 1;
    memset(&more->at[before], 0, (more->count - before) * sizeof *more->at);
    *values = more;
    return more;
}

int gs_cc_pthread_setspecific(pthread_key_t key, const void *value)
{
    unsigned generation = key < KEYS ? atomic_load(&keys[key].generation) : 0;
    if (generation % 2 == 0)
        return EINVAL;
    struct values *values = make_room(values_of(thread_self()), key);
    if (!values)
        return ENOMEM;
    values->at[key] = (struct value){generation, (void *)value};
    return 0;
}

/* Returns the value, which is removed, if a function is to be called for it. */
static void *take_value(struct value *one, const struct key *key)
{
    void *value = one->value;
    one->value = NULL;
    return one->generation == atomic_load(&key->generation) && key->destroy ? value : NULL;
}

/* The functions may set values, so there are several rounds. */
void gs_cc_destroy_values(struct thread *self)
{
    struct values **values = values_of(self);
    for (int round = 0; *values && round < PTHREAD_DESTRUCTOR_ITERATIONS; round++)
        for (unsigned i = 0; i < (*values)->count; i++) {
            void *value = take_value(&(*values)->at[i], &keys[i]);
            if (value)
                keys[i].destroy(value);
        }
    free(*values);
    *values = NULL;
}

/* ---- Environments and thread-local variables ---- */

/* In a handler, the thread whose signal it is, unless it has none: nothing is allocated there, but
 * in one that the thread has called itself. */
static struct thread *self_or_target(void)
{
    struct thread *self = gs_cc_signals_self(), *target = gs_cc_handling.target;
    return self || !target || !target->extra || !target->extra->locals ? self : target;
}

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

/* At least as lines of the cache are, so that threads do not share one. */
#define LEAST_ALIGNMENT UINT64_C(64)

/* Those of a kernel thread that is none of the program's threads, and ends. */
static _Thread_local char *outside_locals;
static pthread_key_t outside_key;

static void free_outside_locals(void *locals)
{
    outside_locals = NULL;
    gs_cc_release_locals(locals);
}

static void make_outside_key(void)
{
    pthread_key_create(&outside_key, free_outside_locals);
}

static void free_outside_locals_later(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_outside_key);
    pthread_setspecific(outside_key, outside_locals);
}

void *gs_cc_thread_local(uint64_t offset)
{
    struct thread *self = self_or_target();
    char **locals = self ? &gs_cc_extra(self)->locals : &outside_locals;
    if (!*locals) {
        uint64_t alignment = gs_cc_thread_image_alignment;
        if (alignment < LEAST_ALIGNMENT)
            alignment = LEAST_ALIGNMENT;
        uint64_t size = (gs_cc_thread_image_size + alignment - 1) / alignment * alignment;
        *locals = gs_cc_allocate_locals(size ? size : alignment, alignment);
        memcpy(*locals, gs_cc_thread_image, gs_cc_thread_image_size);
        if (!self)
            free_outside_locals_later();
    }
    return *locals + offset;
}

/* ---- Attributes of threads that have no meaning here ---- */

int gs_cc_pthread_setname_np(pthread_t id, const char *name)
{
    struct extra *extra = gs_cc_extra((struct thread *)id);
    size_t n = strlen(name);
    if (n >= sizeof extra->name)
        return ERANGE;
    memcpy(extra->name, name, n + 1);
    /* The first thread's is the process's. */
    const struct thread *self = thread_self();
    if (self == (struct thread *)id && self->is_first)
        prctl(PR_SET_NAME, name);
    return 0;
}

int gs_cc_pthread_getname_np(pthread_t id, char *ret_name, size_t size)
{
    struct extra *extra = gs_cc_extra((struct thread *)id);
    if (size < sizeof extra->name)
        return ERANGE;
    if (!extra->name[0])
        return prctl(PR_GET_NAME, ret_name) ? errno : 0;
    memcpy(ret_name, extra->name, sizeof extra->name);
    return 0;
}

/* That of the worker. */
int gs_cc_pthread_getcpuclockid(pthread_t id, clockid_t *ret_clock)
{
    (void)id;
    return pthread_getcpuclockid(pthread_self(), ret_clock);
}
