/* Signals that interrupt waits, handlers that wake threads, children, and daemons. */
#include "program.h"

#include <netdb.h>

static int handled;

static void on_signal(int number)
{
    handled += number == SIGUSR1 ? 1 : 100;
    /* It is outside of the threads: this must not make the interrupted thread wait. */
    if (write(STDOUT_FILENO, "", 0))
        abort();
}

static void catch (int number, int flags)
{
    struct sigaction action = {.sa_flags = flags}, old;
    action.sa_handler = on_signal;
    if (sigaction(number, &action, NULL) || sigaction(number, NULL, &old))
        abort();
    printf("handler %d\n", old.sa_handler == on_signal);
}

/* Sends signals to the process, whose first thread waits. */
static void *send_signals(void *number)
{
    struct timespec wait = {0, 300000000};
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    nanosleep(&wait, NULL);
    kill(getpid(), (int)(long)number);
    return NULL;
}

static pthread_t sender(int number)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, send_signals, (void *)(long)number))
        abort();
    return thread;
}

static void interrupted_calls(void)
{
    int ends[2];
    char byte;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        abort();
    pthread_t thread = sender(SIGUSR1);
    ssize_t n = read(ends[0], &byte, 1);
    printf("read %zd %d\n", n, errno == EINTR);
    pthread_join(thread, NULL);
    thread = sender(SIGUSR2);
    struct timespec wait = {60, 0}, left;
    int result = nanosleep(&wait, &left);
    printf("sleep %d %d %d\n", result, errno == EINTR, left.tv_sec > 50);
    pthread_join(thread, NULL);
    thread = sender(SIGUSR2);
    result = pause();
    printf("pause %d %d\n", result, errno == EINTR);
    pthread_join(thread, NULL);
    printf("handled %d\n", handled);
}

static void *in_child(void *argument)
{
    struct timespec wait = {0, 1000000};
    nanosleep(&wait, NULL);
    return (char *)argument + 1;
}

static int status_of_child(void)
{
    int status;
    pid_t pid = fork();
    if (!pid) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, in_child, (void *)40L);
        pthread_join(thread, &result);
        _exit((int)(long)result + 1);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void *child_of_thread(void *unused)
{
    printf("child of a thread %d\n", status_of_child());
    return unused;
}

enum { MUCH = 300000 };
static int is_writing;

static void *write_much(void *file)
{
    __atomic_store_n(&is_writing, 1, __ATOMIC_SEQ_CST);
    fprintf(file, "%*d", MUCH, 1);
    fclose(file);
    return NULL;
}

/* The child uses a stream to which another thread of the parent is writing. */
static void child_while_writing(void)
{
    int ends[2], status;
    char byte;
    long n = 0;
    pthread_t writer;
    if (pipe(ends))
        abort();
    FILE *file = fdopen(ends[1], "w");
    pthread_create(&writer, NULL, write_much, file);
    while (!__atomic_load_n(&is_writing, __ATOMIC_SEQ_CST))
        sched_yield();
    pid_t pid = fork();
    if (!pid) {
        dup2(open("/dev/null", O_WRONLY), ends[1]);
        _exit(fprintf(file, "child\n"));
    }
    waitpid(pid, &status, 0);
    while (read(ends[0], &byte, 1) == 1)
        n++;
    pthread_join(writer, NULL);
    close(ends[0]);
    printf("child while writing %d, %ld bytes\n", WEXITSTATUS(status), n);
}

static void daemons(void)
{
    int ends[2];
    char text[16] = "";
    if (pipe(ends))
        abort();
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        if (daemon(0, 0))
            abort();
        pthread_t thread;
        pthread_create(&thread, NULL, in_child, NULL);
        pthread_join(thread, NULL);
        if (write(ends[1], "daemon", 6) != 6)
            abort();
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    ssize_t n = read(ends[0], text, sizeof text - 1);
    printf("%zd %s\n", n, text);
}

static int reaped;

static void reap_all(int number)
{
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        reaped++;
}

/* The handler must not get the child that is the command. */
static void *command_beside_handler(void *unused)
{
    struct sigaction action = {.sa_handler = reap_all}, before;
    sigset_t set;
    sigaction(SIGCHLD, &action, &before);
    for (int i = 0; i < 5; i++)
        printf("command %x\n", system("exit 4")); /* NOLINT(cert-env33-c): what is tested */
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    printf("reaped %d, blocks SIGCHLD %d\n", reaped, sigismember(&set, SIGCHLD));
    sigaction(SIGCHLD, &before, NULL);
    return unused;
}

/* ---- Handlers of forks wait as any other function ---- */

static pthread_mutex_t handlers_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_t holder;
static int is_tried;

static void *hold(void *unused)
{
    pthread_mutex_lock(&handlers_mutex);
    usleep(1000);
    pthread_mutex_unlock(&handlers_mutex);
    return unused;
}

static void before_fork(void)
{
    void *result = NULL;
    if (!is_tried)
        return;
    pthread_mutex_lock(&handlers_mutex);
    pthread_mutex_unlock(&handlers_mutex);
    pthread_join(holder, &result);
    printf("joined %d, %d\n", result == &holder, system("exit 5") >> 8); /* NOLINT(cert-env33-c) */
    fflush(stdout);
    pthread_mutex_lock(&handlers_mutex);
}

/* The child has other threads again. */
static void after_fork(void)
{
    if (!is_tried)
        return;
    pthread_mutex_unlock(&handlers_mutex);
    usleep(1);
    pthread_create(&holder, NULL, hold, NULL);
    pthread_join(holder, NULL);
}

static void *fork_with_handlers(void *unused)
{
    int status = 0;
    is_tried = 1;
    pthread_create(&holder, NULL, hold, &holder);
    usleep(100);
    pid_t child = fork();
    if (!child)
        _exit(pthread_mutex_trylock(&handlers_mutex) ? 1 : 3);
    waitpid(child, &status, 0);
    printf("with handlers: %d\n", WEXITSTATUS(status));
    is_tried = 0;
    return unused;
}

static void handlers_of_forks(void)
{
    pthread_t thread;
    pthread_atfork(before_fork, after_fork, after_fork);
    fork_with_handlers(NULL);
    pthread_create(&thread, NULL, fork_with_handlers, NULL);
    pthread_join(thread, NULL);
}

static void *take_signal(void *set)
{
    int number = 0;
    int err = sigwait(set, &number);
    printf("sigwait %d %d\n", err, number == SIGTERM);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    sigset_t set;
    catch (SIGUSR1, 0);
    catch (SIGUSR2, SA_RESTART);
    interrupted_calls();
    printf("child %d, command %d\n", status_of_child(),
           system("exit 3") >> 8); /* NOLINT(cert-env33-c): what is tested */
    command_beside_handler(NULL);
    pthread_create(&thread, NULL, child_of_thread, NULL);
    pthread_join(thread, NULL);
    child_while_writing();
    handlers_of_forks();
    daemons();
    printf("child %d\n", waitpid(-1, NULL, 0) < 0 && errno == ECHILD);
    struct hostent *host = gethostbyname("127.0.0.1");
    printf("host %d\n", host && host->h_length == 4 && host->h_addr_list[0][3] == 1);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&thread, NULL, take_signal, &set);
    kill(getpid(), SIGTERM);
    pthread_join(thread, NULL);
    return 0;
}
