#include "base/sanitized.h"
#include "tests/loop/fixture.h"

#include <semaphore.h>

enum { MANY = 200 };

struct item {
    struct gs_work work;
    int number, result;
    pthread_t runner;
    bool is_run;
};

static struct gs_loop *loop;
static struct item items[MANY];
static int done;
static sem_t may_return, has_started;

static void set_up(void)
{
    loop = new_loop();
    done = 0;
    sem_init(&may_return, 0, 0);
    sem_init(&has_started, 0, 0);
}

static struct item *item_of(struct gs_work *work)
{
    return gs_container_of(work, struct item, work);
}

static void square(struct gs_work *work)
{
    struct item *item = item_of(work);
    item->runner = pthread_self();
    item->number *= item->number;
    item->is_run = true;
}

static void block(struct gs_work *work)
{
    sem_post(&has_started);
    while (sem_wait(&may_return))
        ;
    square(work);
}

static void on_done(struct gs_work *work, int result)
{
    item_of(work)->result = result;
    done++;
}

static void init_item(int i, gs_work_done_fn *callback)
{
    items[i] = (struct item){.number = i, .result = 1};
    gs_work_init(&items[i].work, loop, callback);
}

/* Start items that occupy all kernel threads, of which there are at most this many. */
static void occupy(int threads)
{
    gs_loop_set_work_threads(loop, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        init_item(i, on_done);
        CHECK_EQ(gs_work_start(&items[i].work, block), 0);
    }
    for (int i = 0; i < threads; i++)
        while (sem_wait(&has_started))
            ;
}

static void release(int threads)
{
    for (int i = 0; i < threads; i++)
        sem_post(&may_return);
}

#define WORK_TEST(name_) FIXTURE_TEST(name_, set_up(), gs_loop_free(loop))

WORK_TEST(work_is_run_by_another_kernel_thread_and_calls_back_on_the_loop)
{
    init_item(7, on_done);
    CHECK_EQ(gs_work_start(&items[7].work, square), 0);
    CHECK(gs_watcher_is_active(&items[7].work.watcher));
    CHECK_EQ(gs_watcher_kind(&items[7].work.watcher), GS_WATCHER_WORK);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 1);
    CHECK_EQ(items[7].result, 0);
    CHECK_EQ(items[7].number, 49);
    CHECK(!pthread_equal(items[7].runner, pthread_self()));
    CHECK(!gs_watcher_is_active(&items[7].work.watcher));
}

WORK_TEST(much_work_is_all_done)
{
    for (int i = 0; i < MANY; i++) {
        init_item(i, on_done);
        CHECK_EQ(gs_work_start(&items[i].work, square), 0);
    }
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, MANY);
    for (int i = 0; i < MANY; i++)
        CHECK(!items[i].result && items[i].number == i * i);
    gs_loop_check(loop);
}

static void start_again(struct gs_work *work, int result)
{
    CHECK_EQ(result, 0);
    if (++done < 50)
        CHECK_EQ(gs_work_start(work, square), 0);
}

WORK_TEST(work_can_be_started_again_in_its_callback)
{
    init_item(1, start_again);
    CHECK_EQ(gs_work_start(&items[1].work, square), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 50);
}

WORK_TEST(active_work_is_not_started_again_nor_fed)
{
    occupy(1);
    CHECK_EQ(gs_work_start(&items[0].work, square), -EBUSY);
    gs_watcher_feed(&items[0].work.watcher, 0);
    step(loop);
    CHECK_EQ(done, 0);
    release(1);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 1);
}

WORK_TEST(canceled_work_that_has_not_started_is_not_run_until_it_is_started_again)
{
    occupy(2);
    for (int i = 2; i < 6; i++) {
        init_item(i, on_done);
        CHECK_EQ(gs_work_start(&items[i].work, square), 0);
    }
    gs_work_cancel(&items[3].work);
    gs_work_cancel(&items[3].work);
    gs_work_cancel(&items[5].work);
    CHECK_EQ(done, 0);
    step(loop);
    CHECK_EQ(done, 2);
    CHECK_EQ(items[3].result, -ECANCELED);
    CHECK_EQ(items[5].result, -ECANCELED);
    release(2);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 6);
    CHECK(!items[3].is_run && !items[5].is_run);
    CHECK(items[2].is_run && items[4].is_run && !items[2].result && !items[4].result);
    gs_work_cancel(&items[2].work);
    CHECK_EQ(gs_work_start(&items[3].work, square), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK(items[3].is_run && !items[3].result);
}

