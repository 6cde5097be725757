/* The store for the contents of stacks that are given back. */
#include "tests/thread/fixture.h"
#include "thread/stack_store.h"

#include <stdint.h>
#include <string.h>

enum { PIECES = 5000 };

static struct {
    unsigned char *bytes;
    size_t size;
} pieces[PIECES];

/* Where the addresses do not suffice for the store, stacks are not given back. */
static void skip_without_addresses(void)
{
    if (IS_EMULATED)
        SKIP("the emulator has too few addresses");
}

static void get(int i)
{
    pieces[i].size = (size_t)i * 40 % STORE_PIECE_MAX + 8;
    pieces[i].bytes = gs_stack_store_get(pieces[i].size);
    CHECK(pieces[i].bytes);
    CHECK(gs_stack_store_has(pieces[i].bytes, pieces[i].size));
    memset(pieces[i].bytes, i, pieces[i].size);
}

static void put(int i)
{
    for (size_t n = 0; n < pieces[i].size; n++)
        CHECK_EQ(pieces[i].bytes[n], (unsigned char)i);
    gs_stack_store_put(pieces[i].bytes, pieces[i].size);
    pieces[i].bytes = NULL;
}

TEST(pieces_keep_their_bytes_while_others_come_and_go)
{
    skip_without_addresses();
    for (int i = 0; i < PIECES; i++)
        get(i);
    for (int i = 0; i < PIECES; i += 3)
        put(i);
    for (int i = 0; i < PIECES; i += 3)
        get(i);
    for (int i = 0; i < PIECES; i++)
        put(i);
}

TEST(memory_of_freed_pieces_is_used_again_and_then_given_back)
{
    skip_without_addresses();
    size_t wanted = 0;
    for (int i = 0; i < PIECES; i++) {
        get(i);
        wanted += pieces[i].size;
    }
    size_t bytes = gs_stack_store_bytes();
    CHECK(bytes >= wanted);
    for (int i = 0; i < PIECES; i += 2)
        put(i);
    for (int i = 0; i < PIECES; i += 2)
        get(i);
    CHECK(gs_stack_store_bytes() <= bytes);
    for (int i = 0; i < PIECES; i++)
        put(i);
    CHECK(gs_stack_store_bytes() < bytes / 2);
}

TEST(address_outside_of_the_store_is_not_in_it)
{
    skip_without_addresses();
    char local = 0;
    void *piece = gs_stack_store_get(64);
    CHECK(gs_stack_store_has(piece, 64));
    CHECK(!gs_stack_store_has(&local, 1));
    CHECK(!gs_stack_store_has(NULL, 1));
    CHECK(!gs_stack_store_has((char *)piece - ((size_t)1 << 30), 8));
    CHECK(!gs_stack_store_has(piece, SIZE_MAX / 2));
    gs_stack_store_put(piece, 64);
}
