#include "tests/thread/fixture.h"
#include "thread/context/sanitizer.h"

#include <gossamer/buffered.h>

/* ---- A stream of the test's: what it has is read in pieces, and what is written is short ---- */

struct script {
    const char *text; /* to be read; each '|' ends a piece, '!' is -ETIMEDOUT, '?' is -ECONNRESET */
    char written[400];
    size_t count, piece; /* written bytes, and the most of a call */
    int err;             /* of the next write; 0: none */
    int calls;
};

static ssize_t read_script(void *stream, void *bytes, size_t n, uint64_t deadline_ns)
{
    struct script *script = stream;
    (void)deadline_ns;
    script->calls++;
    MUST(n > 0);
    if (*script->text == '!' || *script->text == '?')
        return *script->text++ == '!' ? -ETIMEDOUT : -ECONNRESET;
    size_t length = strcspn(script->text, "|!?");
    length = length < n ? length : n;
    memcpy(bytes, script->text, length);
    script->text += length + (script->text[length] == '|');
    return (ssize_t)length;
}

static ssize_t write_script(void *stream, const void *bytes, size_t n, uint64_t deadline_ns)
{
    struct script *script = stream;
    (void)deadline_ns;
    script->calls++;
    MUST(n > 0);
    if (script->err) {
        int err = script->err;
        script->err = 0;
        return err;
    }
    n = script->piece && script->piece < n ? script->piece : n;
    MUST(script->count + n < sizeof script->written);
    memcpy(script->written + script->count, bytes, n);
    script->count += n;
    return (ssize_t)n;
}

static char buffer[8];

static struct gs_reader reader_of(struct script *script)
{
    struct gs_reader reader;
    MUST_EQ(gs_reader_init_with(&reader, read_script, script, buffer, sizeof buffer), 0);
    return reader;
}

static struct gs_writer writer_of(struct script *script)
{
    struct gs_writer writer;
    MUST_EQ(gs_writer_init_with(&writer, write_script, script, buffer, sizeof buffer), 0);
    return writer;
}

static void must_read_line(struct gs_reader *reader, const char *expected)
{
    char *line = NULL;
    MUST_EQ(gs_reader_read_line(reader, 100, GS_NEVER, &line), strlen(expected));
    MUST(!strcmp(line, expected));
}

static ssize_t failure_of_line(struct gs_reader *reader, size_t max)
{
    char *line = NULL;
    ssize_t n = gs_reader_read_line(reader, max, GS_NEVER, &line);
    MUST(n < 0 && !line);
    return n;
}

static void must_read_some(struct gs_reader *reader, const char *expected)
{
    char bytes[100];
    MUST_EQ(gs_reader_read_some(reader, bytes, sizeof bytes, GS_NEVER), strlen(expected));
    MUST(!memcmp(bytes, expected, strlen(expected)));
}

/* ---- Lines ---- */

