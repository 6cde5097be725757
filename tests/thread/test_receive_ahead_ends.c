/* gs_recv_ahead: how a receive ends, and that its end loses no byte and forgets no thread. */
#include "tests/thread/receiving_ahead.h"
#include "tests/thread/ring_faults.h"
#include "thread/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/resumable.h>
#include <pthread.h>
#include <stdlib.h>

/* ---- Memory ---- */

void *__real_realloc(void *memory, size_t n);
void *__wrap_realloc(void *memory, size_t n);
static atomic_bool memory_is_exhausted;

void *__wrap_realloc(void *memory, size_t n)
{
    return atomic_load(&memory_is_exhausted) ? NULL : __real_realloc(memory, n);
}

static void run_spoiled(unsigned faults, gs_thread_fn *first)
{
    need_ring();
    atomic_store(&ring_faults, faults);
    gs_sys_set_fault(spoil_requests, NULL);
    run_both(first);
    gs_sys_set_fault(NULL, NULL);
}

static void connect_and_receive(void)
{
    connect_ahead();
    receive_awaited(10);
}

static void *receive_until_end(void *unused)
{
    while (gs_recv_with(ours, check, NULL, GS_NEVER) > 0)
        ;
    return unused;
}

/* A connection that gs_accept will get: so the lowest free number will be that of its socket. */
static int next_listener, next_theirs;

static void prepare_next(void)
{
    struct sockaddr_in address;
    next_listener = listen_anywhere(&address);
    next_theirs = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST_EQ(connect(next_theirs, (struct sockaddr *)&address, sizeof address), 0);
}

static void accept_next(int number)
{
    ours = gs_accept(next_listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER);
    MUST_EQ(ours, number);
    theirs = next_theirs;
    gs_close(next_listener);
    received = ends = said = 0;
    MUST_EQ(gs_recv_ahead(ours), 0);
}

/* A thread of the same worker. */
static struct gs_thread *spawn_here(gs_thread_fn *fn, void *argument)
{
    const struct gs_thread_attributes here = {.worker = (unsigned)gs_threads_worker()};
    struct gs_thread *thread = NULL;
    MUST_EQ(gs_thread_spawn(&here, fn, argument, &thread), 0);
    return thread;
}

/* Whether a thread waits to read. */
static bool is_waited_for(int fd)
{
    struct descriptor *descriptor = gs_descriptor(fd);
    spin_lock(&descriptor->lock);
    bool is_queued = descriptor->readers.first;
    spin_unlock(&descriptor->lock);
    return is_queued;
}

/* ---- Ends by the kernel ---- */

static void *lose_bytes(void *unused)
{
    char bytes[8];
    connect_and_receive();
    have_received(5);
    atomic_store(&memory_is_exhausted, true);
    have_received(20);
    atomic_store(&memory_is_exhausted, false);
    struct gs_poll poll = {.fd = ours, .events = GS_READ};
    MUST_EQ(gs_recv_ahead_end(ours), 5);
    MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), 5);
    say(3);
    for (int i = 0; i < 2; i++) {
        MUST_EQ(gs_recv(ours, bytes, sizeof bytes, MSG_PEEK, GS_NEVER), -ENOMEM);
        MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), -ENOMEM);
        MUST_EQ(gs_read(ours, bytes, sizeof bytes, 0), -ENOMEM);
        MUST_EQ(gs_poll(&poll, 1, 0), 1);
        MUST_EQ(gs_recv_ahead(ours), 0);
    }
    MUST_EQ(received, 15);
    close_both();
    return unused;
}

TEST(bytes_lost_for_lack_of_memory_are_an_error_that_stays)
{
    run_spoiled(0, lose_bytes);
}

static void *be_reset_with_bytes(void *unused)
{
    const struct linger reset = {.l_onoff = 1};
    char bytes[8];
    connect_and_receive();
    have_received(5);
    MUST_EQ(setsockopt(theirs, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    gs_sys_close(theirs);
    while (gs_wait_readable(ours, GS_NEVER) || gs_recv(ours, bytes, 5, MSG_PEEK, GS_NEVER) != 5)
        gs_thread_yield();
    MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), 5);
    MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), -ECONNRESET);
    MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), 0);
    MUST_EQ(gs_recv(ours, bytes, sizeof bytes, 0, GS_NEVER), 0);
    gs_close(ours);
    return unused;
}

