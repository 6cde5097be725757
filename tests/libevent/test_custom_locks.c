/* Locks and conditions of the program, and the checks of how they are used. */
#include "tests/libevent/transcript.h"
#include "tests/test.h"

#include <event2/thread.h>

static int locks, conditions, held, calls;

static void *new_lock(unsigned type)
{
    (void)type;
    locks++;
    return malloc(1);
}

static void free_lock(void *lock, unsigned type)
{
    (void)type;
    locks--;
    free(lock);
}

static int lock(unsigned mode, void *of)
{
    (void)mode, (void)of;
    held++;
    calls++;
    return 0;
}

static int unlock(unsigned mode, void *of)
{
    (void)mode, (void)of;
    held--;
    return 0;
}

static void *new_condition(unsigned type)
{
    CHECK_EQ(type, 0);
    conditions++;
    return malloc(1);
}

static void free_condition(void *condition)
{
    conditions--;
    free(condition);
}

static int signal_condition(void *condition, int broadcast)
{
    (void)condition, (void)broadcast;
    return 0;
}

static int wait_condition(void *condition, void *of, const struct timeval *timeout)
{
    (void)condition, (void)of, (void)timeout;
    return 0;
}

static unsigned long get_id(void)
{
    return 7;
}

static void on_event(evutil_socket_t fd, short events, void *argument)
{
    (void)fd, (void)events, (void)argument;
    say("called without a lock: %d\n", held == 0);
}

TEST(locks_of_the_program_are_used_and_balanced)
{
    struct evthread_lock_callbacks lock_callbacks = {
        EVTHREAD_LOCK_API_VERSION, EVTHREAD_LOCKTYPE_RECURSIVE, new_lock, free_lock, lock, unlock,
    };
    struct evthread_condition_callbacks condition_callbacks = {
        EVTHREAD_CONDITION_API_VERSION,
        new_condition,
        free_condition,
        signal_condition,
        wait_condition,
    };
    struct evthread_lock_callbacks incomplete = lock_callbacks;
    incomplete.unlock = NULL;
    CHECK_EQ(evthread_set_lock_callbacks(&incomplete), -1);
    CHECK_EQ(evthread_set_lock_callbacks(&lock_callbacks), 0);
    CHECK_EQ(evthread_set_lock_callbacks(&lock_callbacks), 0);
    incomplete.unlock = lock;
    say("other callbacks %d\n", evthread_set_lock_callbacks(&incomplete));
    CHECK_EQ(evthread_set_condition_callbacks(&condition_callbacks), 0);
    evthread_set_id_callback(get_id);
    evthread_enable_lock_debugging();

    struct event_base *base = event_base_new();
    struct timeval soon = {0, 1000};
    struct event *event = evtimer_new(base, on_event, NULL);
    CHECK_EQ(event_add(event, &soon), 0);
    say("loop %d\n", event_base_dispatch(base));
    event_free(event);
    event_base_free(base);
    CHECK_EQ(held, 0);
    CHECK(calls > 0);

    struct event_config *config = event_config_new();
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    base = event_base_new_with_config(config);
    event_config_free(config);
    int before = calls;
    event = evtimer_new(base, on_event, NULL);
    event_add(event, &soon);
    say("loop %d\n", event_base_dispatch(base));
    CHECK_EQ(calls, before);
    event_free(event);
    event_base_free(base);
    libevent_global_shutdown();
    CHECK_EQ(locks, 0);
    CHECK_EQ(conditions, 0);
}
