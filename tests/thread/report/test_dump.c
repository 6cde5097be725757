#include "tests/thread/report/report.h"
#include "thread/report/report.h"

static atomic_bool is_spinning, may_end;

/* Called in the child process. There is no monitor, whose reports could come between the lines of a
 * dump. */
static void run_dumping(unsigned workers, gs_thread_fn *first, int fd)
{
    const struct gs_threads_options options = {
        .workers = workers, .report_fd = fd, .dump_signal = SIGUSR2, .stuck_ns = GS_NEVER};
    if (gs_threads_run(&options, first, NULL, NULL))
        _exit(3);
}

static void *park_here(void *unused)
{
    park_below(2);
    return unused;
}

static void *do_nothing(void *unused)
{
    return unused;
}

/* The dump shows a waiting thread, one that has not started, and the calling one. */
static void *dump(void *unused)
{
    struct gs_thread *waiting = spawn_named("sleeper", park_here, NULL);
    gs_thread_yield();
    struct gs_thread *fresh = spawn_named("new", do_nothing, NULL);
    gs_threads_dump(report_out);
    gs_thread_unpark(waiting);
    join(waiting);
    join(fresh);
    return unused;
}

/* A function for a child process. */
#define RUN(name_, ...)                                                                            \
    static void name_(void)                                                                        \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }

RUN(dump_by_call, run_dumping(1, dump, report_out))

TEST(dump_names_what_each_thread_waits_for_and_its_calls)
{
    CHECK_EQ(in_child(dump_by_call), 0);
    CHECK_REPORTED("^thread 0x[0-9a-f]+ \"sleeper\": has waited [0-9.]+ ms for park, "
                   "[0-9]+ bytes of stack$");
    CHECK_REPORTED("^ +park_below \\(test_thread_dump\\+0x[0-9a-f]+\\)\n +park_below \\(.*\n +"
                   "park_below \\(.*\n +park_here \\(");
    CHECK_REPORTED("^thread 0x[0-9a-f]+ \"first\": runs on worker 1\n +dump \\(");
    CHECK_REPORTED("\"new\": is about to start\n +do_nothing \\(test_thread_dump\\+0x");
}

static void *dump_when_all_have_ended(void *unused)
{
    static char stack[1 << 16] __attribute__((aligned(64)));
    const struct gs_thread_attributes own = {
        .stack = stack, .stack_size = sizeof stack, .name = "on own stack"};
    struct gs_thread *threads[2] = {spawn_named("of the library", do_nothing, NULL)};
    MUST_EQ(gs_thread_spawn(&own, do_nothing, NULL, &threads[1]), 0);
    gs_thread_yield();
    gs_threads_dump(report_out);
    join(threads[0]);
    join(threads[1]);
    return unused;
}

RUN(dump_ended, run_dumping(1, dump_when_all_have_ended, report_out))

TEST(threads_that_have_ended_are_not_dumped)
{
    CHECK_EQ(in_child(dump_ended), 0);
    CHECK_REPORTED("\"first\": runs on worker 1\n");
    CHECK(!strstr(report, "own stack"));
    CHECK(!strstr(report, "of the library"));
}

/* With a variable on the stack, the function has a frame while it spins; without one, clang creates
 * the frame only around the call. */
__attribute__((noinline)) static void spin_below(int depth)
{
    volatile int below = depth;
    if (below)
        spin_below(below - 1);
    atomic_store(&is_spinning, true);
    while (!atomic_load(&may_end))
        ;
    __asm__ volatile("");
}

static void *spin(void *unused)
{
    spin_below(2);
    return unused;
}

static void *dump_others(void *unused)
{
    const struct gs_thread_attributes attributes = {.name = "busy", .worker = 2},
                                      other = {.name = "distant", .worker = 2};
    struct gs_thread *busy, *distant;
    MUST_EQ(gs_thread_spawn(&other, park_here, NULL, &distant), 0);
    MUST_EQ(gs_thread_spawn(&attributes, spin, NULL, &busy), 0);
    while (!atomic_load(&is_spinning))
        gs_thread_yield();
    gs_threads_dump(report_out);
    atomic_store(&may_end, true);
    gs_thread_unpark(distant);
    join(distant);
    join(busy);
    return unused;
}

RUN(dump_several, run_dumping(2, dump_others, report_out))

TEST(dump_shows_the_threads_of_other_workers)
{
    CHECK_EQ(in_child(dump_several), 0);
    CHECK_REPORTED("\"busy\": runs on worker 2, (computing$|in )");
    CHECK_REPORTED("\"distant\": has waited [0-9.]+ ms for park, ");
    CHECK_REPORTED("^ +park_here \\(");
    CHECK_REPORTED("\"first\": runs on worker 1\n +dump_others \\(");
}

