/* A context switch of Boost.Context, without a scheduler or queue. The functions have C linkage,
 * but only C++ has a header for them. */
#include "bench/threads/measure.h"

struct transfer {
    void *context, *data;
};
extern struct transfer jump_fcontext(void *to, void *data);
extern void *make_fcontext(void *top, size_t size, void (*fn)(struct transfer));

#define STACK_SIZE 65536

static void jump_back(struct transfer from)
{
    for (;;)
        from = jump_fcontext(from.context, NULL);
}

int main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "switch"))
        return 2;
    char *stack = malloc(STACK_SIZE);
    must(stack != NULL);
    struct transfer other = {.context = make_fcontext(stack + STACK_SIZE, STACK_SIZE, jump_back)};
    for (int round = 0; round < ROUNDS; round++) {
        begin();
        for (int i = 0; i < SWITCHES; i++)
            other = jump_fcontext(other.context, NULL);
        end(2 * SWITCHES);
    }
    printf("%.3f\n", best_ns);
    free(stack);
    return 0;
}
