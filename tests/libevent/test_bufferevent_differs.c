/* A filter that another thread frees while a callback in the loop waits for its lock: libevent
 * releases what is below it twice. */
#include "tests/libevent/bev.h"

#include <event2/thread.h>

static void *run(void *base)
{
    event_base_loop(base, EVLOOP_NO_EXIT_ON_EMPTY);
    return NULL;
}

/* The timeout is due in the loop while this thread has the lock. */
TEST(a_filter_releases_what_is_below_it_once)
{
    CHECK_EQ(evthread_use_pthreads(), 0);
    struct event_base *base = event_base_new();
    struct bufferevent *pair[2];
    CHECK_EQ(bufferevent_pair_new(base, BEV_OPT_THREADSAFE, pair), 0);
    const int options = BEV_OPT_THREADSAFE | BEV_OPT_CLOSE_ON_FREE;
    struct bufferevent *filter = bufferevent_filter_new(pair[0], NULL, NULL, options, NULL, NULL);
    CHECK(filter);
    bufferevent_incref(pair[0]);
    bufferevent_lock(filter);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, run, base), 0);
    struct timeval timeout = {0, 1};
    bufferevent_set_timeouts(filter, &timeout, NULL);
    bufferevent_enable(filter, EV_READ);
    usleep(50000);
    bufferevent_free(filter);
    bufferevent_unlock(pair[0]);
    event_base_loopexit(base, NULL);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    settle(base);
    CHECK_EQ(bufferevent_write(pair[0], "abc", 3), 0);
    CHECK_EQ(bufferevent_decref(pair[0]), 1);
    bufferevent_free(pair[1]);
    settle(base);
    event_base_free(base);
}
