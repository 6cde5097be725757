/* Operations without a descriptor: opening files, and resolving names. */
#include "base/sanitized.h"
#include "tests/loop/fixture.h"

#include <linux/openat2.h>
#include <netdb.h>
#include <semaphore.h>

static struct gs_loop *loop;
static struct gs_op op, other;
static int64_t result, other_result;
static int done;
static struct addrinfo *addresses, *other_addresses;
static char fifo[64];
static sem_t may_return, has_started, has_returned;

/* A look-up of this name takes until may_return is posted. Both names are for the same kernel
 * threads. */
#define SLOW "slow.example"
#define QUICK "quick.example"

int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret_addresses);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret_addresses);

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret_addresses)
{
    if (node && !strcmp(node, SLOW)) {
        sem_post(&has_started);
        while (sem_wait(&may_return))
            ;
        int err = __real_getaddrinfo("127.0.0.1", service, hints, ret_addresses);
        sem_post(&has_returned);
        return err;
    }
    bool is_quick = node && !strcmp(node, QUICK);
    return __real_getaddrinfo(is_quick ? "127.0.0.1" : node, service, hints, ret_addresses);
}

static void on_done(struct gs_op *finished, int64_t op_result)
{
    CHECK(!gs_op_is_active(finished));
    *(finished == &op ? &result : &other_result) = op_result;
    done++;
}

static void set_up(void)
{
    loop = new_loop();
    gs_op_init(&op, loop, on_done);
    gs_op_init(&other, loop, on_done);
    result = other_result = 1;
    done = 0;
    addresses = other_addresses = NULL;
    sem_init(&may_return, 0, 0);
    sem_init(&has_started, 0, 0);
    sem_init(&has_returned, 0, 0);
}

static void wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore))
        ;
}

/* Have the other operation occupy the only kernel thread for look-ups, until may_return is
 * posted. */
static void occupy_look_ups(void)
{
    gs_loop_set_work_threads(loop, 1);
    CHECK_EQ(gs_op_resolve(&other, SLOW, NULL, NULL, &other_addresses), 0);
    wait_for(&has_started);
}

static void make_fifo(void)
{
    static char folder[sizeof fifo];
    snprintf(folder, sizeof folder, "/tmp/gossamer-fifo-XXXXXX");
    CHECK(mkdtemp(folder));
    CHECK((size_t)snprintf(fifo, sizeof fifo, "%s/fifo", folder) < sizeof fifo);
    CHECK_EQ(mkfifo(fifo, 0600), 0);
}

static void remove_fifo(void)
{
    unlink(fifo);
    *strrchr(fifo, '/') = '\0';
    rmdir(fifo);
}

static int count_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* ---- Opening ---- */

static const struct open_how for_reading = {.flags = O_RDONLY | O_CLOEXEC};

#define CALL_TEST(name_) FIXTURE_TEST(name_, set_up(), gs_loop_free(loop))

CALL_TEST(opened_file_can_be_read)
{
    static char bytes[8];
    CHECK_EQ(gs_op_open(&op, AT_FDCWD, "/dev/zero", &for_reading), 0);
    CHECK_EQ(gs_op_open(&op, AT_FDCWD, "/dev/zero", &for_reading), -EBUSY);
    CHECK_EQ(done, 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 1);
    CHECK(result >= 0);
    CHECK_EQ(fcntl((int)result, F_GETFD), FD_CLOEXEC);
    CHECK_EQ(read((int)result, bytes, 8), 8);
    close((int)result);
    gs_loop_check(loop);
}

