/* Bases and their loop: configurations, flags, ends, priorities, counts, dumps, after a fork. */
#include "tests/libevent/pair.h"

#include <event.h>
#include <event2/event_struct.h>

#define BASE_TEST(name_) FIXTURE_TEST(name_, open_all(), close_all())

/* ---- Configurations ---- */

TEST(methods_can_be_avoided_and_features_required)
{
    for (const char **names = event_get_supported_methods(); *names; names++)
        say("supported %s\n", *names);
    static const char *const avoided[] = {"epoll", "poll", "select"};
    struct event_config *config = event_config_new();
    for (int i = 0; i < 3; i++) {
        struct event_base *created = event_base_new_with_config(config);
        say("method %s features %d\n", event_base_get_method(created),
            event_base_get_features(created));
        event_base_free(created);
        CHECK_EQ(event_config_avoid_method(config, avoided[i]), 0);
    }
    CHECK(!event_base_new_with_config(config));
    event_config_free(config);
    static const int features[] = {EV_FEATURE_ET, EV_FEATURE_FDS, EV_FEATURE_FDS | EV_FEATURE_ET};
    for (int i = 0; i < 3; i++) {
        config = event_config_new();
        CHECK_EQ(event_config_require_features(config, features[i]), 0);
        struct event_base *created = event_base_new_with_config(config);
        say("with %d: %s\n", features[i], created ? event_base_get_method(created) : "none");
        if (created)
            event_base_free(created);
        event_config_free(config);
    }
}

TEST(the_environment_is_obeyed_unless_it_is_ignored)
{
    setenv("EVENT_NOEPOLL", "1", 1);
    struct event_base *created = event_base_new();
    say("method %s\n", event_base_get_method(created));
    event_base_free(created);
    struct event_config *config = event_config_new();
    CHECK_EQ(event_config_set_flag(config, EVENT_BASE_FLAG_IGNORE_ENV), 0);
    CHECK_EQ(event_config_set_num_cpus_hint(config, 2), 0);
    created = event_base_new_with_config(config);
    say("method %s\n", event_base_get_method(created));
    event_base_free(created);
    event_config_free(config);
    unsetenv("EVENT_NOEPOLL");
    config = event_config_new();
    event_config_set_flag(config, EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST |
                                      EVENT_BASE_FLAG_PRECISE_TIMER | EVENT_BASE_FLAG_NOLOCK |
                                      EVENT_BASE_FLAG_NO_CACHE_TIME);
    created = event_base_new_with_config(config);
    say("method %s\n", event_base_get_method(created));
    event_base_free(created);
    event_config_free(config);
}

static void on_method(evutil_socket_t fd, short events, void *method)
{
    char bytes[8];
    say("%s %s %zd\n", (const char *)method, names_of(events), read(fd, bytes, sizeof bytes));
}

TEST(every_method_reports_events)
{
    static const char *const names[] = {"epoll", "poll", "select"};
    for (int i = 0; i < 3; i++) {
        struct event_config *config = event_config_new();
        for (int j = 0; j < i; j++)
            event_config_avoid_method(config, names[j]);
        base = event_base_new_with_config(config);
        event_config_free(config);
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
        CHECK_EQ(write(pair[1], "xy", 2), 2);
        CHECK_EQ(event_base_once(base, pair[0], EV_READ, on_method, (void *)names[i], NULL), 0);
        say("loop %d\n", event_base_dispatch(base));
        close_all();
    }
}

/* ---- The loop ---- */

static void on_exit_now(evutil_socket_t fd, short events, void *argument)
{
    (void)fd, (void)events, (void)argument;
    say("exit\n");
    event_base_loopexit(base, NULL);
}

static void on_break(evutil_socket_t fd, short events, void *argument)
{
    (void)fd, (void)events, (void)argument;
    say("break\n");
    event_base_loopbreak(base);
}

static void say_ends(const char *when, int result)
{
    say("%s: %d exit %d break %d\n", when, result, event_base_got_exit(base),
        event_base_got_break(base));
}

BASE_TEST(a_loop_ends_without_events_at_an_exit_and_at_a_break)
{
    static struct event events[3];
    say_ends("empty", event_base_dispatch(base));
    event_assign(&events[0], base, -1, 0, on_event, "first");
    event_assign(&events[1], base, -1, 0, on_exit_now, NULL);
    event_assign(&events[2], base, -1, 0, on_event, "last");
    for (int i = 0; i < 3; i++)
        event_active(&events[i], EV_READ, 1);
    say_ends("exit", event_base_dispatch(base));
    event_assign(&events[1], base, -1, 0, on_break, NULL);
    for (int i = 0; i < 3; i++)
        event_active(&events[i], EV_READ, 1);
    say_ends("break", event_base_dispatch(base));
    say_ends("rest", event_base_dispatch(base));
    struct timeval soon = {0, 2000};
    CHECK_EQ(event_base_loopexit(base, &soon), 0);
    say_ends("later", event_base_loop(base, EVLOOP_NO_EXIT_ON_EMPTY));
    CHECK_EQ(event_base_loopbreak(base), 0);
    say_ends("before", event_base_loop(base, EVLOOP_NONBLOCK));
    CHECK_EQ(event_base_loopbreak(NULL), -1);
    CHECK_EQ(event_base_loopcontinue(NULL), -1);
}

