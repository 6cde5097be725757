#include "tests/libevent/bev.h"

#include <event2/bufferevent_struct.h>

static const struct timeval hour = {3600, 0};

struct fixture {
    struct event_base *base;
    int fds[2];
    struct bufferevent *bev;
};

static struct fixture begin(void)
{
    struct fixture f = {.base = event_base_new()};
    make_sockets(f.fds);
    f.bev = bufferevent_socket_new(f.base, f.fds[0], BEV_OPT_CLOSE_ON_FREE);
    return f;
}

static void end(struct fixture *f)
{
    bufferevent_free(f->bev);
    event_base_free(f->base);
    close(f->fds[1]);
}

TEST(a_configuration_has_a_rate_that_is_at_most_the_burst)
{
    struct ev_token_bucket_cfg *cfg = ev_token_bucket_cfg_new(1, 1, 1, 1, NULL);
    CHECK(cfg);
    ev_token_bucket_cfg_free(cfg);
    CHECK(!ev_token_bucket_cfg_new(2, 1, 1, 1, NULL));
    CHECK(!ev_token_bucket_cfg_new(1, 1, 2, 1, NULL));
    CHECK(!ev_token_bucket_cfg_new(0, 1, 1, 1, NULL));
    CHECK(!ev_token_bucket_cfg_new(1, 1, 0, 1, NULL));
    CHECK(!ev_token_bucket_cfg_new(1, (size_t)EV_RATE_LIMIT_MAX + 1, 1, 1, NULL));
    cfg = ev_token_bucket_cfg_new(EV_RATE_LIMIT_MAX, EV_RATE_LIMIT_MAX, 1, 1, &hour);
    CHECK(cfg);
    ev_token_bucket_cfg_free(cfg);
}

TEST(without_a_limit_the_single_calls_count)
{
    struct fixture f = begin();
    CHECK_EQ(bufferevent_get_read_limit(f.bev), EV_SSIZE_MAX);
    CHECK_EQ(bufferevent_get_write_limit(f.bev), EV_SSIZE_MAX);
    CHECK_EQ(bufferevent_get_max_to_read(f.bev), 16384);
    bufferevent_set_max_single_write(f.bev, 99);
    CHECK_EQ(bufferevent_get_max_to_write(f.bev), 99);
    CHECK(!bufferevent_get_token_bucket_cfg(f.bev));
    CHECK_EQ(bufferevent_set_rate_limit(f.bev, NULL), 0);
    CHECK_EQ(bufferevent_add_to_rate_limit_group(f.bev, NULL), 0);
    CHECK_EQ(bufferevent_remove_from_rate_limit_group(f.bev), 0);
    end(&f);
}

TEST(a_limit_pauses_reading_when_it_is_used_up)
{
    struct fixture f = begin();
    struct ev_token_bucket_cfg *cfg = ev_token_bucket_cfg_new(100, 150, 30, 40, &hour);
    CHECK_EQ(bufferevent_set_rate_limit(f.bev, cfg), 0);
    CHECK(bufferevent_get_token_bucket_cfg(f.bev) == cfg);
    CHECK_EQ(bufferevent_get_read_limit(f.bev), 100);
    CHECK_EQ(bufferevent_get_write_limit(f.bev), 30);
    CHECK_EQ(bufferevent_get_max_to_read(f.bev), 100);
    CHECK_EQ(bufferevent_get_max_to_write(f.bev), 30);
    bufferevent_enable(f.bev, EV_READ);
    char bytes[1000] = {0};
    CHECK_EQ(write(f.fds[1], bytes, 1000), 1000);
    settle(f.base);
    CHECK_EQ(input_length(f.bev), 100);
    CHECK_EQ(bufferevent_get_read_limit(f.bev), 0);
    CHECK(!event_pending(&f.bev->ev_read, EV_READ, NULL));
    CHECK_EQ(bufferevent_get_enabled(f.bev), EV_READ | EV_WRITE);
    bufferevent_write(f.bev, bytes, 1000);
    settle(f.base);
    CHECK_EQ(output_length(f.bev), 970);
    CHECK_EQ(bufferevent_decrement_read_limit(f.bev, -50), 0);
    settle(f.base);
    CHECK_EQ(input_length(f.bev), 150);
    CHECK_EQ(bufferevent_decrement_write_limit(f.bev, -20), 0);
    CHECK_EQ(bufferevent_get_write_limit(f.bev), 20);
    CHECK_EQ(bufferevent_decrement_write_limit(f.bev, 30), 0);
    CHECK_EQ(bufferevent_get_write_limit(f.bev), -10);
    CHECK_EQ(bufferevent_get_max_to_write(f.bev), 0);
    settle(f.base);
    CHECK_EQ(output_length(f.bev), 970);
    CHECK_EQ(bufferevent_set_rate_limit(f.bev, NULL), 0);
    settle(f.base);
    CHECK_EQ(output_length(f.bev), 0);
    CHECK_EQ(input_length(f.bev), 1000);
    end(&f);
    ev_token_bucket_cfg_free(cfg);
}

