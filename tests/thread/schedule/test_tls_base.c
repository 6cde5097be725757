#include "tests/thread/fixture.h"
#include "thread/context/sanitizer.h"
#include "thread/schedule/thread.h"

#include <dlfcn.h>

/* Threads with their own thread-local storage, which the dynamic linker creates as for kernel
 * threads; and threads that start in a context of the caller. */

#define THREADS 8
#define ROUNDS 200

static void *(*allocate)(void *);
static void (*deallocate)(void *, bool);

static bool has_found_linker(void)
{
    allocate = (void *(*)(void *))dlsym(RTLD_DEFAULT, "_dl_allocate_tls");
    deallocate = (void (*)(void *, bool))dlsym(RTLD_DEFAULT, "_dl_deallocate_tls");
    return allocate && deallocate;
}

/* Creates what the ABI and the C library expect at the thread pointer. */
static void *new_storage_in(void *memory)
{
    uintptr_t *words = allocate(memory);
    MUST(words);
#ifdef __x86_64__
    const uintptr_t *own = __builtin_thread_pointer();
    words[0] = words[2] = (uintptr_t)words;
    words[5] = own[5] ^ 0x5a00; /* a canary of its own, for frames */
    words[6] = own[6];          /* the guard for pointers */
#endif
    return words;
}

static void *new_storage(void)
{
    return new_storage_in(NULL);
}

static __thread unsigned count;

/* Not inlined, because the address depends on the thread. */
__attribute__((noinline)) static unsigned *own_count(void)
{
    unsigned *address = &count;
    __asm__ volatile("" : "+r"(address));
    return address;
}

THREAD(count_alone)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        MUST_EQ(*own_count(), i);
        ++*own_count();
        if (i % 3)
            gs_thread_yield();
        else
            MUST_EQ(gs_thread_sleep(after(10 * GS_MICROSECOND)), 0);
        MUST(gs_thread_self());
        MUST(worker_current()->current == gs_thread_self());
    }
}

THREAD(count_together)
{
    for (int i = 0; i < ROUNDS; i++) {
        ++*own_count();
        gs_thread_yield();
    }
}

static void *count_in_all(void *unused)
{
    struct gs_thread *alone[THREADS], *together[THREADS];
    void *storages[THREADS];
    unsigned before = *own_count();
    for (int i = 0; i < THREADS; i++) {
        storages[i] = new_storage();
        struct gs_thread_attributes attributes = {.migrates = i % 2, .thread_pointer = storages[i]};
        MUST_EQ(gs_thread_spawn(&attributes, count_alone, NULL, &alone[i]), 0);
        attributes = (struct gs_thread_attributes){.worker = 1};
        MUST_EQ(gs_thread_spawn(&attributes, count_together, NULL, &together[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        join(alone[i]);
        join(together[i]);
        deallocate(storages[i], true);
    }
    MUST_EQ(*own_count(), before + THREADS * ROUNDS);
    return unused;
}

static void skip_sanitizers(void)
{
    if (GS_ASAN || GS_TSAN)
        SKIP("sanitizers use thread-local storage of their own");
}

TEST(thread_with_a_thread_pointer_has_its_own_storage_across_waits_and_workers)
{
    skip_sanitizers();
    if (!has_found_linker())
        SKIP("the dynamic linker cannot create thread-local storage here");
    run_both(count_in_all);
}

/* ---- Storage that is unmapped at once ---- */

enum { FREE_ROUNDS = IS_EMULATED ? 50 : 1000, FREEING = 6, FREEING_WORKERS = 3 };

#define STORAGE_SIZE ((size_t)128 << 10)

struct freeing {
    unsigned worker; /* the worker of the threads; 0: they migrate */
    bool is_polling;
};

static void *yield_and_wait(void *semaphore)
{
    gs_thread_yield();
    MUST_EQ(gs_semaphore_wait(semaphore, GS_NEVER), 0);
    gs_thread_yield();
    return semaphore;
}

/* The joining thread polls, so it may join the other one while that one's worker is still switching
 * away from the thread's stack. */
static void join_soon(struct gs_thread *thread, bool is_polling)
{
    int err;
    do
        err = gs_thread_join(thread, is_polling ? 0 : GS_NEVER, NULL);
    while (err == -ETIMEDOUT && (gs_thread_yield(), true));
    MUST_EQ(err, 0);
}

/* Depending on the architecture, the storage is below or above the thread pointer. */
static void free_joined(const struct freeing *freeing)
{
    char *memory =
        mmap(NULL, STORAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(memory != MAP_FAILED);
    const struct gs_thread_attributes attributes = {.worker = freeing->worker,
                                                    .migrates = !freeing->worker,
                                                    .thread_pointer =
                                                        new_storage_in(memory + STORAGE_SIZE / 2)};
    struct gs_semaphore semaphore = {.count = 0};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, yield_and_wait, &semaphore, &thread), 0);
    gs_semaphore_post(&semaphore);
    join_soon(thread, freeing->is_polling);
    deallocate(attributes.thread_pointer, false); /* the vector of modules */
    MUST_EQ(munmap(memory, STORAGE_SIZE), 0);
}

static void *free_often(void *freeing)
{
    for (int i = 0; i < FREE_ROUNDS; i++)
        free_joined(freeing);
    return NULL;
}

THREAD(free_in_all)
{
    struct gs_thread *threads[FREEING];
    struct freeing freeing[FREEING];
    for (unsigned i = 0; i < FREEING; i++) {
        const struct gs_thread_attributes attributes = {.worker = 1 + i % FREEING_WORKERS};
        freeing[i] = (struct freeing){.worker = i % 2 ? 1 + (i + 1) % FREEING_WORKERS : 0,
                                      .is_polling = i >= FREEING / 2};
        MUST_EQ(gs_thread_spawn(&attributes, free_often, &freeing[i], &threads[i]), 0);
    }
    for (int i = 0; i < FREEING; i++)
        join(threads[i]);
}

TEST(storage_of_a_thread_may_be_unmapped_when_the_thread_was_joined)
{
    skip_sanitizers();
    if (!has_found_linker())
        SKIP("the dynamic linker cannot create thread-local storage here");
    run_with(FREEING_WORKERS, free_in_all);
}

#ifdef __x86_64__
THREAD(refuse_stack)
{
    static char stack[16384];
    const struct gs_thread_attributes attributes = {
        .stack = stack, .stack_size = sizeof stack, .thread_pointer = stack};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, count_alone, NULL, &thread), -EOPNOTSUPP);
}