static void on_again(evutil_socket_t fd, short events, void *argument)
{
    (void)fd, (void)events, (void)argument;
    say("inner %d\n", event_base_loop(base, EVLOOP_NONBLOCK));
}

BASE_TEST(a_loop_does_not_run_within_itself)
{
    event_base_once(base, -1, EV_TIMEOUT, on_again, NULL, NULL);
    say("loop %d\n", event_base_dispatch(base));
}

static struct event urgent, ordinary[3];

static void on_ordinary(evutil_socket_t fd, short events, void *name)
{
    on_event(fd, events, name);
    if (!strcmp(name, "one"))
        event_active(&urgent, EV_WRITE, 1);
}

BASE_TEST(an_urgent_event_is_called_before_the_others_that_are_active)
{
    CHECK_EQ(event_base_priority_init(base, 3), 0);
    CHECK_EQ(event_base_get_npriorities(base), 3);
    static const char *const names[] = {"one", "two", "three"};
    event_assign(&urgent, base, -1, 0, on_event, "urgent");
    say("default priority %d\n", event_get_priority(&urgent));
    CHECK_EQ(event_priority_set(&urgent, 0), 0);
    CHECK_EQ(event_priority_set(&urgent, 3), -1);
    for (int i = 0; i < 3; i++) {
        event_assign(&ordinary[i], base, -1, 0, on_ordinary, (void *)names[i]);
        event_priority_set(&ordinary[i], i == 2 ? 2 : 1);
        event_active(&ordinary[i], EV_READ, 1);
    }
    say("set while active %d\n", event_priority_set(&ordinary[0], 2));
    say("init while active %d\n", event_base_priority_init(base, 2));
    say("loop %d\n", event_base_loop(base, EVLOOP_ONCE));
    say("loop %d\n", event_base_loop(base, EVLOOP_NONBLOCK));
    say("too many %d\n", event_base_priority_init(base, EVENT_MAX_PRIORITIES));
}

static void on_counted(evutil_socket_t fd, short events, void *count)
{
    (void)fd, (void)events;
    ++*(int *)count;
}

static int seen_at_check;

static void on_check(evutil_socket_t fd, short events, void *count)
{
    (void)fd, (void)events;
    seen_at_check = *(int *)count;
}

TEST(new_events_are_checked_for_after_some_callbacks)
{
    struct event_config *config = event_config_new();
    event_config_set_max_dispatch_interval(config, NULL, 5, 1);
    base = event_base_new_with_config(config);
    event_config_free(config);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    event_base_priority_init(base, 2);
    static struct event events[20], check;
    int count = 0;
    for (int i = 0; i < 20; i++) {
        event_assign(&events[i], base, -1, 0, on_counted, &count);
        event_priority_set(&events[i], 1);
        event_active(&events[i], EV_READ, 1);
    }
    event_assign(&check, base, pair[0], EV_WRITE, on_check, &count);
    event_priority_set(&check, 0);
    event_add(&check, NULL);
    seen_at_check = -1;
    say("loop %d\n", event_base_loop(base, EVLOOP_ONCE));
    say("called %d, at the check %d\n", count, seen_at_check);
    close_all();
}

static void on_continue(evutil_socket_t fd, short events, void *argument)
{
    (void)fd, (void)events;
    say("continue\n");
    event_active(argument, EV_READ, 1);
    event_base_loopcontinue(base);
}

BASE_TEST(a_loop_can_be_told_to_look_for_new_events)
{
    static struct event first, second, third;
    event_assign(&third, base, -1, 0, on_event, "third");
    event_assign(&second, base, -1, 0, on_event, "second");
    event_assign(&first, base, -1, 0, on_continue, &third);
    event_active(&first, EV_READ, 1);
    event_active(&second, EV_READ, 1);
    say("loop %d\n", event_base_dispatch(base));
}

/* ---- Lists and counts ---- */

static int count_visits(const struct event_base *of, const struct event *event, void *count)
{
    CHECK(of == base && event_get_base(event) == of);
    return ++*(int *)count == 3 ? 33 : 0;
}

