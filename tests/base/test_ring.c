#include "base/ring.h"
#include "tests/test.h"

#include <gossamer/clock.h>
#include <gossamer/sys.h>

static struct gs_ring ring;

static void set_up(unsigned entries, unsigned flags)
{
    int err = gs_ring_init(&ring, entries, flags);
    if (err == -ENOSYS || err == -EPERM)
        SKIP("no io_uring here: %d", err);
    CHECK_EQ(err, 0);
}

static void ask(unsigned operation, int fd, void *bytes, uint32_t n, uint64_t data)
{
    struct io_uring_sqe *entry = gs_ring_get_sqe(&ring);
    CHECK(entry);
    gs_ring_prep(entry, operation, fd, bytes, n);
    entry->user_data = data;
}

struct completion {
    uint64_t user_data;
    int32_t res;
    uint32_t flags;
};

/* Returns the next completion, which must exist. */
static struct completion take_completion(void)
{
    const struct io_uring_cqe *cqe = gs_ring_peek_cqe(&ring);
    CHECK(cqe);
    struct completion completion = {cqe->user_data, cqe->res, cqe->flags};
    gs_ring_cqe_seen(&ring);
    return completion;
}

#define RING_TEST(name_) FIXTURE_TEST(name_, set_up(4, 0), gs_ring_done(&ring))

TEST(entries_are_submitted_together_and_completed)
{
    for (unsigned flags = 0; flags <= GS_RING_SINGLE_ISSUER; flags++) {
        int ends[2];
        char bytes[6] = "";
        set_up(4, flags);
        CHECK_EQ(pipe(ends), 0);
        ask(IORING_OP_WRITE, ends[1], "hello", 5, 1);
        ask(IORING_OP_NOP, -1, NULL, 0, 2);
        CHECK_EQ(gs_ring_unsubmitted(&ring), 2);
        CHECK(!gs_ring_peek_cqe(&ring));
        CHECK_EQ(gs_ring_enter(&ring, 2, GS_NEVER), 0);
        CHECK_EQ(gs_ring_unsubmitted(&ring), 0);
        int results = 0;
        for (int i = 0; i < 2; i++) {
            struct completion cqe = take_completion();
            results += cqe.user_data == 1 ? cqe.res : 100 * !cqe.res;
        }
        CHECK_EQ(results, 105);
        CHECK(!gs_ring_peek_cqe(&ring));
        CHECK_EQ(read(ends[0], bytes, sizeof bytes), 5);
        CHECK_STR(bytes, "hello");
        gs_ring_done(&ring);
        close(ends[0]);
        close(ends[1]);
    }
}

RING_TEST(full_queue_yields_no_entry_until_it_is_submitted)
{
    for (uint64_t i = 0; i < 4; i++)
        ask(IORING_OP_NOP, -1, NULL, 0, i);
    CHECK(!gs_ring_get_sqe(&ring));
    CHECK_EQ(gs_ring_enter(&ring, 0, 0), 0);
    CHECK(gs_ring_get_sqe(&ring));
}

TEST(wait_ends_at_its_timeout_without_a_completion)
{
    set_up(4, GS_RING_SINGLE_ISSUER);
    uint64_t start_ns = gs_clock_now();
    CHECK_EQ(gs_ring_enter(&ring, 1, 3 * GS_MILLISECOND), 0);
    CHECK(gs_clock_now() >= start_ns + 3 * GS_MILLISECOND);
    CHECK(!gs_ring_peek_cqe(&ring));
    gs_ring_done(&ring);
}

RING_TEST(no_completion_is_lost_when_there_is_no_room_for_all)
{
    enum { COMPLETIONS = 100 };
    bool is_answered[COMPLETIONS] = {0};
    for (uint64_t i = 0; i < COMPLETIONS; i++) {
        ask(IORING_OP_NOP, -1, NULL, 0, i);
        CHECK_EQ(gs_ring_enter(&ring, 0, 0), 0);
    }
    unsigned completions = 0;
    for (int turn = 0; turn < 2 * COMPLETIONS && completions < COMPLETIONS; turn++) {
        while (gs_ring_peek_cqe(&ring)) {
            struct completion cqe = take_completion();
            CHECK(!is_answered[cqe.user_data]);
            is_answered[cqe.user_data] = true;
            completions++;
        }
        CHECK_EQ(gs_ring_enter(&ring, 0, 0), 0);
    }
    CHECK_EQ(completions, COMPLETIONS);
}

