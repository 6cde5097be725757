/* What a call finds out about the file of a number, its kind and whether it blocks, while another
 * worker closes the number, and the number gets another file. The linker wraps the system calls, so
 * that each of these schedules is exact. */
#include "tests/thread/fixture.h"
#include "thread/io/blocking_mode.h"

#include <sys/eventfd.h>

static int number = -1; /* of the old file, then of the other one */
static void (*before_close)(void), (*after_close)(void), (*after_look)(void);

int __real_gs_sys_close(int fd);
int __wrap_gs_sys_close(int fd);
int __wrap_gs_sys_close(int fd)
{
    bool is_watched = fd == number;
    if (is_watched && before_close)
        before_close();
    int err = __real_gs_sys_close(fd);
    if (is_watched && after_close)
        after_close();
    return err;
}

int __real_gs_sys_fstat(int fd, struct stat *stat);
int __wrap_gs_sys_fstat(int fd, struct stat *stat);
int __wrap_gs_sys_fstat(int fd, struct stat *stat)
{
    int err = __real_gs_sys_fstat(fd, stat);
    if (fd == number && after_look)
        after_look();
    return err;
}

int __real_gs_sys_fcntl(int fd, int command, long argument);
int __wrap_gs_sys_fcntl(int fd, int command, long argument);
int __wrap_gs_sys_fcntl(int fd, int command, long argument)
{
    int result = __real_gs_sys_fcntl(fd, command, argument);
    if (fd == number && command == F_GETFL && after_look)
        after_look();
    return result;
}

/* The steps of a schedule, which each wait for another one. */
static atomic_bool is_closing, has_looked, is_free, is_closing_next, is_reused, is_closed;

static void await(atomic_bool *step)
{
    while (!atomic_load(step))
        sched_yield();
}

static void forget_steps(void)
{
    atomic_bool *const steps[] = {&is_closing,      &has_looked, &is_free,
                                  &is_closing_next, &is_reused,  &is_closed};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        atomic_store(steps[i], false);
    before_close = after_close = after_look = NULL;
}

static struct gs_thread *spawn_on_other_worker(gs_thread_fn *fn)
{
    const struct gs_thread_attributes attributes = {.worker = 2};
    struct gs_thread *thread = NULL;
    MUST_EQ(gs_thread_spawn(&attributes, fn, NULL, &thread), 0);
    return thread;
}

static void give_number_to(int other)
{
    MUST_EQ(fcntl(other, F_DUPFD_CLOEXEC, number), number);
}

/* ---- What is found out is out of date when it is to be kept ---- */

static enum descriptor_kind find_kind(void)
{
    return gs_descriptor_kind(gs_descriptor(number), number);
}

static bool find_whether_it_blocks(void)
{
    const struct opened file = opened(number);
    return gs_opened_is_in_blocking_mode(&file);
}

static void hold_look(void)
{
    after_look = NULL;
    atomic_store(&has_looked, true);
    await(&is_reused);
}

static void let_look(void)
{
    before_close = NULL;
    atomic_store(&is_closing, true);
    await(&has_looked);
}

static bool looks_for_kind, begins_before_close;

static void *look(void *unused)
{
    if (!begins_before_close)
        await(&is_closing);
    after_look = hold_look;
    if (looks_for_kind)
        MUST_EQ(find_kind(), KIND_POLLABLE);
    else
        MUST(!find_whether_it_blocks());
    return unused;
}

/* The old file is a counter of events that does not block, the other one an ordinary file. */
THREAD(look_during_close)
{
    int other = memfd_create("other", MFD_CLOEXEC);
    forget_steps();
    number = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    MUST(other >= 0 && number >= 0);
    struct gs_thread *looking = spawn_on_other_worker(look);
    if (begins_before_close)
        await(&has_looked);
    else
        before_close = let_look;
    MUST_EQ(gs_close(number), 0);
    give_number_to(other);
    atomic_store(&is_reused, true);
    join(looking);
    MUST_EQ(find_kind(), KIND_REGULAR);
    MUST(find_whether_it_blocks());
    MUST_EQ(gs_close(number), 0);
    MUST_EQ(gs_close(other), 0);
}

static void look_for_both(bool begins_before)
{
    begins_before_close = begins_before;
    looks_for_kind = true;
    run_unwatched(2, look_during_close);
    looks_for_kind = false;
    run_unwatched(2, look_during_close);
}

TEST(what_is_found_out_during_a_close_is_not_kept_for_the_next_file)
{
    look_for_both(false);
}

TEST(what_is_found_out_before_a_close_is_not_kept_for_the_next_file)
{
    look_for_both(true);
}

/* ---- The next file is closed before the close of the old one has ended ---- */

static int next;

static void let_close_next(void)
{
    after_close = NULL;
    atomic_store(&is_free, true);
    await(&is_closing_next);
}

static void look_at_next(void)
{
    before_close = NULL;
    atomic_store(&is_closing_next, true);
    await(&is_closed);
    MUST_EQ(find_kind(), KIND_REGULAR);
    MUST_EQ(atomic_load(&gs_descriptor(number)->kind), KIND_CLOSING);
}

THREAD(close_next)
{
    await(&is_free);
    give_number_to(next);
    before_close = look_at_next;
    MUST_EQ(gs_close(number), 0);
}

THREAD(close_twice)
{
    forget_steps();
    next = memfd_create("next", MFD_CLOEXEC);
    number = eventfd(0, EFD_CLOEXEC);
    struct gs_thread *closing = spawn_on_other_worker(close_next);
    after_close = let_close_next;
    MUST_EQ(gs_close(number), 0);
    atomic_store(&is_closed, true);
    join(closing);
    MUST_EQ(atomic_load(&gs_descriptor(number)->kind), KIND_UNKNOWN);
    MUST_EQ(gs_close(next), 0);
}

TEST(close_that_ends_during_the_close_of_the_next_file_leaves_it_marked)
{
    run_unwatched(2, close_twice);
}
