/* Each allocation of a session fails once: what is answered is right, nothing leaks, and the next
 * connection is served. The wrappers (--wrap) below replace the allocations of all but libnghttp2's
 * callbacks and options. */
#include "tests/http2/client.h"
#include "tests/test.h"

#include <stdint.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *memory, size_t n);
void __real_free(void *memory);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *memory, size_t n);
void __wrap_free(void *memory);

static unsigned long allocations, fails_at = UINT64_MAX, fails_n = 1;
static long live; /* allocations that are not freed */

/* Of libnghttp2's first queue: if that can't be allocated, 1.52 frees what was to be queued twice.
 * clang makes a malloc of a realloc of nothing. */
#define QUEUE_N 32

static bool fails(size_t n)
{
    return n != QUEUE_N && ++allocations >= fails_at && allocations - fails_at < fails_n;
}

void *__wrap_malloc(size_t n)
{
    void *memory = fails(n) ? NULL : __real_malloc(n);
    live += memory != NULL;
    return memory;
}

void *__wrap_calloc(size_t count, size_t n)
{
    void *memory = fails(count * n) ? NULL : __real_calloc(count, n);
    live += memory != NULL;
    return memory;
}

void *__wrap_realloc(void *memory, size_t n)
{
    void *moved = fails(n) ? NULL : __real_realloc(memory, n);
    live += moved && !memory;
    return moved;
}

void __wrap_free(void *memory)
{
    live -= memory != NULL;
    __real_free(memory);
}

static struct client client;

static void run_session(void)
{
    client_reopen(&client, NULL, 0);
    client_get(&client, "GET", "/f", NULL, NULL);
    client_get(&client, "GET", "/none", "referer", "r");
    client_get(&client, "GET", "/f", "range", "bytes=0-1,3-4");
    client_post(&client, "/f", 5000);
    client_exchange(&client);
    client.drive.now_ns += GS_SECOND;
}

TEST(each_allocation_may_fail)
{
    client_start(&client, NULL);
    drive_write(&client.drive, "f", "hello");
    run_session();
    allocations = 0;
    run_session();
    unsigned long count = allocations;
    CHECK(count > 20);
    for (unsigned long i = 1; i <= count; i++) {
        allocations = 0;
        fails_at = i;
        run_session();
        fails_at = UINT64_MAX;
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
        fails_at = i / 2;
        fails_n = 1 + i % 2;
        client_get(&other, "GET", "/f", NULL, NULL);
        client_exchange(&other);
        fails_at = UINT64_MAX;
        ping(&client);
    }
    get_the_rest(&client);
    stop_both();
}