CALL_TEST(path_is_relative_to_the_directory_and_errors_are_results)
{
    int folder = open("/dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ(gs_op_open(&op, folder, "null", &for_reading), 0);
    CHECK_EQ(gs_op_open(&other, folder, "no-such-file", &for_reading), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 2);
    CHECK(result >= 0);
    CHECK_EQ(other_result, -ENOENT);
    close((int)result);
    CHECK_EQ(gs_op_open(&op, 200, "null", &for_reading), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result, -EBADF);
    close(folder);
}

CALL_TEST(operation_can_be_used_for_a_descriptor_and_without_one)
{
    static char bytes[4];
    int fds[2];
    CHECK_EQ(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(gs_op_open(&op, AT_FDCWD, "/dev/null", &for_reading), 0);
        CHECK_EQ(gs_loop_run(loop), 0);
        CHECK(result >= 0);
        close((int)result);
        CHECK_EQ(write(fds[1], "word", 4), 4);
        CHECK_EQ(gs_op_read(&op, fds[0], bytes, 4, GS_OP_CURRENT_OFFSET), 0);
        CHECK_EQ(gs_loop_run(loop), 0);
        CHECK_EQ(result, 4);
    }
    close(fds[0]);
    close(fds[1]);
}

CALL_TEST(lack_of_descriptors_is_a_result)
{
    struct rlimit limit, lower;
    /* Now the loop has opened all that it needs. */
    CHECK_EQ(gs_op_open(&op, AT_FDCWD, "/dev/null", &for_reading), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    lower = (struct rlimit){(rlim_t)result, limit.rlim_max};
    close((int)result);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
    CHECK_EQ(gs_op_open(&op, AT_FDCWD, "/dev/null", &for_reading), 0);
    int err = gs_loop_run(loop);
    setrlimit(RLIMIT_NOFILE, &limit);
    CHECK_EQ(err, 0);
    CHECK_EQ(result, -EMFILE);
}

/* In the pool it waits for its turn behind the open of the FIFO. */
CALL_TEST(canceled_open_has_one_callback)
{
    int before;
    make_fifo();
    before = count_descriptors();
    gs_loop_set_work_threads(loop, 1);
    CHECK_EQ(gs_op_open(&other, AT_FDCWD, fifo, &for_reading), 0);
    CHECK_EQ(gs_op_open(&op, AT_FDCWD, "/dev/null", &for_reading), 0);
    gs_op_cancel(&op);
    gs_op_cancel(&op);
    CHECK_EQ(done, 0);
    while (!done)
        CHECK(gs_loop_run_once(loop, GS_NEVER) >= 0);
    CHECK_EQ(result, -ECANCELED);
    int writer = open(fifo, O_RDWR | O_CLOEXEC);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 2);
    CHECK(other_result >= 0);
    close((int)other_result);
    close(writer);
    CHECK_EQ(count_descriptors(), before);
    remove_fifo();
}

/* A FIFO without a writer. In the pool the open goes on until there is one. */
CALL_TEST(open_that_blocks_does_not_block_the_loop)
{
    make_fifo();
    CHECK_EQ(gs_op_open(&op, AT_FDCWD, fifo, &for_reading), 0);
    CHECK_EQ(gs_op_resolve(&other, "127.0.0.1", NULL, NULL, &addresses), 0);
    while (other_result == 1)
        CHECK(gs_loop_run_once(loop, GS_NEVER) >= 0);
    CHECK_EQ(other_result, 0);
    freeaddrinfo(addresses);
    CHECK_EQ(result, 1);
    gs_op_cancel(&op);
    int writer = open(fifo, O_RDWR | O_CLOEXEC);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK(result >= 0 || result == -ECANCELED || result == -EINTR);
    if (result >= 0)
        close((int)result);
    close(writer);
    remove_fifo();
}

TEST(loop_can_be_freed_while_a_file_is_opened)
{
    for (int round = 0; round < 60; round++) {
        struct gs_op ops[6];
        int before = count_descriptors();
        set_up();
        for (int i = 0; i < 6; i++) {
            gs_op_init(&ops[i], loop, on_done);
            CHECK_EQ(gs_op_open(&ops[i], AT_FDCWD, "/no/such/file", &for_reading), 0);
        }
        CHECK_EQ(gs_op_open(&op, AT_FDCWD, "/dev/null", &for_reading), 0);
        if (round % 2)
            gs_op_cancel(&ops[3]);
        for (int k = 0; k < round % 3; k++)
            gs_loop_run_once(loop, 0);
        gs_loop_free(loop);
        if (result >= 0 && result != 1)
            close((int)result);
        /* io_uring closes its own later than the call that frees the loop. */
        for (int tries = 0; count_descriptors() != before && tries < 10000; tries++)
            usleep(1000);
        CHECK_EQ(count_descriptors(), before);
    }
}

TEST(open_that_io_uring_executes_ends_with_ecanceled_when_it_is_canceled)
{
    make_fifo();
    for (int round = 0; round < 20; round++) {
        set_up();
        if (is_on(loop, "io_uring")) {
            CHECK_EQ(gs_op_open(&op, AT_FDCWD, fifo, &for_reading), 0);
            CHECK(gs_loop_run_once(loop, 0) >= 0);
            usleep(1000);
            gs_op_cancel(&op);
            CHECK_EQ(gs_loop_run(loop), 0);
            CHECK_EQ(result, -ECANCELED);
        }
        gs_loop_free(loop);
    }
    remove_fifo();
}

/* Let the open succeed instead of canceling it. */
static long miss_cancellation(long call, void *path)
{
    if (call != SYS_io_uring_register || !path)
        return 0;
    gs_sys_set_fault(NULL, NULL);
    close(open(path, O_WRONLY | O_CLOEXEC));
    return -ENOENT;
}

TEST(file_that_is_opened_although_its_open_was_to_be_canceled_is_closed_with_the_loop)
{
    make_fifo();
    for (int round = 0; round < 150; round++) {
        int before = count_descriptors();
        set_up();
        if (is_on(loop, "io_uring")) {
            CHECK_EQ(gs_op_open(&op, AT_FDCWD, fifo, &for_reading), 0);
            CHECK(gs_loop_run_once(loop, 0) >= 0);
            gs_sys_set_fault(miss_cancellation, fifo);
        }
        gs_loop_free(loop);
        usleep(1000);
        CHECK_EQ(count_descriptors(), before);
    }
    remove_fifo();
}

/* ---- Resolving ---- */

TEST(name_is_resolved)
{
    char node[16] = "127.0.0.1", service[8] = "80";
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                   .ai_family = AF_INET};
    set_up();
    CHECK_EQ(gs_op_resolve(&op, node, service, &hints, &addresses), 0);
    CHECK_EQ(gs_op_resolve(&op, node, service, &hints, &addresses), -EBUSY);
    memset(node, 'x', 8);
    memset(service, 'x', 4);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 1);
    CHECK_EQ(result, 0);
    CHECK_EQ(((struct sockaddr_in *)addresses->ai_addr)->sin_port, htons(80));
    freeaddrinfo(addresses);
    gs_loop_free(loop);
}

