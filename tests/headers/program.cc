// A C++ program that includes all public headers, and uses the loop, user threads and a mutex.

#include <gossamer/buffered.h>
#include <gossamer/histogram.h>
#include <gossamer/http.h>
#include <gossamer/io.h>
#include <gossamer/loop.h>
#include <gossamer/net.h>
#include <gossamer/stage.h>
#include <gossamer/sync.h>
#include <gossamer/sys.h>
#include <gossamer/version.h>

#include <cerrno>
#include <cstdio>

namespace
{

constexpr int threads = 10, turns = 100;

struct counter {
    gs_mutex mutex;
    gs_wait_group group;
    int value;
};

void *count(void *argument)
{
    auto *shared = static_cast<counter *>(argument);
    for (int i = 0; i < turns; i++) {
        if (gs_mutex_lock(&shared->mutex, GS_NEVER))
            break;
        int before = shared->value;
        gs_thread_yield();
        shared->value = before + 1;
        gs_mutex_unlock(&shared->mutex);
    }
    gs_wait_group_done(&shared->group);
    return nullptr;
}

void *first(void *argument)
{
    auto *shared = static_cast<counter *>(argument);
    gs_wait_group_add(&shared->group, threads);
    for (int i = 0; i < threads; i++)
        if (gs_thread_spawn(nullptr, count, shared, nullptr))
            gs_wait_group_done(&shared->group);
    return gs_wait_group_wait(&shared->group, GS_NEVER) ? nullptr : shared;
}

bool threads_count(unsigned workers)
{
    counter shared = {};
    gs_threads_options options = {};
    void *result = nullptr;
    options.workers = workers;
    int err = gs_threads_run(&options, first, &shared, &result);
    return !err && result == &shared && shared.value == threads * turns;
}

struct ticker {
    gs_timer timer;
    gs_list link;
    int ticks;
};

void on_timer(gs_timer *timer)
{
    auto *self = gs_container_of(timer, ticker, timer);
    if (++self->ticks == 3)
        gs_loop_stop(timer->watcher.loop);
}

bool loop_ticks()
{
    gs_loop *loop = nullptr;
    if (gs_loop_new(&loop))
        return false;
    ticker one = {};
    gs_list all;
    int linked = 0;
    gs_list_init(&all);
    gs_list_append(&all, &one.link);
    GS_LIST_FOREACH (link, &all)
        linked++;
    gs_timer_init(&one.timer, loop, on_timer);
    int err = gs_timer_start_repeat(&one.timer, gs_loop_now(loop), GS_MILLISECOND);
    if (!err)
        err = gs_loop_run(loop);
    bool is_timer = gs_watcher_kind(&one.timer.watcher) == GS_WATCHER_TIMER;
    gs_loop_free(loop);
    return !err && one.ticks == 3 && linked == 1 && is_timer;
}

bool check(bool holds, const char *what)
{
    if (!holds)
        std::fprintf(stderr, "%s failed\n", what);
    return holds;
}

} // namespace

int main()
{
    bool all_hold = check(loop_ticks(), "the loop");
    all_hold &= check(threads_count(1), "threads of one worker");
    all_hold &= check(threads_count(2), "threads of two workers");
    return all_hold ? 0 : 1;
}