THREAD_TEST(lines_end_anywhere_in_what_is_received, run_on_one)
{
    struct script script = {.text = "a\nbc\r\n\n\r\nd|ef|\n|x\ry\r|\n1234567\n123456\r\n\r\r\n"};
    struct gs_reader reader = reader_of(&script);
    const char *lines[] = {"a", "bc", "", "", "def", "x\ry", "1234567", "123456", "\r"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        must_read_line(&reader, lines[i]);
    MUST_EQ(failure_of_line(&reader, 100), -ENODATA);
    MUST_EQ(failure_of_line(&reader, 100), -ENODATA);
    gs_reader_done(&reader);
}

THREAD_TEST(line_that_is_too_long_is_reported_and_stays_in_the_buffer, run_on_one)
{
    struct script script = {.text = "12345|678\nab\nabcd\n"};
    struct gs_reader reader = reader_of(&script);
    MUST_EQ(failure_of_line(&reader, 100), -EMSGSIZE);
    MUST_EQ(failure_of_line(&reader, 100), -EMSGSIZE);
    must_read_some(&reader, "12345678");
    must_read_line(&reader, "");
    MUST_EQ(failure_of_line(&reader, 2), -EMSGSIZE);
    MUST_EQ(failure_of_line(&reader, 0), -EMSGSIZE);
    must_read_line(&reader, "ab");
    MUST_EQ(failure_of_line(&reader, 4), -EMSGSIZE);
    char *line;
    MUST_EQ(gs_reader_read_line(&reader, 5, GS_NEVER, &line), 4);
    MUST(!strcmp(line, "abcd"));
}

THREAD_TEST(end_of_the_stream_within_a_line_is_not_its_end, run_on_one)
{
    struct script script = {.text = "one\ntw"};
    struct gs_reader reader = reader_of(&script);
    char byte;
    must_read_line(&reader, "one");
    MUST_EQ(failure_of_line(&reader, 100), -EPROTO);
    MUST_EQ(failure_of_line(&reader, 100), -EPROTO);
    must_read_some(&reader, "tw");
    MUST_EQ(failure_of_line(&reader, 100), -ENODATA);
    MUST_EQ(gs_reader_read_some(&reader, &byte, 1, GS_NEVER), 0);
}

/* ---- Parts ---- */

THREAD_TEST(parts_are_read_whole_or_not_at_all, run_on_one)
{
    struct script script = {.text = "abc|defgh|ijklmnopqrst|uvwxyz"};
    struct gs_reader reader = reader_of(&script);
    char bytes[30] = {0};
    const void *peeked;
    MUST_EQ(gs_reader_read_full(&reader, bytes, 0, GS_NEVER), 0);
    MUST_EQ(script.calls, 0);
    MUST_EQ(gs_reader_read_full(&reader, bytes, 4, GS_NEVER), 4);
    MUST(!strcmp(bytes, "abcd"));
    MUST_EQ(gs_reader_peek(&reader, 2, GS_NEVER, &peeked), 4);
    MUST(!memcmp(peeked, "efgh", 4));
    MUST_EQ(gs_reader_peek(&reader, 8, GS_NEVER, &peeked), 8);
    MUST(!memcmp(peeked, "efghijkl", 8));
    MUST_EQ(gs_reader_peek(&reader, 9, GS_NEVER, &peeked), -EINVAL);
    MUST_EQ(gs_reader_read_some(&reader, bytes, 3, GS_NEVER), 3);
    MUST_EQ(gs_reader_read_full(&reader, bytes + 3, 17, GS_NEVER), 17);
    MUST(!memcmp(bytes, "efghijklmnopqrstuvwx", 20));
    MUST_EQ(gs_reader_peek(&reader, 5, GS_NEVER, &peeked), 2);
    MUST_EQ(gs_reader_read_full(&reader, bytes, 3, GS_NEVER), -EPROTO);
    MUST_EQ(gs_reader_read_full(&reader, bytes, 2, GS_NEVER), 2);
    MUST_EQ(gs_reader_read_full(&reader, bytes, 1, GS_NEVER), -ENODATA);
    MUST_EQ(gs_reader_read_full(&reader, bytes, 20, GS_NEVER), -ENODATA);
    MUST_EQ(gs_reader_peek(&reader, 1, GS_NEVER, &peeked), 0);
}

THREAD_TEST(errors_of_a_reader_are_kept_unless_nothing_is_lost, run_on_one)
{
    struct script script = {.text = "ab!c\n!de!fg?more\n"};
    struct gs_reader reader = reader_of(&script);
    char bytes[20];
    MUST_EQ(failure_of_line(&reader, 100), -ETIMEDOUT);
    must_read_line(&reader, "abc");
    MUST_EQ(gs_reader_read_full(&reader, bytes, 4, GS_NEVER), -ETIMEDOUT);
    MUST_EQ(gs_reader_read_full(&reader, bytes, 4, GS_NEVER), -ETIMEDOUT);
    MUST_EQ(gs_reader_read_full(&reader, bytes, 4, GS_NEVER), 4);
    MUST(!memcmp(bytes, "defg", 4));
    MUST_EQ(failure_of_line(&reader, 100), -ECONNRESET);
    int before = script.calls;
    MUST_EQ(failure_of_line(&reader, 100), -ECONNRESET);
    MUST_EQ(gs_reader_read_some(&reader, bytes, 20, GS_NEVER), -ECONNRESET);
    MUST_EQ(script.calls, before);
    script = (struct script){.text = "!ab!cd"};
    reader = reader_of(&script);
    MUST_EQ(gs_reader_read_full(&reader, bytes, 9, GS_NEVER), -ETIMEDOUT);
    MUST_EQ(gs_reader_read_full(&reader, bytes, 9, GS_NEVER), -ETIMEDOUT);
    MUST_EQ(gs_reader_read_full(&reader, bytes, 1, GS_NEVER), -ETIMEDOUT);
    MUST_EQ(script.calls, 3);
    script = (struct script){.text = "ab|cd"};
    reader = reader_of(&script);
    MUST_EQ(gs_reader_read_full(&reader, bytes, 9, GS_NEVER), -EPROTO);
    MUST_EQ(gs_reader_read_some(&reader, bytes, 1, GS_NEVER), -EPROTO);
}

/* ---- Writing ---- */

THREAD_TEST(what_is_written_arrives_in_order_however_short_the_writes_are, run_on_one)
{
    struct script script = {.piece = 3};
    struct gs_writer writer = writer_of(&script);
    MUST_EQ(gs_writer_write(&writer, "ab", 2, 0), 0);
    MUST_EQ(gs_writer_write(&writer, "", 0, 0), 0);
    MUST_EQ(gs_writer_printf(&writer, 0, "%d-%s", 12, "c"), 0);
    MUST_EQ(script.calls, 0);
    MUST_EQ(gs_writer_write(&writer, "defghi", 6, GS_NEVER), 0);
    MUST_EQ(script.calls, 2);
    MUST_EQ(gs_writer_write(&writer, "jk", 2, GS_NEVER), 0);
    MUST_EQ(script.calls, 2);
    MUST_EQ(gs_writer_printf(&writer, GS_NEVER, "%s", "1234567"), 0);
    MUST_EQ(gs_writer_printf(&writer, GS_NEVER, "%s", "12345678"), 0);
    MUST_EQ(gs_writer_printf(&writer, GS_NEVER, "%s.%s", "a text that is long", "and longer"), 0);
    MUST_EQ(gs_writer_write(&writer, "longer than it", 14, GS_NEVER), 0);
    MUST_EQ(gs_writer_write(&writer, "!", 1, GS_NEVER), 0);
    MUST_EQ(gs_writer_flush(&writer, GS_NEVER), 0);
    MUST_EQ(gs_writer_flush(&writer, GS_NEVER), 0);
    const char *all = "ab12-cdefghijk123456712345678a text that is long.and longerlonger than it!";
    MUST(!strcmp(script.written, all));
    gs_writer_done(&writer);
}

THREAD(print_numbers)
{
    struct script script = {0};
    struct gs_writer writer = writer_of(&script);
    MUST_EQ(gs_writer_printf(&writer, GS_NEVER, "%.10f %a\n", 1e9 / 7, 0.5), 0);
    MUST_EQ(gs_writer_flush(&writer, GS_NEVER), 0);
    MUST(!strcmp(script.written, "142857142.8571428657 0x1p-1\n"));
}

THREAD_TEST(smallest_stack_suffices_for_formatted_numbers, run_on_one)
{
    const struct gs_thread_attributes attributes = {.stack_size = 1000};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, print_numbers, NULL, &thread), 0);
    join(thread);
}

