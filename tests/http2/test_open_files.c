/* How many files a connection keeps open while descriptors are short: one. */
#include "tests/http2/fixture.h"

#define COUNT 20
#define SIZE 100000

static bool is_ample;

static bool may_open_more(void)
{
    return is_ample;
}

/* Requests for large files, and for a small page, whose windows are closed. */
static void ask(unsigned cached)
{
    static const nghttp2_settings_entry closed = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0};
    struct gs_http_options options;
    char name[32];
    gs_http_options_default(&options);
    options.may_open_more = may_open_more;
    options.max_cached_descriptors = cached;
    client_start(&client, &options);
    drive_write(&client.drive, "f", "hello");
    client_reopen(&client, &closed, 1);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "/%d", i);
        drive_write_bytes(&client.drive, name, large, SIZE);
        client_get(&client, "GET", name, NULL, NULL);
    }
    client_get(&client, "GET", "/f", NULL, NULL);
    client_exchange(&client);
}

static unsigned count_answered(void)
{
    unsigned count = 0;
    for (int32_t id = 1; id < 2 * COUNT; id += 2)
        count += stream_of(id)->status == 200;
    return count;
}

static void open_windows(void)
{
    const nghttp2_settings_entry open = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20};
    CHECK_EQ(nghttp2_submit_settings(client.session, 0, &open, 1), 0);
    client_exchange(&client);
    for (int32_t id = 1; id < 2 * COUNT; id += 2) {
        CHECK_EQ(stream_of(id)->status, 200u);
        CHECK_EQ(stream_of(id)->body_n, (size_t)SIZE);
    }
    CHECK_EQ(client.drive.counts.http2_refused, 0u);
    CHECK_EQ(client_stop(&client), 0);
    CHECK_EQ(gs_http_open_files(), 0u);
}

TEST(a_connection_keeps_one_file_open_while_descriptors_are_short)
{
    is_ample = false;
    ask(0);
    CHECK_EQ(gs_http_open_files(), 1u);
    CHECK_EQ(count_answered(), 1u);
    CHECK_EQ(stream_of(2 * COUNT + 1)->status, 200u);
    open_windows();
}

TEST(files_that_wait_are_sent_once_there_are_descriptors)
{
    is_ample = false;
    ask(0);
    is_ample = true;
    client_get(&client, "GET", "/f", NULL, NULL);
    client_exchange(&client);
    CHECK_EQ(count_answered(), (unsigned)COUNT);
    CHECK_EQ(gs_http_open_files(), (uint64_t)COUNT);
    open_windows();
}

/* The cache may close what no response needs. */
TEST(a_connection_keeps_one_cached_file_open_while_descriptors_are_short)
{
    is_ample = false;
    ask(2 * COUNT);
    CHECK_EQ(count_answered(), 1u);
    open_windows();
}

TEST(responses_from_one_file_need_one_descriptor)
{
    is_ample = false;
    ask(2 * COUNT);
    int32_t ids[2];
    for (int i = 0; i < 2; i++)
        ids[i] = client_get(&client, "GET", "/0", "range", i ? "bytes=5-" : "bytes=-7");
    client_exchange(&client);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(stream_of(ids[i])->status, 206u);
    open_windows();
}

TEST(a_connection_may_keep_many_files_open)
{
    is_ample = true;
    ask(0);
    CHECK_EQ(gs_http_open_files(), (uint64_t)COUNT);
    CHECK_EQ(count_answered(), (unsigned)COUNT);
    open_windows();
}
