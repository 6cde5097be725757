/* Messages to a service manager. */
#include "serve/operations/notify.h"
#include "serve/operations/progress.h"

#include "tests/test.h"

#include <gossamer/clock.h>

static struct serve_notify notify;

/* Longer than an address of a Unix socket. */
#define TEN "/123456789"
#define LONG TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

/* Returns a socket that receives what is sent to this address: a path, or "@" and a name. */
static int manager_at(const char *word)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    size_t n = strlen(word);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    memcpy(name.sun_path, word, n);
    if (word[0] == '@')
        name.sun_path[0] = '\0';
    CHECK_EQ(
        bind(fd, (struct sockaddr *)&name, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)),
        0);
    setenv("NOTIFY_SOCKET", word, 1);
    return fd;
}

static const char *received(int fd)
{
    static char text[128];
    ssize_t n = recv(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static const char *own_name(void)
{
    static char name[64];
    snprintf(name, sizeof name, "@gossamer-test-notify-%d", getpid());
    return name;
}

TEST(messages_reach_an_abstract_address)
{
    int fd = manager_at(own_name());
    serve_notify_open(&notify, -1);
    CHECK(!getenv("NOTIFY_SOCKET"));
    serve_notify_send(&notify, "READY=1");
    CHECK_STR(received(fd), "READY=1");
    CHECK_EQ(notify.watchdog_ns, 0);
    serve_notify_close(&notify);
    close(fd);
}

TEST(messages_reach_a_path)
{
    char folder[] = "/tmp/gossamer-notify-XXXXXX", path[64];
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/notify", folder);
    int fd = manager_at(path);
    serve_notify_open(&notify, -1);
    serve_notify_reloading(&notify);
    const char *text = received(fd);
    CHECK(!strncmp(text, "RELOADING=1\nMONOTONIC_USEC=", strlen("RELOADING=1\nMONOTONIC_USEC=")));
    CHECK(strtoull(strrchr(text, '=') + 1, NULL, 10) > 0);
    serve_notify_close(&notify);
    close(fd);
    unlink(path);
    rmdir(folder);
}

TEST(a_manager_that_is_gone_disturbs_nothing)
{
    int fd = manager_at(own_name());
    serve_notify_open(&notify, -1);
    for (int i = 0; i < 4; i++)
        serve_notify_send(&notify, "STATUS=x");
    close(fd);
    serve_notify_send(&notify, "STATUS=x");
    serve_notify_close(&notify);
    serve_notify_send(&notify, "STATUS=x");
}

TEST(addresses_that_are_none_are_reported_and_ignored)
{
    static const char *const words[] = {"x", "@", "/", "vsock:2:1", "/nonesuch/socket", LONG};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        setenv("NOTIFY_SOCKET", words[i], 1);
        setenv("WATCHDOG_USEC", "1000", 1);
        serve_notify_open(&notify, -1);
        CHECK_EQ(notify.fd, -1);
        CHECK_EQ(notify.watchdog_ns, 0);
        CHECK(!getenv("WATCHDOG_USEC"));
    }
}

TEST(the_time_of_the_watchdog_is_for_one_process)
{
    static const struct {
        const char *us, *pid;
        uint64_t ns;
    } cases[] = {
        {"30000000", NULL, 30 * GS_SECOND},
        {"30000000", "1", 0},
        {"", NULL, 0},
        {"x", NULL, 0},
        {"18446744073709551615", NULL, 0},
        {"-5", NULL, 0},
        {"1", "x", 0},
        {"99999999999999999999999", NULL, 0},
    };
    int fd = manager_at(own_name());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("NOTIFY_SOCKET", own_name(), 1);
        setenv("WATCHDOG_USEC", cases[i].us, 1);
        if (cases[i].pid)
            setenv("WATCHDOG_PID", cases[i].pid, 1);
        serve_notify_open(&notify, -1);
        CHECK_EQ(notify.watchdog_ns, cases[i].ns);
        CHECK(!getenv("WATCHDOG_PID"));
        serve_notify_close(&notify);
    }
    close(fd);
}

TEST(a_worker_that_counts_nothing_while_a_client_waits_is_stuck)
{
    struct serve_options options = {.backlog = 4};
    struct serve_address addresses[1];
    static struct serve_counts counts[2];
    const char *problem;
    int listeners[2];
    CHECK_EQ(serve_address_parse("127.0.0.1:0", addresses, &problem), 0);
    listeners[0] = serve_listen(addresses, &options, SERVE_ALONE);
    struct serve_address other;
    CHECK_EQ(serve_address_parse("127.0.0.1:0", &other, &problem), 0);
    listeners[1] = serve_listen(&other, &options, SERVE_ALONE);
    CHECK(listeners[0] >= 0 && listeners[1] >= 0);
    struct serve_server server = {.options = &options,
                                  .addresses = addresses,
                                  .address_count = 1,
                                  .workers = 2,
                                  .set_count = 2,
                                  .listeners = listeners,
                                  .counts = counts};
    uint64_t seen[2] = {0};
    struct serve_progress progress = {.server = &server, .seen = seen};
    CHECK(serve_progress_look(&progress));
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(client, (struct sockaddr *)&addresses[0].storage, addresses[0].length), 0);
    counts[1].http.requests++;
    CHECK(!serve_progress_look(&progress));
    counts[0].http.requests++;
    CHECK(serve_progress_look(&progress));
    CHECK(!serve_progress_look(&progress));
    addresses[0].inherited = 1; /* now they share it */
    counts[1].http.connections++;
    CHECK(serve_progress_look(&progress));
    close(client);
    close(listeners[0]);
    close(listeners[1]);
}
