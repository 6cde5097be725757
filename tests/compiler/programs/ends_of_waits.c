/* How calls that wait end: after a part, with descriptors, at a word by bits, moved, or forked. */
#include "program.h"

#include <linux/futex.h>
#include <mqueue.h>

static int fds[2];

static void make_pair(int option)
{
    struct timeval limit = {.tv_usec = 2000};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) ||
        setsockopt(fds[0], SOL_SOCKET, option, &limit, sizeof limit))
        abort();
}

static void receive_parts(void)
{
    char bytes[8] = "";
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    make_pair(SO_RCVTIMEO);
    send(fds[1], "abc", 3, 0);
    printf("a part: %zd\n", recv(fds[0], bytes, sizeof bytes, MSG_WAITALL));
    send(fds[1], "de", 2, 0);
    printf("a part: %zd\n", recvfrom(fds[0], bytes, sizeof bytes, MSG_WAITALL,
                                     (struct sockaddr *)&address, &length));
    char control[CMSG_SPACE(sizeof(int))] = "";
    struct iovec part = {bytes, 2};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &(int){STDERR_FILENO}, sizeof(int));
    send(fds[1], "x", 1, 0);
    sendmsg(fds[1], &message, 0);
    part.iov_len = sizeof bytes;
    ssize_t n = recvmsg(fds[0], &message, MSG_WAITALL);
    printf("with a descriptor: %zd, %d\n", n, CMSG_FIRSTHDR(&message) != NULL);
    close(fds[0]);
    close(fds[1]);
}

static void *close_other(void *argument)
{
    char byte;
    if (read(fds[1], &byte, 1) != 1)
        abort();
    close(fds[1]);
    return argument;
}

/* The end of the other side after a part is no signal. */
static void send_part(void)
{
    static char bytes[1000000];
    pthread_t closer;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
        abort();
    pthread_create(&closer, NULL, close_other, NULL);
    ssize_t n = send(fds[0], bytes, sizeof bytes, 0);
    printf("sent a part: %d\n", n > 0 && n < (ssize_t)sizeof bytes);
    pthread_join(closer, NULL);
    close(fds[0]);
}

static void many_messages(void)
{
    static struct mmsghdr messages[1100];
    make_pair(SO_SNDTIMEO);
    printf("messages: %d\n", sendmmsg(fds[0], messages, 1100, 0));
    close(fds[0]);
    close(fds[1]);
    printf("closed: %d, %s\n", sendmmsg(fds[0], messages, 0, 0), strerror(errno));
}

static void semaphores(void)
{
    int set = semget(IPC_PRIVATE, 2, 0600);
    struct sembuf operations[] = {{0, 1, 0}, {1, -1, IPC_NOWAIT}, {0, 0, 0}};
    printf("not waiting: %d, %s\n", semop(set, operations, 3), strerror(errno));
    semctl(set, 0, IPC_RMID);
}

/* ---- At a word ---- */

static uint32_t words[3];
static int woken;

static long wake(uint32_t *word, int count)
{
    return syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count);
}

static long wake_with_bits(uint32_t *word, uint32_t bits)
{
    return syscall(SYS_futex, word, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL, bits);
}

static void *wait_with_bits(void *argument)
{
    syscall(SYS_futex, &words[0], FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, (uintptr_t)argument);
    __atomic_add_fetch(&woken, (int)(uintptr_t)argument, __ATOMIC_SEQ_CST);
    return NULL;
}

static void wake_one(uint32_t bits)
{
    while (!wake_with_bits(&words[0], bits))
        usleep(100);
}

static void bits(void)
{
    pthread_t one, two;
    pthread_create(&one, NULL, wait_with_bits, (void *)1);
    pthread_create(&two, NULL, wait_with_bits, (void *)2);
    wake_one(2);
    pthread_join(two, NULL);
    printf("woken: %d\n", __atomic_load_n(&woken, __ATOMIC_SEQ_CST));
    wake_one(1);
    pthread_join(one, NULL);
    printf("no bits: %ld\n", wake_with_bits(&words[0], 0));
}

static void moves(void)
{
    pthread_t one;
    pthread_create(&one, NULL, wait_with_bits, (void *)4);
    while (!syscall(SYS_futex, &words[0], FUTEX_CMP_REQUEUE_PRIVATE, 0, 1L, &words[1], 0))
        usleep(100);
    printf("at the first: %ld\n", wake(&words[0], 1));
    pid_t child = fork();
    if (!child)
        _exit((int)wake(&words[1], 9));
    int status = -1;
    waitpid(child, &status, 0);
    printf("in the child: %d\n", WEXITSTATUS(status));
    long n = syscall(SYS_futex, &words[2], FUTEX_WAKE_OP_PRIVATE, 1, 1L, &words[1],
                     FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 0));
    pthread_join(one, NULL);
    printf("at two words: %ld, %u\n", n, words[1]);
}

static void *all(void *argument)
{
    receive_parts();
    send_part();
    many_messages();
    semaphores();
    woken = 0;
    words[1] = 0;
    bits();
    moves();
    return argument;
}

int main(void)
{
    pthread_t thread;
    setvbuf(stdout, NULL, _IOLBF, 0);
    all(NULL);
    pthread_create(&thread, NULL, all, NULL);
    pthread_join(thread, NULL);
    return 0;
}