CALL_TEST(errors_of_a_look_up_are_results)
{
    const struct addrinfo numeric = {.ai_flags = AI_NUMERICHOST}, invalid = {.ai_family = 99};
    CHECK_EQ(gs_op_resolve(&op, "no number", NULL, &numeric, &addresses), 0);
    CHECK_EQ(gs_op_resolve(&other, "127.0.0.1", "80", &invalid, &addresses), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result, -GS_ENONAME);
    CHECK_EQ(other_result, -EINVAL);
    CHECK(!addresses);
}

TEST(canceled_look_up_is_abandoned_though_it_has_started)
{
    set_up();
    gs_loop_set_work_threads(loop, 1);
    CHECK_EQ(gs_op_resolve(&op, SLOW, NULL, NULL, &addresses), 0);
    CHECK_EQ(gs_op_resolve(&other, QUICK, NULL, NULL, &addresses), 0);
    wait_for(&has_started);
    step(loop);
    CHECK_EQ(done, 0);
    gs_op_cancel(&op);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 2);
    CHECK_EQ(result, -ECANCELED);
    CHECK_EQ(other_result, 0);
    freeaddrinfo(addresses);
    gs_loop_check(loop);
    gs_loop_free(loop);
    sem_post(&may_return);
    wait_for(&has_returned);
}