TEST(thread_pointer_works_where_the_gs_base_cannot_be_set)
{
    skip_sanitizers();
    bool before = gs_runtime.uses_gsbase;
    gs_runtime.uses_gsbase = false;
    run_both(count_in_all);
    run_with(1, refuse_stack);
    gs_runtime.uses_gsbase = before;
}
#endif

/* ---- Start in a context ---- */

void enter(void);
void entered(uintptr_t first, uintptr_t last, const void *sp);

static char own_stack[32768] __attribute__((aligned(16)));
static bool has_entered;

#ifdef __x86_64__
#define FIRST 0
#define LAST 4
__asm__(".text\n"
        ".globl enter\n"
        "enter:\n"
        "    endbr64\n"
        "    movq %rbx, %rdi\n"
        "    movq %r15, %rsi\n"
        "    movq %rsp, %rdx\n"
        "    call entered\n"
        "    ud2\n");
#else
#define FIRST 0
#define LAST 9
__asm__(".text\n"
        ".globl enter\n"
        "enter:\n"
        "    mov x0, x19\n"
        "    mov x1, x28\n"
        "    mov x2, sp\n"
        "    bl entered\n"
        "    brk 0\n");
#endif

void entered(uintptr_t first, uintptr_t last, const void *sp)
{
    MUST_EQ(first, 11);
    MUST_EQ(last, 22);
    MUST(sp == own_stack + sizeof own_stack);
    gs_thread_yield();
    MUST_EQ(gs_thread_sleep(after(GS_MICROSECOND)), 0);
    has_entered = true;
    gs_thread_exit(own_stack);
}

THREAD(start_in_context)
{
    struct gs_thread_start start = {.pc = (void *)enter, .sp = own_stack + sizeof own_stack};
    start.preserved[FIRST] = 11;
    start.preserved[LAST] = 22;
    const struct gs_thread_attributes attributes = {.start = &start};
    struct gs_thread *thread;
    has_entered = false;
    MUST_EQ(gs_thread_spawn(&attributes, NULL, NULL, &thread), 0);
    MUST(join(thread) == own_stack);
    MUST(has_entered);
}

TEST(thread_starts_in_the_context_that_it_is_given)
{
    skip_sanitizers();
    run_both(start_in_context);
}
