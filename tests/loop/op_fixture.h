/* Fixture of the tests of operations: a loop, an operation, and what it has received. */
#ifndef GS_TESTS_LOOP_OP_FIXTURE_H
#define GS_TESTS_LOOP_OP_FIXTURE_H

#include "tests/loop/fixture.h"

static struct gs_loop *loop;
static struct gs_op op;
static char received[64];
static uint64_t received_n;
static int64_t last_result;
static int ended;

static inline void on_bytes(struct gs_op *each, int64_t result)
{
    if (result > 0) {
        for (int64_t i = 0; i < result; i++, received_n++)
            if (received_n < sizeof received - 1)
                received[received_n] = ((const char *)each->bytes)[i];
        return;
    }
    last_result = result;
    ended++;
}

static inline void set_up(gs_op_fn *callback)
{
    loop = new_loop();
    gs_op_init(&op, loop, callback);
    memset(received, 0, sizeof received);
    received_n = 0;
    last_result = 1;
    ended = 0;
}

/* Run iterations until `condition` is set. */
#define ITERATE_UNTIL(condition_)                                                                  \
    do {                                                                                           \
        while (!(condition_)) {                                                                    \
            CHECK(gs_loop_run_once(loop, GS_NEVER) >= 0);                                          \
            gs_loop_check(loop);                                                                   \
        }                                                                                          \
    } while (0)

static inline void put(int fd, const char *text)
{
    if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        abort();
}

#endif
