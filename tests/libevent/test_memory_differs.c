/* Allocations that fail where libevent crashes, or goes on without what was to be allocated. */
#include "tests/libevent/bev.h"
#include "tests/libevent/failing_memory.h"

#include <event2/listener.h>
#include <event2/thread.h>

static void on_nothing(evutil_socket_t fd, short events, void *argument)
{
    (void)fd, (void)events, (void)argument;
}

static void make_configured_base(void)
{
    struct event_config *config = event_config_new();
    event_config_avoid_method(config, "select");
    event_config_avoid_method(config, "kqueue");
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    event_base_free(base);
}

static void use_events(void)
{
    struct event_base *base = event_base_new();
    const struct timeval soon = {0, 1};
    const short kinds[] = {EV_TIMEOUT, EV_SIGNAL | EV_PERSIST};
    event_base_priority_init(base, 3);
    event_base_init_common_timeout(base, &soon);
    for (int i = 0; i < 2; i++) {
        struct event *event = event_new(base, i ? SIGUSR1 : -1, kinds[i], on_nothing, NULL);
        event_add(event, &soon);
        event_base_loop(base, EVLOOP_NONBLOCK);
        event_free(event);
        event_base_once(base, -1, EV_TIMEOUT, on_nothing, NULL, &soon);
    }
    event_reinit(base);
    event_base_free(base);
}

static void use_buffers(void)
{
    struct event_base *base = event_base_new();
    struct bufferevent *pair[2];
    struct evbuffer *buffer = evbuffer_new();
    evbuffer_add_printf(buffer, "%05000d", 1);
    evbuffer_pullup(buffer, -1);
    CHECK_EQ(bufferevent_pair_new(base, BEV_OPT_DEFER_CALLBACKS, pair), 0);
    bufferevent_write_buffer(pair[0], buffer);
    settle(base);
    evbuffer_free(buffer);
    for (int i = 0; i < 2; i++)
        bufferevent_free(pair[i]);
    event_base_free(base);
}

/* Also no NULL, which the functions of a program may not expect. */
TEST(the_functions_of_the_program_get_only_what_they_have_given)
{
    static void (*const uses[])(void) = {make_configured_base, use_events, use_buffers};
    count_memory();
    refuses_null = true;
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        int before = blocks;
        uses[i]();
        CHECK_EQ(blocks, before);
    }
}

/* Returns whether the filter was made. */
static bool make_filter(int limit)
{
    struct event_base *base = event_base_new();
    struct bufferevent *pair[2];
    CHECK_EQ(bufferevent_pair_new(base, 0, pair), 0);
    note_all(pair[0], "below");
    allowed = limit;
    struct bufferevent *filter =
        bufferevent_filter_new(pair[0], NULL, NULL, BEV_OPT_CLOSE_ON_FREE, NULL, NULL);
    allowed = -1;
    if (!filter) { /* what is below is as it was */
        bufferevent_enable(pair[0], EV_READ);
        bufferevent_write(pair[1], "abc", 3);
        settle(base);
        CHECK_TRACE("below:read 3;");
    }
    bufferevent_free(filter ? filter : pair[0]);
    bufferevent_free(pair[1]);
    event_base_free(base);
    return filter;
}

TEST(a_filter_without_memory_is_not_made)
{
    count_memory();
    int before = blocks, limit = 0;
    while (!make_filter(limit)) {
        CHECK_EQ(blocks, before);
        limit++;
    }
    CHECK_EQ(blocks, before);
    CHECK(limit >= 5);
}

/* Allow more and more allocations, until the object is made: then none has failed, and before it
 * nothing is left of it. */
static void *make(void *(*fn)(void *), void *argument)
{
    void *made = NULL;
    for (int limit = 0; !made; limit++) {
        int before = blocks;
        has_failed = false;
        allowed = limit;
        made = fn(argument);
        CHECK(!made || !has_failed);
        allowed = -1;
        CHECK(made || blocks == before);
    }
    return made;
}

static void *make_base(void *unused)
{
    (void)unused;
    return event_base_new();
}

static void *make_listener(void *base)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return evconnlistener_new_bind(base, NULL, NULL, LEV_OPT_THREADSAFE | LEV_OPT_CLOSE_ON_FREE, -1,
                                   (struct sockaddr *)&address, sizeof address);
}

static void *make_group(void *base)
{
    struct ev_token_bucket_cfg *cfg = ev_token_bucket_cfg_new(1, 1, 1, 1, NULL);
    if (!cfg)
        return NULL;
    struct bufferevent_rate_limit_group *group = bufferevent_rate_limit_group_new(base, cfg);
    ev_token_bucket_cfg_free(cfg);
    return group;
}

TEST(what_has_no_memory_for_its_lock_is_not_made)
{
    count_memory();
    CHECK_EQ(evthread_use_pthreads(), 0);
    int before = blocks;
    struct event_base *base = make(make_base, NULL);
    struct evconnlistener *listener = make(make_listener, base);
    struct bufferevent_rate_limit_group *group = make(make_group, base);
    bufferevent_rate_limit_group_free(group);
    evconnlistener_free(listener);
    event_base_free(base);
    CHECK_EQ(blocks, before);
}
