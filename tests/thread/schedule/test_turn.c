/* Fairness of I/O: a thread whose calls never need to wait does not keep its worker. */
#include "tests/thread/fixture.h"
#include "thread/context/sanitizer.h"

#define RUN_NS (200 * GS_MILLISECOND)
#define SLEEP_NS GS_MILLISECOND
/* Times at which the sleeper must have been awake while the other thread ran. Of 200 that are
 * possible, a machine that is busy or instrumented reaches some. */
#define AWAKE_MIN 5

static atomic_bool is_over;
static atomic_uint awake, ran;
static int pair[2];

THREAD(sleep_often)
{
    while (!atomic_load(&is_over)) {
        MUST_EQ(gs_thread_sleep(gs_clock_now() + SLEEP_NS), 0);
        atomic_fetch_add(&awake, 1);
    }
}

THREAD(count_turns)
{
    while (!atomic_load(&is_over)) {
        atomic_fetch_add(&ran, 1);
        gs_thread_yield();
    }
}

static void connect_pair(void)
{
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
}

static void close_pair(void)
{
    gs_close(pair[0]);
    gs_close(pair[1]);
}

/* The time that the only worker has had a processor for: others may use the machine, too. */
static uint64_t ran_ns(void)
{
    struct timespec time;
    MUST_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time), 0);
    return (uint64_t)time.tv_sec * GS_SECOND + (uint64_t)time.tv_nsec;
}

static void work_for_a_while(void (*work)(void))
{
    const uint64_t end_ns = ran_ns() + RUN_NS;
    while (ran_ns() < end_ns)
        work();
}

/* Call `work` for RUN_NS beside a thread that sleeps, and one that is always ready. */
static void run_beside(void (*work)(void))
{
    atomic_store(&is_over, false);
    atomic_store(&awake, 0);
    atomic_store(&ran, 0);
    struct gs_thread *sleeper = spawn(sleep_often, NULL);
    gs_thread_yield();
    work_for_a_while(work);
    unsigned awake_meanwhile = atomic_load(&awake);
    struct gs_thread *other = spawn(count_turns, NULL);
    work_for_a_while(work);
    unsigned ran_meanwhile = atomic_load(&ran);
    atomic_store(&is_over, true);
    MUST_EQ(gs_thread_join(sleeper, GS_NEVER, NULL), 0);
    MUST_EQ(gs_thread_join(other, GS_NEVER, NULL), 0);
    MUST(awake_meanwhile >= AWAKE_MIN);
    MUST(ran_meanwhile >= AWAKE_MIN);
}

static void send_and_receive(void)
{
    char bytes[100] = {0};
    MUST_EQ(gs_send(pair[0], bytes, sizeof bytes, 0, GS_NEVER), sizeof bytes);
    MUST_EQ(gs_recv(pair[1], bytes, sizeof bytes, 0, GS_NEVER), sizeof bytes);
}

THREAD_TEST(thread_that_always_finds_bytes_in_a_socket_lets_others_run, run_on_one)
{
    connect_pair();
    run_beside(send_and_receive);
    close_pair();
}

static ssize_t ignore(void *unused, const void *bytes, size_t n)
{
    (void)unused;
    (void)bytes;
    return (ssize_t)n;
}

static void send_and_receive_with(void)
{
    MUST_EQ(gs_send(pair[0], "byte", 4, 0, GS_NEVER), 4);
    MUST_EQ(gs_recv_with(pair[1], ignore, NULL, GS_NEVER), 4);
}

THREAD_TEST(thread_that_receives_into_the_workers_buffer_lets_others_run, run_on_one)
{
    connect_pair();
    run_beside(send_and_receive_with);
    close_pair();
}

static int file;

static void read_file(void)
{
    static char bytes[1 << 20];
    MUST_EQ(gs_pread(file, bytes, sizeof bytes, 0, GS_NEVER), sizeof bytes);
}

