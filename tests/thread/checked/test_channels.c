/* Channels that are used after they were freed, or freed while they are used. */
#include "tests/thread/checked/misuse.h"

static struct gs_channel *channel;
static int item;

static struct gs_channel *new_channel(size_t capacity)
{
    struct gs_channel *new = NULL;
    MUST_EQ(gs_channel_new(sizeof item, capacity, &new), 0);
    return new;
}

static struct gs_channel *freed_channel(void)
{
    channel = new_channel(1);
    gs_channel_free(channel);
    return channel;
}

static void *send_to_freed(void *unused)
{
    MUST_EQ(gs_channel_send(freed_channel(), &item, GS_NEVER), 0);
    return unused;
}

static void *receive_from_freed(void *unused)
{
    MUST_EQ(gs_channel_receive(freed_channel(), &item, 0), 0);
    return unused;
}

static void *close_freed(void *unused)
{
    gs_channel_close(freed_channel());
    return unused;
}

static void *select_freed(void *unused)
{
    struct gs_select cases[] = {{.channel = new_channel(1), .receive = &item},
                                {.channel = freed_channel(), .receive = &item}};
    MUST_EQ(gs_select(cases, 2, 0), 0);
    return unused;
}

static void *free_twice(void *unused)
{
    gs_channel_free(freed_channel());
    return unused;
}

/* Other channels have been created and freed since. */
static void *send_late(void *unused)
{
    struct gs_channel *freed = freed_channel();
    for (int i = 0; i < 50; i++)
        gs_channel_free(new_channel(1));
    MUST_EQ(gs_channel_send(freed, &item, GS_NEVER), 0);
    return unused;
}

IN_CHILD_RUN(run_send_to_freed, send_to_freed)
IN_CHILD_RUN(run_receive_from_freed, receive_from_freed)
IN_CHILD_RUN(run_close_freed, close_freed)
IN_CHILD_RUN(run_select_freed, select_freed)
IN_CHILD_RUN(run_free_twice, free_twice)
IN_CHILD_RUN(run_send_late, send_late)

#define WAS_FREED "channel 0x[0-9a-f]+ was freed before"

TEST(a_channel_that_was_freed_cannot_be_used)
{
    CHECK_STOPPED(run_send_to_freed, "gs_channel_send", WAS_FREED);
    CHECK_STOPPED(run_receive_from_freed, "gs_channel_receive", WAS_FREED);
    CHECK_STOPPED(run_close_freed, "gs_channel_close", WAS_FREED);
    CHECK_STOPPED(run_select_freed, "gs_select", WAS_FREED);
    CHECK_STOPPED(run_free_twice, "gs_channel_free", WAS_FREED);
}

TEST(a_late_use_is_noticed)
{
    CHECK_STOPPED(run_send_late, "gs_channel_send", WAS_FREED);
}

/* ---- Waiting threads ---- */

static void *receive(void *unused)
{
    MUST_EQ(gs_channel_receive(channel, &item, GS_NEVER), 0);
    return unused;
}

static void *send_item(void *unused)
{
    MUST_EQ(gs_channel_send(channel, &item, GS_NEVER), 0);
    return unused;
}

static void *free_while(gs_thread_fn *fn)
{
    channel = new_channel(0);
    spawn_named("waiting", fn, NULL);
    gs_thread_yield();
    gs_channel_free(channel);
    return NULL;
}

static void *free_while_receiving(void *unused)
{
    (void)unused;
    return free_while(receive);
}

static void *free_while_sending(void *unused)
{
    (void)unused;
    return free_while(send_item);
}

IN_CHILD_RUN(run_free_while_receiving, free_while_receiving)
IN_CHILD_RUN(run_free_while_sending, free_while_sending)

#define IS_WAITED_FOR "thread \"waiting\" waits for channel 0x[0-9a-f]+"

TEST(a_channel_for_which_a_thread_waits_is_not_freed)
{
    CHECK_STOPPED(run_free_while_receiving, "gs_channel_free", IS_WAITED_FOR);
    CHECK_STOPPED(run_free_while_sending, "gs_channel_free", IS_WAITED_FOR);
}

static void *send_to_null(void *unused)
{
    MUST_EQ(gs_channel_send(NULL, &item, GS_NEVER), 0);
    return unused;
}

static void *send_to_variable(void *unused)
{
    static uint64_t variable[64];
    MUST_EQ(gs_channel_send((struct gs_channel *)variable, &item, GS_NEVER), 0);
    return unused;
}

IN_CHILD_RUN(run_send_to_null, send_to_null)
IN_CHILD_RUN(run_send_to_variable, send_to_variable)

TEST(what_is_no_channel_cannot_be_used)
{
    CHECK_STOPPED(run_send_to_null, "gs_channel_send", "the channel is NULL");
    CHECK_STOPPED(run_send_to_variable, "gs_channel_send", "0x[0-9a-f]+ is no channel");
}

/* ---- Correct use ---- */

/* The last thread that uses the channel frees it. */
static void *receive_and_free(void *unused)
{
    int got, sum = 0;
    while (!gs_channel_receive(channel, &got, GS_NEVER))
        sum += got;
    MUST_EQ(sum, 4950);
    gs_channel_free(channel);
    return unused;
}

THREAD_TEST(correct_use_does_not_stop, run_both)
{
    for (int round = 0; round < 200; round++) {
        channel = new_channel((size_t)round % 3);
        struct gs_thread *receiver = spawn(receive_and_free, NULL);
        for (int i = 0; i < 100; i++)
            MUST_EQ(gs_channel_send(channel, &i, GS_NEVER), 0);
        gs_channel_close(channel);
        join(receiver);
    }
    gs_channel_free(NULL);
}

THREAD_TEST(a_large_channel_is_freed_at_once, run_both)
{
    gs_channel_free(new_channel(100000));
}
