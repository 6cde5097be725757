/* Queues of messages, semaphores of System V, the system call futex, and timers that call functions
 * in kernel threads: the other threads go on meanwhile. */
#include "start.h"

#include <linux/futex.h>
#include <mqueue.h>
#include <sys/msg.h>

static const char *answer(long result)
{
    return result < 0 ? strerror(errno) : "done";
}

/* ---- Queues of POSIX ---- */

static mqd_t queue;

static void *send_all(void *argument)
{
    for (char i = 0; i < 20; i++)
        if (mq_send(queue, &i, 1, 0))
            abort();
    return argument;
}

static void posix_queues(void)
{
    char name[32], bytes[8];
    struct mq_attr attributes = {.mq_maxmsg = 3, .mq_msgsize = 8};
    int sum = 0;
    snprintf(name, sizeof name, "/queues-%d", (int)getpid());
    queue = mq_open(name, O_CREAT | O_RDWR, 0600, &attributes);
    mq_unlink(name);
    pthread_t sender = start(send_all, NULL);
    for (int i = 0; i < 20; i++)
        sum += mq_receive(queue, bytes, sizeof bytes, NULL) == 1 ? bytes[0] : 1000;
    printf("received %d\n", sum);
    pthread_join(sender, NULL);
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_nsec += 2000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    printf("in time: %s\n", answer(mq_timedreceive(queue, bytes, sizeof bytes, NULL, &time)));
    for (int i = 0; i < 3; i++)
        mq_send(queue, "x", 1, 0);
    printf("full: %s\n", answer(mq_timedsend(queue, "x", 1, 0, &time)));
    mq_setattr(queue, &(struct mq_attr){.mq_flags = O_NONBLOCK}, NULL);
    printf("not blocking: %s\n", answer(mq_send(queue, "x", 1, 0)));
    mq_close(queue);
}

/* ---- Of System V ---- */

static int messages, semaphores;
struct message {
    long type;
    char bytes[8];
};

static void *answer_message(void *argument)
{
    struct message message = {0};
    if (msgrcv(messages, &message, sizeof message.bytes, 1, 0) != 2)
        abort();
    message.type = 2;
    msgsnd(messages, &message, 2, 0);
    return argument;
}

static void *take(void *argument)
{
    struct sembuf take_two = {0, -2, 0};
    printf("two: %s\n", answer(semop(semaphores, &take_two, 1)));
    return argument;
}

static void system_v(void)
{
    struct message message = {1, "ab"};
    messages = msgget(IPC_PRIVATE, 0600);
    pthread_t other = start(answer_message, NULL);
    msgsnd(messages, &message, 2, 0);
    ssize_t n = msgrcv(messages, &message, sizeof message.bytes, 2, 0);
    printf("msgrcv %zd %.2s\n", n, message.bytes);
    pthread_join(other, NULL);
    printf("empty: %s\n", answer(msgrcv(messages, &message, 8, 0, IPC_NOWAIT)));
    msgctl(messages, IPC_RMID, NULL);

    struct sembuf one = {0, 1, 0}, less = {0, -1, 0};
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    other = start(take, NULL);
    semop(semaphores, &one, 1);
    usleep(1000);
    semop(semaphores, &one, 1);
    pthread_join(other, NULL);
    struct timespec time = {0, 2000000};
    printf("in time: %s\n", answer(semtimedop(semaphores, &less, 1, &time)));
    time.tv_sec = -1;
    printf("no time: %s\n", answer(semtimedop(semaphores, &one, 1, &time)));
    less.sem_flg = IPC_NOWAIT;
    printf("at once: %s\n", answer(semop(semaphores, &less, 1)));
    semctl(semaphores, 0, IPC_RMID);
}

/* What waits ends by a handler, although that restarts calls, and by the removal of what it waits
 * for; only the calls on messages are cancellation points. */

enum wait { TAKE, SEND, RECEIVE, REMOVED, CANCELED_TAKE, CANCELED_RECEIVE, WAITS };

static _Atomic int is_handled, has_begun;

static void on_user(int number)
{
    (void)number;
    is_handled = 1;
}

static void *wait_system_v(void *argument)
{
    struct message message = {1, "ab"};
    struct sembuf less = {0, -1, 0};
    enum wait wait = (enum wait)(long)argument;
    has_begun = 1;
    long result = wait == SEND ? msgsnd(messages, &message, 8, 0)
                  : wait == RECEIVE || wait == CANCELED_RECEIVE
                      ? msgrcv(messages, &message, 8, 2, 0)
                      : semop(semaphores, &less, 1);
    printf("wait %d: %s\n", wait, answer(result));
    pthread_testcancel();
    return argument;
}