WORK_TEST(canceled_work_that_has_started_is_completed)
{
    occupy(1);
    gs_work_cancel(&items[0].work);
    step(loop);
    CHECK_EQ(done, 0);
    release(1);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 1);
    CHECK_EQ(items[0].result, 0);
    CHECK(items[0].is_run);
    gs_work_cancel(&items[0].work);
    CHECK_EQ(step(loop), 0);
}

WORK_TEST(work_begins_in_the_order_of_its_start)
{
    gs_loop_set_work_threads(loop, 1);
    occupy(1);
    for (int i = 1; i < 20; i++) {
        init_item(i, on_done);
        CHECK_EQ(gs_work_start(&items[i].work, block), 0);
    }
    for (int i = 0; i < 20; i++) {
        release(1);
        while (!done)
            CHECK(gs_loop_run_once(loop, GS_NEVER) >= 0);
        CHECK_EQ(done, 1);
        CHECK(items[i].is_run);
        done = 0;
    }
}

static void visit(struct gs_watcher *watcher, void *data)
{
    CHECK_EQ(gs_watcher_kind(watcher), GS_WATCHER_WORK);
    ++*(int *)data;
}

WORK_TEST(active_work_is_visited)
{
    int visits = 0;
    occupy(2);
    CHECK_EQ(gs_loop_walk(loop, GS_WATCHER_WORK, visit, &visits), 2);
    CHECK_EQ(gs_loop_walk(loop, GS_WATCHER_ASYNC, visit, &visits), 0);
    CHECK_EQ(visits, 2);
    release(2);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(gs_loop_walk(loop, GS_WATCHER_WORK, visit, &visits), 0);
}

/* ---- Kernel threads that cannot be created ---- */

static atomic_int creations_left = 100000;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*fn)(void *argument), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*fn)(void *argument), void *argument);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*fn)(void *argument), void *argument)
{
    if (!creations_left)
        return EAGAIN;
    creations_left--;
    return __real_pthread_create(thread, attributes, fn, argument);
}

TEST(work_is_refused_without_any_kernel_thread_and_waits_for_one_if_there_are_few)
{
    set_up();
    init_item(3, on_done);
    creations_left = 0;
    CHECK_EQ(gs_work_start(&items[3].work, square), -EAGAIN);
    CHECK(!gs_watcher_is_active(&items[3].work.watcher));
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 0);
    creations_left = 1;
    for (int i = 0; i < 20; i++) {
        init_item(i, on_done);
        CHECK_EQ(gs_work_start(&items[i].work, square), 0);
    }
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 20);
    gs_loop_free(loop);
    creations_left = 100000;
}

WORK_TEST(unreferenced_work_does_not_keep_the_loop_running)
{
    occupy(1);
    gs_watcher_unref(&items[0].work.watcher);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 0);
    release(1);
}

/* Whether the loop, which is being freed, has taken back the last of the items that wait. It writes
 * this without a lock. */
__attribute__((no_sanitize("thread"))) static bool is_last_taken_back(void)
{
    return *(volatile bool *)&items[3].work.is_canceled;
}

static void *release_later(void *unused)
{
    while (!is_last_taken_back())
        usleep(1000);
    usleep(20000);
    release(1);
    return unused;
}

TEST(freed_loop_waits_for_work_that_has_started_and_drops_the_rest)
{
    pthread_t releaser;
    set_up();
    occupy(1);
    for (int i = 1; i < 4; i++) {
        init_item(i, on_done);
        CHECK_EQ(gs_work_start(&items[i].work, square), 0);
    }
    gs_work_cancel(&items[2].work);
    CHECK_EQ(pthread_create(&releaser, NULL, release_later, NULL), 0);
    gs_loop_free(loop);
    CHECK(items[0].is_run);
    CHECK(!items[1].is_run && !items[2].is_run && !items[3].is_run);
    CHECK_EQ(done, 0);
    pthread_join(releaser, NULL);
}

/* Whatever the kernel threads do at that moment. */
TEST(loop_can_be_freed_while_work_completes)
{
    for (int round = 0; round < 100; round++) {
        set_up();
        for (int i = 0; i < 10; i++) {
            init_item(i, on_done);
            CHECK_EQ(gs_work_start(&items[i].work, square), 0);
        }
        for (int k = 0; k < round % 4; k++)
            step(loop);
        gs_loop_free(loop);
        memset(items, 0, sizeof items);
    }
}

static void note(struct gs_work *work, int result)
{
    item_of(work)->result = result;
}

