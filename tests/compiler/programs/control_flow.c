/* Ways through a program beside calls and returns: constructors and destructors that have threads,
 * tail calls that must be jumps, and faults whose handler jumps away, by the thousand. */
#include "program.h"

#define THREADS 3

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- Threads of constructors and destructors ---- */

static sem_t served;
static int total, requests[2];
static pthread_t server;

static void *add(void *number)
{
    pthread_mutex_lock(&mutex);
    usleep(10);
    total += (int)(long)number;
    pthread_mutex_unlock(&mutex);
    return number;
}

static void add_in_thread(long number)
{
    pthread_t thread;
    pthread_create(&thread, NULL, add, (void *)number);
    pthread_join(thread, NULL);
}

static void *serve(void *unused)
{
    char byte;
    while (read(requests[0], &byte, 1) == 1 && byte != 'q') {
        add((void *)1L);
        sem_post(&served);
    }
    return unused;
}

static void request(char byte)
{
    if (write(requests[1], &byte, 1) == 1 && byte != 'q')
        sem_wait(&served);
}

__attribute__((constructor(200))) static void start_first(void)
{
    sem_init(&served, 0, 0);
    if (pipe(requests))
        abort();
    add_in_thread(3);
    printf("first constructor %d\n", total);
}

__attribute__((constructor)) static void start_second(void)
{
    pthread_create(&server, NULL, serve, NULL);
    request('x');
    printf("second constructor %d\n", total);
}

__attribute__((destructor)) static void end_server(void)
{
    request('q');
    pthread_join(server, NULL);
    add_in_thread(50);
    printf("first destructor %d\n", total);
    fflush(stdout);
}

__attribute__((destructor(201))) static void end_last(void)
{
    add_in_thread(500);
    printf("second destructor %d\n", total);
    fflush(stdout);
}

static void at_exit(void)
{
    add_in_thread(7);
    printf("at exit %d\n", total);
}

/* ---- Tail calls: as ordinary calls they would need more stack than there is ---- */

#ifdef __clang__
#define JUMP __attribute__((musttail))
#else
#define JUMP
#endif

typedef long operation(long left, long sum);
static long dispatch(long left, long sum);

static long wait_once(long left, long sum)
{
    usleep(1);
    JUMP return dispatch(left - 1, sum + 1);
}

static long multiply(long left, long sum)
{
    JUMP return dispatch(left - 1, sum * 2 % 1009);
}

static long stop(long left, long sum)
{
    return left + sum;
}

static long dispatch(long left, long sum)
{
    operation *next = left <= 0 ? stop : left % 100000 == 0 ? wait_once : multiply;
    JUMP return next(left, sum);
}

static void *interpret(void *number)
{
    return (void *)dispatch(2000000, (long)number);
}

/* ---- Faults ---- */

static char *page;
static _Thread_local sigjmp_buf before;
static _Thread_local char *expected;
static _Thread_local volatile int faults;
static volatile int wrong;

static void jump_away(int number, siginfo_t *information, void *unused)
{
    (void)number, (void)unused;
    faults++;
    wrong += information->si_addr != expected;
    siglongjmp(before, 1);
}

static int try_to_read(char *at)
{
    expected = at;
    if (sigsetjmp(before, 1))
        return -1;
    return *(volatile char *)at;
}

static void *fault(void *number)
{
    long sum = 0;
    for (long i = 0; i < 2000; i++) {
        sum += try_to_read(page + (i * 7 + (long)number) % 4096);
        if (i % 100 == 0)
            usleep(1);
    }
    return (void *)(faults - sum);
}

static void allow(int number)
{
    (void)number;
    faults++;
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void run_all(const char *name, void *(*function)(void *))
{
    pthread_t threads[THREADS];
    void *result;
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, function, (void *)i);
    printf("%s %ld\n", name, (long)function((void *)5L));
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &result);
        printf("%s %ld\n", name, (long)result);
    }
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = jump_away, .sa_flags = SA_SIGINFO};
    atexit(at_exit);
    request('x');
    printf("main %d\n", total);
    run_all("tail calls", interpret);
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &action, NULL);
    run_all("faults", fault);
    signal(SIGSEGV, allow);
    faults = 0;
    for (int i = 0; i < 3000; i++) {
        mprotect(page, 4096, PROT_NONE);
        page[i % 4096]++;
    }
    printf("allowed %d, wrong %d\n", faults, wrong);
    return 3;
}