static int never[2];

static void *read_for_long(void *unused)
{
    char byte;
    atomic_store(&is_spinning, true);
    MUST_EQ(read(never[0], &byte, 1), 1);
    return unused;
}

/* Returns whether the kernel thread sleeps in its system call. */
static bool is_asleep(pid_t kernel_thread)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", kernel_thread);
    FILE *file = fopen(path, "r");
    MUST(file);
    MUST(fgets(text, sizeof text, file));
    fclose(file);
    return strstr(text, ") S");
}

static atomic_int reader_id;

static void *read_here(void *unused)
{
    atomic_store(&reader_id, gettid());
    return read_for_long(unused);
}

static void *dump_reader(void *unused)
{
    const struct gs_thread_attributes attributes = {.name = "reader", .worker = 2};
    struct gs_thread *reader;
    MUST_EQ(pipe(never), 0);
    MUST_EQ(gs_thread_spawn(&attributes, read_here, NULL, &reader), 0);
    while (!atomic_load(&is_spinning) || !is_asleep(atomic_load(&reader_id)))
        gs_thread_yield();
    gs_threads_dump(report_out);
    MUST_EQ(write(never[1], "", 1), 1);
    join(reader);
    return unused;
}

RUN(dump_in_call, run_dumping(2, dump_reader, report_out))

TEST(dump_names_the_system_call_of_a_thread_and_does_not_end_it)
{
    if (IS_EMULATED)
        return; /* the kernel shows the system calls of the emulator */
    CHECK_EQ(in_child(dump_in_call), 0);
    CHECK_REPORTED("\"reader\": runs on worker 2, in (system call read|a system call)$");
}

static int dumps; /* a file in memory */

/* The only worker writes the dump: it is complete when this thread finds any of it. */
static void *cancel_when_dumped(void *sleeping)
{
    char byte;
    while (pread(dumps, &byte, 1, 0) != 1)
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    gs_thread_cancel(sleeping);
    return NULL;
}

static void *signal_itself(void *unused)
{
    struct gs_thread *waiting = spawn_named("sleeper", park_here, NULL);
    struct gs_thread *canceler = spawn_named("canceler", cancel_when_dumped, gs_thread_self());
    kill(getpid(), SIGUSR2);
    MUST_EQ(gs_thread_sleep(after(60 * GS_SECOND)), -ECANCELED);
    gs_thread_set_cancelable(false);
    gs_thread_unpark(waiting);
    join(waiting);
    join(canceler);
    return unused;
}

static void dump_by_signal(void)
{
    dumps = memfd_create("dumps", MFD_CLOEXEC);
    if (dumps < 0)
        _exit(3);
    run_dumping(1, signal_itself, dumps);
    ssize_t n = pread(dumps, report, sizeof report - 1, 0);
    if (n < 1 || write(report_out, report, (size_t)n) != n)
        _exit(3);
}

TEST(dump_is_written_on_a_signal)
{
    CHECK_EQ(in_child(dump_by_signal), 0);
    CHECK_REPORTED("\"first\": has waited [0-9.]+ ms for sleep, .*\n(.*\n)* +signal_itself \\(");
    CHECK_REPORTED("^ +park_here \\(");
}

/* Threads of several workers start, end, wait and are woken meanwhile. */
static void *start_and_end(void *mutex)
{
    const struct gs_thread_attributes brief = {.name = "brief"};
    struct gs_thread *thread;
    for (int i = 0; i < 50; i++) {
        MUST_EQ(gs_thread_spawn(&brief, do_nothing, NULL, &thread), 0);
        join(thread);
        MUST_EQ(gs_mutex_lock(mutex, GS_NEVER), 0);
        gs_thread_yield();
        gs_mutex_unlock(mutex);
    }
    return NULL;
}

static void *dump_often(void *unused)
{
    static struct gs_mutex mutex;
    const struct gs_thread_attributes attributes = {.name = "busy", .migrates = true};
    struct gs_thread *threads[8];
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 8; i++)
            MUST_EQ(gs_thread_spawn(&attributes, start_and_end, &mutex, &threads[i]), 0);
        for (int i = 0; i < 4; i++) {
            gs_threads_dump(report_out);
            gs_thread_yield();
        }
        for (int i = 0; i < 8; i++)
            join(threads[i]);
    }
    return unused;
}

RUN(dump_moving, run_dumping(3, dump_often, report_out))