TEST(bytes_before_a_reset_are_received_and_then_the_error_once)
{
    run_spoiled(0, be_reset_with_bytes);
}

/* With one worker, the reset and the bytes before it arrive before the kernel has the request. */
static void *be_reset_at_once(void *unused)
{
    const struct linger reset = {.l_onoff = 1};
    for (size_t i = 0; i < 4; i++) {
        connect_ahead();
        if (i % 2)
            receive_awaited(10);
        struct gs_thread *thread = spawn_here(receive_until_end, NULL);
        while (!is_waited_for(ours))
            gs_thread_yield();
        MUST_EQ(setsockopt(theirs, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
        say(i + 1);
        gs_sys_close(theirs);
        join(thread);
        MUST_EQ(received, said);
        gs_close(ours);
    }
    return unused;
}

TEST(reset_that_follows_bytes_at_once_ends_the_receive)
{
    run_spoiled(0, be_reset_at_once);
}

static void *receive_without_ring(void *unused)
{
    connect_ahead();
    unsigned before = atomic_load(&multishots);
    for (size_t i = 1; i < 5; i++)
        receive_awaited(i * 100);
    if (atomic_load(&ring_faults) & FAULT_NO_MULTISHOT)
        MUST_EQ(atomic_load(&multishots) - before, 1);
    have_received(0);
    say(4000);
    while (received < said)
        MUST(gs_recv_with(ours, check, NULL, GS_NEVER) > 0);
    MUST_EQ(gs_recv_ahead_end(ours), 0);
    close_both();
    return unused;
}

TEST(kernel_without_multishot_receives_is_asked_once)
{
    run_spoiled(FAULT_NO_MULTISHOT, receive_without_ring);
}

TEST(without_a_buffer_bytes_are_received_from_the_socket)
{
    run_spoiled(FAULT_NO_BUFFER, receive_without_ring);
}

static void *receive_again(void *unused)
{
    connect_ahead();
    receive_awaited(10);
    atomic_store(&ring_faults, 0);
    receive_awaited(10);
    unsigned before = atomic_load(&receives_by_call);
    receive_awaited(10);
    MUST_EQ(atomic_load(&receives_by_call), before);
    atomic_store(&ring_faults, FAULT_NO_BUFFER);
    close_both();
    return unused;
}

TEST(when_buffers_are_free_again_the_ring_receives)
{
    run_spoiled(FAULT_NO_BUFFER, receive_again);
}

static void *receive_from_listener(void *unused)
{
    struct sockaddr_in address;
    int listener = listen_anywhere(&address);
    MUST_EQ(gs_recv_ahead(listener), 0);
    MUST_EQ(gs_sys_fcntl(listener, F_SETFL, 0), 0);
    MUST_EQ(gs_recv_with(listener, check, NULL, GS_NEVER), -ENOTCONN);
    MUST_EQ(gs_recv_with(listener, check, NULL, after(GS_MILLISECOND)), -ENOTCONN);
    theirs = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST_EQ(connect(theirs, (struct sockaddr *)&address, sizeof address), 0);
    ours = gs_accept(listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER);
    MUST(ours >= 0);
    MUST_EQ(gs_accept(listener, NULL, NULL, 0, after(GS_MILLISECOND)), -ETIMEDOUT);
    gs_close(listener);
    close_both();
    return unused;
}

TEST(listener_cannot_be_received_from_and_accepts)
{
    run_spoiled(0, receive_from_listener);
}

/* ---- Ends by the program ---- */

/* The request of a thread that begins to wait was not submitted yet. */
static void *end_before_it_begins(void *unused)
{
    connect_ahead();
    say(1);
    MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), 1);
    struct gs_thread *thread = spawn_here(receive_until_end, NULL);
    gs_thread_yield();
    MUST_EQ(gs_recv_ahead_end(ours), 0);
    say(7);
    MUST_EQ(shutdown(theirs, SHUT_WR), 0);
    join(thread);
    MUST_EQ(received, 8);
    close_both();
    return unused;
}

