/* Signals that are queued: real-time signals, timers, messages, asynchronous input and output. */
#include "tests/compat/pthread/program.h"

#include <aio.h>
#include <mqueue.h>
#include <sys/time.h>

static sigset_t set_of(int a, int b)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, a);
    if (b)
        sigaddset(&set, b);
    return set;
}

/* ---- Real-time signals ---- */

static int seen[64];
static atomic_int count;

static void note(int number, siginfo_t *info, void *unused)
{
    (void)unused;
    if (count < 64)
        seen[count++] = (number - SIGRTMIN) * 1000 + info->si_value.sival_int;
}

static void handle(int number, void (*fn)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = fn, .sa_flags = SA_SIGINFO | flags};
    sigfillset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

static void *queue_to_itself(void *by_thread)
{
    sigset_t set = set_of(SIGRTMIN, SIGRTMIN + 1);
    count = 0;
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 10; i++) {
        union sigval value = {.sival_int = i};
        int number = SIGRTMIN + 1 - i % 2;
        if (by_thread)
            SHOW(pthread_sigqueue(pthread_self(), number, value));
        else
            SHOW_ERROR(sigqueue(getpid(), number, value));
    }
    SHOW(count);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    for (int i = 0; i < count; i++)
        printf("%d ", seen[i]);
    printf("\n");
    return NULL;
}

static void *take_queued(void *unused)
{
    sigset_t set = set_of(SIGRTMIN, SIGRTMIN + 1);
    siginfo_t info;
    struct timespec now = {0};
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 6; i++)
        pthread_sigqueue(pthread_self(), SIGRTMIN + i % 2, (union sigval){.sival_int = i});
    for (int i = 0; i < 7; i++) {
        int number = sigtimedwait(&set, &info, &now);
        printf("took %d: %d, code %d\n", number > 0 ? number - SIGRTMIN : number,
               number > 0 ? info.si_value.sival_int : 0, number > 0 ? info.si_code : 0);
    }
    return unused;
}

static void *send_many(void *thread)
{
    for (int i = 0; i < 50; i++)
        pthread_sigqueue(*(pthread_t *)thread, SIGRTMIN, (union sigval){.sival_int = i});
    return NULL;
}

static void test_realtime(void)
{
    handle(SIGRTMIN, note, 0);
    handle(SIGRTMIN + 1, note, 0);
    sigset_t set = set_of(SIGRTMIN, SIGRTMIN + 1);
    SHOW(finish(start(queue_to_itself, (void *)1)));
    SHOW(finish(start(take_queued, NULL)));
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    SHOW(finish(start(queue_to_itself, NULL)));
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    count = 0;
    pthread_t self = pthread_self(), thread = start(send_many, &self);
    finish(thread);
    while (count < 50)
        sleep_ms(1);
    bool is_ordered = true;
    for (int i = 0; i < 50; i++)
        is_ordered &= seen[i] == i;
    SHOW(is_ordered);
}

/* ---- Signals of the process, and threads that end or block ---- */

static void *block_and_end(void *unused)
{
    sleep_ms(20);
    return unused;
}

static void *take_one(void *unused)
{
    sigset_t set = set_of(SIGUSR1, 0);
    int number = 0;
    (void)unused;
    int err = sigwait(&set, &number);
    return (void *)(long)(err ? -err : number);
}

static void test_process(void)
{
    sigset_t set = set_of(SIGUSR1, SIGUSR2), pending;
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_t ending = start(block_and_end, NULL);
    SHOW_ERROR(kill(getpid(), SIGUSR1));
    SHOW_ERROR(kill(getpid(), SIGUSR1));
    sigpending(&pending);
    SHOW(sigismember(&pending, SIGUSR1));
    SHOW(sigismember(&pending, SIGUSR2));
    finish(ending);
    SHOW(finish(start(take_one, NULL)));
    sigpending(&pending);
    SHOW(sigismember(&pending, SIGUSR1));
    pthread_t waiting = start(take_one, NULL);
    sleep_ms(10);
    SHOW_ERROR(kill(getpid(), SIGUSR1));
    SHOW(finish(waiting));
    waiting = start(take_one, NULL);
    sleep_ms(10);
    SHOW(pthread_kill(waiting, SIGUSR1));
    SHOW(finish(waiting));
    signal(SIGUSR1, SIG_IGN);
    waiting = start(take_one, NULL);
    sleep_ms(10);
    SHOW(pthread_kill(waiting, SIGUSR1));
    SHOW(finish(waiting));
    signal(SIGUSR1, SIG_DFL);
    struct signalfd_siginfo info;
    int fd = signalfd(-1, &set, 0);
    SHOW_ERROR(kill(getpid(), SIGUSR2));
    SHOW(read(fd, &info, sizeof info) == sizeof info);
    SHOW(info.ssi_signo);
    close(fd);
}

