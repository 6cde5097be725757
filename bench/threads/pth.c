/* GNU Pth. */
#include "bench/threads/measure.h"

#include <pth.h>

#define FEWER 10 /* it is slow */

static void *nothing(void *argument)
{
    return argument;
}

static void *yield_often(void *argument)
{
    for (int i = 0; i < SWITCHES / FEWER; i++)
        pth_yield(NULL);
    return argument;
}

int main(int argc, char **argv)
{
    const char *figure = argc > 1 ? argv[1] : "";
    must(pth_init());
    for (int round = 0; round < ROUNDS / FEWER; round++) {
        if (!strcmp(figure, "switch")) {
            pth_t a = pth_spawn(PTH_ATTR_DEFAULT, yield_often, NULL);
            pth_t b = pth_spawn(PTH_ATTR_DEFAULT, yield_often, NULL);
            begin();
            must(pth_join(a, NULL) && pth_join(b, NULL));
            end(2.0 * SWITCHES / FEWER);
        } else if (!strcmp(figure, "spawn")) {
            begin();
            for (int i = 0; i < SPAWNS / FEWER; i++)
                must(pth_join(pth_spawn(PTH_ATTR_DEFAULT, nothing, NULL), NULL));
            end((double)SPAWNS / FEWER);
        } else {
            return 2;
        }
    }
    printf("%.3f\n", best_ns);
    return 0;
}
