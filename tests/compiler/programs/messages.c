/* Messages that do not fit into a socket at once, several in a call, counters, and sleeps without
 * time: the other threads go on meanwhile. */
#include "start.h"

#include <sys/eventfd.h>

enum { SIZE = 700000 };
static char bytes[SIZE];
static int fds[2], counter;

static void make_pair(int type)
{
    if (socketpair(AF_UNIX, type, 0, fds))
        abort();
}

static void close_pair(void)
{
    close(fds[0]);
    close(fds[1]);
}

/* Reads up to the end, and adds up what it got. */
static void *count(void *argument)
{
    unsigned char part[5000];
    size_t n = 0, sum = 0;
    ssize_t got;
    while ((got = read(fds[1], part, sizeof part)) > 0)
        for (ssize_t i = 0; i < got; i++, n++)
            sum += part[i] * (n % 7 + 1);
    printf("read %zu bytes, %zu\n", n, sum);
    return argument;
}

/* ---- Sending ---- */

static void send_parts(void)
{
    make_pair(SOCK_STREAM);
    pthread_t reader = start(count, NULL);
    struct iovec parts[] = {{bytes, SIZE / 2}, {bytes + SIZE / 2, 0}, {bytes + SIZE / 2, SIZE / 2}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    printf("sendmsg %zd\n", sendmsg(fds[0], &message, 0));
    printf("sendto %zd\n", sendto(fds[0], bytes, SIZE, 0, NULL, 0));
    struct mmsghdr messages[] = {{.msg_hdr = message}, {.msg_hdr = message}};
    int sent = sendmmsg(fds[0], messages, 2, 0);
    printf("sendmmsg %d: %u %u\n", sent, messages[0].msg_len, messages[1].msg_len);
    printf("dprintf %d\n", dprintf(fds[0], "%300000d.%s\n", 7, "end"));
    shutdown(fds[0], SHUT_WR);
    pthread_join(reader, NULL);
    close_pair();
}

/* ---- Receiving ---- */

static void *send_slowly(void *argument)
{
    for (size_t n = 1; n <= 4; n++) {
        usleep(2000);
        if (send(fds[1], "abcdefgh", n, 0) < 0)
            abort();
    }
    return argument;
}

static void receive_all(void)
{
    make_pair(SOCK_STREAM);
    pthread_t sender = start(send_slowly, NULL);
    char head[3] = "", tail[8] = "";
    struct iovec parts[] = {{head, 2}, {tail, 6}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t n = recvmsg(fds[0], &message, MSG_WAITALL);
    printf("recvmsg %zd %s %.6s\n", n, head, tail);
    n = recv(fds[0], tail, 2, MSG_WAITALL);
    printf("recv %zd %.2s\n", n, tail);
    pthread_join(sender, NULL);
    close_pair();
}

static void receive_datagrams(void)
{
    char texts[4][16];
    struct iovec parts[4];
    struct mmsghdr messages[4] = {0};
    for (int i = 0; i < 4; i++) {
        parts[i] = (struct iovec){texts[i], 16};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    make_pair(SOCK_DGRAM);
    pthread_t sender = start(send_slowly, NULL);
    int n = recvmmsg(fds[0], messages, 2, 0, NULL);
    printf("recvmmsg %d: %u %u\n", n, messages[0].msg_len, messages[1].msg_len);
    n = recvmmsg(fds[0], messages, 1, MSG_WAITFORONE, &(struct timespec){5, 0});
    printf("recvmmsg %d: %u\n", n, messages[0].msg_len);
    printf("recv %zd\n", recv(fds[0], texts[0], 16, MSG_WAITALL));
    pthread_join(sender, NULL);
    n = recvmmsg(fds[0], messages, 4, MSG_DONTWAIT, NULL);
    printf("recvmmsg %d %s\n", n, n < 0 ? strerror(errno) : "");
    close_pair();
}

/* ---- Counters ---- */

static void *add(void *argument)
{
    usleep(2000);
    if (eventfd_write(counter, 5))
        abort();
    return argument;
}

static void counters(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    eventfd_t value = 0;
    counter = eventfd(0, 0);
    int set = epoll_create1(0);
    epoll_ctl(set, EPOLL_CTL_ADD, counter, &event);
    pthread_t adder = start(add, NULL);
    printf("epoll_pwait2 %d\n", epoll_pwait2(set, &event, 1, NULL, NULL));
    printf("eventfd_read %d %d\n", eventfd_read(counter, &value), (int)value);
    pthread_join(adder, NULL);
    printf("in time %d\n", epoll_pwait2(set, &event, 1, &(struct timespec){0, 1000000}, NULL));
    adder = start(add, NULL);
    printf("eventfd_read %d %d\n", eventfd_read(counter, &value), (int)value);
    pthread_join(adder, NULL);
    close(set);
    close(counter);
}

/* ---- Sleeps without time ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int is_set;

static int look(void)
{
    pthread_mutex_lock(&lock);
    int result = is_set;
    pthread_mutex_unlock(&lock);
    return result;
}

static void *set(void *argument)
{
    pthread_mutex_lock(&lock);
    is_set++;
    pthread_mutex_unlock(&lock);
    return argument;
}

static void *wait_for_flag(void *argument)
{
    struct timespec none = {0, 0};
    pthread_t setter = start(set, NULL);
    while (look() < 1)
        nanosleep(&none, NULL);
    pthread_join(setter, NULL);
    setter = start(set, NULL);
    while (look() < 2)
        usleep(0);
    pthread_join(setter, NULL);
    setter = start(set, NULL);
    while (look() < 3)
        sleep(0);
    pthread_join(setter, NULL);
    setter = start(set, NULL);
    while (look() < 4)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &none, NULL);
    pthread_join(setter, NULL);
    puts("the flag was seen");
    return argument;
}

static void *all(void *argument)
{
    send_parts();
    receive_all();
    receive_datagrams();
    counters();
    wait_for_flag(NULL);
    return argument;
}

int main(void)
{
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (char)(i * 31 % 101);
    setvbuf(stdout, NULL, _IOLBF, 0);
    all(NULL);
    is_set = 0;
    pthread_join(start(all, NULL), NULL);
    return 0;
}
