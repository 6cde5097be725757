/* What others see of threads that wait: at semaphores of System V and at queues; texts to a full
 * pipe. */
#include "start.h"

#include <err.h>
#include <mqueue.h>
#include <wchar.h>

/* ---- Semaphores ---- */

static int set;

static void *wait_for_more(void *unused)
{
    struct sembuf operation = {.sem_num = 1, .sem_op = -1};
    if (semop(set, &operation, 1))
        abort();
    return unused;
}

static void *wait_for_zero(void *unused)
{
    struct sembuf operations[] = {{.sem_num = 0, .sem_op = 1}, {.sem_num = 2, .sem_op = 0}};
    if (semop(set, operations, 2))
        abort();
    return unused;
}

static void *wait_shortly(void *unused)
{
    struct sembuf operation = {.sem_num = 1, .sem_op = -1};
    const struct timespec time = {.tv_nsec = 2000000};
    printf("not in time: %d\n", semtimedop(set, &operation, 1, &time) && errno == EAGAIN);
    return unused;
}

static void wait_for_count(int number, int command, int count)
{
    while (semctl(set, number, command) != count)
        usleep(500);
}

static void semaphores(void)
{
    set = semget(IPC_PRIVATE, 3, 0600);
    semctl(set, 2, SETVAL, 1);
    wait_shortly(NULL);
    pthread_join(start(wait_shortly, NULL), NULL);
    pthread_t threads[] = {start(wait_for_more, NULL), start(wait_for_more, NULL),
                           start(wait_for_zero, NULL)};
    wait_for_count(1, GETNCNT, 2);
    wait_for_count(2, GETZCNT, 1);
    printf("waiting: %d, %d, %d\n", semctl(set, 0, GETNCNT), semctl(set, 1, GETNCNT),
           semctl(set, 2, GETZCNT));
    struct sembuf operation = {.sem_num = 1, .sem_op = 1};
    semop(set, &operation, 1);
    wait_for_count(1, GETNCNT, 1);
    operation.sem_op = 1;
    semop(set, &operation, 1);
    semctl(set, 2, SETVAL, 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("waiting: %d, %d, %d\n", semctl(set, 0, GETNCNT), semctl(set, 1, GETNCNT),
           semctl(set, 2, GETZCNT));
    semctl(set, 0, IPC_RMID);
}

/* ---- A thread that waits for a message gets it, and nobody is notified ---- */

static mqd_t queue;
static int notified;

static void notify(union sigval value)
{
    __atomic_add_fetch(&notified, value.sival_int, __ATOMIC_SEQ_CST);
}

static void *receive(void *result)
{
    char bytes[8];
    *(int *)result = mq_receive(queue, bytes, sizeof bytes, NULL) == 1 ? bytes[0] : -1;
    return NULL;
}

static int receive_one(void)
{
    int result = 0;
    receive(&result);
    return result;
}

/* Returns whether the thread that waited got the message, and there was no notification. */
static int try_notification(const struct sigevent *event)
{
    int result = 0;
    __atomic_store_n(&notified, 0, __ATOMIC_SEQ_CST);
    mq_notify(queue, event);
    pthread_t receiver = start(receive, &result);
    usleep(5000); /* it may not wait yet: then there is one, and another try */
    mq_send(queue, "a", 1, 0);
    pthread_join(receiver, NULL);
    usleep(5000);
    int is_notified = __atomic_load_n(&notified, __ATOMIC_SEQ_CST);
    mq_notify(queue, NULL);
    return result == 'a' && !is_notified;
}

/* It waits already when the program asks to be notified. */
static int receive_before(const struct sigevent *event)
{
    int result = 0;
    pthread_t receiver = start(receive, &result);
    usleep(5000);
    mq_notify(queue, event);
    mq_send(queue, "a", 1, 0);
    pthread_join(receiver, NULL);
    mq_notify(queue, NULL);
    return result;
}

static void notifications(void)
{
    char name[40];
    struct mq_attr attributes = {.mq_maxmsg = 3, .mq_msgsize = 8};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = notify};
    event.sigev_value.sival_int = 1;
    int tries = 0;
    snprintf(name, sizeof name, "/counted-%d", (int)getpid());
    queue = mq_open(name, O_CREAT | O_RDWR, 0600, &attributes);
    mq_unlink(name);
    printf("received %c\n", receive_before(&event));
    while (!try_notification(&event) && ++tries < 1000)
        continue;
    printf("only received %d\n", tries < 1000);
    /* Notifications of the tries before may still come. */
    event.sigev_value.sival_int = 10000;
    mq_notify(queue, &event);
    mq_send(queue, "b", 1, 0);
    while (__atomic_load_n(&notified, __ATOMIC_SEQ_CST) < 10000)
        usleep(500);
    printf("received %c, notified %d\n", receive_one(),
           __atomic_load_n(&notified, __ATOMIC_SEQ_CST) / 10000);
    mq_close(queue);
}

/* ---- Texts ---- */

static sem_t may_read;

static void *read_all(void *argument)
{
    static char bytes[70000];
    int fd = *(int *)argument;
    ssize_t n, sum = 0;
    while (sem_wait(&may_read))
        continue;
    while ((n = read(fd, bytes, sizeof bytes)) > 0)
        sum += n;
    memset(bytes, 0, sizeof bytes);
    return (void *)sum;
}

/* A thread that is canceled while a pipe is full. */
static void *write_wide(void *file)
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    for (int i = 0; i < 12000; i++)
        fputws(L"wide \x41\n", file);
    fflush(file);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    pthread_testcancel();
    return NULL;
}

static void wide_streams(void)
{
    int ends[2];
    void *result;
    if (pipe(ends))
        abort();
    sem_init(&may_read, 0, 0);
    pthread_t reader = start(read_all, &ends[0]);
    FILE *file = fdopen(ends[1], "w");
    pthread_t writer = start(write_wide, file);
    pthread_cancel(writer);
    sem_post(&may_read);
    pthread_join(writer, &result);
    printf("canceled %d", result == PTHREAD_CANCELED);
    fclose(file);
    pthread_join(reader, &result);
    printf(", read %ld\n", (long)result);
    close(ends[0]);
}

/* Others go on while the standard error is full. */
static void full_error(void)
{
    enum { TIMES = 1500 };
    int ends[2], error = dup(STDERR_FILENO);
    void *result;
    if (pipe(ends))
        abort();
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    pthread_t reader = start(read_all, &ends[0]);
    sem_post(&may_read);
    for (int i = 0; i < TIMES; i++) {
        errno = ENOENT;
        perror("here");
        warnx("a warning");
    }
    dup2(error, STDERR_FILENO);
    pthread_join(reader, &result);
    size_t length = strlen("here: No such file or directory\n") + strlen("a warning\n") +
                    strlen(program_invocation_short_name) + 2;
    printf("written %d\n", (long)result == (long)length * TIMES);
    close(error);
    close(ends[0]);
}

/* There is no memory for the whole text. */
static void long_text(void)
{
    int null = open("/dev/null", O_WRONLY);
    struct rlimit before, none;
    getrlimit(RLIMIT_AS, &before);
    none = before;
    none.rlim_cur = 1;
    setrlimit(RLIMIT_AS, &none);
    int n = dprintf(null, "%*d", 100000000, 1);
    setrlimit(RLIMIT_AS, &before);
    printf("long %d\n", n);
    close(null);
}

static void *all(void *unused)
{
    semaphores();
    notifications();
    wide_streams();
    full_error();
    long_text();
    return unused;
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    all(NULL);
    pthread_join(start(all, NULL), NULL);
    return 0;
}
