/* A process that is fed, read and waited for on a loop. */
#include "tests/loop/fixture.h"

#include <gossamer/process.h>

enum { LARGE = 300000 };

static char sent[LARGE + 1], received[LARGE + 1];
static struct gs_op writing, reading;
static struct gs_child child;
static struct gs_process process;
static size_t written, n_read;
static int status;

static void on_written(struct gs_op *op, int64_t n)
{
    CHECK(n > 0);
    written += (size_t)n;
    if (written < LARGE)
        CHECK_EQ(
            gs_op_write(op, process.fds[0], sent + written, LARGE - written, GS_OP_CURRENT_OFFSET),
            0);
    else
        close(process.fds[0]);
}

static void on_read(struct gs_op *op, int64_t n)
{
    CHECK(n >= 0);
    n_read += (size_t)n;
    if (n)
        CHECK_EQ(gs_op_read(op, process.fds[1], received + n_read, sizeof received - n_read,
                            GS_OP_CURRENT_OFFSET),
                 0);
}

static void on_end(struct gs_child *ended, const struct gs_child_exit *end)
{
    (void)ended;
    status = end->code == CLD_EXITED ? end->status : -1;
}

TEST(process_is_fed_and_read_and_waited_for)
{
    char *arguments[] = {"cat", NULL};
    const struct gs_process_options options = {
        .streams = {{.kind = GS_STREAM_PIPE}, {.kind = GS_STREAM_PIPE}}};
    struct gs_loop *loop = new_loop();
    for (size_t i = 0; i < LARGE; i++)
        sent[i] = (char)('a' + i * 7 % 26);
    status = -1;
    gs_op_init(&writing, loop, on_written);
    gs_op_init(&reading, loop, on_read);
    gs_child_init(&child, loop, on_end);
    CHECK_EQ(gs_spawn_process("cat", arguments, &options, &process), 0);
    CHECK_EQ(gs_child_start(&child, process.pid), 0);
    CHECK_EQ(gs_op_read(&reading, process.fds[1], received, sizeof received, GS_OP_CURRENT_OFFSET),
             0);
    CHECK_EQ(gs_op_write(&writing, process.fds[0], sent, LARGE, GS_OP_CURRENT_OFFSET), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(written, LARGE);
    CHECK_EQ(n_read, LARGE);
    CHECK_STR(received, sent);
    CHECK_EQ(status, 0);
    close(process.fds[1]);
    gs_loop_free(loop);
}
