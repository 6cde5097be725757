#include "tests/libevent/model.h"
#include "tests/test.h"

/* Returns a number of a sequence that is the same in every run. */
static unsigned next_number(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 32);
}

/* The operations that libevent does as its documents say, with files only as far as it can. */
#define SAME_OPERATIONS 21

TEST(random_operations_do_what_they_do_to_an_array_of_bytes)
{
    static unsigned char bytes[2000];
    model_open();
    for (int round = 0; round < 300; round++) {
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (unsigned char)next_number();
        uint64_t digest = model_run(bytes, sizeof bytes, SAME_OPERATIONS);
        printf("%016llx\n", (unsigned long long)digest);
    }
}
