/* What calls answer in corner cases. */
#include "program.h"

#include <sys/file.h>
#include <sys/sendfile.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_key_t key, main_key;
static int rounds;
static _Alignas(64) __thread char aligned[3] = "ab";

static void say(const char *name, int err)
{
    printf("%s: %s\n", name, err ? strerror(err) : "yes");
}

static void times(void)
{
    struct timespec bad = {0, 2000000000}, past = {1, 0}, now;
    sem_t none;
    sem_init(&none, 0, 0);
    pthread_mutex_lock(&lock);
    say("condition, no time", pthread_cond_timedwait(&never, &lock, &bad));
    say("condition, no clock",
        pthread_cond_clockwait(&never, &lock, CLOCK_THREAD_CPUTIME_ID, &past));
    say("condition, late", pthread_cond_clockwait(&never, &lock, CLOCK_MONOTONIC, &past));
    say("mutex, late", pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC, &past));
    pthread_mutex_unlock(&lock);
    say("mutex that is free", pthread_mutex_timedlock(&lock, &past));
    pthread_mutex_unlock(&lock);
    say("semaphore, no time", sem_timedwait(&none, &bad) ? errno : 0);
    clock_gettime(CLOCK_MONOTONIC, &now);
    say("semaphore, late", sem_clockwait(&none, CLOCK_MONOTONIC, &now) ? errno : 0);
    say("reader, no time", pthread_rwlock_timedrdlock(&rwlock, &bad));
    say("writer, late", pthread_rwlock_clockwrlock(&rwlock, CLOCK_REALTIME, &past));
    say("writer again", pthread_rwlock_wrlock(&rwlock));
    pthread_rwlock_unlock(&rwlock);
}

static void *nothing(void *unused)
{
    return unused;
}

static void ends(void)
{
    pthread_t thread;
    void *result = NULL;
    int old;
    pthread_create(&thread, NULL, nothing, NULL);
    usleep(1000);
    say("cancel of one that has ended", pthread_cancel(thread));
    say("signal to it", pthread_kill(thread, 0));
    say("join", pthread_join(thread, &result));
    printf("result %p\n", result);
    say("state", pthread_setcancelstate(77, &old));
    say("type", pthread_setcanceltype(77, &old));
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    printf("type %d", old == PTHREAD_CANCEL_DEFERRED);
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &old);
    printf(" %d\n", old == PTHREAD_CANCEL_ASYNCHRONOUS);
}

/* It sets a value again, until nobody asks any more. */
static void destroy(void *value)
{
    rounds++;
    pthread_setspecific(key, value);
}

static void not_called(void *value)
{
    printf("not called: %s\n", (char *)value);
}

static void *with_value(void *unused)
{
    pthread_setspecific(key, "a value");
    printf("aligned %d %s\n", (int)((size_t)aligned % 64), aligned);
    return unused;
}

static void keys(void)
{
    pthread_t thread;
    pthread_key_t deleted, again;
    pthread_key_create(&deleted, NULL);
    pthread_setspecific(deleted, "old");
    say("delete", pthread_key_delete(deleted));
    say("set a deleted key", pthread_setspecific(deleted, "x"));
    pthread_key_create(&again, NULL);
    printf("new key: %d\n", pthread_getspecific(again) == NULL);
    pthread_key_create(&key, destroy);
    pthread_create(&thread, NULL, with_value, NULL);
    pthread_join(thread, NULL);
    printf("rounds %d\n", rounds);
    pthread_key_create(&main_key, not_called);
    pthread_setspecific(main_key, "main returns");
}