THREAD_TEST(thread_that_reads_a_file_from_the_page_cache_lets_others_run, run_on_one)
{
    char name[] = "/tmp/gossamer-turn-XXXXXX";
    file = mkostemp(name, O_CLOEXEC);
    MUST(file >= 0);
    MUST_EQ(unlink(name), 0);
    MUST_EQ(ftruncate(file, 1 << 20), 0);
    read_file();
    run_beside(read_file);
    gs_close(file);
}

static void poll_socket(void)
{
    struct gs_poll poll = {.fd = pair[0], .events = GS_WRITE};
    MUST_EQ(gs_poll(&poll, 1, GS_NEVER), 1);
    MUST_EQ(gs_wait_writable(pair[0], GS_NEVER), 0);
}

THREAD_TEST(thread_that_waits_for_a_ready_descriptor_lets_others_run, run_on_one)
{
    connect_pair();
    run_beside(poll_socket);
    close_pair();
}

/* Long enough to use up every budget. */
THREAD(call_without_waiting)
{
    char byte;
    connect_pair();
    struct gs_thread *other = spawn(count_turns, NULL);
    gs_thread_yield();
    unsigned before = atomic_load(&ran);
    for (uint64_t end_ns = gs_clock_now() + 20 * GS_MILLISECOND; gs_clock_now() < end_ns;) {
        MUST_EQ(gs_recv(pair[0], &byte, 1, 0, 0), -ETIMEDOUT);
        MUST_EQ(gs_send(pair[0], &byte, 1, 0, 0), 1);
        MUST_EQ(gs_recv(pair[1], &byte, 1, 0, 0), 1);
    }
    MUST_EQ(atomic_load(&ran), before);
    atomic_store(&is_over, true);
    MUST_EQ(gs_thread_join(other, GS_NEVER, NULL), 0);
    close_pair();
}

TEST(calls_that_must_not_wait_do_not_switch)
{
    atomic_store(&is_over, false);
    run_with(1, call_without_waiting);
}

/* Sanitizers do not support switching to the worker's stack: there the thread stays on its own. */
#if !GS_ASAN && !GS_TSAN
THREAD(poll_often)
{
    struct gs_poll poll = {.fd = pair[0], .events = GS_WRITE};
    for (uint64_t end_ns = gs_clock_now() + 20 * GS_MILLISECOND; gs_clock_now() < end_ns;)
        MUST_EQ(gs_poll(&poll, 1, GS_NEVER), 1);
}

THREAD(on_the_workers_stack)
{
    connect_pair();
    struct gs_thread *other = spawn(count_turns, NULL);
    gs_thread_yield();
    unsigned before = atomic_load(&ran);
    gs_thread_call_on_worker_stack(poll_often, NULL);
    MUST_EQ(atomic_load(&ran), before);
    atomic_store(&is_over, true);
    MUST_EQ(gs_thread_join(other, GS_NEVER, NULL), 0);
    close_pair();
}

TEST(thread_on_the_workers_stack_is_not_switched)
{
    atomic_store(&is_over, false);
    run_with(1, on_the_workers_stack);
}
#endif

#define BUSY_THREADS 8

/* The thread sanitizer intercepts socketpair, but not gs_close. */
THREAD(be_busy)
{
    char byte = 0;
    int ends[2], type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    MUST_EQ(gs_syscall(SYS_socketpair, AF_UNIX, type, 0, (long)ends, 0, 0), 0);
    for (uint64_t end_ns = gs_clock_now() + RUN_NS; gs_clock_now() < end_ns;) {
        MUST_EQ(gs_send(ends[0], &byte, 1, 0, GS_NEVER), 1);
        MUST_EQ(gs_recv(ends[1], &byte, 1, 0, GS_NEVER), 1);
    }
    gs_close(ends[0]);
    gs_close(ends[1]);
}

THREAD_TEST(busy_threads_of_several_workers_take_turns_and_migrate, run_both)
{
    const struct gs_thread_attributes migrating = {.migrates = true};
    struct gs_thread *threads[BUSY_THREADS];
    for (int i = 0; i < BUSY_THREADS; i++)
        MUST_EQ(gs_thread_spawn(i % 2 ? &migrating : NULL, be_busy, NULL, &threads[i]), 0);
    for (int i = 0; i < BUSY_THREADS; i++)
        MUST_EQ(gs_thread_join(threads[i], GS_NEVER, NULL), 0);
}