static void end_wait(enum wait wait, pthread_t thread)
{
    struct sembuf one = {0, 1, 0};
    if (wait == REMOVED)
        semctl(semaphores, 0, IPC_RMID);
    else if (wait >= CANCELED_TAKE)
        pthread_cancel(thread);
    if (wait == CANCELED_TAKE)
        semop(semaphores, &one, 1);
    while (wait < REMOVED && !is_handled) {
        pthread_kill(thread, SIGUSR1);
        usleep(1000);
    }
}

static void waits_of_system_v(void)
{
    const struct sigaction action = {.sa_handler = on_user, .sa_flags = SA_RESTART};
    struct message message = {1, "ab"};
    sigaction(SIGUSR1, &action, NULL);
    messages = msgget(IPC_PRIVATE, 0600);
    while (!msgsnd(messages, &message, 8, IPC_NOWAIT))
        continue;
    for (enum wait wait = 0; wait < WAITS; wait++) {
        void *result;
        is_handled = has_begun = 0;
        semaphores = semget(IPC_PRIVATE, 1, 0600);
        pthread_t thread = start(wait_system_v, (void *)(long)wait);
        while (!has_begun)
            usleep(100);
        usleep(5000);
        end_wait(wait, thread);
        pthread_join(thread, &result);
        printf("canceled %d\n", result == PTHREAD_CANCELED);
        semctl(semaphores, 0, IPC_RMID);
    }
    msgctl(messages, IPC_RMID, NULL);
}

/* ---- A lock made of futex ---- */

static unsigned word, total;

static void lock(int is_private)
{
    int flag = is_private ? FUTEX_PRIVATE_FLAG : 0;
    unsigned none = 0;
    if (__atomic_compare_exchange_n(&word, &none, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return;
    while (__atomic_exchange_n(&word, 2, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &word, FUTEX_WAIT | flag, 2, NULL, NULL, 0);
}

static void unlock(int is_private)
{
    int flag = is_private ? FUTEX_PRIVATE_FLAG : 0;
    if (__atomic_exchange_n(&word, 0, __ATOMIC_SEQ_CST) == 2)
        syscall(SYS_futex, &word, FUTEX_WAKE | flag, 1, NULL, NULL, 0);
}

static void *add(void *argument)
{
    int is_private = argument != NULL;
    for (int i = 0; i < 50; i++) {
        lock(is_private);
        unsigned before = total;
        if (i % 10 == 0)
            usleep(10);
        total = before + 1;
        unlock(is_private);
    }
    return argument;
}

static void futexes(void)
{
    struct timespec time = {0, 2000000};
    for (int is_private = 0; is_private < 2; is_private++) {
        pthread_t threads[5];
        total = 0;
        for (int i = 0; i < 5; i++)
            threads[i] = start(add, is_private ? &word : NULL);
        for (int i = 0; i < 5; i++)
            pthread_join(threads[i], NULL);
        printf("futex: %u\n", total);
    }
    printf("in time: %s\n",
           answer(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0)));
    printf("other value: %s\n",
           answer(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0)));
    printf("no one: %ld\n", syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
}

static unsigned at_word, moved_to;
static void *wait_at(void *argument)
{
    while (!__atomic_load_n(&at_word, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &at_word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    return argument;
}

static void requeue(void)
{
    pthread_t threads[3];
    at_word = 0;
    for (int i = 0; i < 3; i++)
        threads[i] = start(wait_at, NULL);
    usleep(1000);
    __atomic_store_n(&at_word, 1, __ATOMIC_SEQ_CST);
    if (syscall(SYS_futex, &at_word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)10, &moved_to, 1) < 0)
        abort();
    syscall(SYS_futex, &moved_to, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    puts("requeued");
}

/* ---- Timers ---- */

static sem_t expired;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int times;

static void on_timer(union sigval value)
{
    pthread_mutex_lock(&mutex);
    times += value.sival_int;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    sem_post(&expired);
}

static void timers(void)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_timer};
    struct itimerspec once = {.it_value = {0, 2000000}};
    event.sigev_value.sival_int = 3;
    times = 0;
    sem_init(&expired, 0, 0);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer))
        abort();
    timer_settime(timer, 0, &once, NULL);
    sem_wait(&expired);
    timer_settime(timer, 0, &once, NULL);
    pthread_mutex_lock(&mutex);
    while (times < 6)
        pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    timer_delete(timer);
    printf("timers: %d\n", times);
}

static void *all(void *argument)
{
    posix_queues();
    system_v();
    waits_of_system_v();
    futexes();
    requeue();
    timers();
    return argument;
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    all(NULL);
    pthread_join(start(all, NULL), NULL);
    return 0;
}
