/* Large transfers, in pieces of random sizes, both ways at once. */
#include "tests/tls_stream/fixture.h"

/* A byte of the stream of a direction tells its place. */
static char byte_at(size_t at, unsigned direction)
{
    return (char)(at * 7 + (at >> 8) * 13 + (at >> 16) * 29 + (size_t)direction * 101);
}

#define PIECE_MAX 65536u

struct transfer {
    struct gs_tls *tls;
    unsigned direction;
    size_t n;
    unsigned seed;
    char bytes[PIECE_MAX];
};

/* Mostly small, sometimes large. */
static size_t random_size(unsigned *seed)
{
    unsigned bits = (unsigned)rand_r(seed) % 17;
    return 1 + (size_t)rand_r(seed) % ((size_t)1 << bits);
}

static void *send_stream(void *argument)
{
    struct transfer *transfer = argument;
    for (size_t at = 0, n; at < transfer->n; at += n) {
        n = random_size(&transfer->seed);
        n = n < transfer->n - at ? n : transfer->n - at;
        for (size_t i = 0; i < n; i++)
            transfer->bytes[i] = byte_at(at + i, transfer->direction);
        MUST_EQ(gs_tls_send_all(transfer->tls, transfer->bytes, n, after(PATIENCE_NS)), n);
    }
    MUST_EQ(gs_tls_shutdown(transfer->tls, after(PATIENCE_NS)), 0);
    return NULL;
}

static void *receive_stream(void *argument)
{
    struct transfer *transfer = argument;
    size_t at = 0;
    ssize_t n;
    struct gs_tls_info info;
    while ((n = gs_tls_recv(transfer->tls, transfer->bytes, random_size(&transfer->seed),
                            after(PATIENCE_NS))) > 0) {
        for (size_t i = 0; i < (size_t)n; i++)
            MUST_EQ(transfer->bytes[i], byte_at(at + i, transfer->direction));
        at += (size_t)n;
        gs_tls_info(transfer->tls, &info);
        MUST(info.is_established);
    }
    MUST_EQ(n, 0);
    MUST_EQ(at, transfer->n);
    return NULL;
}

static bool has_small_buffers, has_shared_stacks;
static size_t transferred;

static void *transfer_both_ways(void *unused)
{
    const struct gs_thread_attributes attributes = {.stack_is_shared = has_shared_stacks};
    gs_thread_fn *const functions[] = {send_stream, receive_stream, send_stream, receive_stream};
    struct gs_thread *threads[4];
    if (has_small_buffers)
        connect_with_small_buffers();
    else
        connect_both();
    start_tls();
    struct gs_tls *const ends[] = {server, client, client, server};
    struct transfer *transfers = calloc(4, sizeof *transfers);
    MUST(transfers);
    for (unsigned i = 0; i < 4; i++) {
        transfers[i].tls = ends[i];
        transfers[i].direction = i / 2;
        transfers[i].n = transferred + (i < 2 ? 0 : 777);
        transfers[i].seed = i + 1;
        MUST_EQ(gs_thread_spawn(&attributes, functions[i], &transfers[i], &threads[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++)
        join(threads[i]);
    free(transfers);
    close_tls();
    return unused;
}

TEST(pieces_of_random_sizes_arrive_both_ways_at_once)
{
    transferred = 2 << 20;
    run_tls(transfer_both_ways);
}

TEST(both_ways_at_once_with_small_buffers_block_nobody)
{
    transferred = 300 << 10;
    has_small_buffers = true;
    run_tls(transfer_both_ways);
}

TEST(threads_that_share_stacks_transfer_as_well)
{
    transferred = 300 << 10;
    has_small_buffers = false;
    has_shared_stacks = true;
    run_tls(transfer_both_ways);
}

/* ---- Lines ---- */

static void *write_lines(void *unused)
{
    struct gs_writer writer;
    MUST_EQ(gs_tls_writer_init(&writer, client, NULL, 16), 0);
    for (int i = 0; i < 100; i++)
        MUST_EQ(gs_writer_printf(&writer, after(PATIENCE_NS), "line %d\n", i), 0);
    MUST_EQ(gs_writer_flush(&writer, after(PATIENCE_NS)), 0);
    gs_writer_done(&writer);
    MUST_EQ(gs_tls_shutdown(client, after(PATIENCE_NS)), 0);
    return unused;
}

static void *read_lines(void *unused)
{
    struct gs_reader reader;
    char *line, expected[20];
    connect_tls();
    struct gs_thread *thread = spawn(write_lines, NULL);
    MUST_EQ(gs_tls_reader_init(&reader, server, NULL, 30), 0);
    for (int i = 0; i < 100; i++) {
        snprintf(expected, sizeof expected, "line %d", i);
        MUST(gs_reader_read_line(&reader, 30, after(PATIENCE_NS), &line) > 0);
        MUST(!strcmp(line, expected));
    }
    MUST_EQ(gs_reader_read_line(&reader, 30, after(PATIENCE_NS), &line), -ENODATA);
    gs_reader_done(&reader);
    join(thread);
    close_tls();
    return unused;
}

TEST(lines_are_read_and_written_through_buffers)
{
    run_tls(read_lines);
}
