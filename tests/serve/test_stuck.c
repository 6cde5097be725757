/* The web server while all its workers are stuck: one in a computation, the other one in a blocking
 * system call. New connections are answered by workers that the runtime adds; those whose threads
 * share the stacks of a stuck worker are answered when it goes on. Nothing depends on time: both
 * workers stay stuck until every new connection has been answered. */
#include "serve/operations/server.h"
#include "serve/serve.h"

#include "tests/test.h"

#include <gossamer/sys.h>
#include <gossamer/thread.h>

#define EARLY 60 /* connections that exist before the workers are stuck */
#define LATE 20  /* connections that arrive while the workers are stuck */
#define TIMEOUT_MS 60000
#define GET "GET /page HTTP/1.1\r\nHost: x\r\n\r\n"
#define PAGE "<p>page\n"

static char folder[40], page[60];
static int from_server[2], to_server[2]; /* pipes */
static int blocking[2];                  /* the pipe from which a worker of the server reads */

/* ---- In the server's process ---- */

static atomic_bool is_finished;
static atomic_uint stuck;

static void *compute(void *unused)
{
    stuck++;
    while (!is_finished)
        ;
    return unused;
}

static void *block(void *unused)
{
    char byte;
    stuck++;
    (void)!gs_sys_read(blocking[0], &byte, 1);
    return unused;
}

/* Keep both workers stuck from the test's first byte to its second. */
static void *block_workers(void *unused)
{
    const struct gs_thread_attributes first = {.name = "computing", .worker = 1},
                                      second = {.name = "blocking", .worker = 2};
    char byte;
    if (read(to_server[0], &byte, 1) != 1 || gs_thread_spawn(&first, compute, NULL, NULL) ||
        gs_thread_spawn(&second, block, NULL, NULL))
        _exit(98);
    while (stuck < 2)
        usleep(1000);
    if (write(from_server[1], "s", 1) != 1 || read(to_server[0], &byte, 1) != 1)
        _exit(97);
    is_finished = true;
    (void)!write(blocking[1], "x", 1);
    return unused;
}

/* Called instead of the server's function while its threads run. */
int __wrap_serve_wait(struct serve_server *of);
int __real_serve_wait(struct serve_server *of);

int __wrap_serve_wait(struct serve_server *of)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, block_workers, NULL))
        _exit(99);
    int err = __real_serve_wait(of);
    pthread_join(thread, NULL);
    return err;
}

static _Noreturn void serve(void)
{
    char *arguments[] = {"serve", "--arch",   "user",        "--workers",
                         "2",     "--listen", "127.0.0.1:0", folder};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(from_server[1], STDOUT_FILENO) < 0)
        _exit(99);
    _exit(gs_serve_main(8, arguments));
}

/* ---- The test ---- */

static pid_t server;
static struct sockaddr_in address;

static char next_byte(void)
{
    char byte = 0;
    struct pollfd event = {.fd = from_server[0], .events = POLLIN};
    CHECK(poll(&event, 1, TIMEOUT_MS) == 1);
    CHECK_EQ(read(from_server[0], &byte, 1), 1);
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
    CHECK(!pipe(from_server) && !pipe(to_server) && !pipe(blocking));
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

static void take_completion(int fd)
{
    char answer[1024];
    size_t n = 0;
    do {
        struct pollfd event = {.fd = fd, .events = POLLIN};
        CHECK(poll(&event, 1, TIMEOUT_MS) == 1);
        ssize_t got = recv(fd, answer + n, sizeof answer - 1 - n, 0);
        CHECK(got > 0);
        n += (size_t)got;
        answer[n] = '\0';
    } while (!strstr(answer, "\r\n\r\n" PAGE));
    CHECK(strncmp(answer, "HTTP/1.1 200 ", 13) == 0);
}

TEST(new_connections_are_answered_while_every_worker_is_stuck_and_others_afterwards)
{
    int early[EARLY], late[LATE], status;
    start();
    for (int i = 0; i < EARLY; i++)
        early[i] = get_connected();
    for (int i = 0; i < EARLY; i++)
        send_request(early[i]);
    for (int i = 0; i < EARLY; i++)
        take_completion(early[i]);
    CHECK_EQ(write(to_server[1], "k", 1), 1);
    CHECK_EQ(next_byte(), 's');
    for (int i = 0; i < EARLY; i++)
        send_request(early[i]);
    for (int i = 0; i < LATE; i++)
        send_request(late[i] = get_connected());
    for (int i = 0; i < LATE; i++)
        take_completion(late[i]);
    CHECK_EQ(write(to_server[1], "g", 1), 1);
    for (int i = 0; i < EARLY; i++)
        take_completion(early[i]);
    for (int i = 0; i < EARLY; i++)
        close(early[i]);
    for (int i = 0; i < LATE; i++)
        close(late[i]);
    CHECK_EQ(kill(server, SIGTERM), 0);
    CHECK_EQ(waitpid(server, &status, 0), server);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
    unlink(page);
    CHECK_EQ(rmdir(folder), 0);
}