static long fault_call, fault_error;
static int fault_times;

static long fail(long number, void *data)
{
    (void)data;
    return number == fault_call && fault_times-- > 0 ? fault_error : 0;
}

static void fail_call(long number, long error)
{
    fault_call = number;
    fault_error = error;
    fault_times = 1;
    gs_sys_set_fault(fail, NULL);
}

RING_TEST(entries_that_the_kernel_did_not_accept_are_kept)
{
    const long errors[] = {-EINTR, -EAGAIN, -EBUSY};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        ask(IORING_OP_NOP, -1, NULL, 0, i);
        fail_call(SYS_io_uring_enter, errors[i]);
        CHECK_EQ(gs_ring_enter(&ring, 1, GS_NEVER), 0);
        gs_sys_set_fault(NULL, NULL);
        CHECK_EQ(gs_ring_unsubmitted(&ring), 1);
        CHECK_EQ(gs_ring_enter(&ring, 1, GS_NEVER), 0);
        CHECK_EQ(take_completion().user_data, i);
    }
    fail_call(SYS_io_uring_enter, -EBADF);
    CHECK_EQ(gs_ring_enter(&ring, 1, GS_NEVER), -EBADF);
    gs_sys_set_fault(NULL, NULL);
}

TEST(ring_that_cannot_be_created_leaves_nothing_open)
{
    set_up(4, 0);
    gs_ring_done(&ring);
    int before = dup(0);
    close(before);
    const long calls[] = {SYS_io_uring_setup, SYS_mmap};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        fail_call(calls[i], -ENOMEM);
        CHECK_EQ(gs_ring_init(&ring, 4, 0), -ENOMEM);
        gs_sys_set_fault(NULL, NULL);
    }
    setenv("GOSSAMER_NO_IO_URING", "1", 1);
    CHECK_EQ(gs_ring_init(&ring, 4, 0), -ENOSYS);
    unsetenv("GOSSAMER_NO_IO_URING");
    int after = dup(0);
    close(after);
    CHECK_EQ(after, before);
}

RING_TEST(ring_of_an_older_kernel_has_only_the_flags_that_it_supports)
{
    gs_ring_done(&ring);
    fail_call(SYS_io_uring_setup, -EINVAL);
    CHECK_EQ(gs_ring_init(&ring, 4, GS_RING_SINGLE_ISSUER), -ENOSYS);
    fail_call(SYS_io_uring_setup, -EINVAL);
    CHECK_EQ(gs_ring_init(&ring, 4, 0), 0);
    gs_sys_set_fault(NULL, NULL);
    ask(IORING_OP_NOP, -1, NULL, 0, 9);
    CHECK_EQ(gs_ring_enter(&ring, 1, GS_NEVER), 0);
    CHECK_EQ(take_completion().user_data, 9);
}

static void *enter(void *data)
{
    *(int *)data = gs_ring_enter(&ring, 0, 0);
    return NULL;
}

