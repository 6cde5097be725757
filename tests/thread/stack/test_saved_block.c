/* Blocks for what is saved of shared stacks, and the memory of their chunks. */
#include "tests/thread/fixture.h"
#include "thread/stack/saved_block.h"
#include "thread/stack/stacks.h"

enum { BLOCKS = 6000, LARGE = 57344 };

static struct saved_blocks saved;
static unsigned char *blocks[BLOCKS];

/* Sizes of all classes, and sometimes a large one. */
static size_t size_of(int i)
{
    return i % 500 ? (size_t)(i % 256 + 1) * SAVED_UNIT : LARGE;
}

static bool has_blocks(void)
{
    MUST_EQ(gs_stacks_init(), 0);
    gs_saved_blocks_init_worker(&saved);
    return gs_stacks_can_be_shared();
}

static void allocate(int i)
{
    blocks[i] = gs_saved_block_new(&saved, size_of(i));
    MUST(blocks[i] != NULL);
    memset(blocks[i], i % 251 + 1, size_of(i));
}

static void check_and_free(int i)
{
    MUST_EQ(blocks[i][0], i % 251 + 1);
    MUST(!memcmp(blocks[i], blocks[i] + 1, size_of(i) - 1));
    MUST(gs_saved_block_is_readable((char *)blocks[i], size_of(i)));
    gs_saved_block_free(&saved, blocks[i]);
}

TEST(blocks_of_all_sizes_keep_their_contents_while_others_come_and_go)
{
    if (!has_blocks())
        return;
    for (int i = 0; i < BLOCKS; i++)
        allocate(i);
    for (int round = 2; round < 5; round++) {
        for (int i = 0; i < BLOCKS; i += round)
            check_and_free(i);
        for (int i = 0; i < BLOCKS; i += round)
            allocate(i);
    }
    for (int i = 0; i < BLOCKS; i++)
        check_and_free(i);
    CHECK_EQ(saved.empty_count, saved.chunks);
}

TEST(chunks_that_two_trims_find_empty_are_given_back_and_stay_readable)
{
    if (!has_blocks())
        return;
    allocate(7);
    unsigned char *kept = blocks[7];
    for (int i = 1000; i < 2000; i++)
        allocate(i);
    for (int i = 1000; i < 2000; i++)
        check_and_free(i);
    gs_saved_blocks_trim(&saved, false);
    CHECK(saved.chunks > 1 && blocks[1999][8] != 0);
    gs_saved_blocks_trim(&saved, false);
    CHECK_EQ(saved.chunks, 1);
    CHECK_EQ(saved.empty_count, 0);
    CHECK_EQ(blocks[1999][8], 0);
    allocate(1);
    check_and_free(1);
    CHECK(kept == blocks[7]);
    check_and_free(7);
    gs_saved_blocks_trim(&saved, true);
    CHECK_EQ(saved.chunks, 0);
}

TEST(only_memory_of_chunks_is_readable)
{
    if (!has_blocks())
        return;
    allocate(1);
    CHECK(!gs_saved_block_is_readable((char *)&saved, 1));
    CHECK(!gs_saved_block_is_readable(NULL, 1));
    CHECK(!gs_saved_block_is_readable((char *)blocks[1], (size_t)1 << 40));
    check_and_free(1);
}