TEST(loop_can_be_freed_during_a_look_up)
{
    set_up();
    CHECK_EQ(gs_op_resolve(&op, SLOW, NULL, NULL, &addresses), 0);
    CHECK_EQ(gs_op_resolve(&other, QUICK, NULL, NULL, &addresses), 0);
    wait_for(&has_started);
    gs_loop_free(loop);
    CHECK_EQ(done, 0);
    sem_post(&may_return);
    wait_for(&has_returned);
}

CALL_TEST(canceled_operations_that_have_not_started_call_back)
{
    occupy_look_ups();
    CHECK_EQ(gs_op_resolve(&op, QUICK, NULL, NULL, &addresses), 0);
    gs_op_cancel(&op);
    CHECK_EQ(done, 0);
    step(loop);
    CHECK_EQ(done, 1);
    CHECK_EQ(result, -ECANCELED);
    sem_post(&may_return);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(other_result, 0);
    CHECK(!addresses);
    freeaddrinfo(other_addresses);
}

static void visit(struct gs_watcher *watcher, void *data)
{
    CHECK_EQ(gs_watcher_kind(watcher), GS_WATCHER_OP);
    ++*(int *)data;
}

CALL_TEST(walk_visits_the_operation_and_not_what_the_pool_does_for_it)
{
    int visits = 0;
    CHECK_EQ(gs_op_resolve(&op, SLOW, NULL, NULL, &addresses), 0);
    CHECK_EQ(gs_loop_walk(loop, GS_WATCHERS_ALL, visit, &visits), 1);
    gs_watcher_unref(&op.io.watcher);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 0);
    gs_watcher_ref(&op.io.watcher);
    sem_post(&may_return);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result, 0);
    freeaddrinfo(addresses);
}

CALL_TEST(many_operations_at_once)
{
    static struct gs_op opens[100], look_ups[100];
    static struct addrinfo *found[100];
    for (int i = 0; i < 100; i++) {
        gs_op_init(&opens[i], loop, on_done);
        gs_op_init(&look_ups[i], loop, on_done);
        found[i] = NULL;
        CHECK_EQ(gs_op_open(&opens[i], AT_FDCWD, "/no/such/file", &for_reading), 0);
        CHECK_EQ(gs_op_resolve(&look_ups[i], "127.0.0.1", NULL, NULL, &found[i]), 0);
    }
    for (int i = 0; i < 100; i += 3)
        gs_op_cancel(&look_ups[i]);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 200);
    for (int i = 0; i < 100; i++)
        if (found[i])
            freeaddrinfo(found[i]);
}

/* ---- After a fork ---- */

static int check_child(void)
{
    alarm(60);
    if (gs_loop_after_fork(loop) || gs_loop_run(loop))
        return 1;
    if (done != 2 || result != -ECANCELED || other_result != -ECANCELED)
        return 2;
    if (gs_op_resolve(&op, "127.0.0.1", NULL, NULL, &addresses) || gs_loop_run(loop) || result)
        return 3;
    freeaddrinfo(addresses);
    if (gs_op_open(&op, AT_FDCWD, "/dev/null", &for_reading) || gs_loop_run(loop) || result < 0)
        return 4;
    gs_loop_free(loop);
    return 7;
}

/* The only kernel thread for look-ups is occupied by one, so that at the fork the other one has not
 * started, and no kernel thread is just starting, with locks of an allocator held. */
TEST(child_gets_the_operations_of_the_parent_canceled)
{
    int status;
#ifdef GS_EMULATED
    SKIP("the emulator crashes in a fork with several kernel threads");
#endif
    if (GS_TSAN)
        SKIP("the thread sanitizer does not support kernel threads in a child");
    set_up();
    occupy_look_ups();
    CHECK_EQ(gs_op_resolve(&op, QUICK, NULL, NULL, &addresses), 0);
    pid_t pid = fork();
    if (!pid)
        _exit(check_child());
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 7 << 8);
    sem_post(&may_return);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result, 0);
    CHECK_EQ(other_result, 0);
    freeaddrinfo(addresses);
    freeaddrinfo(other_addresses);
    gs_loop_free(loop);
}