BASE_TEST(events_are_counted_and_visited)
{
    static struct event events[4];
    struct timeval later = {1000, 0};
    event_assign(&events[0], base, pair[0], EV_READ, on_event, "a");
    event_assign(&events[1], base, pair[1], EV_WRITE | EV_PERSIST, on_event, "b");
    event_assign(&events[2], base, -1, 0, on_event, "c");
    event_assign(&events[3], base, -1, 0, on_event, "d");
    event_add(&events[0], &later);
    event_add(&events[1], NULL);
    event_add(&events[2], &later);
    for (int i = 0; i < 2; i++) {
        say("added %d active %d virtual %d, all %d, max %d\n",
            event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED),
            event_base_get_num_events(base, EVENT_BASE_COUNT_ACTIVE),
            event_base_get_num_events(base, EVENT_BASE_COUNT_VIRTUAL),
            event_base_get_num_events(base, 7),
            event_base_get_max_events(base, EVENT_BASE_COUNT_ADDED, i));
        event_active(&events[3], EV_READ, 1);
    }
    int count = 0;
    say("visit %d", event_base_foreach_event(base, count_visits, &count));
    say(" after %d\n", count);
    event_del(&events[0]);
    count = 0;
    event_del(&events[1]);
    say("visit %d", event_base_foreach_event(base, count_visits, &count));
    say(" after %d\n", count);
}

/* Addresses, numbers and times differ. */
static void say_masked(FILE *file)
{
    char line[256];
    rewind(file);
    while (fgets(line, sizeof line, file)) {
        char *p = line;
        for (; *p; p++) {
            bool is_address = p[0] == '0' && p[1] == 'x';
            bool is_number = *p >= '0' && *p <= '9';
            if (is_address || is_number)
                putchar('#');
            if (is_address)
                p += 1 + strspn(p + 2, "0123456789abcdef");
            else if (is_number)
                p += strspn(p, "0123456789.") - 1;
            else
                putchar(*p);
        }
    }
}

BASE_TEST(a_dump_names_what_is_added_and_what_is_active)
{
    static struct event events[4];
    struct timeval later = {1000, 0};
    event_assign(&events[0], base, pair[0], EV_READ | EV_PERSIST, on_event, "a");
    event_assign(&events[1], base, pair[1], EV_WRITE | EV_ET, on_event, "b");
    event_assign(&events[2], base, -1, 0, on_event, "c");
    event_assign(&events[3], base, -1, 0, on_event, "d");
    event_add(&events[0], NULL);
    event_add(&events[1], &later);
    event_add(&events[2], &later);
    event_active(&events[3], EV_READ | EV_TIMEOUT, 1);
    FILE *file = tmpfile();
    event_base_dump_events(base, file);
    say_masked(file);
    fclose(file);
}

BASE_TEST(events_are_activated_by_their_descriptor)
{
    static struct event events[3];
    struct timeval later = {1000, 0};
    event_assign(&events[0], base, pair[0], EV_READ, on_event, "read");
    event_assign(&events[1], base, pair[0], EV_WRITE, on_event, "write");
    event_assign(&events[2], base, pair[1], EV_READ, on_event, "timed");
    event_add(&events[0], NULL);
    event_add(&events[1], NULL);
    event_add(&events[2], &later);
    event_base_active_by_fd(base, pair[0], EV_READ);
    event_base_active_by_fd(base, pair[1], EV_TIMEOUT);
    event_del(&events[1]);
    say("loop %d\n", event_base_loop(base, EVLOOP_NONBLOCK));
    event_base_active_by_fd(base, 1000, EV_READ);
}

/* ---- After a fork ---- */

BASE_TEST(a_child_has_the_same_events_after_event_reinit)
{
    static struct event event;
    event_assign(&event, base, pair[0], EV_READ, on_event, "in both");
    CHECK_EQ(event_add(&event, NULL), 0);
    say("loop %d\n", event_base_loop(base, EVLOOP_NONBLOCK));
    pid_t child = fork();
    if (!child) {
        int result = event_reinit(base);
        if (result || write(pair[1], "x", 1) != 1)
            _exit(1);
        result = event_base_dispatch(base);
        _exit(result == 1 ? 0 : 2);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    say("loop %d\n", event_base_dispatch(base));
}

/* ---- The names of 1.4 ---- */

TEST(programs_of_old_have_a_current_base)
{
    base = event_init();
    CHECK(base);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    say("method %s priorities %d\n", event_get_method(), event_priority_init(2));
    static struct event event, timer;
    event_set(&event, pair[0], EV_READ, on_event, "old");
    CHECK_EQ(event_base_set(base, &event), 0);
    CHECK_EQ(event_add(&event, NULL), 0);
    CHECK_EQ(event_base_set(base, &event), -1);
    struct timeval soon = {0, 1000};
    timeout_set(&timer, on_event, "timer");
    CHECK_EQ(timeout_add(&timer, &soon), 0);
    CHECK(timeout_pending(&timer, NULL) && timeout_initialized(&timer));
    CHECK_EQ(EVENT_FD(&event), pair[0]);
    CHECK_EQ(event_once(-1, EV_TIMEOUT, on_event, "once", &soon), 0);
    CHECK_EQ(write(pair[1], "x", 1), 1);
    say("loop %d\n", event_dispatch());
    CHECK_EQ(event_loopexit(NULL), 0);
    say("loop %d\n", event_loop(EVLOOP_NONBLOCK));
    CHECK_EQ(event_loopbreak(), 0);
    CHECK_EQ(timeout_del(&timer), 0);
    close(pair[0]);
    close(pair[1]);
    event_base_free(NULL);
    event_base_free(NULL);
}