TEST(single_issuer_ring_belongs_to_the_first_thread_that_enters_it)
{
    pthread_t thread;
    int first = 1;
    set_up(4, GS_RING_SINGLE_ISSUER);
    CHECK_EQ(pthread_create(&thread, NULL, enter, &first), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(first, 0);
    CHECK_EQ(gs_ring_enter(&ring, 0, 0), -EEXIST);
    gs_ring_done(&ring);
}

RING_TEST(supported_operations_are_reported)
{
    const uint8_t known[] = {IORING_OP_NOP, IORING_OP_READ}, unknown[] = {IORING_OP_NOP, 255};
    CHECK(gs_ring_supports(&ring, known, 2));
    CHECK(!gs_ring_supports(&ring, unknown, 2));
}

TEST(cancelled_requests_all_complete_and_access_no_memory_afterwards)
{
    int pair[2];
    char bytes[8] = "";
    set_up(4, GS_RING_SINGLE_ISSUER);
    CHECK_EQ(gs_ring_cancel_all(&ring), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    ask(IORING_OP_RECV, pair[0], bytes, sizeof bytes, 1);
    CHECK_EQ(gs_ring_enter(&ring, 0, 0), 0);
    CHECK(!gs_ring_peek_cqe(&ring));
    CHECK_EQ(gs_ring_cancel_all(&ring), 0);
    CHECK_EQ(write(pair[1], "x", 1), 1);
    CHECK_EQ(gs_ring_enter(&ring, 0, 0), 0);
    CHECK_EQ(take_completion().res, -ECANCELED);
    CHECK_EQ(bytes[0], 0);
    CHECK_EQ(gs_ring_cancel_all(&ring), 0);
    gs_ring_done(&ring);
    close(pair[0]);
    close(pair[1]);
}

/* Since Linux 6.13, one call posts only some of many completions. */
TEST(cancelled_requests_all_complete_if_they_are_many)
{
    enum { MANY = 300 };
    int pair[2];
    set_up(MANY, GS_RING_SINGLE_ISSUER);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    for (int i = 0; i < MANY; i++) {
        ask(IORING_OP_POLL_ADD, pair[0], NULL, 0, 1);
        ring.sqes[(ring.tail - 1) & (ring.sq_count - 1)].poll32_events = POLLIN;
    }
    CHECK_EQ(gs_ring_enter(&ring, 0, 0), 0);
    CHECK_EQ(gs_ring_cancel_all(&ring), 0);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(take_completion().res, -ECANCELED);
    gs_ring_done(&ring);
    close(pair[0]);
    close(pair[1]);
}

TEST(bytes_arrive_in_buffers_that_the_kernel_selects_until_there_are_none)
{
    int pair[2];
    struct gs_ring_buffers buffers = {.size = 16, .count = 2, .group = 3};
    set_up(8, 0);
    CHECK_EQ(gs_ring_new_buffers(&buffers), 0);
    CHECK_EQ(gs_ring_register_buffers(&ring, &buffers), 0);
    gs_ring_return_buffer(&buffers, 0);
    gs_ring_return_buffer(&buffers, 1);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    for (uint64_t i = 0; i < 3; i++) {
        char letter = (char)('a' + i);
        CHECK_EQ(write(pair[1], &letter, 1), 1);
        struct io_uring_sqe *entry = gs_ring_get_sqe(&ring);
        gs_ring_prep(entry, IORING_OP_RECV, pair[0], NULL, 0);
        entry->flags = IOSQE_BUFFER_SELECT;
        entry->buf_group = 3;
        entry->user_data = i;
        CHECK_EQ(gs_ring_enter(&ring, 1, GS_NEVER), 0);
        struct completion cqe = take_completion();
        CHECK_EQ(cqe.res, i < 2 ? 1 : -ENOBUFS);
        if (i == 2)
            break;
        unsigned number = cqe.flags >> IORING_CQE_BUFFER_SHIFT;
        CHECK_EQ(*gs_ring_buffer(&buffers, number), letter);
    }
    gs_ring_return_buffer(&buffers, 1);
    struct io_uring_sqe *entry = gs_ring_get_sqe(&ring);
    gs_ring_prep(entry, IORING_OP_RECV, pair[0], NULL, 0);
    entry->flags = IOSQE_BUFFER_SELECT;
    entry->buf_group = 3;
    CHECK_EQ(gs_ring_enter(&ring, 1, GS_NEVER), 0);
    struct completion cqe = take_completion();
    CHECK_EQ(cqe.res, 1);
    CHECK_EQ(cqe.flags >> IORING_CQE_BUFFER_SHIFT, 1);
    CHECK_EQ(*gs_ring_buffer(&buffers, 1), 'c');
    gs_ring_done(&ring);
    gs_ring_free_buffers(&buffers);
    close(pair[0]);
    close(pair[1]);
}
