/* Bases that threads share: locks, wake-ups, and the wait for a callback in another thread. */
#include "tests/libevent/pair.h"

#include <event2/event_struct.h>
#include <event2/thread.h>

static pthread_t loop_thread;
static int loop_result;

static void *run(void *flags)
{
    loop_result = event_base_loop(base, (int)(intptr_t)flags);
    return NULL;
}

static void open_shared(void)
{
    CHECK_EQ(evthread_use_pthreads(), 0);
    open_all();
}

static void start_loop(void)
{
    CHECK_EQ(pthread_create(&loop_thread, NULL, run, (void *)(intptr_t)EVLOOP_NO_EXIT_ON_EMPTY), 0);
}

static void join_loop(void)
{
    CHECK_EQ(pthread_join(loop_thread, NULL), 0);
    say("loop %d\n", loop_result);
}

static void break_the_loop(evutil_socket_t fd, short events, void *argument)
{
    (void)fd, (void)argument;
    say("called with %s\n", names_of(events));
    event_base_loopbreak(base);
}

#define THREADS_TEST(name_) FIXTURE_TEST(name_, open_shared(), close_all())

THREADS_TEST(an_event_that_another_thread_adds_is_called)
{
    start_loop();
    struct event *event = event_new(base, pair[0], EV_READ, break_the_loop, NULL);
    CHECK_EQ(write(pair[1], "x", 1), 1);
    CHECK_EQ(event_add(event, NULL), 0);
    join_loop();
    event_free(event);
}

THREADS_TEST(a_timer_that_another_thread_adds_is_called)
{
    struct timeval late = {1000, 0}, soon = {0, 3000};
    struct event *other = evtimer_new(base, break_the_loop, NULL);
    struct event *event = evtimer_new(base, break_the_loop, NULL);
    CHECK_EQ(event_add(other, &late), 0);
    start_loop();
    CHECK_EQ(event_add(event, &soon), 0);
    join_loop();
    event_free(event);
    event_free(other);
}

THREADS_TEST(another_thread_activates_an_event_and_ends_the_loop)
{
    start_loop();
    struct event *event = event_new(base, -1, 0, break_the_loop, NULL);
    event_active(event, EV_READ, 1);
    join_loop();
    event_free(event);
    start_loop();
    /* The start of the loop forgets a break. */
    while (event_base_got_break(base))
        sched_yield();
    CHECK_EQ(event_base_loopexit(base, NULL), 0);
    join_loop();
}

static atomic_bool is_called, may_return;

static void wait_within(evutil_socket_t fd, short events, void *argument)
{
    (void)fd, (void)events;
    is_called = true;
    while (!may_return)
        sched_yield();
    *(int *)argument = 1;
}

static void *let_return(void *argument)
{
    usleep(5000);
    may_return = true;
    return argument;
}

THREADS_TEST(a_deletion_waits_for_the_callback_in_another_thread)
{
    for (int i = 0; i < 3; i++) {
        is_called = may_return = false;
        start_loop();
        int argument = 0;
        struct event *event = event_new(base, -1, 0, wait_within, &argument);
        event_active(event, EV_READ, 1);
        while (!is_called)
            sched_yield();
        pthread_t helper;
        CHECK_EQ(pthread_create(&helper, NULL, let_return, NULL), 0);
        if (i == 0)
            event_del(event);
        else if (i == 1)
            event_del_block(event);
        else
            event_del_noblock(event);
        if (i < 2)
            CHECK_EQ(argument, 1);
        pthread_join(helper, NULL);
        event_base_loopbreak(base);
        join_loop();
        CHECK_EQ(argument, 1);
        event_free(event);
    }
}

static void on_finalized(struct event *event, void *argument)
{
    (void)event;
    say("finalized after the callback: %d\n", *(int *)argument);
    event_base_loopbreak(base);
}

THREADS_TEST(a_finalizer_waits_for_the_callback_instead_of_its_caller)
{
    is_called = may_return = false;
    int argument = 0;
    start_loop();
    struct event *event = event_new(base, -1, EV_FINALIZE, wait_within, &argument);
    event_active(event, EV_READ, 1);
    while (!is_called)
        sched_yield();
    event_free_finalize(0, event, on_finalized);
    CHECK_EQ(argument, 0);
    may_return = true;
    join_loop();
}

/* ---- Many threads ---- */

#define THREADS 3
#define ROUNDS 2000

static atomic_int total;

static void count_call(evutil_socket_t fd, short events, void *argument)
{
    (void)fd, (void)events, (void)argument;
    total++;
}

static void *add_and_delete(void *argument)
{
    int fds[2];
    struct timeval soon = {0, 100};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds))
        return NULL;
    for (int i = 0; i < ROUNDS; i++) {
        struct event *event =
            event_new(base, i % 2 ? fds[0] : -1, i % 2 ? EV_WRITE : 0, count_call, argument);
        event_add(event, i % 3 ? &soon : NULL);
        if (i % 5 == 0)
            event_active(event, EV_READ, 1);
        if (i % 100 == 0)
            usleep(100);
        event_free(event);
    }
    close(fds[0]);
    close(fds[1]);
    return NULL;
}

THREADS_TEST(threads_add_and_free_events_while_the_loop_runs)
{
    start_loop();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, add_and_delete, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    while (event_base_loopexit(base, NULL))
        ;
    join_loop();
    CHECK(total >= 0);
    CHECK_EQ(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 0);
}

THREADS_TEST(a_base_can_be_made_notifiable)
{
    CHECK_EQ(evthread_make_base_notifiable(base), 0);
}
