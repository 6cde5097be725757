/* fork, vfork, posix_spawn, exec and system in a program with threads; what a child inherits. */
#include "tests/compat/pthread/program.h"

#include <spawn.h>

static atomic_bool is_over;
static atomic_int handled;

static void *idle(void *unused)
{
    while (!is_over)
        sleep_ms(1);
    return unused;
}

static void count(int number)
{
    handled += number;
}

static void *in_child(void *argument)
{
    return argument;
}

static int wait_for(pid_t pid)
{
    int status = 0;
    return waitpid(pid, &status, 0) == pid ? status : -1;
}

static atomic_int forks;

static void before(void)
{
    forks++;
}

/* The child creates threads of its own, and has the handlers and the mask of its parent. */
static void test_fork(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        sigset_t now;
        pthread_sigmask(SIG_BLOCK, NULL, &now);
        SHOW(sigismember(&now, SIGUSR2));
        raise(SIGUSR1);
        SHOW(handled == SIGUSR1);
        SHOW(finish(start(in_child, (void *)5)));
        pid_t grandchild = fork();
        if (!grandchild)
            _exit((int)finish(start(in_child, (void *)6)));
        SHOW(wait_for(grandchild));
        fflush(stdout);
        _exit(4);
    }
    SHOW(wait_for(pid));
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void *fork_in_thread(void *unused)
{
    pid_t pid = fork();
    if (!pid)
        _exit(9);
    (void)unused;
    return (void *)(long)wait_for(pid);
}

static void *spawn_in_thread(void *unused)
{
    char *arguments[] = {"sh", "-c", "exit 12", NULL};
    pid_t pid;
    (void)unused;
    int err = posix_spawnp(&pid, "sh", NULL, NULL, arguments, environ);
    return (void *)(long)(err ? -err : wait_for(pid));
}

static void test_spawn(void)
{
    char *arguments[] = {"nosuch", NULL};
    pthread_t threads[4];
    pid_t pid;
    SHOW(posix_spawn(&pid, "/nosuch/program", NULL, NULL, arguments, environ));
    for (int i = 0; i < 4; i++)
        threads[i] = start(i % 2 ? fork_in_thread : spawn_in_thread, NULL);
    for (int i = 0; i < 4; i++)
        SHOW(finish(threads[i]));
    pid = vfork();
    if (!pid)
        _exit(3);
    SHOW(wait_for(pid));
    SHOW(system("exit 21"));
    char line[32] = "";
    FILE *stream = popen("echo from a pipe", "r");
    SHOW(fgets(line, sizeof line, stream) != NULL);
    printf("%s", line);
    SHOW(pclose(stream));
}

static void *kill_child(void *pid)
{
    sleep_ms(20);
    return (void *)(long)kill(*(pid_t *)pid, SIGKILL);
}

static volatile bool has_called;

static int call_in_shared_memory(void *parent)
{
    bool is_other = getpid() != *(pid_t *)parent && getppid() == *(pid_t *)parent;
    has_called = true;
    _exit(is_other ? 11 : 12);
}

/* A child that shares the memory, and the thread-local storage, while its parent computes. */
static void test_shared_memory(void)
{
    static char stack[64 << 10] __attribute__((aligned(16)));
    pid_t self = getpid();
    pid_t pid = clone(call_in_shared_memory, stack + sizeof stack, CLONE_VM | SIGCHLD, &self);
    while (!has_called)
        __builtin_ia32_pause();
    SHOW(wait_for(pid));
}

static void test_wait(void)
{
    siginfo_t info;
    pid_t pid = fork();
    if (!pid)
        while (true)
            pause();
    pthread_t thread = start(kill_child, &pid);
    SHOW_ERROR(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT));
    SHOW(info.si_status);
    SHOW(wait_for(pid));
    SHOW(finish(thread));
    SHOW_ERROR(wait(NULL));
}

int main(void)
{
    pthread_t thread = start(idle, NULL);
    signal(SIGUSR1, count);
    pthread_atfork(before, NULL, NULL);
    test_fork();
    test_spawn();
    test_wait();
    test_shared_memory();
    SHOW(forks);
    is_over = true;
    finish(thread);
    fflush(stdout);
    execlp("sh", "sh", "-c", "echo executed; exit 33", (char *)NULL);
    return 1;
}
