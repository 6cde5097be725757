/* The tests of test_lifetimes.c, for channels, blocking calls and descriptors. */
#include "tests/thread/schedule/lifetimes.h"

/* ---- Channels ---- */

/* The channel is unbuffered or buffered; its buffer may be full, so that a sender waits. */
static void open_channel(struct round *round)
{
    struct gs_channel **channel = &round->object->channels[0];
    const long item = -1;
    MUST_EQ(gs_channel_new(sizeof(long), has(round, FIRST), channel), 0);
    if (has(round, FIRST) && has(round, SECOND))
        MUST_EQ(gs_channel_send(*channel, &item, 0), 0);
}

/* The next allocation of this size reuses the memory. */
static void retire_channel(struct round *round, struct gs_channel *channel)
{
    size_t size = malloc_usable_size(channel);
    gs_channel_free(channel);
    void *memory = malloc(size);
    MUST(memory);
    retire(round, memory, size);
}

static void free_channel(struct round *round)
{
    retire_channel(round, round->object->channels[0]);
}

static int pass(struct round *round, bool sends, long *item, uint64_t deadline_ns)
{
    struct gs_channel *channel = round->object->channels[0];
    return sends ? gs_channel_send(channel, item, deadline_ns)
                 : gs_channel_receive(channel, item, deadline_ns);
}

static int pass_in_time(struct round *round, long *item)
{
    int err;
    do
        err = pass(round, has(round, SECOND), item, until(round));
    while (is_early(err));
    MUST_EQ(atomic_load(&round->begun), 1);
    return err;
}

static void pass_to_helper(struct round *round)
{
    const long number = round->number;
    long item = has(round, SECOND) ? number : -2;
    MUST_EQ(pass_in_time(round, &item), 0);
    MUST_EQ(item, number);
}

static void pass_to_owner(struct round *round, unsigned helper)
{
    const long number = round->number;
    long item = has(round, SECOND) ? -2 : number;
    (void)helper;
    MUST_EQ(pass(round, !has(round, SECOND), &item, GS_NEVER), 0);
    MUST_EQ(item, has(round, FIRST) && has(round, SECOND) ? -1 : number);
}

static void wait_for_close(struct round *round)
{
    long item = -2;
    MUST_EQ(pass_in_time(round, &item), -EPIPE);
    MUST_EQ(item, -2);
}

static void close_channel(struct round *round, unsigned helper)
{
    (void)helper;
    gs_channel_close(round->object->channels[0]);
}

TEST(channel_may_be_freed_when_a_send_or_receive_has_returned)
{
    test_kind(&(struct kind){"channel", open_channel, pass_to_helper, pass_to_owner, free_channel,
                             .helpers = 1});
}

TEST(channel_may_be_freed_by_a_receiver_that_finds_it_closed)
{
    struct kind closed = {"closed channel", open_channel, wait_for_close,
                          close_channel,    free_channel, .helpers = 1};
    test_kind(&closed);
    closed.companions = 2;
    test_kind(&closed);
}

/* ---- Select ---- */

static void open_channels(struct round *round)
{
    for (int i = 0; i < 2; i++)
        MUST_EQ(gs_channel_new(sizeof(long), has(round, FIRST), &round->object->channels[i]), 0);
}

static void free_channels(struct round *round)
{
    for (int i = 0; i < 2; i++)
        retire_channel(round, round->object->channels[i]);
}

/* The helper's select must not wait: a select that has waited may return later than its case is
 * executed. */
static uint64_t until_met(struct round *round)
{
    return how(round) == AT_ONCE && !has(round, FIRST) ? GS_NEVER : until(round);
}

static void select_receive(struct round *round)
{
    struct gs_channel **channels = round->object->channels;
    long items[3] = {-1, -1, -1};
    struct gs_select cases[] = {{.channel = channels[0], .receive = &items[0]},
                                {.channel = channels[1], .receive = &items[1]},
                                {.channel = channels[0], .receive = &items[2]}};
    int index;
    do
        index = gs_select(cases, 3, until_met(round));
    while (is_early(index));
    MUST(index >= 0 && index < 3);
    MUST_EQ(atomic_load(&round->begun), 1);
    MUST_EQ(cases[index].result, has(round, SECOND) ? -EPIPE : 0);
    for (int i = 0; i < 3; i++)
        MUST_EQ(items[i], i == index && !has(round, SECOND) ? (long)round->number : -1);
}

static void select_send(struct round *round, unsigned index)
{
    struct gs_channel **channels = round->object->channels;
    const long item = round->number;
    long unused;
    struct gs_select cases[] = {{.channel = channels[index], .send = &item},
                                {.channel = channels[!index], .receive = &unused}};
    int done;
    while ((done = gs_select(cases, 2, 0)) == -ETIMEDOUT)
        gs_thread_yield();
    MUST_EQ(done, 0);
}

static void send_to_select(struct round *round, unsigned helper)
{
    struct gs_channel **channels = round->object->channels;
    const long item = round->number;
    (void)helper;
    if (has(round, SECOND))
        gs_channel_close(channels[any(round, 8, 2)]);
    else if (any(round, 9, 2))
        MUST_EQ(gs_channel_send(channels[any(round, 8, 2)], &item, GS_NEVER), 0);
    else
        select_send(round, any(round, 8, 2));
}