TEST(threads_may_move_while_they_are_dumped)
{
    CHECK_EQ(in_child(dump_moving), 0);
    CHECK_REPORTED("\"first\": runs on worker 1");
}

/* ---- While nobody reads the dump ---- */

static atomic_bool is_unread, is_joined;

static void *spin_on_own_stack(void *unused)
{
    spin_below(22);
    return unused;
}

static void spawn_with_stack(void *stack, size_t size, void *(*fn)(void *), unsigned worker,
                             struct gs_thread **ret_thread)
{
    const struct gs_thread_attributes own = {.worker = worker, .stack = stack, .stack_size = size};
    MUST_EQ(gs_thread_spawn(&own, fn, NULL, ret_thread), 0);
}

static void *spawn_meanwhile(void *unused)
{
    static char stack[1 << 16] __attribute__((aligned(64)));
    struct gs_thread *thread;
    while (!atomic_load(&is_unread))
        gs_thread_sleep(after(GS_MILLISECOND));
    spawn_with_stack(stack, sizeof stack, do_nothing, 3, &thread);
    join(thread);
    atomic_store(&is_joined, true);
    return unused;
}

static void *dump_to_a_pipe_that_is_full(void *fd)
{
    static char stack[1 << 16] __attribute__((aligned(64)));
    const struct gs_thread_attributes on_third = {.worker = 3};
    struct gs_thread *spinning, *spawning;
    spawn_with_stack(stack, sizeof stack, spin_on_own_stack, 2, &spinning);
    MUST_EQ(gs_thread_spawn(&on_third, spawn_meanwhile, NULL, &spawning), 0);
    while (!atomic_load(&is_spinning))
        gs_thread_yield();
    gs_threads_dump((int)(intptr_t)fd);
    atomic_store(&may_end, true);
    join(spinning);
    join(spawning);
    close((int)(intptr_t)fd);
    return NULL;
}

/* Reads nothing until a thread with a stack of the program's own has started and ended. */
static void *read_late(void *fd)
{
    char bytes[4096];
    while (recv((int)(intptr_t)fd, bytes, sizeof bytes, MSG_PEEK) < 0)
        continue;
    usleep(100000);
    atomic_store(&is_unread, true);
    for (int i = 0; i < 20000 && !atomic_load(&is_joined); i++)
        usleep(1000);
    bool was_joined = atomic_load(&is_joined);
    while (recv((int)(intptr_t)fd, bytes, sizeof bytes, 0) > 0)
        continue;
    return was_joined ? fd : NULL;
}

TEST(dump_that_nobody_reads_keeps_no_thread_from_starting_or_ending)
{
    const struct gs_threads_options options = {.workers = 3};
    int fds[2], size = 1;
    void *was_joined;
    pthread_t reader;
    atomic_store(&is_spinning, false);
    atomic_store(&may_end, false);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
    CHECK_EQ(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
    CHECK_EQ(pthread_create(&reader, NULL, read_late, (void *)(intptr_t)fds[1]), 0);
    CHECK_EQ(gs_threads_run(&options, dump_to_a_pipe_that_is_full, (void *)(intptr_t)fds[0], NULL),
             0);
    CHECK_EQ(pthread_join(reader, &was_joined), 0);
    CHECK(was_joined);
    close(fds[1]);
}

/* ---- Groups ---- */

static struct gs_semaphore semaphore;
static int socket_pair[2];

static void *wait_for_semaphore(void *unused)
{
    MUST_EQ(gs_semaphore_wait(&semaphore, GS_NEVER), 0);
    return unused;
}

static void *receive(void *fd)
{
    char byte;
    MUST_EQ(gs_recv((int)(intptr_t)fd, &byte, 1, 0, GS_NEVER), 0);
    return NULL;
}

static void *receive_locally(void *fd)
{
    char byte;
    MUST_EQ(gs_recv((int)(intptr_t)fd, &byte, 1, 0, GS_NEVER), 0);
    return fd;
}

enum { MANY = 1000 };

/* Returns a connected TCP socket; *ret_client is the other end. */
static int connect_to_itself(int *ret_client, unsigned *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    *ret_client = socket(AF_INET, SOCK_STREAM, 0);
    MUST_EQ(bind(listener, (struct sockaddr *)&address, length), 0);
    MUST_EQ(listen(listener, 1), 0);
    MUST_EQ(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    MUST_EQ(connect(*ret_client, (struct sockaddr *)&address, length), 0);
    int fd = accept(listener, NULL, NULL);
    MUST_EQ(getsockname(*ret_client, (struct sockaddr *)&address, &length), 0);
    *ret_port = ntohs(address.sin_port);
    close(listener);
    return fd;
}

static unsigned client_port;
static int served;

static void *dump_many(void *unused)
{
    struct gs_thread *threads[MANY], *receivers[2];
    int client;
    served = connect_to_itself(&client, &client_port);
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, socket_pair), 0);
    for (int i = 0; i < MANY; i++)
        threads[i] = spawn_named("one of many", wait_for_semaphore, NULL);
    receivers[0] = spawn_named("tcp", receive, (void *)(intptr_t)served);
    receivers[1] = spawn_named("unix", receive_locally, (void *)(intptr_t)socket_pair[0]);
    MUST_EQ(gs_thread_sleep(after(20 * GS_MILLISECOND)), 0);
    gs_report_printf(report_out, "served %d, port %u\n", served, client_port);
    gs_threads_dump(report_out);
    close(client);
    close(socket_pair[1]);
    for (int i = 0; i < MANY; i++)
        gs_semaphore_post(&semaphore);
    for (int i = 0; i < MANY; i++)
        join(threads[i]);
    for (int i = 0; i < 2; i++)
        join(receivers[i]);
    return unused;
}

