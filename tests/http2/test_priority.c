/* RFC 9218: the order in which pages are sent that were requested at once. */
#include "tests/http2/fixture.h"

/* With windows and a cache that have no influence. */
static void start_with_open_windows(void)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 24}};
    start();
    client_reopen(&client, settings, 1);
    nghttp2_session_set_local_window_size(client.session, NGHTTP2_FLAG_NONE, 0, 1 << 24);
    client_get(&client, "GET", "/middle", NULL, NULL);
    client_get(&client, "GET", "/large", NULL, NULL);
    client_exchange(&client);
    client.frame_count = 0;
}

/* Request the page of two frames once for each priority. */
static void get_all(const char *const *priorities, size_t count, int32_t *ret_ids)
{
    for (size_t i = 0; i < count; i++)
        ret_ids[i] = client_get(&client, "GET", "/middle", "priority", priorities[i]);
    client_exchange(&client);
    CHECK_EQ(client.frame_count, 2 * count);
}

TEST(what_is_urgent_is_sent_first)
{
    static const char *const priorities[] = {"u=5", "i=?0", "u=1", "u=0", "u=7"};
    static const unsigned order[] = {3, 2, 1, 0, 4}; /* the default is 3 */
    int32_t ids[5];
    start_with_open_windows();
    get_all(priorities, 5, ids);
    for (unsigned i = 0; i < 10; i++)
        CHECK_EQ(client.frames[i], ids[order[i / 2]]);
    CHECK_EQ(client_stop(&client), 0);
}

TEST(pages_of_one_urgency_are_sent_one_after_another)
{
    static const char *const priorities[] = {"u=2", "u=2", "u=2"};
    int32_t ids[3];
    start_with_open_windows();
    get_all(priorities, 3, ids);
    for (unsigned i = 0; i < 6; i++)
        CHECK_EQ(client.frames[i], ids[i / 2]);
    CHECK_EQ(client_stop(&client), 0);
}

TEST(incremental_pages_are_sent_by_turns)
{
    static const char *const priorities[] = {"u=2, i", "u=2, i", "u=2, i"};
    int32_t ids[3];
    start_with_open_windows();
    get_all(priorities, 3, ids);
    for (unsigned i = 0; i < 6; i++)
        CHECK_EQ(client.frames[i], ids[i % 3]);
    CHECK_EQ(client_stop(&client), 0);
}

TEST(a_later_priority_changes_the_order_of_what_is_not_yet_built)
{
    start_with_open_windows();
    client.drive.keep_output = true;
    int32_t first = client_get(&client, "GET", "/large", "priority", "u=3");
    int32_t second = client_get(&client, "GET", "/large", "priority", "u=3");
    client_exchange(&client);
    CHECK(!nghttp2_submit_priority_update(client.session, NGHTTP2_FLAG_NONE, second,
                                          (const uint8_t *)"u=0", 3));
    client_exchange(&client);
    client.drive.keep_output = false;
    drive_serve(&client.drive);
    client_exchange(&client);
    CHECK_EQ(stream_of(first)->body_n, sizeof large);
    CHECK_EQ(stream_of(second)->body_n, sizeof large);
    unsigned built = 0;
    while (built < CLIENT_FRAMES && client.frames[built] == first)
        built++;
    CHECK(built > 0 && built <= 5);
    for (unsigned i = built; i < CLIENT_FRAMES; i++)
        CHECK_EQ(client.frames[i], second);
    CHECK_EQ(client_stop(&client), 0);
}

TEST(a_small_page_does_not_wait_for_large_ones_that_have_no_priority)
{
    start_with_open_windows();
    for (unsigned i = 0; i < 10; i++)
        client_get(&client, "GET", "/large", NULL, NULL);
    int32_t id = client_get(&client, "GET", "/f", NULL, NULL);
    client_exchange(&client);
    unsigned at = 0;
    while (at < CLIENT_FRAMES && client.frames[at] != id)
        at++;
    CHECK(at < CLIENT_FRAMES);
    CHECK_EQ(client_stop(&client), 0);
}