TEST(a_large_limit_replaces_the_single_call)
{
    struct fixture f = begin();
    struct ev_token_bucket_cfg *cfg = ev_token_bucket_cfg_new(100000, 200000, 50, 60, &hour);
    CHECK_EQ(bufferevent_set_rate_limit(f.bev, cfg), 0);
    note("%zd %zd;", (ssize_t)bufferevent_get_max_to_read(f.bev),
         (ssize_t)bufferevent_get_max_to_write(f.bev));
    CHECK_TRACE("100000 50;");
    end(&f);
    ev_token_bucket_cfg_free(cfg);
}

TEST(another_limit_keeps_what_is_in_the_bucket)
{
    struct fixture f = begin();
    struct ev_token_bucket_cfg *large = ev_token_bucket_cfg_new(100, 150, 100, 150, &hour);
    struct ev_token_bucket_cfg *small = ev_token_bucket_cfg_new(10, 20, 10, 120, &hour);
    CHECK_EQ(bufferevent_set_rate_limit(f.bev, large), 0);
    CHECK_EQ(bufferevent_set_rate_limit(f.bev, small), 0);
    note("%zd %zd;", (ssize_t)bufferevent_get_read_limit(f.bev),
         (ssize_t)bufferevent_get_write_limit(f.bev));
    CHECK_EQ(bufferevent_set_rate_limit(f.bev, small), 0);
    CHECK_EQ(bufferevent_set_rate_limit(f.bev, NULL), 0);
    CHECK_EQ(bufferevent_set_rate_limit(f.bev, large), 0);
    note("%zd %zd;", (ssize_t)bufferevent_get_read_limit(f.bev),
         (ssize_t)bufferevent_get_write_limit(f.bev));
    CHECK_TRACE("20 100;100 100;");
    end(&f);
    ev_token_bucket_cfg_free(large);
    ev_token_bucket_cfg_free(small);
}

TEST(a_bucket_is_filled_again_and_everything_arrives)
{
    struct fixture f = begin();
    const struct timeval tick = {0, 10000};
    struct ev_token_bucket_cfg *cfg = ev_token_bucket_cfg_new(100, 100, 100, 100, &tick);
    bufferevent_setcb(f.bev, note_read, note_write, note_event, "");
    bufferevent_set_rate_limit(f.bev, cfg);
    bufferevent_enable(f.bev, EV_READ);
    char bytes[500] = {0};
    CHECK_EQ(write(f.fds[1], bytes, 500), 500);
    bufferevent_write(f.bev, bytes, 500);
    run_until_noted(f.base, "read 500");
    run_until_noted(f.base, "write 0");
    trace[trace_length = 0] = '\0';
    end(&f);
    ev_token_bucket_cfg_free(cfg);
}