RUN(dump_a_thousand, run_dumping(1, dump_many, report_out))

static int lines_of_report(void)
{
    int count = 0;
    for (const char *at = report; (at = strchr(at, '\n')); at++)
        count++;
    return count;
}

TEST(threads_that_wait_in_the_same_place_are_one_group)
{
    char expected[160];
    unsigned port = 0;
    int fd = -1;
    CHECK_EQ(in_child(dump_a_thousand), 0);
    CHECK_REPORTED("^1002 threads do not run, in 3 groups\n1000 threads like this one, which "
                   "has waited longest:\nthread 0x[0-9a-f]+ \"one of many\": has waited [0-9.]+ ms "
                   "for semaphore at 0x[0-9a-f]+, [0-9]+ bytes of stack\n");
    CHECK_REPORTED("^served ");
    CHECK_EQ(sscanf(strstr(report, "served "), "served %d, port %u", &fd, &port), 2);
    snprintf(expected, sizeof expected,
             "\"tcp\": has waited .* at descriptor %d, peer 127.0.0.1:%u, ", fd, port);
    CHECK_REPORTED(expected);
    CHECK_REPORTED("\"unix\": has waited .* at descriptor [0-9]+, a Unix socket, [0-9]+ bytes");
    CHECK(lines_of_report() < 40);
}

/* The library's functions begin with gs_, or are static. */
TEST(dump_shows_of_the_newest_calls_in_the_library_only_the_function_that_waits)
{
    CHECK_EQ(in_child(dump_a_thousand), 0);
    CHECK_REPORTED("for semaphore .*\n( +gs_semaphore_wait \\(.*\n)? +wait_for_semaphore \\(");
    CHECK_REPORTED("\"unix\": .*\n( +gs_recv \\(.*\n)? +receive_locally \\(");
    CHECK(!strstr(report, "gs_descriptor"));
    CHECK_EQ(in_child(dump_by_signal), 0);
    CHECK_REPORTED("for sleep, .*\n +gs_thread_sleep \\(.*\n +signal_itself \\(");
}

/* As many different stacks as threads, by their depth: the memory for groups is limited. */
static void *park_at_depth(void *depth)
{
    park_below((int)(intptr_t)depth);
    return NULL;
}

enum { DEPTHS = 300 };

static void *dump_different(void *unused)
{
    const struct gs_thread_attributes attributes = {.stack_size = (size_t)256 << 10};
    struct gs_thread *threads[DEPTHS];
    for (int i = 0; i < DEPTHS; i++)
        MUST_EQ(gs_thread_spawn(&attributes, park_at_depth, (void *)(intptr_t)i, &threads[i]), 0);
    gs_thread_yield();
    gs_threads_dump(report_out);
    for (int i = 0; i < DEPTHS; i++) {
        gs_thread_unpark(threads[i]);
        join(threads[i]);
    }
    return unused;
}

RUN(dump_beyond_the_limit, run_dumping(1, dump_different, report_out))

TEST(dump_counts_the_threads_for_which_there_is_no_group_left)
{
    CHECK_EQ(in_child(dump_beyond_the_limit), 0);
    CHECK_REPORTED("^300 threads do not run, in 255 groups$");
    CHECK_REPORTED("^45 threads more are in other groups$");
    CHECK_REPORTED("^      \\.\\.\\. [0-9]+ more$");
}
