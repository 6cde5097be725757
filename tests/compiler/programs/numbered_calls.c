/* System calls by their numbers let other threads run, and have the signal of a pipe that nobody
 * reads; an address that is none is an error. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int forth[2], back[2];
static atomic_int signals;

static void on_pipe(int number)
{
    (void)number;
    signals++;
}

static void *answer(void *unused)
{
    char byte;
    while (syscall(SYS_read, forth[0], &byte, (size_t)1) == 1) {
        byte++;
        syscall(SYS_write, back[1], &byte, (size_t)1);
    }
    return unused;
}

static void *write_in_vain(void *unused)
{
    int ends[2];
    const struct iovec part = {"x", 1};
    pipe(ends);
    close(ends[0]);
    long result = syscall(SYS_write, ends[1], "x", (size_t)1);
    printf("%ld %s, signals %d\n", result, strerror(errno), signals);
    result = syscall(SYS_writev, ends[1], &part, 1);
    printf("%ld %s, signals %d\n", result, strerror(errno), signals);
    close(ends[1]);
    return unused;
}

static void operate_nowhere(void)
{
    int set = semget(IPC_PRIVATE, 1, 0600);
    int result = semop(set, (struct sembuf *)8, 1);
    printf("%d %s\n", result, strerror(errno));
    semctl(set, 0, IPC_RMID);
}

int main(void)
{
    pthread_t thread, others[3];
    char byte = 'a';
    const struct sigaction action = {.sa_handler = on_pipe};
    sigaction(SIGPIPE, &action, NULL);
    pipe(forth);
    pipe(back);
    pthread_create(&thread, NULL, answer, NULL);
    for (int i = 0; i < 3; i++) {
        syscall(SYS_write, forth[1], &byte, (size_t)1);
        syscall(SYS_read, back[0], &byte, (size_t)1);
    }
    close(forth[1]);
    pthread_join(thread, NULL);
    printf("%c\n", byte);
    for (int i = 0; i < 3; i++) {
        pthread_create(&others[i], NULL, write_in_vain, NULL);
        pthread_join(others[i], NULL);
    }
    operate_nowhere();
    return 0;
}
