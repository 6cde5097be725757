/* Threads with a fault behind a wait, each in a function that is converted; the argument names it.
 * Without one, the program has none. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fds[2];
static const char *fault = "";

static int has(const char *name)
{
    return !strcmp(fault, name);
}

static void wait_for(char *byte)
{
    if (read(fds[0], byte, 1) != 1)
        abort();
}

static int read_heap(void)
{
    char byte;
    unsigned char *heap = calloc(10, 1);
    wait_for(&byte);
    int result = heap[has("heap") ? 10 : 9]; /* fault: heap */
    free(heap);
    return result;
}

static int read_frame(void)
{
    char byte, before[100] = "", after[100] = "";
    wait_for(before);
    wait_for(after);
    wait_for(&byte);
    volatile int at = has("frame") ? 100 : 99;
    return before[at] != after[99]; /* fault: frame */
}

static __attribute__((noinline)) char *frame_of_another(void)
{
    char bytes[100] = "", *volatile address = bytes;
    wait_for(bytes);
    return address; // NOLINT(clang-analyzer-core.StackAddressEscape)
}

static int read_after_return(void)
{
    char byte, *bytes = frame_of_another();
    wait_for(&byte);
    return has("return") ? bytes[0] : byte; /* fault: return */
}

static int add(int number)
{
    char byte;
    wait_for(&byte);
    return number + (has("overflow") ? 1 : 0); /* fault: overflow */
}

static void *work(void *argument)
{
    int result = read_heap() + read_frame() + read_after_return() + (add(0x7fffffff) != 0);
    printf("%d\n", result);
    return argument;
}

static void on_stack(int n, ...)
{
    char byte;
    while (n--)
        wait_for(&byte);
}

static void run(void *(*fn)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, fn, NULL))
        abort();
    for (int i = 0; i < 10; i++)
        sched_yield();
    if (write(fds[1], "abcdefghijkl", 12) != 12)
        abort();
    pthread_join(thread, NULL);
}

int main(int count, char **words)
{
    fault = count > 1 ? words[1] : "";
    if (pipe(fds))
        return 1;
    run(work);
    on_stack(5, 0);
    return 0;
}
