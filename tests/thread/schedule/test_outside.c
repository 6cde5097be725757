/* Functions for user threads that are called where none runs. */
#include "tests/thread/fixture.h"

#include <fcntl.h>
#include <gossamer/net.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/wait.h>

static int pair[2];

static void dial_number(void)
{
    MUST(gs_dial("127.0.0.1:1", GS_NEVER) < 0);
}

static void dial_name(void)
{
    MUST(gs_dial("localhost:1", GS_NEVER) < 0);
}

static void resolve(void)
{
    struct addrinfo *found;
    MUST(gs_resolve("localhost", "80", NULL, GS_NEVER, &found) < 0);
}

static void do_nothing(void *unused)
{
    (void)unused;
}

static void run_blocking(void)
{
    MUST(gs_run_blocking(do_nothing, NULL, GS_NEVER) < 0);
}

static void receive(void)
{
    char byte;
    MUST(gs_recv(pair[0], &byte, 1, 0, GS_NEVER) < 0);
}

static void sleep_a_while(void)
{
    MUST(gs_thread_sleep(after(GS_MILLISECOND)) < 0);
}

static void yield(void)
{
    gs_thread_yield();
}

static void wait_at_semaphore(void)
{
    struct gs_semaphore semaphore = {.count = 0};
    MUST(gs_semaphore_wait(&semaphore, GS_NEVER) < 0);
}

static void *do_nothing_in_thread(void *unused)
{
    return unused;
}

static void must_say(void (*call)(void))
{
    static const char line[] =
        "gossamer: a function for user threads was called outside of gs_threads_run\n";
    char text[256] = "";
    int fds[2], status = 0;
    size_t n = 0;
    CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
    pid_t child = fork();
    if (!child) {
        dup2(fds[1], STDERR_FILENO);
        call();
        _exit(0);
    }
    close(fds[1]);
    for (ssize_t got; (got = read(fds[0], text + n, sizeof text - 1 - n)) > 0; n += (size_t)got)
        ;
    close(fds[0]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_STR(text, line);
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGABRT);
}

static void must_say_in_each(void)
{
    must_say(dial_number);
    must_say(dial_name);
    must_say(resolve);
    must_say(run_blocking);
    must_say(receive);
    must_say(sleep_a_while);
    must_say(yield);
    must_say(wait_at_semaphore);
}

TEST(call_outside_of_a_run_says_so_and_aborts)
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    must_say_in_each();
    run_both(do_nothing_in_thread);
    must_say_in_each();
}