TEST(thread_whose_request_is_withdrawn_receives)
{
    run_spoiled(0, end_before_it_begins);
}

static void *end_while_cancellations_are_lost(void *unused)
{
    connect_and_receive();
    struct gs_thread *thread = spawn_here(receive_until_end, NULL);
    while (!is_waited_for(ours))
        gs_thread_yield();
    atomic_store(&cancels_to_lose, 3);
    MUST_EQ(gs_recv_ahead_end(ours), 0);
    MUST_EQ(atomic_load(&cancels_to_lose), 0);
    say(9);
    MUST_EQ(shutdown(theirs, SHUT_WR), 0);
    join(thread);
    MUST_EQ(received, 19);
    close_both();
    return unused;
}

TEST(end_is_repeated_until_the_kernel_has_ended)
{
    run_spoiled(0, end_while_cancellations_are_lost);
}

/* The ring keeps the old file open until the cancellation is repeated. */
static void *close_while_cancellations_are_lost(void *unused)
{
    char byte;
    connect_and_receive();
    prepare_next();
    int old = ours, old_peer = theirs;
    atomic_store(&cancels_to_lose, 1);
    MUST_EQ(gs_close(ours), 0);
    while (atomic_load(&cancels_to_lose))
        gs_thread_sleep(after(GS_MILLISECOND));
    MUST_EQ(gs_sys_send(old_peer, "old", 3, 0), 3);
    accept_next(old);
    receive_awaited(50);
    have_received(10);
    MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), 10);
    ssize_t n = gs_recv(old_peer, &byte, 1, 0, GS_NEVER);
    MUST(!n || n == -ECONNRESET);
    gs_close(old_peer);
    close_both();
    return unused;
}

TEST(closed_file_is_let_go_though_its_cancellation_was_lost)
{
    run_spoiled(0, close_while_cancellations_are_lost);
}

static void *end_with_full_queue(void *unused)
{
    char byte;
    struct gs_poll poll = {.fd = ours, .events = GS_READ};
    connect_and_receive();
    poll.fd = ours;
    fill_completions();
    MUST_EQ(gs_poll(&poll, 1, 0), 0);
    MUST_EQ(gs_recv(ours, &byte, 1, 0, 0), -ETIMEDOUT);
    MUST_EQ(gs_recv_ahead_end(ours), 0);
    say(10);
    MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), 10);
    MUST_EQ(gs_recv_ahead(ours), 0);
    struct gs_thread *thread = spawn(say_later, (void *)10);
    fill_completions();
    while (received < 30)
        MUST(gs_recv_with(ours, check, NULL, GS_NEVER) > 0);
    join(thread);
    fill_completions();
    say(10);
    MUST_EQ(gs_wait_readable(ours, GS_NEVER), 0);
    MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), 10);
    fill_completions();
    close_both();
    return unused;
}

TEST(full_completion_queue_delays_and_loses_nothing)
{
    run_spoiled(0, end_with_full_queue);
}

/* ---- Several calls at a time ---- */

static void *poll_or_wait(void *polls)
{
    struct gs_poll poll = {.fd = ours, .events = GS_READ};
    if (polls)
        MUST_EQ(gs_poll(&poll, 1, GS_NEVER), 1);
    else
        MUST_EQ(gs_wait_readable(ours, GS_NEVER), 0);
    return NULL;
}

/* The receive began first, and goes on while others wait for readiness. */
static void *wait_for_readiness(void *unused)
{
    char bytes[16];
    connect_and_receive();
    for (int i = 0; i < 4; i++) {
        struct gs_thread *thread = spawn_here(poll_or_wait, i % 2 ? &bytes : NULL);
        struct gs_thread *later = spawn(say_later, (void *)10);
        join(thread);
        MUST_EQ(gs_recv(ours, bytes, sizeof bytes, 0, i < 2 ? 0 : GS_NEVER), 10);
        check(NULL, bytes, 10);
        join(later);
    }
    close_both();
    return unused;
}