/* ---- Timers ---- */

static atomic_int expirations, last_value;
static pthread_t expired_in;

static void expire(union sigval value)
{
    last_value = value.sival_int;
    expired_in = pthread_self();
    expirations++;
}

static void run_timer(clockid_t clock, struct sigevent *event, int needed)
{
    timer_t timer;
    struct itimerspec times = {.it_value = {0, 2000000}, .it_interval = {0, 2000000}}, rest;
    expirations = count = 0;
    SHOW_ERROR(timer_create(clock, event, &timer));
    SHOW_ERROR(timer_gettime(timer, &rest));
    SHOW(rest.it_value.tv_nsec);
    SHOW_ERROR(timer_settime(timer, 0, &times, NULL));
    while (expirations + count < needed)
        sleep_ms(1);
    SHOW_ERROR(timer_gettime(timer, &rest));
    SHOW(rest.it_interval.tv_nsec);
    SHOW(timer_getoverrun(timer) >= 0);
    SHOW_ERROR(timer_delete(timer));
    SHOW_ERROR(timer_delete((timer_t)12345));
}

static void *take_timer(void *unused)
{
    sigset_t set = set_of(SIGRTMIN + 3, 0);
    siginfo_t info;
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 3};
    struct itimerspec times = {.it_value = {0, 2000000}};
    event._sigev_un._tid = gettid();
    event.sigev_value.sival_int = 9;
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    SHOW_ERROR(timer_create(CLOCK_MONOTONIC, &event, &timer));
    SHOW_ERROR(timer_settime(timer, 0, &times, NULL));
    SHOW(sigwaitinfo(&set, &info) == SIGRTMIN + 3);
    SHOW(info.si_code);
    SHOW(info.si_value.sival_int);
    SHOW_ERROR(timer_delete(timer));
    return unused;
}

static void alarm_handler(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    count++;
}

static void test_timers(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = expire};
    event.sigev_value.sival_int = 42;
    run_timer(CLOCK_MONOTONIC, &event, 3);
    SHOW(last_value);
    SHOW(!pthread_equal(expired_in, pthread_self()));
    run_timer(CLOCK_REALTIME, &event, 3);
    handle(SIGUSR2, alarm_handler, 0);
    sigset_t set = set_of(SIGUSR2, 0);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    event = (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    run_timer(CLOCK_MONOTONIC, &event, 3);
    handle(SIGRTMAX, alarm_handler, 0);
    event = (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMAX};
    event.sigev_value.sival_int = 1;
    run_timer(CLOCK_MONOTONIC, &event, 3);
    SHOW(finish(start(take_timer, NULL)));
    handle(SIGALRM, alarm_handler, 0);
    count = 0;
    struct itimerval interval = {.it_value = {0, 2000}, .it_interval = {0, 2000}}, none = {0};
    SHOW_ERROR(setitimer(ITIMER_REAL, &interval, NULL));
    while (count < 3)
        pause();
    SHOW_ERROR(setitimer(ITIMER_REAL, &none, NULL));
    SHOW(alarm(100));
    SHOW(alarm(0));
    handle(SIGVTALRM, alarm_handler, 0);
    count = 0;
    SHOW_ERROR(setitimer(ITIMER_VIRTUAL, &interval, NULL));
    while (count < 2)
        ;
    SHOW_ERROR(setitimer(ITIMER_VIRTUAL, &none, NULL));
}

