/* What cannot be converted, and runs on a stack: variadic functions, setjmp, frames without a
 * constant size, and callbacks of foreign code. */
#include "program.h"

static int waits(int n)
{
    usleep(5);
    sched_yield();
    return n;
}

static int add(int count, ...)
{
    int sum = 0;
    va_list list;
    va_start(list, count);
    for (int i = 0; i < count; i++)
        sum += waits(va_arg(list, int));
    va_end(list);
    return sum;
}

static int compare(const void *left, const void *right)
{
    int one = *(const int *)left, other = *(const int *)right;
    return waits(one) - waits(other);
}

static int jump(int n)
{
    jmp_buf back;
    volatile int rounds = 0;
    int value = setjmp(back);
    sched_yield();
    rounds++;
    if (value < n)
        longjmp(back, value + 1);
    return rounds + waits(n);
}

__attribute__((noinline)) static void jump_back(void **back)
{
    sched_yield();
    __builtin_longjmp(back, 1);
}

/* The same by the compiler's own jump. */
__attribute__((noinline)) static int jump_builtin(int n)
{
    void *back[5];
    volatile int rounds = 0;
    if (__builtin_setjmp(back))
        return rounds + n;
    sched_yield();
    rounds++;
    jump_back(back);
    return -1;
}

static int variable(int n)
{
    char bytes[n + 1];
    memset(bytes, n, (size_t)n + 1);
    sched_yield();
    return bytes[n] + waits(1);
}

struct pair {
    long a, b, c;
};

static long by_value(struct pair pair, ...)
{
    va_list list;
    va_start(list, pair);
    struct pair other = va_arg(list, struct pair);
    va_end(list);
    sched_yield();
    return pair.a * 100 + other.c;
}

static int (*const through_pointer)(int, ...) = add;
static int (*const old_style)() = waits;

static void *run(void *argument)
{
    int id = (int)(long)argument;
    int values[] = {id, 5, 3, 9, 1, 7};
    qsort(values, 6, sizeof *values, compare);
    int *found = bsearch(&(int){7}, values, 6, sizeof *values, compare);
    struct pair pair = {id, 2, 3};
    char text[200];
    snprintf(text, sizeof text, "%d: %d %d %d %d %d %ld %d %d %d", id, add(3, id, id + 1, 10),
             jump(id), jump_builtin(id), variable(id), values[3], by_value(pair, pair),
             through_pointer(2, id, 4), old_style(id), found ? *found : 0);
    return strdup(text);
}

/* It is itself the function of a thread. */
static void *jumping_thread(void *argument)
{
    jmp_buf back;
    if (!setjmp(back)) {
        sched_yield();
        longjmp(back, 1);
    }
    sched_yield();
    return argument;
}

/* The optimiser removes the variables, and then the function is converted. */
static unsigned vanished(unsigned n)
{
    unsigned sum = 0;
    for (unsigned i = 1; i < n; i++) {
        unsigned values[i];
        values[0] = i;
        sched_yield();
        sum += values[0];
    }
    return sum;
}

/* Labels whose jumps the optimiser may replace. */
static int jump_to_labels(int n)
{
    static const void *const labels[] = {&&add, &&twice, &&mix};
    int result = 0;
    for (int i = 0; i < n; i++) {
        goto *labels[i % 3];
    add:
        result += waits(1);
        continue;
    twice:
        result *= 2;
        continue;
    mix:
        result ^= waits(i);
    }
    return result;
}

static void at_exit(void)
{
    printf("exit %d\n", waits(4));
}

int main(void)
{
    pthread_t threads[8], jumper;
    void *result;
    atexit(at_exit);
    pthread_create(&jumper, NULL, jumping_thread, (void *)77L);
    for (long i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], &result);
        puts(result);
        free(result);
    }
    pthread_join(jumper, &result);
    printf("%ld %u %d\n", (long)result, vanished(20), jump_to_labels(9));
    return add(2, 1, 2);
}
