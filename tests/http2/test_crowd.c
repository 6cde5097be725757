/* As many requests at once as a connection may have, each with the fields of a browser and a large
 * cookie: all are answered, whether or not the client takes what it is sent. */
#include "tests/http2/fixture.h"

#define COUNT 100
#define COOKIE_N 1500

static char frames[1 << 20];
static size_t frames_n;

static void put_frames(void)
{
    const uint8_t *bytes;
    ssize_t n;
    while ((n = nghttp2_session_mem_send(client.session, &bytes)) > 0) {
        CHECK(frames_n + (size_t)n <= sizeof frames);
        memcpy(frames + frames_n, bytes, (size_t)n);
        frames_n += (size_t)n;
    }
}

static void request(const char *path, unsigned i)
{
    static char cookie[COOKIE_N + 1];
    snprintf(cookie, sizeof cookie, "%u=", i);
    size_t at = strlen(cookie);
    for (; at < COOKIE_N; at++) /* nothing that the table or the Huffman code makes short */
        cookie[at] = "{}|~^"[at * (i + 3) % 5];
    const char *const fields[] = {
        ":method",
        "GET",
        ":path",
        path,
        ":scheme",
        "https",
        ":authority",
        "www.example.org",
        "user-agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
        "Chrome/126.0.0.0 Safari/537.36",
        "accept",
        "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
        "accept-language",
        "en-GB,en;q=0.9",
        "referer",
        "https://www.example.org/articles/2026/11/page.html",
        "cookie",
        cookie,
        NULL,
    };
    client_send_fields(&client, fields);
}

/* Each page is in the cache, or none is; the client takes nothing until the server reads no more,
 * or everything at once. */
static void crowd(const char *format, bool is_blocked)
{
    char path[32];
    frames_n = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        snprintf(path, sizeof path, format, i);
        request(path, i);
    }
    put_frames();
    client.drive.keep_output = is_blocked;
    for (size_t at = 0, n; at < frames_n; at += n) {
        n = frames_n - at < 65536 ? frames_n - at : 65536;
        while (!(gs_http_conn_wants(&client.drive.conn) & GS_HTTP_READ)) {
            drive_serve(&client.drive);
            drive_take_output(&client.drive, 4096);
        }
        drive_send_bytes(&client.drive, frames + at, n);
    }
    client.drive.keep_output = false;
    drive_serve(&client.drive);
    client_exchange(&client);
}

static void check_answers(size_t n)
{
    unsigned answered = 0;
    for (int32_t id = 1; id < 2 * COUNT; id += 2)
        answered += stream_of(id)->status == 200 && stream_of(id)->body_n == n;
    CHECK_EQ(answered, (unsigned)COUNT);
    CHECK_EQ(client.drive.counts.http2_refused, 0u);
    CHECK_EQ(client.drive.counts.http2_abuses + client.drive.counts.http2_overloads, 0u);
    CHECK_EQ(client_stop(&client), 0);
}

TEST(large_requests_for_a_small_page_are_all_answered)
{
    for (int is_blocked = 0; is_blocked < 2; is_blocked++) {
        start();
        crowd("/f", is_blocked);
        check_answers(5);
    }
}

TEST(large_requests_for_a_page_that_closes_the_window_are_all_answered)
{
    for (int is_blocked = 0; is_blocked < 2; is_blocked++) {
        start();
        crowd("/middle", is_blocked);
        check_answers(30000);
    }
}

TEST(large_requests_for_many_files_are_all_answered)
{
    char name[32];
    for (int is_blocked = 0; is_blocked < 2; is_blocked++) {
        start();
        for (int i = 0; i < COUNT; i++) {
            snprintf(name, sizeof name, "page%d", i);
            drive_write(&client.drive, name, "hello");
        }
        crowd("/page%u", is_blocked);
        check_answers(5);
    }
}

/* It opens the window of a stream when it knows the head of the response. */
static void open_windows(void)
{
    for (int32_t id = 1; id < 2 * COUNT; id += 2)
        if (stream_of(id)->status && !stream_of(id)->is_closed &&
            nghttp2_session_get_stream_local_window_size(client.session, id) == 0)
            CHECK_EQ(nghttp2_submit_window_update(client.session, 0, id, 30000), 0);
    client_exchange(&client);
}

TEST(requests_whose_windows_open_late_are_all_answered)
{
    static const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}};
    start();
    client_reopen(&client, settings, 1);
    client_exchange(&client);
    crowd("/middle", false);
    for (int i = 0; i < COUNT; i++)
        open_windows();
    check_answers(30000);
}
