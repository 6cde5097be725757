/* Each allocation of a client's connection fails once: each request ends once, and nothing leaks.
 * The allocations of libnghttp2's callbacks and options do not fail. */
#include "tests/http/allocations.h"
#include "tests/http2/engine.h"
#include "tests/test.h"

#define QUEUE_N 32 /* as in test_memory.c */

static struct engine engine;
static unsigned long at_start, count;

static void make_requests(void)
{
    engine_get(&engine, "GET", "/f");
    engine_next(&engine)->is_slow = true;
    engine_get(&engine, "GET", "/large");
    engine_next(&engine)->body_left = 40000;
    (void)!engine_request(&engine, "POST", "/f", "A: b\r\nC: d\r\n");
    engine_exchange(&engine);
    if (!engine.calls[1].ends) {
        int err = gs_http2_client_cancel(&engine.client, &engine.calls[1].stream);
        engine.err = engine.err ? engine.err : err;
        engine.calls[1].ends = 1;
    }
    engine_get(&engine, "GET", "/none");
    engine_exchange(&engine);
}

/* Allocations from the first to the last one, exclusively, fail, also those of the server. */
static void run(unsigned long first, unsigned long last)
{
    gs_http_service_set_http2(engine.drive.service, gs_http2_operations());
    drive_reopen(&engine.drive);
    drive_discard_output(&engine.drive);
    engine.taken = 0;
    allocations = 0;
    fails_from = first;
    fails_to = last;
    if (!engine_open(&engine)) {
        at_start = allocations;
        make_requests();
        engine_close(&engine);
        for (unsigned i = 0; i < engine.count; i++)
            if (engine.calls[i].ends != 1)
                abort();
    }
    count = allocations;
    fails_from = fails_to = UINT64_MAX;
}

TEST(each_allocation_may_fail)
{
    static char large[300000];
    exempt_n = QUEUE_N;
    engine = (struct engine){0};
    drive_start(&engine.drive, NULL);
    drive_write(&engine.drive, "f", "hello");
    drive_write_bytes(&engine.drive, "large", large, sizeof large);
    run(UINT64_MAX, UINT64_MAX);
    run(UINT64_MAX, UINT64_MAX);
    CHECK(at_start > 5);
    unsigned long all = count;
    CHECK(all > at_start + 20);
    long before = live;
    for (unsigned long i = 1; i <= all; i++) {
        run(i, i + 1);
        run(UINT64_MAX, UINT64_MAX);
        CHECK_STR(engine.calls[0].body, "hello");
        CHECK_EQ(engine.calls[2].stream.status, 405u);
        CHECK_EQ(engine.calls[3].stream.status, 404u);
    }
    CHECK(live <= before + 8); /* what the service keeps */
    CHECK_EQ(drive_stop(&engine.drive), 0);
    CHECK_EQ(live, 0);
}