THREAD_TEST(errors_of_a_writer_are_kept_unless_nothing_is_lost, run_on_one)
{
    struct script script = {.piece = 2};
    struct gs_writer writer = writer_of(&script);
    MUST_EQ(gs_writer_write(&writer, "abcdef", 6, GS_NEVER), 0);
    script.err = -ETIMEDOUT;
    MUST_EQ(gs_writer_flush(&writer, GS_NEVER), -ETIMEDOUT);
    script.err = -ECANCELED;
    MUST_EQ(gs_writer_flush(&writer, GS_NEVER), -ECANCELED);
    MUST_EQ(gs_writer_write(&writer, "ghi", 3, GS_NEVER), 0);
    MUST_EQ(gs_writer_flush(&writer, GS_NEVER), 0);
    MUST(!strcmp(script.written, "abcdefghi"));
    MUST_EQ(gs_writer_write(&writer, "jkl", 3, GS_NEVER), 0);
    script.err = -ECONNRESET;
    MUST_EQ(gs_writer_flush(&writer, GS_NEVER), -ECONNRESET);
    int before = script.calls;
    MUST_EQ(gs_writer_write(&writer, "m", 1, GS_NEVER), -ECONNRESET);
    MUST_EQ(gs_writer_printf(&writer, GS_NEVER, "m"), -ECONNRESET);
    MUST_EQ(gs_writer_flush(&writer, GS_NEVER), -ECONNRESET);
    MUST_EQ(script.calls, before);
}

static int write_middle(struct gs_writer *writer, int how)
{
    if (how == 0)
        return gs_writer_write(writer, "ghi", 3, GS_NEVER);
    if (how == 1)
        return gs_writer_write(writer, "longer than it", 14, GS_NEVER);
    return gs_writer_printf(writer, GS_NEVER, how == 2 ? "%s" : "%s%s", "ghi", "longer than it");
}

