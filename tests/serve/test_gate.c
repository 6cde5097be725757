/* Where connections come in, for those who wait for them by blocking. */
#include "serve/gate.h"

#include "tests/test.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

static struct serve_options options;
static struct serve_address addresses[2];
static struct serve_server server;
static struct serve_gate *gate;
static struct serve_door *door;
static int listeners[2], clients[8];
static unsigned client_count;

static void start(uint64_t places)
{
    const char *problem;
    options = (struct serve_options){
        .connections_most = places, .backlog = 16, .drain_timeout_ns = GS_SECOND};
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
        .door_count = 1,
        .listeners = listeners,
        .log_fd = -1,
    };
    client_count = 0;
    CHECK_EQ(serve_gate_new(&server, places, &gate), 0);
    door = &gate->doors[0];
}

static void stop(void)
{
    serve_gate_free(gate);
    close(listeners[0]);
    close(listeners[1]);
    for (unsigned i = 0; i < client_count; i++)
        close(clients[i]);
}

/* Returns 0 or -errno; once it is 0, the connection is in the accept queue. */
static int connect_to(unsigned address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    clients[client_count++] = fd;
    struct serve_address *to = &addresses[address];
    return connect(fd, (struct sockaddr *)&to->storage, to->length) ? -errno : 0;
}

static int take(void)
{
    struct serve_arrival arrival;
    int err = serve_door_accept(door, &arrival);
    if (!err)
        close(arrival.fd);
    return err;
}

TEST(who_connects_at_either_address_comes_in)
{
    start(4);
    CHECK_EQ(connect_to(1), 0);
    CHECK_EQ(take(), 0);
    CHECK_EQ(connect_to(0), 0);
    CHECK_EQ(take(), 0);
    CHECK_EQ(gate->inside, 2);
    stop();
}

TEST(the_callers_own_descriptor_ends_the_wait)
{
    start(1);
    door->other_fd = eventfd(1, EFD_CLOEXEC);
    CHECK_EQ(take(), -EINTR);
    close(door->other_fd);
    stop();
}

static void *leave_soon(void *unused)
{
    usleep(10000);
    serve_gate_leave(gate);
    return unused;
}

TEST(without_a_place_nobody_is_accepted_until_somebody_leaves)
{
    pthread_t thread;
    start(1);
    CHECK_EQ(connect_to(0), 0);
    CHECK_EQ(connect_to(0), 0);
    CHECK_EQ(take(), 0);
    CHECK_EQ(pthread_create(&thread, NULL, leave_soon, NULL), 0);
    CHECK_EQ(take(), 0);
    CHECK_EQ(gate->inside, 1);
    pthread_join(thread, NULL);
    stop();
}

TEST(who_has_connected_is_accepted_when_the_server_goes_down_and_nobody_else)
{
    start(8);
    CHECK(!serve_gate_is_draining(gate));
    CHECK_EQ(connect_to(0), 0);
    CHECK_EQ(connect_to(1), 0);
    serve_gate_drain(gate);
    CHECK(serve_gate_is_draining(gate));
    CHECK_EQ(take(), 0);
    CHECK_EQ(take(), 0);
    CHECK_EQ(take(), -ECANCELED);
    CHECK_EQ(connect_to(0), -ECONNREFUSED);
    CHECK_EQ(connect_to(1), -ECONNREFUSED);
    CHECK_EQ(take(), -ECANCELED);
    CHECK_EQ(gate->inside, 2);
    serve_gate_leave(gate);
    serve_gate_leave(gate);
    serve_gate_wait_empty(gate);
    stop();
}

TEST(without_a_place_the_door_of_a_server_that_goes_down_is_closed)
{
    start(1);
    CHECK_EQ(connect_to(0), 0);
    CHECK_EQ(connect_to(0), 0);
    CHECK_EQ(take(), 0);
    serve_gate_drain(gate);
    CHECK_EQ(take(), -ECANCELED);
    CHECK_EQ(connect_to(0), -ECONNREFUSED);
    stop();
}

/* A process that is waiting at the door. */
static pid_t begin_waiting(void)
{
    int fds[2];
    char byte = 0;
    CHECK_EQ(pipe(fds), 0);
    pid_t pid = fork();
    if (!pid) {
        pthread_mutex_lock(&door->turn);
        (void)!write(fds[1], &byte, 1);
        pause();
        _exit(0);
    }
    CHECK_EQ(read(fds[0], &byte, 1), 1);
    close(fds[0]);
    close(fds[1]);
    return pid;
}

TEST(the_turn_of_a_process_that_dies_passes_to_the_next)
{
    start(1);
    pid_t pid = begin_waiting();
    CHECK_EQ(connect_to(0), 0);
    CHECK_EQ(kill(pid, SIGKILL), 0);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    CHECK_EQ(take(), 0);
    serve_gate_leave(gate);
    CHECK_EQ(connect_to(0), 0);
    CHECK_EQ(take(), 0);
    stop();
}
