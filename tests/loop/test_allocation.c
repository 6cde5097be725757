/* Allocation failures: a start that fails changes nothing. The test replaces the allocator, which
 * sanitizers do not allow. */
#include "base/sanitized.h"
#include "tests/loop/fixture.h"

#if GS_ASAN || GS_TSAN

TEST(allocations_that_fail)
{
    SKIP("a sanitizer replaces the allocator");
}

#else

void *__libc_malloc(size_t n);
void *__libc_realloc(void *old, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

static int passing = -1; /* number of allocations that succeed before one fails; -1: all succeed */

static bool is_failing(void)
{
    if (passing < 0)
        return false;
    return passing-- == 0;
}

void *malloc(size_t n)
{
    return is_failing() ? NULL : __libc_malloc(n);
}

void *realloc(void *old, size_t n)
{
    return is_failing() ? NULL : __libc_realloc(old, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return is_failing() ? NULL : __libc_memalign(alignment, n);
}

TEST(loop_without_memory_is_refused_and_leaks_no_descriptor)
{
    int next_fd = dup(0);
    close(next_fd);
    for (int n = 0; n < 4; n++) {
        struct gs_loop *loop = NULL;
        passing = n;
        CHECK_EQ(gs_loop_new(&loop), -ENOMEM);
        passing = -1;
        CHECK(!loop);
    }
    int fd = dup(0);
    close(fd);
    CHECK_EQ(fd, next_fd);
}

TEST(descriptor_without_memory_for_its_slot_does_not_start)
{
    int pair[2];
    struct gs_io io;
    struct gs_loop *loop = new_loop();
    connect_pair(pair);
    put_byte(pair[1]);
    int fd = fcntl(pair[0], F_DUPFD, 100);
    gs_io_init(&io, loop, log_io);
    io.watcher.data = "i";
    gs_io_set(&io, fd, GS_READ);
    for (int n = 0; n < 2; n++) {
        passing = n;
        CHECK_EQ(gs_io_start(&io), -ENOMEM);
        passing = -1;
        CHECK(!gs_watcher_is_active(&io.watcher));
        CHECK_EQ(step(loop), 0);
    }
    CHECK_EQ(gs_io_start(&io), 0);
    CHECK_EQ(step(loop), 1);
    gs_loop_free(loop);
    close(fd);
    close_pair(pair);
}

TEST(timer_without_memory_does_not_start_and_active_ones_need_none)
{
    static struct gs_timer timers[1000];
    struct gs_loop *loop = new_loop();
    int failed = 0;
    passing = 0;
    for (int i = 0; i < 1000; i++) {
        gs_timer_init(&timers[i], loop, log_timer);
        timers[i].watcher.data = "";
        int err = gs_timer_start(&timers[i], 1 + (uint64_t)i);
        CHECK(!err || err == -ENOMEM);
        CHECK_EQ(gs_watcher_is_active(&timers[i].watcher), !err);
        failed += err != 0;
        if (err) {
            passing = -1;
            CHECK_EQ(gs_timer_start(&timers[i], 1 + (uint64_t)i), 0);
            passing = 0;
        }
    }
    CHECK(failed > 1);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(gs_timer_start(&timers[i], 1 + (uint64_t)(i % 7)), 0);
    CHECK_EQ(step(loop), 1000);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(gs_timer_start(&timers[i], 1), 0);
    passing = -1;
    gs_loop_check(loop);
    gs_loop_free(loop);
}

static unsigned last_events;

static void on_file(struct gs_io *io, unsigned events)
{
    (void)io;
    last_events = events;
}

TEST(regular_file_without_memory_to_list_it_fails_its_watcher)
{
    FILE *file = tmpfile();
    struct gs_io io;
    struct gs_loop *loop = new_loop();
    gs_io_init(&io, loop, on_file);
    start_io(&io, fileno(file), GS_READ);
    passing = 0;
    CHECK_EQ(step(loop), 1);
    passing = -1;
    CHECK_EQ(last_events, GS_FAILED);
    CHECK_EQ(gs_io_error(&io), -ENOMEM);
    CHECK_EQ(gs_io_start(&io), 0);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(last_events, GS_READ);
    gs_loop_free(loop);
    fclose(file);
}

static void on_periodic(struct gs_periodic *periodic)
{
    log_call(&periodic->watcher);
}

static void on_change(struct gs_file *file, unsigned events)
{
    (void)events;
    log_call(&file->watcher);
}

TEST(periodics_and_files_without_memory_do_not_start)
{
    struct gs_periodic periodic;
    struct gs_file file;
    struct gs_loop *loop = new_loop();
    int next_fd = dup(0);
    close(next_fd);
    gs_periodic_init(&periodic, loop, on_periodic);
    gs_file_init(&file, loop, on_change);
    periodic.watcher.data = "p";
    file.watcher.data = "f";
    passing = 0;
    CHECK_EQ(gs_periodic_start(&periodic, 1), -ENOMEM);
    passing = 0;
    CHECK_EQ(gs_file_start(&file, "/etc", 0), -ENOMEM);
    passing = -1;
    CHECK(!gs_watcher_is_active(&periodic.watcher) && !gs_watcher_is_active(&file.watcher));
    int fd = dup(0);
    close(fd);
    CHECK_EQ(fd, next_fd);
    CHECK_EQ(step(loop), 0);
    CHECK_EQ(gs_periodic_start(&periodic, 1), 0);
    CHECK_EQ(gs_file_start(&file, "/etc", 0), 0);
    CHECK_EQ(step(loop), 1);
    gs_loop_free(loop);
}

static void count_visit(struct gs_watcher *watcher, void *data)
{
    (void)watcher;
    ++*(int *)data;
}

TEST(walk_without_memory_visits_nothing)
{
    struct gs_timer timer;
    int visits = 0;
    struct gs_loop *loop = new_loop();
    gs_timer_init(&timer, loop, log_timer);
    CHECK_EQ(gs_timer_start(&timer, GS_NEVER), 0);
    passing = 0;
    CHECK_EQ(gs_loop_walk(loop, GS_WATCHERS_ALL, count_visit, &visits), -ENOMEM);
    passing = -1;
    CHECK_EQ(visits, 0);
    CHECK_EQ(gs_loop_walk(loop, GS_WATCHERS_ALL, count_visit, &visits), 1);
    CHECK_EQ(visits, 1);
    gs_loop_free(loop);
}

TEST(waiting_collecting_and_changing_allocate_nothing)
{
    int pair[2];
    struct gs_io io;
    struct gs_timer timer;
    struct gs_loop *loop = new_loop();
    connect_pair(pair);
    gs_io_init(&io, loop, log_io);
    gs_timer_init(&timer, loop, log_timer);
    io.watcher.data = timer.watcher.data = "";
    start_io(&io, pair[0], GS_READ);
    CHECK_EQ(gs_timer_start(&timer, 1), 0);
    put_byte(pair[1]);
    passing = 0;
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(gs_timer_start(&timer, 1), 0);
        gs_io_stop(&io);
        CHECK_EQ(gs_io_start(&io), 0);
        gs_io_set_events(&io, GS_READ | GS_WRITE);
        CHECK_EQ(step(loop), 2);
    }
    CHECK_EQ(passing, 0);
    passing = -1;
    gs_loop_free(loop);
    close_pair(pair);
}

#endif
