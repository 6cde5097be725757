/* Each allocation of a session fails once: what is answered is right, nothing leaks, and the next
 * connection is served. The allocations of libnghttp2's callbacks and options do not fail. */
#include "tests/http/allocations.h"
#include "tests/http2/client.h"
#include "tests/test.h"

/* Of a new queue of streams with data: if that can't be allocated, libnghttp2 frees what was to be
 * queued twice (docs/design/http2.md). clang makes a malloc of a realloc of nothing. */
#define QUEUE_N 32

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
