#include "tests/http/drive.h"
#include "tests/test.h"

#define REQUEST "GET /page.html HTTP/1.1\r\nHost: a\r\n\r\n"
#define NEXT_DATE "Sat, 21 Nov 2026 12:00:01 GMT"

static struct drive drive;

/* Returns the Date field of the first response in a connection's output. */
static const char *date_of(const struct gs_http_conn *conn)
{
    static char date[30];
    struct gs_http_piece piece;
    if (gs_http_conn_output(conn, &piece, 1) != 1 || !piece.bytes)
        return "no output";
    const char *field = memmem(piece.bytes, piece.n, "Date: ", 6);
    if (!field)
        return "no date";
    snprintf(date, sizeof date, "%.29s", field + 6);
    return date;
}

static void start(void)
{
    static char text[8000];
    memset(text, 'x', sizeof text);
    drive_start(&drive, NULL);
    drive_write_bytes(&drive, "page.html", text, sizeof text);
    drive_send(&drive, REQUEST);
    drive.keep_output = true;
    drive_send(&drive, REQUEST);
}

TEST(page_sent_with_its_stored_head_is_one_piece)
{
    struct gs_http_piece pieces[2];
    start();
    CHECK_EQ(gs_http_conn_output(&drive.conn, pieces, 2), 1);
    CHECK(pieces[0].n > 8000);
    CHECK_STR(date_of(&drive.conn), DRIVE_DATE);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(page_being_sent_keeps_its_date_while_another_connection_gets_a_new_one)
{
    struct gs_http_conn other;
    start();
    uint64_t later_ns = drive.now_ns + GS_SECOND;
    gs_http_conn_init(&other, drive.service, later_ns);
    gs_http_conn_receive(&other, REQUEST, sizeof REQUEST - 1, later_ns);
    CHECK_EQ(gs_http_conn_wants(&other), GS_HTTP_LOAD);
    struct gs_http_load *load = gs_http_conn_take_load(&other);
    gs_http_load_run(load);
    gs_http_conn_loaded(&other, load, later_ns);
    CHECK_STR(date_of(&other), NEXT_DATE);
    CHECK_STR(date_of(&drive.conn), DRIVE_DATE);
    gs_http_conn_done(&other);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(unused_page_gets_the_new_date)
{
    start();
    drive.keep_output = false;
    drive_serve(&drive);
    drive.now_ns += GS_SECOND;
    drive_send(&drive, REQUEST); /* this request validates the page */
    drive.keep_output = true;
    drive_send(&drive, REQUEST);
    CHECK_STR(date_of(&drive.conn), NEXT_DATE);
    CHECK_EQ(drive_stop(&drive), 0);
}