TEST(readiness_is_reported_while_the_kernel_receives)
{
    run_spoiled(0, wait_for_readiness);
}

static void *splice_is_refused(void *unused)
{
    int pipe_ends[2];
    MUST_EQ(pipe(pipe_ends), 0);
    connect_and_receive();
    say(4);
    MUST_EQ(gs_splice(ours, pipe_ends[1], 4, 0, GS_NEVER), -EBUSY);
    MUST(gs_recv_ahead_end(ours) >= 0);
    while (received < 14)
        MUST(gs_recv_with(ours, check, NULL, GS_NEVER) > 0);
    MUST_EQ(gs_recv_ahead_end(ours), 0);
    say(4);
    MUST_EQ(gs_splice(ours, pipe_ends[1], 4, 0, GS_NEVER), 4);
    gs_sys_close(pipe_ends[0]);
    gs_sys_close(pipe_ends[1]);
    close_both();
    return unused;
}

TEST(bytes_are_spliced_only_after_the_end)
{
    run_spoiled(0, splice_is_refused);
}

/* ---- Closing, and the number's next file ---- */

static ssize_t close_ours(void *data, const void *bytes, size_t n)
{
    check(data, bytes, n);
    MUST_EQ(gs_close(ours), 0);
    return (ssize_t)n;
}

/* Within the function that uses a buffer, with a part of it not taken, and with copies. */
static void *close_in_turn(void *unused)
{
    for (int i = 0; i < 9; i++) {
        char bytes[2];
        connect_and_receive();
        struct gs_thread *thread = spawn(say_later, (void *)5);
        if (i % 3 == 0) {
            MUST_EQ(gs_recv_with(ours, close_ours, NULL, GS_NEVER), 5);
        } else if (i % 3 == 1) {
            MUST_EQ(gs_recv(ours, bytes, sizeof bytes, 0, GS_NEVER), 2);
            MUST_EQ(count_held_buffers(), 1);
        }
        join(thread);
        if (i % 3 == 2)
            have_received(3);
        if (i % 3)
            MUST_EQ(gs_close(ours), 0);
        gs_sys_close(theirs);
        MUST_EQ(count_held_buffers(), 0);
    }
    return unused;
}

TEST(buffers_are_returned_once_when_connections_are_closed)
{
    run_spoiled(0, close_in_turn);
}

/* While a worker is in close(2), which has released the number, a thread of another one gets it. */
static atomic_int closing_fd = -1;
static atomic_bool is_reused;

static long wait_for_reuse(long number, void *data)
{
    int fd = atomic_load(&closing_fd);
    (void)data;
    if (number != SYS_close || fd < 0 || worker_current() != gs_runtime.workers[0])
        return 0;
    gs_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    atomic_store(&closing_fd, -1);
    while (!atomic_load(&is_reused))
        usleep(100);
    return -EIO; /* of a file whose contents could not be stored: it is closed */
}

static void *reuse(void *old)
{
    while (atomic_load(&closing_fd) >= 0)
        gs_thread_yield();
    accept_next((int)(intptr_t)old);
    receive_awaited(10);
    have_received(5);
    MUST_EQ(gs_wait_writable(ours, GS_NEVER), 0); /* a loop watches it */
    atomic_store(&is_reused, true);
    gs_thread_sleep(after(5 * GS_MILLISECOND));
    MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), 5);
    struct gs_thread *thread = spawn(say_later, (void *)3);
    MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), 3);
    join(thread);
    close_both();
    return NULL;
}

static void *close_late(void *unused)
{
    const struct gs_thread_attributes second = {.worker = 2};
    struct gs_thread *thread = NULL;
    connect_both();
    prepare_next();
    int fd = ours, peer = theirs;
    atomic_store(&is_reused, false);
    atomic_store(&closing_fd, fd);
    MUST_EQ(gs_thread_spawn(&second, reuse, (void *)(intptr_t)fd, &thread), 0);
    MUST_EQ(gs_close(fd), -EIO);
    join(thread);
    gs_sys_close(peer);
    return unused;
}

