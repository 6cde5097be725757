#include "tests/thread/fixture.h"

static struct gs_channel *channel, *other;

static void open_channels(size_t capacity)
{
    MUST_EQ(gs_channel_new(sizeof(int), capacity, &channel), 0);
    MUST_EQ(gs_channel_new(sizeof(int), 0, &other), 0);
}

static void free_channels(void)
{
    gs_channel_free(channel);
    gs_channel_free(other);
}

static void *send_numbers(void *count)
{
    for (int i = 0; i < (int)(intptr_t)count; i++)
        MUST_EQ(gs_channel_send(channel, &i, GS_NEVER), 0);
    return NULL;
}

static void *receive_numbers(void *count)
{
    intptr_t sum = 0;
    for (int i = 0; i < (int)(intptr_t)count; i++) {
        int number = -1;
        MUST_EQ(gs_channel_receive(channel, &number, GS_NEVER), 0);
        sum += number;
    }
    return (void *)sum;
}

static void pass(size_t capacity)
{
    struct gs_thread *threads[6];
    intptr_t sum = 0;
    open_channels(capacity);
    for (size_t i = 0; i < 3; i++) {
        threads[2 * i] = spawn(send_numbers, (void *)200);
        threads[2 * i + 1] = spawn(receive_numbers, (void *)200);
    }
    for (int i = 0; i < 6; i++)
        sum += (intptr_t)join(threads[i]);
    MUST_EQ(sum, 3 * 199 * 100);
    free_channels();
}

static void *pass_unbuffered(void *unused)
{
    pass(0);
    return unused;
}

static void *pass_buffered(void *unused)
{
    pass(7);
    return unused;
}

TEST(items_are_received_once)
{
    run_both(pass_unbuffered);
    run_both(pass_buffered);
}

THREAD_TEST(items_are_received_in_the_order_in_which_they_were_sent, run_both)
{
    int number;
    open_channels(3);
    struct gs_thread *sender = spawn(send_numbers, (void *)50);
    for (int i = 0; i < 50; i++) {
        MUST_EQ(gs_channel_receive(channel, &number, GS_NEVER), 0);
        MUST_EQ(number, i);
    }
    join(sender);
    free_channels();
}

THREAD_TEST(channel_operation_times_out_at_its_deadline, run_both)
{
    int number = 5;
    open_channels(1);
    MUST_EQ(gs_channel_receive(channel, &number, 0), -ETIMEDOUT);
    MUST_EQ(gs_channel_receive(channel, &number, after(GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(gs_channel_send(channel, &number, 0), 0);
    MUST_EQ(gs_channel_send(channel, &number, 0), -ETIMEDOUT);
    MUST_EQ(gs_channel_send(channel, &number, after(GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(gs_channel_receive(channel, &number, 0), 0);
    MUST_EQ(gs_channel_receive(channel, &number, 0), -ETIMEDOUT);
    free_channels();
}

static void *receive_result(void *unused)
{
    int number;
    (void)unused;
    return (void *)(intptr_t)gs_channel_receive(other, &number, GS_NEVER);
}

THREAD_TEST(closed_channel_delivers_the_remaining_items_and_then_fails, run_both)
{
    int number = 8;
    open_channels(2);
    MUST_EQ(gs_channel_send(channel, &number, GS_NEVER), 0);
    gs_channel_close(channel);
    MUST_EQ(gs_channel_send(channel, &number, GS_NEVER), -EPIPE);
    number = 0;
    MUST_EQ(gs_channel_receive(channel, &number, GS_NEVER), 0);
    MUST_EQ(number, 8);
    MUST_EQ(gs_channel_receive(channel, &number, GS_NEVER), -EPIPE);
    struct gs_thread *receiver = spawn(receive_result, NULL);
    gs_thread_yield();
    gs_channel_close(other);
    MUST_EQ((intptr_t)join(receiver), -EPIPE);
    free_channels();
}

static void *select_many(void *count)
{
    intptr_t sum = 0;
    for (int i = 0; i < (int)(intptr_t)count; i++) {
        int a = 0, b = 0, index;
        struct gs_select cases[] = {{.channel = channel, .receive = &a},
                                    {.channel = other, .receive = &b}};
        index = gs_select(cases, 2, GS_NEVER);
        MUST(index == 0 || index == 1);
        MUST_EQ(cases[index].result, 0);
        MUST(!(index ? a : b));
        sum += a + b;
    }
    return (void *)sum;
}

static void *send_either(void *count)
{
    for (int i = 0; i < (int)(intptr_t)count; i++) {
        struct gs_select cases[] = {{.channel = other, .send = &i},
                                    {.channel = channel, .send = &i}};
        MUST(gs_select(cases, 2, GS_NEVER) >= 0);
    }
    return NULL;
}

THREAD_TEST(select_does_exactly_one_case, run_both)
{
    intptr_t sum = 0;
    open_channels(0);
    struct gs_thread *threads[] = {spawn(select_many, (void *)100), spawn(send_either, (void *)100),
                                   spawn(select_many, (void *)100),
                                   spawn(send_either, (void *)100)};
    for (int i = 0; i < 4; i++)
        sum += (intptr_t)join(threads[i]);
    MUST_EQ(sum, 2 * 99 * 50);
    free_channels();
}

static void collect(void *item, void *sum)
{
    *(int *)sum = *(int *)sum * 10 + *(int *)item;
}

static void *drain(void *unused)
{
    int sum = 0, number = 0;
    open_channels(3);
    for (int i = 1; i <= 3; i++)
        MUST_EQ(gs_channel_send(channel, &i, 0), 0);
    MUST_EQ(gs_channel_receive(channel, &number, 0), 0);
    number = 4;
    MUST_EQ(gs_channel_send(channel, &number, 0), 0);
    gs_channel_drain(channel, collect, &sum);
    MUST_EQ(sum, 234);
    gs_channel_drain(other, collect, &sum);
    MUST_EQ(sum, 234);
    MUST_EQ(gs_channel_receive(channel, &number, 0), -ETIMEDOUT);
    MUST_EQ(gs_channel_send(channel, &number, 0), 0);
    return unused;
}

TEST(a_channel_is_drained_from_its_oldest_item_on)
{
    int sum = 0;
    run_with(1, drain);
    gs_channel_drain(channel, collect, &sum); /* no user threads run */
    CHECK_EQ(sum, 4);
    free_channels();
}

THREAD_TEST(select_times_out_at_its_deadline_and_detects_closed_channels, run_both)
{
    int a = 0;
    open_channels(1);
    struct gs_select cases[] = {{.channel = channel, .receive = &a},
                                {.channel = other, .send = &a},
                                {.channel = channel, .receive = &a}};
    MUST_EQ(gs_select(cases, 3, 0), -ETIMEDOUT);
    MUST_EQ(gs_select(cases, 3, after(GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(gs_select(cases, 0, GS_NEVER), -EINVAL);
    int number = 3;
    MUST_EQ(gs_channel_send(channel, &number, 0), 0);
    int index = gs_select(cases, 3, GS_NEVER);
    MUST(index == 0 || index == 2);
    MUST_EQ(a, 3);
    gs_channel_close(channel);
    index = gs_select(cases, 3, GS_NEVER);
    MUST(index == 0 || index == 2);
    MUST_EQ(cases[index].result, -EPIPE);
    free_channels();
}
