/* Each allocation of a session fails once: what is answered is right, nothing leaks, and the next
 * connection is served. The allocations of libnghttp2's callbacks and options do not fail. */
#include "http/output.h"
#include "http/service.h"
#include "http2/session.h"
#include "tests/http/allocations.h"
#include "tests/http2/client.h"
#include "tests/test.h"

/* Of a new queue of streams with data: if that can't be allocated, libnghttp2 frees what was to be
 * queued twice (docs/design/http2.md). clang makes a malloc of a realloc of nothing. */
#define QUEUE_N 32

static struct client client;

/* What the service keeps needs no allocation. The address sanitizer's build keeps no memory of
 * sessions, so there each of their allocations fails. */
static void free_kept(void)
{
    struct gs_http_service *service = client.drive.service;
    gs_http2_free_spares(service->http2_desk);
    while (service->free_outputs) {
        struct gs_http_output *output = service->free_outputs;
        service->free_outputs = output->next_free;
        service->free_output_count--;
        free(output);
    }
}

static void run_session(void)
{
    client_reopen(&client, NULL, 0);
    free_kept();
    client_get(&client, "GET", "/f", NULL, NULL);
    client_get(&client, "GET", "/none", "referer", "r");
    client_get(&client, "GET", "/f", "range", "bytes=0-1,3-4");
    client_post(&client, "/f", 5000);
    client_exchange(&client);
    client.drive.now_ns += GS_SECOND;
}

/* While the first file is loaded, the other one waits. */
static void load_two(void)
{
    client_reopen(&client, NULL, 0);
    free_kept();
    client.drive.hold_loads = true;
    client_get(&client, "GET", "/f", NULL, NULL);
    client_get(&client, "GET", "/g", NULL, NULL);
    client_exchange(&client);
    client.drive.hold_loads = false;
    drive_serve(&client.drive);
    client_exchange(&client);
    client.drive.now_ns += GS_SECOND;
}

TEST(malformed_requests_leave_no_memory)
{
    static const char *const fields[] = {":method", "GET-OTHER", ":authority", "another", NULL};
    client_start(&client, NULL);
    for (int i = 0; i < 3; i++)
        client_send_fields(&client, fields);
    client_exchange(&client);
    CHECK_EQ(client.streams[3].error, NGHTTP2_PROTOCOL_ERROR);
    CHECK_EQ(client_stop(&client), 0);
    CHECK_EQ(live, 0);
}

TEST(each_allocation_may_fail_while_a_file_is_loaded)
{
    exempt_n = QUEUE_N;
    client_start(&client, NULL);
    drive_write(&client.drive, "f", "hello");
    drive_write(&client.drive, "g", "good");
    load_two();
    allocations = 0;
    load_two();
    unsigned long count = allocations;
    CHECK(count > 20);
    for (unsigned long i = 1; i <= count; i++) {
        allocations = 0;
        fails_from = i, fails_to = i + 1;
        load_two();
        fails_from = fails_to = UINT64_MAX;
        load_two();
        CHECK_STR(client.streams[1].body, "hello");
        CHECK_STR(client.streams[3].body, "good");
    }
    CHECK_EQ(client_stop(&client), 0);
    CHECK_EQ(live, 0);
}

TEST(each_allocation_may_fail)
{
    exempt_n = QUEUE_N;
    client_start(&client, NULL);
    drive_write(&client.drive, "f", "hello");
    run_session();
    allocations = 0;
    run_session();
    unsigned long count = allocations;
    CHECK(count > 20);
    for (unsigned long i = 1; i <= count; i++) {
        allocations = 0;
        fails_from = i;
        fails_to = i + 1;
        run_session();
        fails_from = UINT64_MAX;
        for (int32_t id = 1; id < 9; id += 2) {
            unsigned status = client.streams[id].status;
            CHECK(!status || status == 200 || status == 206 || status == 404 || status == 405 ||
                  status == 503);
        }
        run_session();
        CHECK_EQ(client.streams[1].status, 200u);
        CHECK_EQ(client.streams[7].status, 405u);
    }
    CHECK_EQ(client_stop(&client), 0);
    CHECK_EQ(live, 0);
}

/* ---- Two sessions of one service ---- */

static struct client other;
static struct gs_http_service *others_own;

static void start_both(void)
{
    static const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}};
    client_start(&client, NULL);
    drive_write(&client.drive, "f", "hello");
    client_reopen(&client, settings, 1);
    client_start(&other, NULL);
    others_own = other.drive.service;
    other.drive.service = client.drive.service;
    client_reopen(&other, settings, 1);
}

static void stop_both(void)
{
    other.drive.service = others_own;
    CHECK_EQ(client_stop(&other), 0);
    CHECK_EQ(client_stop(&client), 0);
    CHECK_EQ(live, 0);
}

static void start_to_get(struct client *one)
{
    CHECK_EQ(client_get(one, "GET", "/f", NULL, NULL), 1);
    client_exchange(one);
    CHECK_EQ(one->streams[1].status, 200u);
    CHECK_EQ(one->streams[1].body_n, 0u);
}

static void get_the_rest(struct client *one)
{
    CHECK_EQ(nghttp2_submit_window_update(one->session, 0, 1, 100), 0);
    client_exchange(one);
    CHECK(one->streams[1].is_closed);
    CHECK_EQ(one->streams[1].error, 0u);
    CHECK_STR(one->streams[1].body, "hello");
}

static void ping(struct client *one)
{
    unsigned before = one->pings;
    CHECK_EQ(nghttp2_submit_ping(one->session, 0, NULL), 0);
    client_exchange(one);
    CHECK_EQ(one->pings, before + 1);
}

TEST(sessions_of_a_service_keep_their_streams_apart)
{
    start_both();
    start_to_get(&client);
    start_to_get(&other);
    ping(&client);
    ping(&other);
    get_the_rest(&client);
    ping(&other);
    client_reopen(&client, NULL, 0);
    get_the_rest(&other);
    client_get(&client, "GET", "/f", NULL, NULL);
    client_exchange(&client);
    CHECK_STR(client.streams[1].body, "hello");
    stop_both();
}

/* If two fail, neither what the first session leaves nor the second finds memory of its own. */
TEST(a_session_that_finds_no_memory_harms_no_other)
{
    start_both();
    start_to_get(&client);
    for (unsigned long i = 2; i < 80; i++) {
        client_reopen(&other, NULL, 0);
        client_exchange(&other);
        ping(&client);
        allocations = 0;
        fails_from = i / 2;
        fails_to = i / 2 + 1 + i % 2;
        client_get(&other, "GET", "/f", NULL, NULL);
        client_exchange(&other);
        fails_from = fails_to = UINT64_MAX;
        ping(&client);
    }
    get_the_rest(&client);
    stop_both();
}
