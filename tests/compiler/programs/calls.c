/* Ways to call a function that waits: recursion, pointers, structures by value, results of all
 * kinds. */
#include "program.h"

struct small {
    int a, b;
};
struct large {
    long values[9];
};
typedef int unary(int);

static int recurse(int n)
{
    int here[3] = {n, n + 1, n + 2};
    if (!n) {
        sched_yield();
        return 1;
    }
    int result = recurse(n - 1);
    return result + here[n % 3] - n;
}

static struct small make_small(int n)
{
    sched_yield();
    return (struct small){n, n * 2};
}

static struct large make_large(struct large from, int n)
{
    struct large result = from;
    sched_yield();
    for (int i = 0; i < 9; i++)
        result.values[i] += (long)n * i;
    return result;
}

static double half(float x)
{
    usleep(1);
    return x / 2;
}

static int twice(int n)
{
    sched_yield();
    return 2 * n;
}

static int never_waits(int n)
{
    return n + 1;
}

static void set_through(int *into, int n)
{
    usleep(10);
    *into = n;
    sched_yield();
    *into += 1;
}

static unary *const functions[] = {twice, never_waits};

static unsigned char narrow(int n)
{
    sched_yield();
    return (unsigned char)n;
}

static _Bool is_odd(int n)
{
    sched_yield();
    return n & 1;
}

static long long loop(int rounds)
{
    long long sum = 0;
    for (int i = 0; i < rounds; i++) {
        switch (i % 4) {
        case 0:
            sum += functions[i % 2](i);
            break;
        case 1:
            sched_yield();
            /* fall through */
        case 2:
            sum ^= narrow(i);
            break;
        default:
            if (is_odd(i) && i > 7)
                continue;
            sum += is_odd(i);
        }
    }
    return sum;
}

/* What is passed by value lies on the stack, and so do the last of the other arguments. */
struct numbers {
    int values[7];
};

static struct large scale(struct large large, double a, long double b, struct numbers numbers,
                          const char *text)
{
    sched_yield();
    large.values[0] += (long)a + (long)b + (long)strlen(text);
    for (int i = 0; i < 7; i++)
        large.values[0] += numbers.values[i];
    return large;
}

static struct large (*volatile const scaled)(struct large, double, long double, struct numbers,
                                             const char *) = scale;

static long scale_through_pointer(long first)
{
    struct large large = {{first, 2, 3, 4, 5, 6, 7, 8, 9}};
    large = scaled(large, 2.5, 3.5L, (struct numbers){{1, 4, 5, 6, 7}}, "eight");
    return large.values[0] + large.values[8];
}

/* ---- Attributes that refer to arguments, and tail calls that must be made ---- */

static __attribute__((noinline, malloc, alloc_size(2, 3))) void *get(int pause, size_t n, size_t m)
{
    usleep((useconds_t)pause);
    return malloc(n * m);
}

static __attribute__((noinline, alloc_align(1), alloc_size(2))) void *get_aligned(size_t alignment,
                                                                                  size_t n)
{
    sched_yield();
    return aligned_alloc(alignment, n);
}

static __attribute__((noinline, nonnull(1, 2), returns_nonnull)) char *join(char *to, const char *b)
{
    sched_yield();
    return strcat(to, b);
}

static volatile size_t sizes[] = {64, 4};

static int allocate(void)
{
    char *first = get((int)sizes[1], sizes[0], sizes[1]), *second = get_aligned(sizes[0], sizes[0]);
    strcpy(second, "b");
    strcpy(first, "a");
    int n = (int)strlen(join(first, second)) + (int)((uintptr_t)second % sizes[0]);
    free(first);
    free(second);
    return n;
}

static __attribute__((noinline)) long odd(long n, long sum);
static __attribute__((noinline)) long even(long n, long sum)
{
    if (n % 4096 == 0)
        sched_yield();
    if (!n)
        return sum;
    __attribute__((musttail)) return odd(n - 1, sum + 1);
}

static long odd(long n, long sum)
{
    if (!n)
        return -sum;
    __attribute__((musttail)) return even(n - 1, sum + 2);
}

static void *run(void *argument)
{
    static __thread char text[400];
    int id = (int)(long)argument, value = 0;
    struct large large = {{1, 2, 3, 4, 5, 6, 7, 8, 9}};
    struct small small = make_small(id);
    set_through(&value, id);
    large = make_large(large, small.b);
    snprintf(text, sizeof text, "%d: %ld %d %d %d %ld %g %d %d %lld %d %ld", id,
             scale_through_pointer(id), recurse(id * 7), small.a, value, large.values[8],
             half((float)id), functions[id % 2](id), functions[1](id), loop(id * 5), allocate(),
             even(300000 + id, id));
    sched_yield();
    return strdup(text);
}

int main(void)
{
    pthread_t threads[12];
    for (long i = 0; i < 12; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    for (int i = 0; i < 12; i++) {
        void *text;
        pthread_join(threads[i], &text);
        puts(text);
        free(text);
    }
    printf("%ld\n", scale_through_pointer(100));
    return recurse(3000) & 127;
}