THREAD_TEST(nothing_is_written_after_a_part_that_is_missing, run_on_one)
{
    for (int how = 0; how < 4; how++) {
        struct script script = {0};
        struct gs_writer writer = writer_of(&script);
        int err = how % 2 ? -ETIMEDOUT : -ECANCELED;
        gs_writer_write(&writer, "abcdef", 6, GS_NEVER);
        script.err = err;
        MUST_EQ(write_middle(&writer, how), err);
        MUST_EQ(gs_writer_write(&writer, "jkl", 3, GS_NEVER), err);
        MUST_EQ(gs_writer_printf(&writer, GS_NEVER, "m"), err);
        MUST_EQ(gs_writer_flush(&writer, GS_NEVER), err);
        MUST_EQ(script.count, 0);
    }
}

static ssize_t write_once(void *stream, const void *bytes, size_t n, uint64_t deadline_ns)
{
    struct script *script = stream;
    if (script->calls)
        script->err = -ETIMEDOUT;
    return write_script(stream, bytes, n, deadline_ns);
}

THREAD(write_a_part)
{
    struct script script = {.piece = 5};
    struct gs_writer writer;
    MUST_EQ(gs_writer_init_with(&writer, write_once, &script, NULL, 8), 0);
    MUST_EQ(gs_writer_write(&writer, "0123456789", 10, GS_NEVER), -ETIMEDOUT);
    MUST_EQ(gs_writer_flush(&writer, GS_NEVER), -ETIMEDOUT);
    MUST_EQ(script.calls, 2);
    gs_writer_done(&writer);
}

static ssize_t write_nothing(void *stream, const void *bytes, size_t n, uint64_t deadline_ns)
{
    (void)stream, (void)bytes, (void)n, (void)deadline_ns;
    return 0;
}

THREAD(write_to_nothing)
{
    struct gs_writer writer;
    MUST_EQ(gs_writer_init_with(&writer, write_nothing, NULL, NULL, 8), 0);
    MUST_EQ(gs_writer_write(&writer, "a", 1, GS_NEVER), 0);
    MUST_EQ(gs_writer_flush(&writer, GS_NEVER), -EIO);
    gs_writer_done(&writer);
}

TEST(part_of_a_write_makes_its_timeout_final)
{
    run_with(1, write_a_part);
    run_with(1, write_to_nothing);
}

TEST(buffer_has_a_smallest_size_and_may_lack_memory)
{
    struct gs_reader reader;
    struct gs_writer writer;
    CHECK_EQ(gs_reader_init(&reader, 0, buffer, 1), -EINVAL);
    CHECK_EQ(gs_writer_init(&writer, 0, NULL, 0), -EINVAL);
    if (GS_ASAN || GS_TSAN)
        return; /* they end a program that requests too much */
    volatile size_t far_too_much = SIZE_MAX / 2;
    CHECK_EQ(gs_reader_init(&reader, 0, NULL, far_too_much), -ENOMEM);
    CHECK_EQ(gs_writer_init(&writer, 0, NULL, far_too_much), -ENOMEM);
}

/* ---- Descriptors ---- */

static int fds[2];

THREAD(send_lines)
{
    struct gs_writer writer;
    MUST_EQ(gs_writer_init(&writer, fds[1], NULL, 100), 0);
    for (int i = 0; i < 20000; i++)
        MUST_EQ(gs_writer_printf(&writer, after(60 * GS_SECOND), "line %d\n", i), 0);
    MUST_EQ(gs_writer_flush(&writer, after(60 * GS_SECOND)), 0);
    gs_writer_done(&writer);
    gs_close(fds[1]);
}

static void transfer_lines(void)
{
    struct gs_reader reader;
    char expected[20], *line;
    ssize_t n;
    int count = 0;
    const struct gs_thread_attributes migrating = {.migrates = true};
    struct gs_thread *sender;
    MUST_EQ(gs_reader_init(&reader, fds[0], NULL, 64), 0);
    MUST_EQ(gs_thread_spawn(&migrating, send_lines, NULL, &sender), 0);
    for (; (n = gs_reader_read_line(&reader, 64, after(60 * GS_SECOND), &line)) >= 0; count++) {
        snprintf(expected, sizeof expected, "line %d", count);
        MUST(!strcmp(line, expected));
    }
    MUST_EQ(n, -ENODATA);
    MUST_EQ(count, 20000);
    join(sender);
    gs_reader_done(&reader);
    gs_close(fds[0]);
}

THREAD_TEST(lines_pass_through_sockets_and_pipes, run_both)
{
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    transfer_lines();
    MUST_EQ(gs_sys_pipe2(fds, O_CLOEXEC), 0);
    transfer_lines();
}

