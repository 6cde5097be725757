/* Functions that run on stacks, whose need is known for some and not for others: each fills what it
 * asks for, while handlers of signals that need much interrupt it. */
#include "program.h"

#include <alloca.h>

enum { ROUNDS = 5, THREADS = 30 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile sig_atomic_t handled;

__attribute__((noinline)) static unsigned long fill(volatile char *bytes, size_t n)
{
    unsigned long sum = 0;
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)(i % 7);
    for (size_t i = 0; i < n; i++)
        sum += (unsigned long)bytes[i];
    return sum;
}

static void on_alarm(int number)
{
    char bytes[20000];
    (void)number;
    handled += fill(bytes, sizeof bytes) > 0;
}

static void on_user(int number, siginfo_t *information, void *context)
{
    char bytes[9000];
    (void)number, (void)context;
    handled += fill(bytes, sizeof bytes) > 0 && information;
}

__attribute__((noinline)) static unsigned long small(unsigned long a)
{
    char bytes[700];
    pthread_mutex_lock(&lock);
    a += fill(bytes, sizeof bytes);
    pthread_mutex_unlock(&lock);
    return a;
}

__attribute__((noinline)) static unsigned long large(unsigned long a)
{
    char bytes[40000];
    usleep(100);
    return small(a) + fill(bytes, sizeof bytes);
}

/* A chain of frames that are known. */
static unsigned long chain(int n, ...)
{
    char bytes[3000];
    va_list arguments;
    va_start(arguments, n);
    unsigned long sum = large(va_arg(arguments, unsigned long)) + fill(bytes, sizeof bytes);
    va_end(arguments);
    return sum;
}

/* The C library puts all digits on the stack. */
static int digits(char *ret_text, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(ret_text, size, format, arguments);
    va_end(arguments);
    sched_yield();
    return n;
}

/* No bound is known of the next three. */
__attribute__((noinline)) static unsigned long descend(unsigned depth)
{
    char bytes[500];
    if (!depth)
        sched_yield();
    unsigned long below = depth ? descend(depth - 1) : 0;
    return below + fill(bytes, sizeof bytes);
}

static unsigned long recursive(int n, ...)
{
    return descend((unsigned)n);
}

static unsigned long (*volatile pointer)(unsigned long) = large;

static unsigned long through_pointer(int n, ...)
{
    return pointer((unsigned long)n);
}

static unsigned long of_no_size(size_t n)
{
    char *bytes = alloca(n);
    sched_yield();
    return fill(bytes, n);
}

static unsigned long jumps(unsigned long a)
{
    jmp_buf buffer;
    volatile unsigned long sum = a;
    if (setjmp(buffer))
        return sum;
    sum += small(1);
    longjmp(buffer, 1);
}

static void *run(void *argument)
{
    unsigned long number = (unsigned long)argument, sum = 0;
    char text[4000];
    for (unsigned i = 0; i < ROUNDS; i++) {
        sum += chain(1, number) + recursive(900) + through_pointer(3) + jumps(number);
        sum += of_no_size(30000 + number);
        sum += (unsigned long)digits(text, sizeof text, "%.3000f %s", (double)number, "end");
        sum += (unsigned char)text[3];
        pthread_kill(pthread_self(), SIGUSR1);
    }
    return (void *)sum;
}

int main(void)
{
    pthread_t threads[THREADS];
    unsigned long sum = 0;
    const struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_sigaction = on_user, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &often, NULL);
    for (unsigned long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, run, (void *)i))
            return 1;
    for (unsigned i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += (unsigned long)result;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%lu, %s\n", sum, handled > ROUNDS * THREADS ? "handled" : "not handled");
    return 0;
}