static void check_shares(struct bufferevent_rate_limit_group *group, struct bufferevent *bev)
{
    CHECK_EQ(bufferevent_get_max_to_read(bev), 250);
    CHECK_EQ(bufferevent_rate_limit_group_set_min_share(group, 300), 0);
    CHECK_EQ(bufferevent_get_max_to_read(bev), 300);
    CHECK_EQ(bufferevent_rate_limit_group_set_min_share(group, 5000), 0);
    CHECK_EQ(bufferevent_get_max_to_read(bev), 1000);
    CHECK_EQ(bufferevent_rate_limit_group_set_min_share(group, 64), 0);
    CHECK_EQ(bufferevent_rate_limit_group_set_min_share(group, (size_t)EV_SSIZE_MAX + 1), -1);
    CHECK_EQ(bufferevent_get_read_limit(bev), EV_SSIZE_MAX);
}

static void check_decrements(struct event_base *base, struct bufferevent_rate_limit_group *group,
                             struct bufferevent *const *bevs)
{
    ev_uint64_t was_read, was_written;
    CHECK_EQ(bufferevent_rate_limit_group_decrement_read(group, -600), 0);
    for (int i = 1; i < 4; i++)
        CHECK(event_pending(&bevs[i]->ev_read, EV_READ, NULL));
    CHECK_EQ(bufferevent_rate_limit_group_decrement_read(group, 10000), 0);
    for (int i = 1; i < 4; i++)
        CHECK(!event_pending(&bevs[i]->ev_read, EV_READ, NULL));
    CHECK_EQ(bufferevent_rate_limit_group_decrement_write(group, 1000), 0);
    bufferevent_write(bevs[1], "0123456789", 10);
    settle(base);
    CHECK_EQ(output_length(bevs[1]), 10);
    CHECK_EQ(bufferevent_rate_limit_group_decrement_write(group, -1), 0);
    settle(base);
    CHECK_EQ(output_length(bevs[1]), 0);
    bufferevent_rate_limit_group_get_totals(group, NULL, &was_written);
    CHECK_EQ(was_written, 10);
    bufferevent_rate_limit_group_reset_totals(group);
    bufferevent_rate_limit_group_get_totals(group, &was_read, &was_written);
    CHECK_EQ(was_read + was_written, 0);
}

TEST(a_group_shares_its_limit)
{
    struct event_base *base = event_base_new();
    struct ev_token_bucket_cfg *cfg = ev_token_bucket_cfg_new(1000, 1000, 1000, 1000, &hour);
    struct bufferevent_rate_limit_group *group = bufferevent_rate_limit_group_new(base, cfg);
    CHECK(group);
    CHECK_EQ(bufferevent_rate_limit_group_get_read_limit(group), 1000);
    int fds[4][2];
    struct bufferevent *bevs[4];
    char bytes[2000] = {0};
    for (int i = 0; i < 4; i++) {
        make_sockets(fds[i]);
        bevs[i] = bufferevent_socket_new(base, fds[i][0], BEV_OPT_CLOSE_ON_FREE);
        CHECK_EQ(bufferevent_add_to_rate_limit_group(bevs[i], group), 0);
        CHECK_EQ(bufferevent_add_to_rate_limit_group(bevs[i], group), 0);
        bufferevent_enable(bevs[i], EV_READ);
        CHECK_EQ(write(fds[i][1], bytes, 2000), 2000);
    }
    check_shares(group, bevs[0]);
    settle(base);
    settle(base);
    size_t sum = 0;
    for (int i = 0; i < 4; i++)
        sum += input_length(bevs[i]);
    CHECK(sum >= 1000 && sum < 1000 + 64);
    CHECK_EQ(bufferevent_rate_limit_group_get_read_limit(group), 1000 - (long)sum);
    CHECK_EQ(bufferevent_rate_limit_group_get_write_limit(group), 1000);
    ev_uint64_t was_read, was_written;
    bufferevent_rate_limit_group_get_totals(group, &was_read, &was_written);
    CHECK_EQ(was_read, sum);
    CHECK_EQ(was_written, 0);
    for (int i = 0; i < 4; i++)
        CHECK(!event_pending(&bevs[i]->ev_read, EV_READ, NULL));
    CHECK_EQ(bufferevent_get_max_to_read(bevs[0]), 0);
    CHECK_EQ(bufferevent_remove_from_rate_limit_group(bevs[0]), 0);
    settle(base);
    CHECK_EQ(input_length(bevs[0]), 2000);
    check_decrements(base, group, bevs);
    for (int i = 0; i < 4; i++) {
        bufferevent_free(bevs[i]);
        close(fds[i][1]);
    }
    settle(base);
    bufferevent_rate_limit_group_free(group);
    ev_token_bucket_cfg_free(cfg);
    event_base_free(base);
}

