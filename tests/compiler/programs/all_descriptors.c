/* Programs that close every descriptor from 3 on, as daemons do, and continue with threads. */
#include "program.h"

static int fds[2];

static void *read_one(void *unused)
{
    char byte = 0;
    ssize_t n = read(fds[0], &byte, 1);
    printf("a thread read %zd %c\n", n, byte);
    return unused;
}

/* The first thread waits for one that waits. */
static void use_threads(const char *after)
{
    pthread_t thread;
    int err = pipe(fds);
    printf("%s: pipe %d, descriptors %d %d\n", after, err, fds[0], fds[1]);
    pthread_create(&thread, NULL, read_one, NULL);
    usleep(2000);
    err = write(fds[1], "x", 1) != 1;
    printf("write %d, join %d\n", err, pthread_join(thread, NULL));
}

static void on_alarm(int number)
{
    (void)number;
}

/* What interrupts the first thread needs a descriptor, too. */
static void be_interrupted(void)
{
    const struct sigaction action = {.sa_handler = on_alarm};
    char byte;
    int empty[2];
    sigaction(SIGALRM, &action, NULL);
    printf("pipe %d\n", pipe(empty));
    ualarm(3000, 3000); /* again, as the first may come before the call */
    ssize_t n = read(empty[0], &byte, 1);
    ualarm(0, 0);
    printf("interrupted: %zd\n", n);
}

static void close_each(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    for (int fd = 3; fd < (int)limit.rlim_cur; fd++)
        close(fd);
}

static void close_range_of_all(void)
{
    printf("close_range %d\n", close_range(3, ~0u, 0));
}

static void close_from_3(void)
{
    closefrom(3);
}

static void mark_all(void)
{
    printf("close_range %d\n", close_range(3, ~0u, CLOSE_RANGE_CLOEXEC));
}

static void in_child(const char *name, void (*close_all)(void))
{
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        close_all();
        use_threads(name);
        be_interrupted();
        close_all();
        use_threads(name);
        fflush(stdout);
        _exit(7);
    }
    waitpid(pid, &status, 0);
    printf("the child ended with %d\n", WEXITSTATUS(status));
}

int main(void)
{
    close_each();
    use_threads("close");
    be_interrupted();
    in_child("close in a child", close_each);
    close_range_of_all();
    use_threads("close_range");
    in_child("close_range in a child", close_range_of_all);
    close_from_3();
    use_threads("closefrom");
    in_child("closefrom in a child", close_from_3);
    in_child("marked", mark_all);
    printf("close_range of nothing %d\n", close_range(5, 4, 0));
    return 0;
}