/* ---- Messages ---- */

static void *send_message(void *queue)
{
    sleep_ms(5);
    mq_send(*(mqd_t *)queue, "abc", 4, 7);
    return NULL;
}

static void *fill_queue(void *queue)
{
    for (int i = 0; i < 4; i++)
        mq_send(*(mqd_t *)queue, "full", 5, (unsigned)i);
    return NULL;
}

static void test_messages(void)
{
    struct mq_attr attributes = {.mq_maxmsg = 2, .mq_msgsize = 64};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = expire};
    struct timespec soon = after_ms(CLOCK_REALTIME, 10);
    char name[64], text[64];
    unsigned priority = 0;
    snprintf(name, sizeof name, "/gossamer-%d", getpid());
    mqd_t queue = mq_open(name, O_CREAT | O_RDWR, 0600, &attributes);
    SHOW_ERROR(mq_timedreceive(queue, text, sizeof text, NULL, &soon));
    pthread_t sender = start(send_message, &queue);
    SHOW_ERROR(mq_receive(queue, text, sizeof text, &priority));
    SHOW(priority);
    finish(sender);
    event.sigev_value.sival_int = 7;
    expirations = 0;
    SHOW_ERROR(mq_notify(queue, &event));
    SHOW_ERROR(mq_notify(queue, &event));
    SHOW_ERROR(mq_send(queue, "x", 2, 1));
    while (!expirations)
        sleep_ms(1);
    SHOW(last_value);
    SHOW_ERROR(mq_receive(queue, text, sizeof text, NULL));
    sender = start(fill_queue, &queue);
    while (!mq_getattr(queue, &attributes) && attributes.mq_curmsgs < attributes.mq_maxmsg)
        sleep_ms(1);
    soon = after_ms(CLOCK_REALTIME, 5);
    SHOW_ERROR(mq_timedsend(queue, "late", 5, 0, &soon));
    for (int i = 0; i < 4; i++) {
        SHOW_ERROR(mq_receive(queue, text, sizeof text, &priority));
    }
    finish(sender);
    SHOW_ERROR(mq_receive(queue, text, 1, NULL));
    SHOW_ERROR(mq_close(queue));
    SHOW_ERROR(mq_unlink(name));
}

/* ---- Asynchronous input and output ---- */

static int file_fd, aio_pipe[2];

static void *write_pipe(void *unused)
{
    sleep_ms(5);
    (void)!write(aio_pipe[1], "pipe", 4);
    return unused;
}

static void test_aio(void)
{
    char path[] = "/tmp/gossamer-XXXXXX", out[3][8] = {"one", "two", "three"}, in[8] = "";
    struct aiocb blocks[3] = {0}, *list[3], reading = {0};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = expire};
    const struct aiocb *waited[1] = {&reading};
    file_fd = mkstemp(path);
    unlink(path);
    for (int i = 0; i < 3; i++) {
        blocks[i] = (struct aiocb){.aio_fildes = file_fd,
                                   .aio_buf = out[i],
                                   .aio_nbytes = 8,
                                   .aio_offset = i * 8L,
                                   .aio_lio_opcode = LIO_WRITE};
        list[i] = &blocks[i];
    }
    SHOW_ERROR(lio_listio(LIO_WAIT, list, 3, NULL));
    for (int i = 0; i < 3; i++)
        SHOW(aio_return(&blocks[i]));
    expirations = 0;
    SHOW_ERROR(lio_listio(LIO_NOWAIT, list, 3, &event));
    while (!expirations)
        sleep_ms(1);
    SHOW(pread(file_fd, in, 8, 16));
    printf("%s\n", in);
    (void)!pipe(aio_pipe);
    reading = (struct aiocb){.aio_fildes = aio_pipe[0], .aio_buf = in, .aio_nbytes = 8};
    SHOW_ERROR(aio_read(&reading));
    SHOW(aio_error(&reading) == EINPROGRESS);
    SHOW_ERROR(aio_suspend(waited, 1, &(struct timespec){0, 3000000}));
    pthread_t writer = start(write_pipe, NULL);
    SHOW_ERROR(aio_suspend(waited, 1, NULL));
    SHOW(aio_error(&reading));
    SHOW(aio_return(&reading));
    finish(writer);
    struct aiocb syncing = {.aio_fildes = file_fd};
    SHOW_ERROR(aio_fsync(O_SYNC, &syncing));
    while (aio_error(&syncing) == EINPROGRESS)
        sleep_ms(1);
    SHOW(aio_return(&syncing));
    SHOW(aio_cancel(file_fd, NULL));
    reading = (struct aiocb){.aio_fildes = -1, .aio_buf = in, .aio_nbytes = 8};
    SHOW_ERROR(aio_read(&reading));
    while (aio_error(&reading) == EINPROGRESS)
        sleep_ms(1);
    SHOW(aio_error(&reading));
}