TEST(a_group_gets_another_configuration)
{
    struct fixture f = begin();
    const struct timeval tick = {0, 10000};
    struct ev_token_bucket_cfg *slow = ev_token_bucket_cfg_new(10, 10, 10, 10, &hour);
    struct ev_token_bucket_cfg *fast = ev_token_bucket_cfg_new(500, 500, 500, 500, &tick);
    struct bufferevent_rate_limit_group *group = bufferevent_rate_limit_group_new(f.base, fast);
    CHECK_EQ(bufferevent_add_to_rate_limit_group(f.bev, group), 0);
    CHECK_EQ(bufferevent_rate_limit_group_set_cfg(group, slow), 0);
    CHECK_EQ(bufferevent_rate_limit_group_get_read_limit(group), 10);
    CHECK_EQ(bufferevent_rate_limit_group_set_cfg(group, NULL), -1);
    bufferevent_setcb(f.bev, note_read, NULL, NULL, "");
    bufferevent_enable(f.bev, EV_READ);
    char bytes[2000] = {0};
    CHECK_EQ(write(f.fds[1], bytes, 2000), 2000);
    settle(f.base);
    CHECK_EQ(input_length(f.bev), 10);
    CHECK_EQ(bufferevent_rate_limit_group_set_cfg(group, fast), 0);
    run_until_noted(f.base, "read 2000");
    trace[trace_length = 0] = '\0';
    bufferevent_free(f.bev);
    settle(f.base);
    bufferevent_rate_limit_group_free(group);
    event_base_free(f.base);
    close(f.fds[1]);
    ev_token_bucket_cfg_free(slow);
    ev_token_bucket_cfg_free(fast);
}

TEST(a_member_that_joins_a_group_that_is_used_up_is_paused_and_changes_groups)
{
    struct fixture f = begin();
    struct ev_token_bucket_cfg *cfg = ev_token_bucket_cfg_new(10, 10, 10, 10, &hour);
    struct bufferevent_rate_limit_group *group = bufferevent_rate_limit_group_new(f.base, cfg);
    struct bufferevent_rate_limit_group *other = bufferevent_rate_limit_group_new(f.base, cfg);
    bufferevent_rate_limit_group_decrement_read(group, 10);
    bufferevent_enable(f.bev, EV_READ);
    CHECK_EQ(bufferevent_add_to_rate_limit_group(f.bev, group), 0);
    CHECK(!event_pending(&f.bev->ev_read, EV_READ, NULL));
    CHECK_EQ(bufferevent_add_to_rate_limit_group(f.bev, other), 0);
    CHECK(event_pending(&f.bev->ev_read, EV_READ, NULL));
    bufferevent_rate_limit_group_free(group);
    CHECK_EQ(bufferevent_remove_from_rate_limit_group(f.bev), 0);
    bufferevent_rate_limit_group_free(other);
    end(&f);
    ev_token_bucket_cfg_free(cfg);
}
