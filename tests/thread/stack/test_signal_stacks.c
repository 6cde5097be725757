/* Signals that arrive while threads run whose stacks have no room for a handler. */
#include "tests/thread/stack/overflow.h"
#include "thread/stack/stacks.h"

#include <sys/auxv.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

/* Less than a frame of the kernel's where there is AVX-512, and enough for the calls here. */
#define ROOM 3000

enum { SIGNALS = 60, OWN_STACK = 32 << 10, TIDS = 8 };

static atomic_bool is_finished;
static atomic_int tids[TIDS]; /* of the workers */

/* Call fn when no more than ROOM bytes of the stack are left. Sanitizers need the rest. */
__attribute__((noinline)) static void fill_stack(void (*fn)(void), volatile char *above)
{
    volatile char bytes[256];
    bytes[0] = above ? *above : 0;
    if (GS_ASAN || GS_TSAN || (const char *)&bytes[0] - gs_stack_bottom(thread_current()) < ROOM)
        fn();
    else
        fill_stack(fn, bytes);
    bytes[255] = bytes[0];
}

static void compute(void)
{
    uint64_t end_ns = after(50 * GS_MICROSECOND);
    while (gs_clock_now() < end_ns)
        atomic_store(&tids[worker_current()->index], atomic_load(&worker_current()->tid));
}

static void *compute_there(void *unused)
{
    compute();
    return unused;
}

static void do_everything(void)
{
    while (!atomic_load(&is_finished)) {
        compute();
        gs_thread_yield();
        MUST_EQ(gs_thread_park(after(20 * GS_MICROSECOND)), -ETIMEDOUT);
        MUST_EQ(gs_thread_sleep(after(20 * GS_MICROSECOND)), 0);
        gs_thread_call_on_worker_stack(compute_there, NULL);
    }
}

static void *fill_and_do_everything(void *unused)
{
    fill_stack(do_everything, NULL);
    return unused;
}

/* With a page below that must not be touched. */
static void *new_stack(void)
{
    char *memory =
        mmap(NULL, OWN_STACK + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(memory != MAP_FAILED && !mprotect(memory, 4096, PROT_NONE));
    return memory + 4096;
}

static void *send_signals(void *unused)
{
    for (unsigned i = 0; !atomic_load(&is_finished); i++) {
        int tid = atomic_load(&tids[i % TIDS]);
        if (tid)
            gs_syscall(SYS_tgkill, getpid(), tid, SIGUSR1, 0, 0, 0);
        usleep(i % TIDS ? 0 : 20);
    }
    return unused;
}

static void *receive_signals(void *unused)
{
    const struct gs_thread_attributes kinds[] = {
        {.name = "usual"},
        {.name = "large", .stack_size = 256 << 10},
        {.name = "mobile", .migrates = true},
        {.name = "shared", .stack_is_shared = true},
        {.name = "own", .stack = new_stack(), .stack_size = OWN_STACK},
    };
    enum { KINDS = sizeof kinds / sizeof *kinds };
    struct gs_thread *threads[KINDS];
    pthread_t sender;
    for (int i = 0; i < KINDS; i++)
        MUST_EQ(gs_thread_spawn(&kinds[i], fill_and_do_everything, NULL, &threads[i]), 0);
    MUST_EQ(pthread_create(&sender, NULL, send_signals, NULL), 0);
    for (int i = 0; i < SIGNALS; i++)
        MUST_EQ(gs_wait_signal(SIGUSR1, GS_NEVER), 0);
    atomic_store(&is_finished, true);
    MUST_EQ(pthread_join(sender, NULL), 0);
    for (int i = 0; i < KINDS; i++)
        join(threads[i]);
    return unused;
}

static unsigned workers;

static void run_receiving(void)
{
    signal(SIGUSR1, SIG_IGN); /* between two waits */
    const struct gs_threads_options options = {.workers = workers, .report_fd = report_out};
    MUST_EQ(gs_threads_run(&options, receive_signals, NULL, NULL), 0);
}

TEST(handlers_of_the_library_run_on_no_stack_of_a_thread)
{
    for (workers = 1; workers < 4; workers += 2)
        CHECK_EQ(in_child(run_receiving), 0);
    CHECK_STR(report, "");
}

/* ---- A handler of the program's ---- */

static void do_nothing(int number)
{
    (void)number;
}

static void raise_without_room(void)
{
    raise(SIGUSR1);
    _exit(4);
}

static void *fill_and_raise(void *unused)
{
    fill_stack(raise_without_room, NULL);
    return unused;
}

static void *run_crowded(void *unused)
{
    join(spawn_named("crowded", fill_and_raise, NULL));
    return unused;
}

static void run_without_alternate_stack(void)
{
    signal(SIGUSR1, do_nothing);
    run_reporting(1, run_crowded, 0);
}

static void handle_segv(int number)
{
    (void)number;
    _exit(7);
}

static void run_with_handler_of_segv(void)
{
    signal(SIGSEGV, handle_segv);
    run_without_alternate_stack();
}

TEST(signal_that_a_stack_has_no_room_for_is_named_and_not_lost)
{
    if (GS_ASAN || GS_TSAN)
        return; /* they have handlers, and stacks, of their own */
    if (getauxval(AT_MINSIGSTKSZ) < ROOM)
        SKIP("the frames of this processor are small");
    int status = in_child(run_without_alternate_stack);
    CHECK(is_segv(status));
    CHECK_REPORTED("^signal without SA_ONSTACK: no room for its handler on the stack of thread "
                   "\"crowded\"$");
    CHECK_REPORTED("^ +raise_without_room \\(");
    CHECK(!is_reported("stack overflow"));
    status = in_child(run_with_handler_of_segv);
    CHECK_EQ(WEXITSTATUS(status), 7);
}