static void *close_late_on_first(void *unused)
{
    const struct gs_thread_attributes first = {.worker = 1};
    struct gs_thread *thread = NULL;
    MUST_EQ(gs_thread_spawn(&first, close_late, NULL, &thread), 0);
    join(thread);
    return unused;
}

TEST(late_part_of_a_close_keeps_the_next_files_bytes)
{
    need_ring();
    gs_sys_set_fault(wait_for_reuse, NULL);
    run_unwatched(2, close_late_on_first);
    gs_sys_set_fault(NULL, NULL);
}

/* Connections with numbers in turn, each of which another worker closes at some time. A dead
 * receive would take bytes of a later one. */
enum { ROUNDS = 150, LANES = 4 };

/* gs_close may wake a thread that waits for the number's next file, which would then use it after
 * its close: no file gets the number while another is being closed. */
static struct gs_mutex numbers;

struct lane {
    int ours, theirs;
    unsigned serial;
    atomic_uint seen;
};

static ssize_t see(void *data, const void *bytes, size_t n)
{
    struct lane *lane = data;
    for (size_t i = 0; i + sizeof lane->serial <= n; i += sizeof lane->serial)
        MUST(!memcmp((const char *)bytes + i, &lane->serial, sizeof lane->serial));
    atomic_fetch_add(&lane->seen, (unsigned)n);
    return (ssize_t)n;
}

static void *receive_lane(void *data)
{
    struct lane *lane = data;
    ssize_t n = gs_recv_ahead(lane->ours);
    MUST_EQ(n, 0);
    do
        n = gs_recv_with(lane->ours, see, lane, GS_NEVER);
    while (n > 0);
    MUST(n == -EBADF);
    return NULL;
}

static void connect_lane(struct lane *lane)
{
    struct sockaddr_in address;
    MUST_EQ(gs_mutex_lock(&numbers, GS_NEVER), 0);
    int listener = listen_anywhere(&address);
    lane->theirs = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST_EQ(connect(lane->theirs, (struct sockaddr *)&address, sizeof address), 0);
    lane->ours = gs_accept(listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER);
    MUST(lane->ours >= 0);
    gs_close(listener);
    gs_mutex_unlock(&numbers);
}

/* All was received, and the thread waits: so it does not use the number after the close. */
static bool is_done(const struct lane *lane, unsigned n)
{
    return is_waited_for(lane->ours) && atomic_load(&lane->seen) == n;
}

static void *run_lane(void *data)
{
    const unsigned number = (unsigned)(uintptr_t)data;
    const struct gs_thread_attributes other = {.worker = number % 3 + 1};
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct lane lane = {.serial = number << 16 | i};
        struct gs_thread *thread = NULL;
        connect_lane(&lane);
        MUST_EQ(gs_thread_spawn(&other, receive_lane, &lane, &thread), 0);
        for (unsigned n = 1; n <= 1 + i % 3; n++) {
            MUST_EQ(gs_send(lane.theirs, &lane.serial, sizeof lane.serial, 0, GS_NEVER),
                    sizeof lane.serial);
            while (!is_done(&lane, n * sizeof lane.serial))
                gs_thread_yield();
        }
        MUST_EQ(gs_mutex_lock(&numbers, GS_NEVER), 0);
        MUST_EQ(gs_close(lane.ours), 0);
        gs_mutex_unlock(&numbers);
        join(thread);
        gs_close(lane.theirs);
    }
    return NULL;
}

static void *run_lanes(void *unused)
{
    struct gs_thread *lanes[LANES];
    for (uintptr_t i = 0; i < LANES; i++) {
        const struct gs_thread_attributes at = {.worker = (unsigned)(i + 1) % 3 + 1};
        MUST_EQ(gs_thread_spawn(&at, run_lane, (void *)i, &lanes[i]), 0);
    }
    for (unsigned i = 0; i < LANES; i++)
        join(lanes[i]);
    return unused;
}

TEST(closed_receives_take_nothing_from_the_numbers_next_files)
{
    need_ring();
    run_with(3, run_lanes);
}
