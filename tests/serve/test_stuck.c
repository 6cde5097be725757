/* The web server with all of its workers stuck: one in a computation, the other in a system call that blocks. Nothing here depends
 * on time: both stay so until every connection has been answered. */
#include "serve/serve.h"
#include "serve/server.h"

#include "tests/test.h"

#include <gossamer/sys.h>
#include <gossamer/thread.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEPT 60  /* connections that are there before */
#define FRESH 20 /* and that come while the workers are stuck */
#define PATIENCE_MS 60000
#define GET "GET /page HTTP/1.1\r\nHost: x\r\n\r\n"
#define PAGE "<p>page\n"

static char folder[40], page[60];
static int say[2], ask[2],
    hold[2]; /* pipes: from the server, to it, and the one that its worker blocks at */

/* ---- In the server's process ---- */

static atomic_bool is_over;
static atomic_uint stuck;

static void *compute(void *unused)
{
    stuck++;
    while (!is_over)
        ;
    return unused;
}

static void *block(void *unused)
{
    char byte;
    stuck++;
    (void)!gs_sys_read(hold[0], &byte, 1);
    return unused;
}

/* On the word of the test, keep both workers; on the next, let them go. */
static void *interfere(void *unused)
{
    const struct gs_thread_attributes first = {.name = "computing", .worker = 1},
                                      second = {.name = "blocking", .worker = 2};
    char byte;
    if (read(ask[0], &byte, 1) != 1 || gs_thread_spawn(&first, compute, NULL, NULL) ||
        gs_thread_spawn(&second, block, NULL, NULL))
        _exit(98);
    while (stuck < 2)
        usleep(1000);
    if (write(say[1], "s", 1) != 1 || read(ask[0], &byte, 1) != 1)
        _exit(97);
    is_over = true;
    (void)!write(hold[1], "x", 1);
    return unused;
}

/* In place of the server's own, while its threads run. */
int __wrap_serve_wait(struct serve_server *of);
int __real_serve_wait(struct serve_server *of);

int __wrap_serve_wait(struct serve_server *of)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, interfere, NULL))
        _exit(99);
    int err = __real_serve_wait(of);
    pthread_join(thread, NULL);
    return err;
}

static _Noreturn void serve(void)
{
    char *words[] = {"serve", "--arch",   "user",        "--workers",
                     "2",     "--listen", "127.0.0.1:0", folder};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(say[1], STDOUT_FILENO) < 0)
        _exit(99);
    _exit(gs_serve_main(8, words));
}

/* ---- The test ---- */

static pid_t server;
static struct sockaddr_in address;

static char next_byte(void)
{
    char byte = 0;
    struct pollfd event = {.fd = say[0], .events = POLLIN};
    CHECK(poll(&event, 1, PATIENCE_MS) == 1);
    CHECK_EQ(read(say[0], &byte, 1), 1);
    return byte;
}

static void start(void)
{
    char line[200] = "";
    strcpy(folder, "/tmp/gossamer-stuck-XXXXXX");
    CHECK(mkdtemp(folder));
    CHECK_EQ(chmod(folder, 0755), 0);
    snprintf(page, sizeof page, "%s/page", folder);
    FILE *file = fopen(page, "w");
    CHECK(file && fputs(PAGE, file) >= 0 && !fclose(file));
    CHECK(!pipe(say) && !pipe(ask) && !pipe(hold));
    fflush(NULL);
    server = fork();
    CHECK(server >= 0);
    if (!server)
        serve();
    for (size_t n = 0; n < sizeof line - 1 && (line[n] = next_byte()) != '\n'; n++)
        ;
    const char *port = strstr(line, "127.0.0.1:");
    CHECK(port);
    address = (struct sockaddr_in){.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)atoi(port + 10)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int get_connected(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void send_request(int fd)
{
    CHECK_EQ(send(fd, GET, strlen(GET), MSG_NOSIGNAL), (ssize_t)strlen(GET));
}

static void take_answer(int fd)
{
    char answer[1024];
    size_t n = 0;
    do {
        struct pollfd event = {.fd = fd, .events = POLLIN};
        CHECK(poll(&event, 1, PATIENCE_MS) == 1);
        ssize_t got = recv(fd, answer + n, sizeof answer - 1 - n, 0);
        CHECK(got > 0);
        n += (size_t)got;
        answer[n] = '\0';
    } while (!strstr(answer, "\r\n\r\n" PAGE));
    CHECK(strncmp(answer, "HTTP/1.1 200 ", 13) == 0);
}

TEST(all_connections_are_answered_while_every_worker_is_stuck)
{
    int kept[KEPT], fresh[FRESH], status;
    start();
    for (int i = 0; i < KEPT; i++)
        kept[i] = get_connected();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < KEPT; i++)
            send_request(kept[i]);
        for (int i = 0; i < KEPT; i++)
            take_answer(kept[i]);
        if (round)
            continue;
        CHECK_EQ(write(ask[1], "k", 1), 1);
        CHECK_EQ(next_byte(), 's');
    }
    for (int i = 0; i < FRESH; i++)
        send_request(fresh[i] = get_connected());
    for (int i = 0; i < FRESH; i++)
        take_answer(fresh[i]);
    CHECK_EQ(write(ask[1], "g", 1), 1);
    for (int i = 0; i < KEPT; i++)
        send_request(kept[i]);
    for (int i = 0; i < KEPT; i++)
        take_answer(kept[i]);
    for (int i = 0; i < KEPT; i++)
        close(kept[i]);
    for (int i = 0; i < FRESH; i++)
        close(fresh[i]);
    CHECK_EQ(kill(server, SIGTERM), 0);
    CHECK_EQ(waitpid(server, &status, 0), server);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
    unlink(page);
    CHECK_EQ(rmdir(folder), 0);
}
