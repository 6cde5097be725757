/* Every call that waits: with a duration in place of its deadline, and by a thread that shares its
 * stack. This library makes such a stack inaccessible while the thread waits, and so finds anything
 * of the call that others use. Headers are read for calls that are missing here. */
#include "tests/thread/checked/call_rows.h"
#include "tests/thread/checked/misuse.h"

#define SPAN (5 * GS_SECOND)

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return atomic_exchange(&is_exhausted, false) ? NULL : __real_malloc(size);
}

/* ---- With the stack inaccessible ---- */

/* Until the worker has left the stack. */
static void await_protection(void)
{
    for (int i = 0; i < 1000 && !atomic_load(&waiter->is_protected); i++)
        usleep(10);
}

static void do_nothing(void)
{
}

static void *run_protected(void *unused)
{
    run_rows(do_nothing);
    return unused;
}

static void run_all_protected(void)
{
    await_disturbance = await_protection;
    run_all(run_protected);
}

TEST(no_wait_leaves_anything_on_a_shared_stack_that_others_use)
{
    if (IS_EMULATED)
        SKIP("an emulator makes the system calls");
    int status = in_child(run_all_protected);
    CHECK_STR(report, "");
    CHECK_EQ(status, 0);
}

/* ---- Without memory for what others use ---- */

static void *run_exhausted(void *unused)
{
    static bool yes = true;
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].records == NONE)
            continue;
        start_row(&rows[i], &yes);
        gs_thread_yield();
        if (!atomic_load(&is_finished))
            fail("it has waited");
        finish_row(&rows[i]);
    }
    return unused;
}

static void run_all_exhausted(void)
{
    await_disturbance = do_nothing;
    open_all();
    gs_sys_set_fault(before_system_call, NULL);
    run(1, run_exhausted);
    unlink(fifo);
}

TEST(wait_fails_if_there_is_no_memory_for_what_others_use)
{
    if (IS_EMULATED)
        SKIP("an emulator makes the system calls");
    int status = in_child(run_all_exhausted);
    CHECK_STR(report, "");
    CHECK_EQ(status, 0);
}

/* ---- Durations that are given as deadlines ---- */

static const struct row *tested;

static void *call_with_span(void *unused)
{
    call_end_ns = SPAN;
    start_row(tested, NULL);
    gs_thread_yield();
    return unused;
}

static void run_call_with_span(void)
{
    open_all();
    unlink(fifo);
    run(1, call_with_span);
}

static bool has_deadline(const struct row *row)
{
    return row->call != call_once && row->call != call_http_serve;
}

TEST(a_duration_is_no_deadline)
{
    if (gs_clock_now() < 4 * SPAN) /* what is found depends on how long the machine has run */
        SKIP("the machine was booted less than 20 s ago");
    for (tested = rows; tested < rows + ROWS; tested++) {
        char function[64];
        if (!has_deadline(tested))
            continue;
        snprintf(function, sizeof function, "%.*s", (int)strcspn(tested->name, " ,"), tested->name);
        CHECK_STOPPED(
            run_call_with_span, function,
            "the deadline 5.000000 s is long before the start of the program: a duration, "
            "without gs_clock_now\\(\\)\\?");
    }
}

THREAD_TEST(deadlines_of_0_and_in_the_past_are_deadlines, run_both)
{
    semaphore.count = 1;
    MUST_EQ(gs_semaphore_wait(&semaphore, 0), 0);
    MUST_EQ(gs_semaphore_wait(&semaphore, 0), -ETIMEDOUT);
    MUST_EQ(gs_semaphore_wait(&semaphore, 1), -ETIMEDOUT);
    MUST_EQ(gs_semaphore_wait(&semaphore, gs_clock_now()), -ETIMEDOUT);
    MUST_EQ(gs_semaphore_wait(&semaphore, gs_clock_now() - GS_MILLISECOND), -ETIMEDOUT);
    MUST_EQ(gs_semaphore_wait(&semaphore, after(GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
}

/* ---- Calls that are missing in the table ---- */

static const char *const same[] = {
    "gs_http_upgraded_recv",     /* of gs_recv */
    "gs_http_upgraded_send_all", /* of gs_send_all */
    "gs_mutex_lock_slow",        /* of gs_mutex_lock */
    "gs_writer_vprintf",         /* of gs_writer_printf */
};

static bool is_known(const char *name)
{
    for (int i = 0; i < ROWS; i++)
        if (!strcmp(rows[i].name, name))
            return true;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (!strcmp(same[i], name))
            return true;
    return false;
}

/* A declaration begins with GS_API and ends with a semicolon. Returns how many there are that
 * wait. */
static int look_up_calls(char *text)
{
    int found = 0;
    for (char *at = strtok(text, ";"); at; at = strtok(NULL, ";")) {
        char *start = strstr(at, "\nGS_API"), *name = start ? strstr(start, "gs_") : NULL;
        while (name && name[strspn(name, "abcdefghijklmnopqrstuvwxyz_0123456789")] != '(')
            name = strstr(name + 3, "gs_");
        if (!name || !strstr(name, "uint64_t deadline_ns"))
            continue;
        name[strcspn(name, "(")] = 0;
        found++;
        if (!is_known(name))
            TEST_FAIL("%s is missing in call_rows.h", name);
    }
    return found;
}

TEST(every_call_with_a_deadline_is_in_the_table)
{
    const char *const headers[] = {"buffered", "http_server", "io",   "net",
                                   "process",  "scope",       "sync", "thread"};
    int found = 0;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        static char text[1 << 17];
        char path[512];
        snprintf(path, sizeof path, "%s/%s.h", GS_HEADERS, headers[i]);
        FILE *header = fopen(path, "r");
        CHECK(header != NULL);
        text[fread(text, 1, sizeof text - 1, header)] = 0;
        fclose(header);
        found += look_up_calls(text);
    }
    CHECK(found > 40);
}