/* The C library's threads for timers and for aio exist already. They block everything, so that what
 * the program blocks stays pending for it. */
static void test_blocked_by_helpers(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_value.sival_int = 77};
    struct itimerspec soon = {.it_value.tv_nsec = 1000000};
    sigset_t set = set_of(SIGRTMIN + 5, 0);
    siginfo_t info;
    timer_t timer;
    event.sigev_signo = SIGRTMIN + 5;
    SHOW(pthread_sigmask(SIG_BLOCK, &set, NULL));
    SHOW_ERROR(timer_create(CLOCK_MONOTONIC, &event, &timer));
    SHOW_ERROR(timer_settime(timer, 0, &soon, NULL));
    SHOW(kill(getpid(), SIGRTMIN + 5));
    SHOW(sigwaitinfo(&set, &info) == SIGRTMIN + 5);
    SHOW(sigwaitinfo(&set, &info) == SIGRTMIN + 5);
    SHOW_ERROR(timer_delete(timer));
}

/* What was sent to the thread is delivered before what was sent to the process. */
static void test_order(void)
{
    sigset_t set = set_of(SIGRTMIN, SIGRTMIN + 1);
    sigaddset(&set, SIGRTMIN + 2);
    for (int i = 0; i < 3; i++)
        handle(SIGRTMIN + i, note, 0);
    count = 0;
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    SHOW(pthread_sigqueue(pthread_self(), SIGRTMIN + 2, (union sigval){.sival_int = 1}));
    SHOW(pthread_sigqueue(pthread_self(), SIGRTMIN + 1, (union sigval){.sival_int = 2}));
    SHOW_ERROR(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 3}));
    SHOW_ERROR(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 4}));
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    for (int i = 0; i < count; i++)
        printf("%d ", seen[i]);
    printf("\n");
}

/* Two timers that expire all the time: one calls a function in a thread, the other a handler. */
static atomic_int calls, alarms;

static void count_call(union sigval unused)
{
    (void)unused;
    calls++;
}

static void count_alarm(int number, siginfo_t *info, void *unused)
{
    (void)number, (void)info, (void)unused;
    alarms++;
}

static void test_two_timers(void)
{
    enum { ENOUGH = 500, PERIOD_US = 100, PERIOD_NS = 100000 };
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = count_call};
    const struct itimerspec often = {{0, PERIOD_NS}, {0, PERIOD_NS}};
    struct itimerval alarm_often = {{0, PERIOD_US}, {0, PERIOD_US}};
    timer_t timer;
    handle(SIGALRM, count_alarm, SA_RESTART);
    SHOW_ERROR(timer_create(CLOCK_MONOTONIC, &event, &timer));
    timer_settime(timer, 0, &often, NULL);
    setitimer(ITIMER_REAL, &alarm_often, NULL);
    while (calls < ENOUGH || alarms < ENOUGH)
        sched_yield();
    alarm_often = (struct itimerval){0};
    setitimer(ITIMER_REAL, &alarm_often, NULL);
    SHOW_ERROR(timer_delete(timer));
}

int main(void)
{
    test_realtime();
    test_process();
    test_timers();
    test_messages();
    test_aio();
    test_blocked_by_helpers();
    test_order();
    test_two_timers();
    return 0;
}
