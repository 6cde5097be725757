#include "tests/libevent/bev.h"

#include <event2/bufferevent_struct.h>
#include <event2/thread.h>

#define ROUNDS 200

static void use_threads(void)
{
    static bool is_used;
    if (!is_used)
        CHECK_EQ(evthread_use_pthreads(), 0);
    is_used = true;
}

TEST(without_locks_a_bufferevent_cannot_be_thread_safe)
{
    struct event_base *base = event_base_new();
    CHECK(!bufferevent_socket_new(base, -1, BEV_OPT_THREADSAFE));
    struct bufferevent *pair[2];
    CHECK_EQ(bufferevent_pair_new(base, BEV_OPT_THREADSAFE, pair), -1);
    struct bufferevent *bev = bufferevent_socket_new(base, -1, 0);
    bufferevent_lock(bev);
    bufferevent_unlock(bev);
    bufferevent_free(bev);
    event_base_free(base);
}

static void count_input(struct bufferevent *bev, void *count)
{
    struct evbuffer *input = bufferevent_get_input(bev);
    size_t length = evbuffer_get_length(input);
    evbuffer_drain(input, length);
    atomic_fetch_add((atomic_size_t *)count, length);
}

static void *run_loop(void *base)
{
    event_base_loop(base, EVLOOP_NO_EXIT_ON_EMPTY);
    return NULL;
}

static void wait_for(atomic_size_t *count, size_t wanted)
{
    for (int i = 0; atomic_load(count) < wanted && i < 20000; i++)
        usleep(1000);
    CHECK_EQ(atomic_load(count), wanted);
}

static void count_call(evutil_socket_t fd, short what, void *count)
{
    (void)fd;
    (void)what;
    atomic_fetch_add((atomic_size_t *)count, 1);
}

/* Returns when the loop runs: its start would forget a break. */
static pthread_t start_loop(struct event_base *base)
{
    pthread_t thread;
    atomic_size_t count = 0;
    CHECK_EQ(event_base_once(base, -1, EV_TIMEOUT, count_call, &count, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, run_loop, base), 0);
    wait_for(&count, 1);
    return thread;
}

static void write_from_threads(int options)
{
    use_threads();
    struct event_base *base = event_base_new();
    int fds[2];
    make_sockets(fds);
    options |= BEV_OPT_THREADSAFE | BEV_OPT_CLOSE_ON_FREE;
    struct bufferevent *writer = bufferevent_socket_new(base, fds[0], options);
    struct bufferevent *reader = bufferevent_socket_new(base, fds[1], options);
    atomic_size_t count = 0;
    bufferevent_setcb(reader, count_input, NULL, NULL, &count);
    bufferevent_enable(reader, EV_READ);
    pthread_t thread;
    pthread_create(&thread, NULL, run_loop, base);
    for (int i = 0; i < ROUNDS; i++) {
        bufferevent_lock(writer);
        CHECK_EQ(bufferevent_write(writer, "ab", 2), 0);
        CHECK_EQ(bufferevent_write(writer, "c", 1), 0);
        bufferevent_unlock(writer);
        if (i % 16 == 0)
            wait_for(&count, 3 * ((size_t)i + 1));
    }
    wait_for(&count, (size_t)3 * ROUNDS);
    bufferevent_free(writer);
    bufferevent_free(reader);
    for (int i = 0; (is_open(fds[0]) || is_open(fds[1])) && i < 20000; i++)
        usleep(1000);
    event_base_loopbreak(base);
    pthread_join(thread, NULL);
    CHECK(!is_open(fds[0]) && !is_open(fds[1]));
    event_base_free(base);
}

TEST(another_thread_may_write)
{
    write_from_threads(0);
}

TEST(another_thread_may_write_while_callbacks_are_deferred)
{
    write_from_threads(BEV_OPT_DEFER_CALLBACKS);
}

TEST(another_thread_may_write_while_callbacks_are_unlocked)
{
    write_from_threads(BEV_OPT_DEFER_CALLBACKS | BEV_OPT_UNLOCK_CALLBACKS);
}

TEST(another_thread_may_free_it_while_callbacks_are_pending)
{
    use_threads();
    struct event_base *base = event_base_new();
    pthread_t thread = start_loop(base);
    const int options = BEV_OPT_THREADSAFE | BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS;
    atomic_size_t count = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int fds[2];
        make_sockets(fds);
        struct bufferevent *bev = bufferevent_socket_new(base, fds[0], options);
        bufferevent_setcb(bev, count_input, NULL, NULL, &count);
        bufferevent_enable(bev, EV_READ | EV_WRITE);
        CHECK_EQ(write(fds[1], "abc", 3), 3);
        bufferevent_trigger(bev, EV_READ, 0);
        if (i % 2)
            usleep(100);
        bufferevent_free(bev);
        close(fds[1]);
    }
    event_base_loopbreak(base);
    pthread_join(thread, NULL);
    settle(base); /* deferred callbacks hold references */
    event_base_free(base);
}

