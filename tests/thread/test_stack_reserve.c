/* Pages of free stacks that are moved to private stacks that come back. */
#include "tests/refused_call.h"
#include "tests/thread/forking.h"
#include "tests/thread/stack_away.h"
#include "thread/stack_reserve.h"

#include <fcntl.h>
#include <gossamer/sys.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

enum { LOCALS = 40, MANY = 200, HALF = MANY / 2 };

/* As stack_reserve.c does. */
static bool pages_can_be_moved(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    long fd = gs_syscall(SYS_userfaultfd, O_CLOEXEC | 1, 0, 0, 0, 0, 0);
    bool can = fd >= 0 && !gs_sys_ioctl((int)fd, UFFDIO_API, &api) && api.features >> 16 & 1;
    if (fd >= 0)
        gs_sys_close((int)fd);
    return can;
}

static void skip_if_pages_stay(void)
{
    skip_if_emulated();
    if (!pages_can_be_moved())
        SKIP("the kernel moves no pages, or does not allow it");
    if (GS_ASAN)
        SKIP("variables are on stacks of the sanitizer's own, and those stacks stay");
}

/* ---- Threads ---- */

static bool is_over;
static unsigned rounds[MANY];

/* Its locals are as they were, and where they were, after each wait. */
static void *wait_with_locals(void *number)
{
    volatile uintptr_t locals[LOCALS];
    for (int i = 0; i < LOCALS; i++)
        locals[i] = (uintptr_t)&locals[i] * 3 + (uintptr_t)number;
    while (!is_over) {
        MUST_EQ(gs_thread_park(GS_NEVER), 0);
        for (int i = 0; i < LOCALS; i++)
            MUST_EQ(locals[i], (uintptr_t)&locals[i] * 3 + (uintptr_t)number);
        rounds[(uintptr_t)number]++;
    }
    return number;
}

static void spawn_group(struct gs_thread **threads, uintptr_t first, uintptr_t count)
{
    is_over = false;
    for (uintptr_t i = first; i < first + count; i++)
        threads[i] = spawn_as(&private, wait_with_locals, (void *)i);
}

/* Wake them and wait until each has run. */
static void wake(struct gs_thread **threads, unsigned first, unsigned count)
{
    unsigned before[MANY];
    for (unsigned i = first; i < first + count; i++) {
        before[i] = rounds[i];
        gs_thread_unpark(threads[i]);
    }
    for (unsigned i = first; i < first + count; i++)
        while (rounds[i] == before[i])
            gs_thread_yield();
}

static void end_group(struct gs_thread **threads, unsigned first, unsigned count)
{
    is_over = true;
    for (unsigned i = first; i < first + count; i++)
        gs_thread_unpark(threads[i]);
    for (unsigned i = first; i < first + count; i++)
        join(threads[i]);
    is_over = false;
}

/* ---- Free stacks ---- */

/* Half of the threads are away, and the others have ended. */
static void empty_half(struct gs_thread **threads)
{
    spawn_group(threads, 0, MANY);
    wait_until_away(MANY);
    gs_threads_trim();
    end_group(threads, 0, HALF);
}

static void *take_from_free_stacks(void *unused)
{
    struct gs_thread *threads[MANY];
    empty_half(threads);
    const struct free_list *free = &worker_current()->free[threads[HALF]->stack_class];
    unsigned before = free->count;
    MUST(before > 64);
    wake(threads, HALF, HALF);
    CHECK(free->count <= 64);
    /* Slots without memory are used again. */
    spawn_group(threads, 0, HALF);
    wake(threads, 0, MANY);
    end_group(threads, 0, MANY);
    return unused;
}

TEST(thread_that_comes_back_takes_the_page_of_a_free_stack)
{
    skip_if_pages_stay();
    run_giving_back(1, take_from_free_stacks);
}

static long injected;

static long refuse_ioctl(long number, void *unused)
{
    (void)unused;
    return number == SYS_ioctl ? injected : 0;
}

