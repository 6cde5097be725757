/* Writing where nobody reads: SIGPIPE is the writing thread's. */
#include "program.h"

#include <wchar.h>

static volatile sig_atomic_t handled;

static void count(int number)
{
    handled += number == SIGPIPE;
}

static int closed_pipe(void)
{
    int ends[2];
    if (pipe(ends))
        abort();
    close(ends[0]);
    return ends[1];
}

static int closed_socket(int type)
{
    int ends[2];
    if (socketpair(AF_UNIX, type, 0, ends))
        abort();
    close(ends[0]);
    return ends[1];
}

static void report(const char *name, long result)
{
    int err = errno;
    printf("%s: %ld %s, handled %d\n", name, result, result < 0 ? strerror(err) : "", (int)handled);
    handled = 0;
}

static void write_all_ways(int socket, int pipe)
{
    struct iovec parts[] = {{"a", 1}, {"b", 1}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    struct mmsghdr messages[] = {{.msg_hdr = message}};
    report("write to a pipe", write(pipe, "x", 1));
    report("writev to a pipe", writev(pipe, parts, 2));
    report("dprintf", dprintf(pipe, "%d", 1));
    report("write", write(socket, "x", 1));
    report("writev", writev(socket, parts, 2));
    report("send", send(socket, "x", 1, 0));
    report("without a signal", send(socket, "x", 1, MSG_NOSIGNAL));
    report("without waiting", send(socket, "x", 1, MSG_DONTWAIT));
    report("sendto", sendto(socket, "x", 1, 0, NULL, 0));
    report("sendmsg", sendmsg(socket, &message, 0));
    report("sendmmsg", sendmmsg(socket, messages, 1, 0));
    int packets = closed_socket(SOCK_SEQPACKET);
    report("a packet", send(packets, "x", 1, 0));
    close(packets);
}

static void write_streams(void)
{
    FILE *file = fdopen(closed_pipe(), "w");
    fputs("text", file);
    report("stream", fflush(file));
    fclose(file);
    file = fdopen(closed_pipe(), "w");
    fwprintf(file, L"wide");
    report("wide stream", fflush(file));
    fclose(file);
}

static void block(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(how, &set, NULL);
}

static int is_pending(void)
{
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, SIGPIPE);
}

/* Others do not block it. */
static void write_blocked(int fd)
{
    const struct timespec none = {0};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    block(SIG_BLOCK);
    report("blocked", write(fd, "x", 1));
    printf("pending %d", is_pending());
    printf(", taken %d", sigtimedwait(&set, NULL, &none) == SIGPIPE);
    printf(", pending %d\n", is_pending());
    report("blocked", write(fd, "x", 1));
    block(SIG_UNBLOCK);
    report("unblocked", 0);
}

/* In a process of its own. */
static void end_process(int fd)
{
    int status;
    pid_t child = fork();
    if (!child) {
        signal(SIGPIPE, SIG_DFL);
        _exit(write(fd, "x", 1) < 0);
    }
    waitpid(child, &status, 0);
    printf("ended by %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void *all(void *unused)
{
    int socket = closed_socket(SOCK_STREAM), pipe = closed_pipe();
    signal(SIGPIPE, count);
    write_all_ways(socket, pipe);
    write_streams();
    write_blocked(socket);
    write_blocked(pipe);
    signal(SIGPIPE, SIG_IGN);
    report("ignored", write(socket, "x", 1));
    report("ignored", write(pipe, "x", 1));
    end_process(socket);
    end_process(pipe);
    close(socket);
    close(pipe);
    return unused;
}

static void *end_this_process(void *fd)
{
    write(*(int *)fd, "x", 1);
    printf("not ended\n");
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    setvbuf(stdout, NULL, _IOLBF, 0);
    all(NULL);
    for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, all, NULL);
        pthread_join(threads[i], NULL);
    }
    signal(SIGPIPE, SIG_DFL);
    int fd = closed_socket(SOCK_STREAM);
    pthread_create(&threads[0], NULL, end_this_process, &fd);
    pthread_join(threads[0], NULL);
    return 0;
}