/* The owner waits at one of the channels that the helper's select has locked. */
static void receive_from_select(struct round *round)
{
    long item = -1;
    int err;
    do
        err = gs_channel_receive(round->object->channels[0], &item, until_met(round));
    while (is_early(err));
    MUST_EQ(err, 0);
    MUST_EQ(item, round->number);
}

TEST(channels_may_be_freed_when_a_select_has_returned)
{
    test_kind(&(struct kind){"select", open_channels, select_receive, send_to_select, free_channels,
                             .helpers = 1});
    test_kind(&(struct kind){"sending select", open_channels, receive_from_select, select_send,
                             free_channels, .helpers = 1});
}

static void do_nothing(struct round *round, unsigned helper)
{
    (void)round, (void)helper;
}

/* ---- Blocking calls ---- */

static void fill_in(void *object_)
{
    struct object *object = object_;
    busy_wait((unsigned)object->value);
    object->value = -1;
}

static void run_blocking(struct round *round)
{
    struct object *object = round->object;
    int err;
    object->value = any(round, 8, 64);
    do
        err = gs_run_blocking(fill_in, object, how(round) == AT_ONCE ? GS_NEVER : until(round));
    while (is_early(err));
    MUST_EQ(err, 0);
    MUST_EQ(object->value, -1);
}

TEST(argument_may_be_freed_when_the_blocking_call_has_returned)
{
    test_kind(&(struct kind){"blocking call", NULL, run_blocking, do_nothing, .helpers = 1});
}

/* ---- Descriptors ---- */

/* Like socketpair(), which the thread sanitizer intercepts; it does not intercept gs_close(). */
static void connect_pair(struct round *round)
{
    int *fds = round->fds[round->pairs++];
    MUST_EQ(gs_syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, (long)fds, 0, 0), 0);
}

static void close_end(struct round *round, unsigned pair, int end)
{
    gs_close(round->fds[pair][end]);
    round->fds[pair][end] = -1;
}

/* Opens few or many pairs: for 5 or more, the waiters are not on the stack. */
static void connect_pairs(struct round *round)
{
    for (unsigned count = 1 + any(round, 8, PAIRS); round->pairs < count;)
        connect_pair(round);
}

static void poll_all(struct round *round)
{
    struct gs_poll *polls = round->object->polls;
    unsigned index = any(round, 9, round->pairs);
    char byte = 0;
    int ready;
    for (unsigned i = 0; i < round->pairs; i++)
        polls[i] = (struct gs_poll){.fd = round->fds[i][0], .events = GS_READ};
    do
        ready = gs_poll(polls, round->pairs, until(round));
    while (!ready || is_early(ready));
    MUST_EQ(ready, 1);
    MUST_EQ(atomic_load(&round->begun), 1);
    MUST_EQ(gs_sys_recv(polls[index].fd, &byte, 1, MSG_DONTWAIT), 1);
    MUST_EQ(byte, (char)round->number);
    for (unsigned i = 0; i < round->pairs; i++) {
        MUST_EQ(polls[i].revents, i == index ? GS_READ : 0);
        close_end(round, i, 0);
    }
}

static void make_readable(struct round *round, unsigned helper)
{
    const char byte = (char)round->number;
    (void)helper;
    MUST_EQ(gs_sys_send(round->fds[any(round, 9, round->pairs)][1], &byte, 1, MSG_NOSIGNAL), 1);
}

TEST(polls_may_be_freed_when_the_poll_has_returned)
{
    test_kind(&(struct kind){"poll", connect_pairs, poll_all, make_readable, .helpers = 1});
}

static ssize_t receive_byte(struct round *round)
{
    if (has(round, FIRST))
        return gs_recv(round->fds[0][0], round->object->bytes, 1, 0, until(round));
    int err = gs_wait_readable(round->fds[0][0], until(round));
    ssize_t n = gs_sys_recv(round->fds[0][0], round->object->bytes, 1, MSG_DONTWAIT);
    return n > 0 || err ? n > 0 ? n : err : -ETIMEDOUT;
}

/* The next descriptor gets the number of the closed one. */
static void receive_and_close(struct round *round)
{
    ssize_t n;
    do
        n = receive_byte(round);
    while (is_early((int)n));
    MUST_EQ(n, 1);
    MUST_EQ(round->object->bytes[0], (char)round->number);
    close_end(round, 0, 0);
}

static void send_and_close(struct round *round, unsigned helper)
{
    const char byte = (char)round->number;
    (void)helper;
    MUST_EQ(gs_send(round->fds[0][1], &byte, 1, MSG_NOSIGNAL, GS_NEVER), 1);
    close_end(round, 0, 1);
}

TEST(descriptor_may_be_closed_when_the_wait_for_it_has_returned)
{
    test_kind(&(struct kind){"descriptor", connect_pair, receive_and_close, send_and_close,
                             .helpers = 1});
}

/* Later bytes must not be received into a buffer that may have been freed. */
static void receive_once(struct round *round)
{
    ssize_t n = gs_recv(round->fds[0][0], round->object->bytes, 1, 0, until(round));
    MUST(n == 1 || is_early((int)n));
    MUST_EQ(round->object->bytes[0], n == 1 ? (char)round->number : 0);
}

TEST(buffer_may_be_freed_when_the_receive_has_timed_out_or_was_canceled)
{
    test_kind(&(struct kind){"buffer", connect_pair, receive_once, send_and_close, .helpers = 1});
}
