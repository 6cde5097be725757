/* Fuzzes a connection with any input, any splits, any delays and all other events: the connection
 * always waits for some operation, its responses are framed as announced, and nothing leaks. If the
 * first byte is even, the rest is a session, which must get the same responses for any split; if it
 * is odd, the rest encodes a sequence of events. */
#include "tests/fuzz/events.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct drive drive;

/* ---- The same session in several pieces ---- */

static char *run_session(const char *bytes, size_t n, size_t split, size_t *ret_n)
{
    events_reset(&drive);
    drive.input_chunk = split;
    drive.output_chunk = split * 41;
    drive_send_bytes(&drive, bytes, n);
    drive_send_eof(&drive);
    assert(gs_http_conn_wants(&drive.conn) == GS_HTTP_CLOSE);
    char *output = malloc(drive.output_n + 1);
    assert(output);
    memcpy(output, drive.output, drive.output_n);
    *ret_n = drive.output_n;
    return output;
}

/* Check that the responses in the output are framed as announced, one for each request in the log;
 * for requests that were refused before they were parsed it is unknown whether they were HEAD. */
static void check_responses(void)
{
    unsigned logged = drive.logged_count;
    assert(logged <= sizeof drive.logged / sizeof *drive.logged);
    drive.parsed = 0;
    for (unsigned i = 0; i < logged; i++) {
        const char *line = drive.logged[i].request_line;
        struct drive_response response;
        bool full = drive_next_response(&drive, !strncmp(line, "HEAD ", 5), &response) ||
                    (!strcmp(line, "-") && drive_next_response(&drive, true, &response));
        assert(full && response.status == drive.logged[i].status);
        assert(response.keep_alive || i + 1 == logged);
    }
    const char *rest = drive.output + drive.parsed;
    assert(!*rest || !strcmp(rest, "HTTP/1.1 100 Continue\r\n\r\n")); /* its body is missing */
}

static void check_session(const char *bytes, size_t n)
{
    size_t full_n, pieces_n;
    events_restore_files(&drive);
    free(run_session(bytes, n, 0, &full_n)); /* this run fills the cache */
    char *full = run_session(bytes, n, 0, &full_n);
    check_responses();
    for (size_t split = 1; split < 8; split += 3) {
        char *pieces = run_session(bytes, n, split, &pieces_n);
        assert(pieces_n == full_n && !memcmp(pieces, full, full_n));
        free(pieces);
    }
    free(full);
}

/* ---- Sequences of events ---- */

static void check_script(const uint8_t *data, size_t size)
{
    struct events events = {.drive = &drive, .at = data, .end = data + size};
    events_restore_files(&drive);
    events_reset(&drive);
    while (events.at < events.end && !(gs_http_conn_wants(&drive.conn) & GS_HTTP_CLOSE)) {
        unsigned what = events_next_byte(&events);
        if (what % 12 < EVENTS_KINDS)
            events_step(&events, what % 12);
        else
            events_receive(&events, (size_t)events_next_byte(&events) * (what < 128 ? 1 : 16));
        events_check(&events);
        if (gs_http_conn_is_idle(&drive.conn))
            assert(!drive.conn.input && !drive.conn.output && !drive.conn.load);
    }
    events_finish(&events);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!drive.service)
        events_start(&drive);
    if (!size)
        return 0;
    if (data[0] % 2)
        check_script(data + 1, size - 1);
    else
        check_session((const char *)data + 1, size - 1);
    return 0;
}