static void *come_back(void *unused)
{
    struct gs_thread *threads[MANY];
    empty_half(threads);
    wake(threads, HALF, HALF);
    end_group(threads, HALF, HALF);
    return unused;
}

/* ---- What may fail ---- */

TEST(thread_gets_a_new_page_if_the_kernel_moves_none)
{
    skip_if_emulated();
    struct refused_call refused = {SYS_userfaultfd, -EPERM};
    gs_sys_set_fault(refuse_call, &refused);
    run_giving_back(1, come_back);
    gs_sys_set_fault(NULL, NULL);
}

static void move_with_each_error(void)
{
    static const long errors[] = {-EBUSY, -EAGAIN, -EEXIST, -EBADF};
    gs_sys_set_fault(refuse_ioctl, NULL);
    for (unsigned i = 0; i < sizeof errors / sizeof *errors; i++) {
        injected = errors[i];
        run_giving_back(1, come_back);
    }
}

/* The child of a fork shares the pages; the kernel uses one; there is a page; the program has
 * closed the descriptor, which in truth stays open here. */
TEST(thread_comes_back_if_a_page_cannot_be_moved)
{
    skip_if_pages_stay();
    CHECK_EQ(in_child(move_with_each_error), 0);
}

static void *fork_with_free_stacks(void *unused)
{
    int status = 0;
    struct gs_thread *threads[MANY];
    empty_half(threads);
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid) {
        take_from_free_stacks(NULL);
        _exit(7);
    }
    wake(threads, HALF, HALF);
    MUST_EQ(waitpid(pid, &status, 0), pid);
    MUST(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    end_group(threads, HALF, HALF);
    return unused;
}

TEST(child_moves_pages_of_its_own)
{
    if (GS_TSAN || IS_GCC_ASAN)
        return; /* for the reasons in forking.h */
    skip_if_pages_stay();
    run_giving_back(1, fork_with_free_stacks);
}

/* ---- Several workers ---- */

/* Threads of three workers wake the next one of another worker, in turn, and count. */
enum { RING = 48, LAPS = 12 };
static struct gs_thread *ring[RING];
static atomic_uint laps;

static void *pass_on(void *number)
{
    volatile uintptr_t locals[LOCALS];
    for (int i = 0; i < LOCALS; i++)
        locals[i] = (uintptr_t)&locals[i] * 3 + (uintptr_t)number;
    for (int lap = 0; lap < LAPS; lap++) {
        MUST_EQ(gs_thread_park(GS_NEVER), 0);
        for (int i = 0; i < LOCALS; i++)
            MUST_EQ(locals[i], (uintptr_t)&locals[i] * 3 + (uintptr_t)number);
        atomic_fetch_add(&laps, 1);
        if ((uintptr_t)number % 8 == 0)
            MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND / 2)), 0);
        gs_thread_unpark(ring[((uintptr_t)number + 1) % RING]);
    }
    return number;
}

static void *pass_round(void *unused)
{
    atomic_store(&laps, 0);
    for (uintptr_t i = 0; i < RING; i++) {
        struct gs_thread_attributes attributes = {
            .stack_is_private = true, .worker = (unsigned)(i % 4), .migrates = i % 4 == 0};
        ring[i] = spawn_as(&attributes, pass_on, (void *)i);
    }
    for (int i = 0; i < RING; i += 4)
        gs_thread_unpark(ring[i]);
    /* A wake-up that meets another one is lost: so all are woken until each has made its laps. */
    while (atomic_load(&laps) < RING * LAPS) {
        for (int i = 0; i < RING; i++)
            gs_thread_unpark(ring[i]);
        MUST_EQ(gs_thread_sleep(after(3 * GS_MILLISECOND)), 0);
    }
    for (int i = 0; i < RING; i++)
        join(ring[i]);
    return unused;
}

TEST(workers_have_reserves_of_their_own)
{
    skip_if_emulated();
    run_giving_back(3, pass_round);
}