TEST(a_pair_shares_its_lock_and_each_half_may_outlive_the_other)
{
    use_threads();
    struct event_base *base = event_base_new();
    pthread_t thread;
    pthread_create(&thread, NULL, run_loop, base);
    atomic_size_t count = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct bufferevent *pair[2];
        CHECK_EQ(bufferevent_pair_new(base, BEV_OPT_THREADSAFE, pair), 0);
        bufferevent_setcb(pair[1], count_input, NULL, NULL, &count);
        bufferevent_enable(pair[1], EV_READ);
        CHECK_EQ(bufferevent_write(pair[0], "abcd", 4), 0);
        wait_for(&count, 4 * ((size_t)i + 1));
        bufferevent_free(pair[i % 2]);
        bufferevent_free(pair[1 - i % 2]);
    }
    event_base_loopbreak(base);
    pthread_join(thread, NULL);
    settle(base); /* deferred callbacks hold references */
    event_base_free(base);
}

static void note_event_flag(struct bufferevent *bev, short what, void *flag)
{
    (void)bev;
    if (what & BEV_EVENT_EOF)
        atomic_fetch_add((atomic_size_t *)flag, 1);
}

TEST(a_filter_has_the_lock_of_what_is_below)
{
    use_threads();
    struct event_base *base = event_base_new();
    int fds[2];
    make_sockets(fds);
    struct bufferevent *below = bufferevent_socket_new(base, fds[0], BEV_OPT_CLOSE_ON_FREE);
    struct bufferevent *filter = bufferevent_filter_new(
        below, NULL, NULL, BEV_OPT_THREADSAFE | BEV_OPT_CLOSE_ON_FREE, NULL, NULL);
    CHECK(filter);
    atomic_size_t ends = 0;
    bufferevent_setcb(filter, NULL, NULL, note_event_flag, &ends);
    bufferevent_enable(filter, EV_READ | EV_WRITE);
    pthread_t thread;
    pthread_create(&thread, NULL, run_loop, base);
    char byte;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_EQ(bufferevent_write(filter, "x", 1), 0);
        while (read(fds[1], &byte, 1) != 1)
            usleep(100);
    }
    close(fds[1]);
    wait_for(&ends, 1);
    event_base_loopbreak(base);
    pthread_join(thread, NULL);
    bufferevent_free(filter);
    settle(base);
    CHECK(!is_open(fds[0]));
    event_base_free(base);
}

TEST(a_group_limits_members_of_two_threads)
{
    use_threads();
    struct event_base *bases[2] = {event_base_new(), event_base_new()};
    const struct timeval tick = {0, 2000};
    struct ev_token_bucket_cfg *cfg = ev_token_bucket_cfg_new(500, 1000, 500, 1000, &tick);
    struct bufferevent_rate_limit_group *group = bufferevent_rate_limit_group_new(bases[0], cfg);
    struct bufferevent *bevs[2];
    pthread_t threads[2];
    int fds[2][2];
    char bytes[10000] = {0};
    atomic_size_t count = 0;
    for (int i = 0; i < 2; i++) {
        make_sockets(fds[i]);
        bevs[i] =
            bufferevent_socket_new(bases[i], fds[i][0], BEV_OPT_THREADSAFE | BEV_OPT_CLOSE_ON_FREE);
        bufferevent_setcb(bevs[i], count_input, NULL, NULL, &count);
        CHECK_EQ(bufferevent_add_to_rate_limit_group(bevs[i], group), 0);
        CHECK_EQ(write(fds[i][1], bytes, sizeof bytes), (ssize_t)sizeof bytes);
        bufferevent_enable(bevs[i], EV_READ);
        pthread_create(&threads[i], NULL, run_loop, bases[i]);
    }
    wait_for(&count, 2 * sizeof bytes);
    for (int i = 0; i < 2; i++) {
        event_base_loopbreak(bases[i]);
        pthread_join(threads[i], NULL);
        bufferevent_free(bevs[i]);
        settle(bases[i]);
        close(fds[i][1]);
    }
    bufferevent_rate_limit_group_free(group);
    event_base_free(bases[0]);
    event_base_free(bases[1]);
    ev_token_bucket_cfg_free(cfg);
}