THREAD_TEST(files_are_read_and_written, run_on_one)
{
    char path[] = "/tmp/gossamer-buffered-XXXXXX";
    struct gs_reader reader;
    struct gs_writer writer;
    int fd = mkstemp(path);
    MUST(fd >= 0);
    MUST_EQ(gs_writer_init(&writer, fd, NULL, 16), 0);
    MUST_EQ(gs_writer_printf(&writer, GS_NEVER, "first\nand the second %s\n", "line"), 0);
    MUST_EQ(gs_writer_flush(&writer, GS_NEVER), 0);
    MUST_EQ(lseek(fd, 0, SEEK_SET), 0);
    MUST_EQ(gs_reader_init(&reader, fd, NULL, 64), 0);
    must_read_line(&reader, "first");
    must_read_line(&reader, "and the second line");
    MUST_EQ(failure_of_line(&reader, 64), -ENODATA);
    gs_writer_done(&writer);
    gs_reader_done(&reader);
    gs_close(fd);
    unlink(path);
}

/* ---- Deadlines and cancellation in waits ---- */

static struct gs_semaphore waits_next, was_canceled;

THREAD(read_canceled)
{
    struct gs_reader reader;
    char *line;
    MUST_EQ(gs_reader_init(&reader, fds[0], NULL, 64), 0);
    MUST_EQ(gs_reader_read_line(&reader, 64, 0, &line), -ETIMEDOUT);
    MUST_EQ(gs_reader_read_line(&reader, 64, after(10 * GS_MILLISECOND), &line), -ETIMEDOUT);
    gs_semaphore_post(&waits_next);
    MUST_EQ(gs_reader_read_line(&reader, 64, GS_NEVER, &line), -ECANCELED);
    gs_thread_set_cancelable(false);
    gs_semaphore_post(&was_canceled);
    must_read_line(&reader, "complete");
    gs_reader_done(&reader);
}

THREAD(cancel_reader)
{
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    MUST_EQ(gs_send_all(fds[1], "comp", 4, GS_NEVER), 4);
    struct gs_thread *thread = spawn(read_canceled, NULL);
    MUST_EQ(gs_semaphore_wait(&waits_next, GS_NEVER), 0);
    gs_thread_cancel(thread);
    MUST_EQ(gs_semaphore_wait(&was_canceled, GS_NEVER), 0);
    MUST_EQ(gs_send_all(fds[1], "lete\n", 5, GS_NEVER), 5);
    join(thread);
    gs_close(fds[0]);
    gs_close(fds[1]);
}

THREAD(write_canceled)
{
    struct gs_writer writer;
    ssize_t n = 0;
    while (n >= 0)
        n = gs_send(fds[0], "to fill it", 10, 0, 0);
    MUST_EQ(gs_writer_init(&writer, fds[0], NULL, 1000), 0);
    MUST_EQ(gs_writer_printf(&writer, 0, "%100d", 1), 0);
    MUST_EQ(gs_writer_flush(&writer, after(10 * GS_MILLISECOND)), -ETIMEDOUT);
    gs_semaphore_post(&waits_next);
    MUST_EQ(gs_writer_flush(&writer, GS_NEVER), -ECANCELED);
    MUST_EQ(gs_writer_flush(&writer, 0), -ECANCELED);
    gs_writer_done(&writer);
}

THREAD(cancel_writer)
{
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    struct gs_thread *thread = spawn(write_canceled, NULL);
    MUST_EQ(gs_semaphore_wait(&waits_next, GS_NEVER), 0);
    gs_thread_cancel(thread);
    join(thread);
    gs_close(fds[0]);
    gs_close(fds[1]);
}

TEST(waits_end_at_the_deadline_and_when_they_are_canceled)
{
    run_both(cancel_reader);
    run_both(cancel_writer);
}

THREAD(write_to_closed_socket)
{
    struct gs_writer writer;
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    gs_close(fds[1]);
    MUST_EQ(gs_writer_init(&writer, fds[0], NULL, 100), 0);
    MUST_EQ(gs_writer_write(&writer, "x", 1, GS_NEVER), 0);
    MUST_EQ(gs_writer_flush(&writer, GS_NEVER), -EPIPE);
    MUST_EQ(gs_writer_write(&writer, "x", 1, GS_NEVER), -EPIPE);
    gs_writer_done(&writer);
    gs_close(fds[0]);
}

TEST(writing_to_a_socket_raises_no_signal)
{
    CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    run_both(write_to_closed_socket);
}