/* With epoll always: the thread sanitizer does not notice that memory which one loop's ring has
 * unmapped is mapped for another's. */
static void *use_own_loop(void *failed)
{
    for (int round = 0; round < 30; round++) {
        struct gs_loop *own = NULL;
        struct item mine[8];
        *(int *)failed |= gs_loop_new_with("epoll", &own) != 0;
        for (int i = 0; i < 8; i++) {
            mine[i] = (struct item){.number = i, .result = 1};
            gs_work_init(&mine[i].work, own, note);
            *(int *)failed |= gs_work_start(&mine[i].work, square) != 0;
        }
        *(int *)failed |= gs_loop_run(own) != 0;
        for (int i = 0; i < 8; i++)
            *(int *)failed |= mine[i].result || mine[i].number != i * i;
        gs_loop_free(own);
    }
    return NULL;
}

TEST(several_loops_share_the_pool)
{
    pthread_t threads[4];
    int failed[4] = {0};
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, use_own_loop, &failed[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(failed[i], 0);
}

static void look_at_signals(struct gs_work *work)
{
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    item_of(work)->number = sigismember(&blocked, SIGTERM);
}

WORK_TEST(no_more_kernel_threads_run_work_than_the_pool_may_have)
{
    struct timespec until;
    int started = 0;
    gs_loop_set_work_threads(loop, 100000);
    for (int i = 0; i < 100; i++) {
        init_item(i, on_done);
        CHECK_EQ(gs_work_start(&items[i].work, block), 0);
    }
    for (; started < 64; started++)
        while (sem_wait(&has_started))
            ;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    CHECK_EQ(sem_timedwait(&has_started, &until), -1);
    release(100);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 100);
}

WORK_TEST(signals_are_blocked_in_work)
{
    init_item(0, on_done);
    CHECK_EQ(gs_work_start(&items[0].work, look_at_signals), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(items[0].number, 1);
}

/* ---- After a fork ---- */

static int end_of(pid_t pid)
{
    int status = -1;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

/* One has started, one waits, and one is canceled. */
static int check_child(void)
{
    alarm(60);
    /* As a kernel thread leaves it that was sending at the fork. */
    items[0].work.watcher.pending.next = &items[1].work.watcher.pending;
    if (gs_loop_after_fork(loop) || gs_loop_run(loop) || done != 3)
        return 1;
    if (items[0].result != -ECANCELED || items[1].result != -ECANCELED ||
        items[2].result != -ECANCELED || items[1].is_run)
        return 2;
    init_item(5, on_done);
    if (gs_work_start(&items[5].work, square) || gs_loop_run(loop))
        return 3;
    if (items[5].number != 25 || items[5].result)
        return 4;
    gs_loop_free(loop);
    return 7;
}

TEST(child_gets_the_work_of_the_parent_canceled_and_has_a_pool_of_its_own)
{
#ifdef GS_EMULATED
    SKIP("the emulator crashes in a fork with several kernel threads");
#endif
    if (GS_TSAN)
        SKIP("the thread sanitizer does not support kernel threads in a child");
    set_up();
    occupy(1);
    for (int i = 1; i < 3; i++) {
        init_item(i, on_done);
        CHECK_EQ(gs_work_start(&items[i].work, square), 0);
    }
    gs_work_cancel(&items[2].work);
    pid_t pid = fork();
    if (!pid)
        _exit(check_child());
    CHECK_EQ(end_of(pid), 7 << 8);
    release(1);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 3);
    CHECK(items[0].is_run && items[1].is_run && !items[2].is_run);
    gs_loop_free(loop);
}

/* gcc's address sanitizer does not hold its allocator's locks during a fork, and the pool's kernel
 * threads allocate when they start. */
#if !defined(__SANITIZE_ADDRESS__) || defined(__clang__)
/* At any point of a kernel thread's way through its work. */
WORK_TEST(fork_may_happen_at_any_moment_of_work)
{
    for (int round = 0; round < 100; round++) {
        done = 0;
        for (int i = 0; i < 6; i++) {
            init_item(i, on_done);
            CHECK_EQ(gs_work_start(&items[i].work, square), 0);
        }
        pid_t pid = fork();
        if (!pid) {
            alarm(60);
            _exit(gs_loop_after_fork(loop) || gs_loop_run(loop) || done != 6);
        }
        CHECK_EQ(end_of(pid), 0);
        CHECK_EQ(gs_loop_run(loop), 0);
        CHECK_EQ(done, 6);
    }
}
#endif
