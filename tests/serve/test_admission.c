/* Admission of connections by kernel threads and processes. */
#include "serve/accept/admission.h"

#include "tests/test.h"

#include <gossamer/sys.h>
#include <sys/eventfd.h>

static struct serve_options options;
static struct serve_address addresses[2];
static struct serve_server server;
static struct serve_admission *admission;
static struct serve_listener_set *set;
static int listeners[2], clients[8];
static unsigned client_count;

static void start(uint64_t slots)
{
    const char *problem;
    options = (struct serve_options){
        .max_connections = slots, .backlog = 16, .drain_timeout_ns = GS_SECOND};
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(serve_address_parse("127.0.0.1:0", &addresses[i], &problem), 0);
        listeners[i] = serve_listen(&addresses[i], &options, SERVE_ALONE);
        CHECK(listeners[i] >= 0);
    }
    server = (struct serve_server){
        .options = &options,
        .addresses = addresses,
        .address_count = 2,
        .workers = 1,
        .set_count = 1,
        .listeners = listeners,
        .log_fd = -1,
    };
    client_count = 0;
    const struct serve_admission_options admits = {.max = slots, .places = slots};
    CHECK_EQ(serve_admission_new(&server, &admits, &admission), 0);
    set = &admission->sets[0];
}

static void stop(void)
{
    serve_admission_free(admission);
    close(listeners[0]);
    close(listeners[1]);
    for (unsigned i = 0; i < client_count; i++)
        close(clients[i]);
}

/* Returns 0 or -errno. When it returns 0, the connection is in the accept queue. */
static int connect_to(unsigned address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    clients[client_count++] = fd;
    struct serve_address *to = &addresses[address];
    return connect(fd, (struct sockaddr *)&to->storage, to->length) ? -errno : 0;
}

static int take(void)
{
    struct serve_accepted accepted;
    int err = serve_listener_set_accept(set, NULL, &accepted);
    if (!err)
        close(accepted.fd);
    return err;
}

TEST(connection_at_either_address_is_accepted)
{
    start(4);
    CHECK_EQ(connect_to(1), 0);
    CHECK_EQ(take(), 0);
    CHECK_EQ(connect_to(0), 0);
    CHECK_EQ(take(), 0);
    CHECK_EQ(admission->used, 2);
    stop();
}

TEST(the_callers_own_descriptor_ends_the_wait)
{
    start(1);
    set->extra_fd = eventfd(1, EFD_CLOEXEC);
    CHECK_EQ(take(), -EINTR);
    close(set->extra_fd);
    stop();
}

static void *release_soon(void *unused)
{
    usleep(10000);
    serve_admission_release(admission);
    return unused;
}

TEST(without_a_free_slot_none_is_accepted_until_one_is_released)
{
    pthread_t thread;
    start(1);
    CHECK_EQ(connect_to(0), 0);
    CHECK_EQ(connect_to(0), 0);
    CHECK_EQ(take(), 0);
    CHECK_EQ(pthread_create(&thread, NULL, release_soon, NULL), 0);
    CHECK_EQ(take(), 0);
    CHECK_EQ(admission->used, 1);
    pthread_join(thread, NULL);
    stop();
}

TEST(pending_connections_are_accepted_when_the_server_drains_and_no_others)
{
    start(8);
    CHECK(!serve_admission_is_draining(admission));
    CHECK_EQ(connect_to(0), 0);
    CHECK_EQ(connect_to(1), 0);
    serve_admission_drain(admission);
    CHECK(serve_admission_is_draining(admission));
    CHECK_EQ(take(), 0);
    CHECK_EQ(take(), 0);
    CHECK_EQ(take(), -ECANCELED);
    CHECK_EQ(connect_to(0), -ECONNREFUSED);
    CHECK_EQ(connect_to(1), -ECONNREFUSED);
    CHECK_EQ(take(), -ECANCELED);
    CHECK_EQ(admission->used, 2);
    serve_admission_release(admission);
    serve_admission_release(admission);
    serve_admission_wait_empty(admission);
    stop();
}

TEST(without_a_free_slot_the_listeners_of_a_draining_server_are_shut_down)
{
    start(1);
    CHECK_EQ(connect_to(0), 0);
    CHECK_EQ(connect_to(0), 0);
    CHECK_EQ(take(), 0);
    serve_admission_drain(admission);
    CHECK_EQ(take(), -ECANCELED);
    CHECK_EQ(connect_to(0), -ECONNREFUSED);
    stop();
}

/* Start a process that has its turn to wait for connections. */
static pid_t start_waiting(void)
{
    int fds[2];
    char byte = 0;
    CHECK_EQ(pipe(fds), 0);
    pid_t pid = fork();
    if (!pid) {
        pthread_mutex_lock(&set->turn);
        (void)!write(fds[1], &byte, 1);
        pause();
        _exit(0);
    }
    CHECK_EQ(read(fds[0], &byte, 1), 1);
    close(fds[0]);
    close(fds[1]);
    return pid;
}

TEST(turn_of_a_process_that_dies_passes_to_the_next)
{
    start(1);
    pid_t pid = start_waiting();
    CHECK_EQ(connect_to(0), 0);
    CHECK_EQ(kill(pid, SIGKILL), 0);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    CHECK_EQ(take(), 0);
    serve_admission_release(admission);
    CHECK_EQ(connect_to(0), 0);
    CHECK_EQ(take(), 0);
    stop();
}