/* ---- Accepting ---- */

#define CLIENTS 100

/* Returns a listener in whose accept queue there are as many connections as CLIENTS. */
static int listen_to_clients(int clients[CLIENTS])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    MUST(listener >= 0 && !bind(listener, (struct sockaddr *)&address, length) &&
         !listen(listener, CLIENTS) &&
         !getsockname(listener, (struct sockaddr *)&address, &length));
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        MUST_EQ(connect(clients[i], (struct sockaddr *)&address, length), 0);
    }
    return listener;
}

static unsigned starts_between;

static void *note_start(void *accepted)
{
    starts_between += *(unsigned *)accepted < CLIENTS;
    return NULL;
}

/* Threads that the accepting one has started run before it has accepted all. */
THREAD_TEST(connections_of_a_full_accept_queue_are_served_before_all_are_accepted, run_on_one)
{
    int clients[CLIENTS], fds[CLIENTS], listener = listen_to_clients(clients);
    static unsigned accepted;
    accepted = starts_between = 0;
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = gs_accept(listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER);
        MUST(fds[i] >= 0);
        accepted++;
        MUST_EQ(gs_thread_spawn(NULL, note_start, &accepted, NULL), 0);
    }
    MUST(starts_between >= CLIENTS / 2);
    for (int i = 0; i < CLIENTS; i++) {
        gs_close(fds[i]);
        close(clients[i]);
    }
    gs_close(listener);
}

/* On a busy machine, a connection arrives a moment after the call that makes it. */
static void await_connection(int listener)
{
    struct pollfd pending = {.fd = listener, .events = POLLIN};
    MUST_EQ(poll(&pending, 1, -1), 1);
}

/* Accept without waiting; no other thread runs meanwhile. */
THREAD_TEST(accepting_with_deadline_0_does_not_switch, run_on_one)
{
    int clients[CLIENTS], fds[CLIENTS], listener = listen_to_clients(clients);
    unsigned none = 0;
    starts_between = 0;
    struct gs_thread *other = spawn(note_start, &none);
    for (int i = 0; i < CLIENTS; i++) {
        await_connection(listener);
        MUST((fds[i] = gs_accept(listener, NULL, NULL, SOCK_CLOEXEC, 0)) >= 0);
    }
    MUST_EQ(starts_between, 0);
    MUST_EQ(gs_thread_join(other, GS_NEVER, NULL), 0);
    MUST_EQ(starts_between, 1);
    for (int i = 0; i < CLIENTS; i++) {
        gs_close(fds[i]);
        close(clients[i]);
    }
    gs_close(listener);
}

/* ---- The end of a turn ---- */

static void *sleep_until(void *deadline_ns)
{
    MUST_EQ(gs_thread_sleep(*(const uint64_t *)deadline_ns), 0);
    atomic_fetch_add(&awake, 1);
    return NULL;
}

static void *receive(void *unused)
{
    char byte;
    MUST_EQ(gs_recv(pair[1], &byte, 1, 0, GS_NEVER), 1);
    atomic_fetch_add(&awake, 1);
    return unused;
}

THREAD_TEST(threads_that_events_make_ready_run_before_one_that_has_ended_its_turn, run_on_one)
{
    uint64_t deadline_ns = gs_clock_now() + 5 * GS_MILLISECOND;
    atomic_store(&awake, 0);
    connect_pair();
    struct gs_thread *sleeper = spawn(sleep_until, &deadline_ns);
    struct gs_thread *receiver = spawn(receive, NULL);
    gs_thread_end_turn();
    MUST_EQ(atomic_load(&awake), 0);
    while (gs_clock_now() <= deadline_ns)
        ;
    MUST_EQ(gs_sys_write(pair[0], "x", 1), 1);
    gs_thread_end_turn();
    MUST_EQ(atomic_load(&awake), 2);
    MUST_EQ(gs_thread_join(sleeper, GS_NEVER, NULL), 0);
    MUST_EQ(gs_thread_join(receiver, GS_NEVER, NULL), 0);
    close_pair();
}
