/* Print a checksum of each file, as cksum -a bsd: sums FILE... Each is computed by a kernel thread
 * of the pool, and printed on the loop, which could do other things meanwhile. */
#include <gossamer/loop.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sum {
    struct gs_work work;
    const char *path;
    unsigned value; /* written by the pool, read after the callback */
    int err;
};

static int failures;

static void compute(struct gs_work *work)
{
    struct sum *sum = gs_container_of(work, struct sum, work);
    FILE *file = fopen(sum->path, "rb");
    int byte;
    if (!file) {
        sum->err = errno;
        return;
    }
    while ((byte = getc(file)) != EOF)
        sum->value = ((sum->value >> 1) + (sum->value << 15) + (unsigned)byte) & 0xffff;
    sum->err = ferror(file) ? EIO : 0;
    fclose(file);
}

static void on_computed(struct gs_work *work, int result)
{
    const struct sum *sum = gs_container_of(work, struct sum, work);
    (void)result; /* nothing here cancels */
    if (sum->err)
        fprintf(stderr, "%s: %s\n", sum->path, strerror(sum->err));
    else
        printf("%05u %s\n", sum->value, sum->path);
    failures += sum->err != 0;
}

int main(int argc, char **argv)
{
    struct gs_loop *loop;
    struct sum *sums = calloc((size_t)argc, sizeof *sums);
    if (!sums || gs_loop_new(&loop)) {
        free(sums);
        return 2;
    }
    int err = 0;
    for (int i = 1; i < argc && !err; i++) {
        sums[i].path = argv[i];
        gs_work_init(&sums[i].work, loop, on_computed);
        err = gs_work_start(&sums[i].work, compute);
    }
    if (!err)
        err = gs_loop_run(loop);
    gs_loop_free(loop);
    free(sums);
    return err || failures;
}