/* A child and its parent take turns. */
static void share(void)
{
    sem_t *both =
        mmap(NULL, 2 * sizeof *both, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    sem_init(&both[0], 1, 0);
    sem_init(&both[1], 1, 0);
    pid_t pid = fork();
    for (int i = 0; i < 3 && !pid; i++) {
        sem_wait(&both[0]);
        sem_post(&both[1]);
    }
    if (!pid)
        _exit(7);
    for (int i = 0; i < 3; i++) {
        sem_post(&both[0]);
        sem_wait(&both[1]);
    }
    waitpid(pid, &status, 0);
    printf("shared, child %d\n", WEXITSTATUS(status));
    char name[40];
    snprintf(name, sizeof name, "/gossamer-%d", (int)getpid());
    sem_t *named = sem_open(name, O_CREAT | O_EXCL, 0600, 2);
    sem_unlink(name);
    sem_wait(named);
    sem_wait(named);
    printf("named: %d\n", sem_trywait(named) && errno == EAGAIN);
    sem_close(named);
}

enum { LOCKERS = 70 };
static FILE *locked;

/* More threads than the pool has wait for what one of them unlocks. */
static void *lock_file(void *path)
{
    int fd = open(path, O_RDWR);
    if (flock(fd, LOCK_EX))
        abort();
    sched_yield();
    if (flock(fd, LOCK_UN))
        abort();
    close(fd);
    return NULL;
}

static void lock_files(void)
{
    pthread_t threads[LOCKERS];
    char path[] = "/tmp/gossamer-XXXXXX";
    locked = fdopen(mkstemp(path), "w");
    for (int i = 0; i < LOCKERS; i++)
        pthread_create(&threads[i], NULL, lock_file, path);
    for (int i = 0; i < LOCKERS; i++)
        pthread_join(threads[i], NULL);
    unlink(path);
    puts("locked");
}

static int socket_end;

static void *send_parts(void *unused)
{
    for (size_t i = 0; i < 4; i++) {
        usleep(1000);
        if (send(socket_end, "abcdefgh" + i * 2, 2, 0) != 2)
            abort();
    }
    return unused;
}

/* The parts that came before must survive the waits for the others. */
static void receive_all(void)
{
    pthread_t thread;
    int both[2];
    char bytes[9] = "";
    socketpair(AF_UNIX, SOCK_STREAM, 0, both);
    socket_end = both[1];
    pthread_create(&thread, NULL, send_parts, NULL);
    ssize_t n = recv(both[0], bytes, 8, MSG_WAITALL);
    pthread_join(thread, NULL);
    printf("all: %zd %s\n", n, bytes);
}

static int out_end;

static void *send_file(void *unused)
{
    int in = memfd_create("file", 0);
    off_t at = 0;
    if (in < 0 || ftruncate(in, 400000))
        abort();
    long n = (long)sendfile(out_end, in, &at, 400000);
    close(in);
    close(out_end);
    return unused ? NULL : (void *)n;
}

/* More than the socket takes, while its reader is another thread. */
static void receive_file(void)
{
    int both[2];
    char bytes[1000];
    pthread_t thread;
    void *sent;
    ssize_t n, sum = 0;
    socketpair(AF_UNIX, SOCK_STREAM, 0, both);
    out_end = both[1];
    pthread_create(&thread, NULL, send_file, NULL);
    usleep(2000);
    while ((n = read(both[0], bytes, sizeof bytes)) > 0)
        sum += n;
    pthread_join(thread, &sent);
    printf("file %zd %ld\n", sum, (long)sent);
    close(both[0]);
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
    if (write(STDOUT_FILENO, "", 0))
        abort();
}

static void fork_with_handlers(void)
{
    int status;
    pthread_atfork(before_fork, after_fork, after_fork);
    pid_t pid = fork();
    if (!pid)
        _exit(5);
    waitpid(pid, &status, 0);
    printf("fork %d\n", WEXITSTATUS(status));
    pid = vfork();
    if (!pid)
        _exit(6);
    waitpid(pid, &status, 0);
    printf("vfork %d\n", WEXITSTATUS(status));
}

int main(void)
{
    times();
    ends();
    keys();
    share();
    lock_files();
    receive_all();
    receive_file();
    fflush(stdout);
    fork_with_handlers();
    return 0;
}
