#include "serve/accept/eviction.h"

#include "tests/test.h"

#include <gossamer/clock.h>

#define NOW_NS (1000 * GS_SECOND)

static struct serve_candidates candidates;
static int connections[8]; /* their addresses are what counts */

static void add(int number, enum serve_wait_kind kind, uint64_t age_ns)
{
    serve_candidates_add(&candidates, &connections[number], (uint64_t)number,
                         serve_waits(kind, NOW_NS - age_ns));
}

/* Returns the number of the one that gives way; -1: none. */
static long take(void)
{
    int *taken = serve_candidates_take(&candidates);
    return taken ? taken - connections : -1;
}

static void start(void)
{
    serve_candidates_init(&candidates);
    candidates.now_ns = NOW_NS;
}

TEST(what_waits_gives_way_in_an_order_and_what_is_busy_never)
{
    start();
    add(0, SERVE_WAITS_FOR_CLOSE, 90 * GS_SECOND);
    add(1, SERVE_WAITS_FOR_HEAD, 3 * GS_SECOND);
    add(2, SERVE_WAITS_IDLE, GS_SECOND);
    add(3, SERVE_WAITS_IDLE, 50 * GS_SECOND);
    add(4, SERVE_WAITS_FOR_HANDSHAKE, 2 * GS_SECOND);
    add(5, SERVE_WAITS_FOR_HANDSHAKE, 5 * GS_SECOND);
    add(6, SERVE_WAITS_FOR_HANDSHAKE, GS_SECOND / 2);
    serve_candidates_add(&candidates, &connections[7], 7, SERVE_BUSY);
    const long order[] = {5, 4, 3, 2, 1, 6, 0, -1};
    for (unsigned i = 0; i < sizeof order / sizeof *order; i++)
        CHECK_EQ(take(), order[i]);
}

TEST(a_young_handshake_waits_as_long_as_for_a_head)
{
    start();
    add(0, SERVE_WAITS_FOR_HEAD, GS_MILLISECOND);
    add(1, SERVE_WAITS_FOR_HANDSHAKE, 2 * GS_MILLISECOND);
    add(2, SERVE_WAITS_IDLE, 0);
    CHECK_EQ(take(), 2);
    CHECK_EQ(take(), 1);
    CHECK_EQ(take(), 0);
}

TEST(an_address_with_more_than_its_share_comes_first_whatever_others_wait_for)
{
    start();
    add(0, SERVE_WAITS_FOR_HANDSHAKE, 5 * GS_SECOND);
    for (int i = 1; i < 4; i++)
        serve_candidates_add(&candidates, &connections[i], 99,
                             serve_waits(SERVE_WAITS_FOR_HEAD, NOW_NS - (uint64_t)i));
    CHECK_EQ(take(), 3);
}
