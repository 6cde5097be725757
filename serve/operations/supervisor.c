#include "serve/operations/supervisor.h"

#include "serve/accept/inherited.h"
#include "serve/log/error_log.h"
#include "serve/operations/supervisor_state.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Between two starts after crashes; the longer time ends the doubling when no crash follows. */
#define BACKOFF_MIN_NS GS_SECOND
#define BACKOFF_MAX_NS (30 * GS_SECOND)

#define ARGUMENTS_MAX (4 << 20)

/* ---- Generations ---- */

static const char *seconds(uint64_t ns)
{
    static char text[32];
    snprintf(text, sizeof text, "%g", (double)ns / (double)GS_SECOND);
    return text;
}

/* What the operator reads when one has failed. */
static const char *rest_of_report(const struct serve_supervisor *supervisor)
{
    static char text[64];
    if (supervisor->serving == SERVE_NO_PLACE)
        return "";
    snprintf(text, sizeof text, "; generation %llu goes on serving",
             (unsigned long long)supervisor->places[supervisor->serving].number);
    return text;
}

static unsigned find_free(const struct serve_supervisor *supervisor)
{
    for (unsigned i = 0; i < SERVE_GENERATIONS_MAX; i++)
        if (!supervisor->places[i].number)
            return i;
    return SERVE_NO_PLACE;
}

static bool has_any(const struct serve_supervisor *supervisor)
{
    for (unsigned i = 0; i < SERVE_GENERATIONS_MAX; i++)
        if (supervisor->places[i].number)
            return true;
    return false;
}

static void signal_all(const struct serve_supervisor *supervisor, int number)
{
    for (unsigned i = 0; i < SERVE_GENERATIONS_MAX; i++)
        if (supervisor->places[i].number)
            kill(supervisor->places[i].pid, number);
}

/* One that starts opens the log anyway, and does not wait for the signal yet. */
static void reopen_logs(struct serve_supervisor *supervisor)
{
    for (unsigned i = 0; i < SERVE_GENERATIONS_MAX; i++)
        if (supervisor->places[i].number && i != supervisor->starting)
            kill(supervisor->places[i].pid, SIGUSR1);
    supervisor->wants_reopen = supervisor->starting != SERVE_NO_PLACE;
}

static void restart_later(struct serve_supervisor *supervisor)
{
    supervisor->restart_ns = gs_clock_after(gs_clock_now(), supervisor->backoff_ns);
    serve_warn("another generation is started in %s s", seconds(supervisor->backoff_ns));
    supervisor->backoff_ns =
        2 * supervisor->backoff_ns < BACKOFF_MAX_NS ? 2 * supervisor->backoff_ns : BACKOFF_MAX_NS;
}

static int exit_status(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* The first generation of a server that does not start has said why. */
static void on_start_failed(struct serve_supervisor *supervisor, const struct serve_supervised *one,
                            int status)
{
    unsigned long long number = one->number;
    supervisor->status = exit_status(status);
    if (one->is_late)
        serve_error("generation %llu was not ready within %s s%s", number,
                    seconds(supervisor->start_timeout_ns), rest_of_report(supervisor));
    else if (supervisor->has_served && WIFSIGNALED(status))
        serve_error("generation %llu was killed by signal %d before it was ready%s", number,
                    WTERMSIG(status), rest_of_report(supervisor));
    else if (supervisor->has_served)
        serve_error("generation %llu ended with status %d before it was ready%s", number,
                    WEXITSTATUS(status), rest_of_report(supervisor));
    if (!supervisor->has_served)
        supervisor->is_ending = true;
    else if (supervisor->serving != SERVE_NO_PLACE)
        serve_notify_send(&supervisor->notify, "READY=1");
    else
        restart_later(supervisor);
}

static void report_end(const struct serve_supervised *one, int status)
{
    unsigned long long number = one->number;
    if (WIFSIGNALED(status))
        serve_error("generation %llu was killed by signal %d", number, WTERMSIG(status));
    else
        serve_error("generation %llu ended with status %d", number, WEXITSTATUS(status));
}

static void on_crash(struct serve_supervisor *supervisor, const struct serve_supervised *one,
                     int status)
{
    supervisor->serving = SERVE_NO_PLACE;
    report_end(one, status);
    if (gs_clock_now() - one->since_ns > BACKOFF_MAX_NS)
        supervisor->backoff_ns = BACKOFF_MIN_NS;
    if (supervisor->starting == SERVE_NO_PLACE)
        restart_later(supervisor);
}

static void on_ended(struct serve_supervisor *supervisor, unsigned place, int status)
{
    struct serve_supervised one = supervisor->places[place];
    bool was_starting = place == supervisor->starting;
    if (was_starting)
        supervisor->starting = SERVE_NO_PLACE;
    supervisor->places[place] = (struct serve_supervised){0};
    atomic_store(&supervisor->page->places[place].is_draining, false);
    atomic_store(&supervisor->page->places[place].open, 0);
    gs_sys_close(one.control_fd);
    serve_kept_sockets_close(&one.offered);
    if (supervisor->is_ending) {
        int ended = was_starting ? 0 : exit_status(status); /* it has served nobody */
        supervisor->status = supervisor->status > ended ? supervisor->status : ended;
    } else if (was_starting) {
        on_start_failed(supervisor, &one, status);
    } else if (place == supervisor->serving) {
        on_crash(supervisor, &one, status);
    } else if (status) {
        report_end(&one, status);
    }
}

static void reap(struct serve_supervisor *supervisor)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (unsigned i = 0; i < SERVE_GENERATIONS_MAX; i++)
            if (supervisor->places[i].number && supervisor->places[i].pid == pid)
                on_ended(supervisor, i, status);
}

static void start(struct serve_supervisor *supervisor, unsigned place)
{
    supervisor->is_upgrading = supervisor->wants_upgrade;
    supervisor->wants_upgrade = supervisor->wants_reload = false;
    supervisor->restart_ns = GS_NEVER;
    if (supervisor->has_served)
        serve_notify_reloading(&supervisor->notify);
    int err = serve_supervisor_start(supervisor, place, supervisor->is_upgrading);
    if (!err) {
        supervisor->starting = place;
        return;
    }
    serve_error("can't start a generation: %s%s", strerror(-err), rest_of_report(supervisor));
    supervisor->status = 1;
    if (!supervisor->has_served)
        supervisor->is_ending = true;
    else if (supervisor->serving == SERVE_NO_PLACE)
        restart_later(supervisor);
    else
        serve_notify_send(&supervisor->notify, "READY=1");
}

/* One starts at a time. What was asked for meanwhile, however often, is done once afterwards. */
static void start_if_wanted(struct serve_supervisor *supervisor)
{
    unsigned place = find_free(supervisor);
    bool is_wanted = supervisor->wants_reload || supervisor->wants_upgrade ||
                     gs_clock_now() >= supervisor->restart_ns;
    if (is_wanted && !supervisor->is_ending && supervisor->starting == SERVE_NO_PLACE &&
        place != SERVE_NO_PLACE)
        start(supervisor, place);
}

/* ---- Messages ---- */

static void report_serving(const struct serve_supervisor *supervisor)
{
    char state[96];
    unsigned long long number = supervisor->places[supervisor->serving].number;
    snprintf(state, sizeof state, "READY=1\nSTATUS=generation %llu serves", number);
    serve_notify_send(&supervisor->notify, state);
    serve_info("generation %llu serves, process %d", number,
               (int)supervisor->places[supervisor->serving].pid);
}

static void drain(struct serve_supervisor *supervisor, unsigned place)
{
    atomic_store(&supervisor->page->places[place].is_draining, true);
    kill(supervisor->places[place].pid, SIGTERM);
}

/* The program on disk has proved that it runs. */
static void finish_upgrade(struct serve_supervisor *supervisor)
{
    supervisor->is_upgrading = false;
    int err = serve_supervisor_execute(supervisor);
    serve_error("can't execute %s: %s; the supervisor stays as it is", supervisor->arguments[0],
                strerror(-err));
}

static void on_ready(struct serve_supervisor *supervisor, unsigned place)
{
    unsigned before = supervisor->serving;
    struct serve_supervised *one = &supervisor->places[place];
    if (place != supervisor->starting)
        return;
    supervisor->starting = SERVE_NO_PLACE;
    if (supervisor->is_ending)
        return;
    serve_kept_sockets_close(&supervisor->bound);
    supervisor->bound = one->offered;
    one->offered = (struct serve_kept_sockets){0};
    one->since_ns = gs_clock_now();
    supervisor->serving = place;
    supervisor->has_served = true;
    if (before != SERVE_NO_PLACE)
        drain(supervisor, before);
    if (supervisor->wants_reopen)
        reopen_logs(supervisor);
    report_serving(supervisor);
    if (supervisor->is_upgrading)
        finish_upgrade(supervisor);
}

static void take_offer(struct serve_supervisor *supervisor, unsigned place,
                       const struct cmsghdr *header)
{
    size_t n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
        if (place != supervisor->starting)
            gs_sys_close(fd);
        else if (serve_kept_sockets_add(&supervisor->places[place].offered, fd, NULL))
            serve_error("there is no memory to keep a listener");
    }
}

static bool has_line(const char *text, const char *line)
{
    size_t n = strlen(line);
    return !strncmp(text, line, n) && (!text[n] || text[n] == '\n');
}

/* Returns whether there was one. */
static bool take_message(struct serve_supervisor *supervisor, unsigned place)
{
    char text[128];
    union {
        char bytes[CMSG_SPACE(SERVE_SENT_MAX * sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {text, sizeof text - 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t n = gs_sys_recvmsg(supervisor->places[place].control_fd, &message,
                               MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n <= 0)
        return false;
    text[n] = '\0';
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header;
         header = CMSG_NXTHDR(&message, header))
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
            take_offer(supervisor, place, header);
    if (has_line(text, "READY=1"))
        on_ready(supervisor, place);
    else if (has_line(text, "WATCHDOG=1") && place == supervisor->serving)
        serve_notify_send(&supervisor->notify, "WATCHDOG=1");
    return true;
}

/* ---- Signals ---- */

static void end(struct serve_supervisor *supervisor, int number)
{
    if (!supervisor->is_ending) {
        atomic_store(&supervisor->page->is_ending, true);
        serve_kept_sockets_close(&supervisor->bound);
        serve_kept_sockets_close(&supervisor->activated);
        serve_notify_send(&supervisor->notify, "STOPPING=1");
        supervisor->status = 0;
    }
    supervisor->is_ending = true;
    signal_all(supervisor, number);
}

static void on_signal(struct serve_supervisor *supervisor, int number)
{
    switch (number) {
    case SIGHUP:
        supervisor->wants_reload = true;
        break;
    case SIGUSR2:
        supervisor->wants_upgrade = true;
        break;
    case SIGUSR1:
        reopen_logs(supervisor);
        break;
    case SIGCHLD:
        reap(supervisor);
        break;
    default:
        end(supervisor, number);
    }
}

static int watch_signals(struct serve_supervisor *supervisor)
{
    static const int numbers[] = {SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD, SIGTERM, SIGINT, SIGQUIT};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaddset(&set, numbers[i]);
    sigprocmask(SIG_SETMASK, &set, NULL);
    supervisor->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return supervisor->signal_fd < 0 ? -errno : 0;
}

static void take_signals(struct serve_supervisor *supervisor)
{
    struct signalfd_siginfo info;
    while (gs_sys_read(supervisor->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        on_signal(supervisor, (int)info.ssi_signo);
}

/* ---- The loop ---- */

static uint64_t start_limit(const struct serve_supervisor *supervisor)
{
    if (supervisor->starting == SERVE_NO_PLACE || supervisor->places[supervisor->starting].is_late)
        return GS_NEVER;
    return gs_clock_after(supervisor->places[supervisor->starting].since_ns,
                          supervisor->start_timeout_ns);
}

static void check_start(struct serve_supervisor *supervisor)
{
    if (gs_clock_now() < start_limit(supervisor))
        return;
    struct serve_supervised *late = &supervisor->places[supervisor->starting];
    late->is_late = true;
    kill(-late->pid, SIGKILL);
}

static uint64_t time_to_wait(const struct serve_supervisor *supervisor)
{
    uint64_t now_ns = gs_clock_now(), until_ns = start_limit(supervisor);
    if (!supervisor->is_ending && supervisor->restart_ns < until_ns)
        until_ns = supervisor->restart_ns;
    return until_ns == GS_NEVER ? GS_NEVER : until_ns > now_ns ? until_ns - now_ns : 0;
}

/* A closed control socket belongs to a process that ends, which SIGCHLD reports. Only those in use
 * are listed: poll takes no more entries than RLIMIT_NOFILE allows descriptors. */
static void wait_and_act(struct serve_supervisor *supervisor)
{
    struct pollfd polls[SERVE_GENERATIONS_MAX + 1] = {
        {.fd = supervisor->signal_fd, .events = POLLIN}};
    unsigned places[SERVE_GENERATIONS_MAX], count = 0;
    for (unsigned i = 0; i < SERVE_GENERATIONS_MAX; i++)
        if (supervisor->places[i].number) {
            places[count++] = i;
            polls[count] =
                (struct pollfd){.fd = supervisor->places[i].control_fd, .events = POLLIN};
        }
    gs_sys_poll(polls, count + 1, time_to_wait(supervisor));
    for (unsigned i = 0; i < count; i++)
        while (polls[i + 1].revents & POLLIN && take_message(supervisor, places[i]))
            ;
    take_signals(supervisor);
    check_start(supervisor);
    start_if_wanted(supervisor);
}

static int run(struct serve_supervisor *supervisor)
{
    reap(supervisor);
    start_if_wanted(supervisor);
    while (!supervisor->is_ending || has_any(supervisor))
        wait_and_act(supervisor);
    return supervisor->status;
}

/* ---- Start and end ---- */

char **serve_supervisor_environment(void)
{
    return serve_supervisor_make_environment(environ, NULL, 0);
}

/* Returns what the file has, up to a limit, followed by a byte 0; or NULL. */
static char *read_file(const char *name, size_t *ret_length)
{
    FILE *in = fopen(name, "re");
    char *text = in ? malloc(ARGUMENTS_MAX + 1) : NULL;
    if (text) {
        *ret_length = fread(text, 1, ARGUMENTS_MAX, in);
        text[*ret_length] = '\0';
    }
    if (in)
        fclose(in);
    return text;
}

/* The arguments of the program, each of which ends with a byte 0. */
static char **read_arguments(void)
{
    size_t n = 0, count = 0;
    char *text = read_file("/proc/self/cmdline", &n), **arguments = NULL;
    for (size_t at = 0; text && at < n; at += strlen(text + at) + 1) {
        char **longer = realloc(arguments, (count + 2) * sizeof *arguments);
        if (!longer) {
            free(arguments);
            free(text);
            return NULL;
        }
        arguments = longer;
        arguments[count++] = text + at;
        arguments[count] = NULL;
    }
    if (!arguments)
        free(text);
    return arguments;
}

static int take_activated(struct serve_supervisor *supervisor)
{
    struct serve_inherited inherited;
    const char *problem;
    int err = serve_inherited_take(&inherited, &problem);
    if (err)
        return cli_fail(&serve_command, "%s", problem);
    for (unsigned i = 0; !err && i < inherited.count; i++) {
        const char *name = inherited.items[i].address.is_tls ? "https" : "http";
        err = serve_kept_sockets_add(&supervisor->activated, inherited.items[i].fd, name);
    }
    free(inherited.items);
    return err;
}

int serve_supervisor_map(struct serve_supervisor *supervisor)
{
    void *page = mmap(NULL, sizeof *supervisor->page, PROT_READ | PROT_WRITE, MAP_SHARED,
                      supervisor->page_fd, 0);
    if (page == MAP_FAILED)
        return -errno;
    supervisor->page = page;
    return 0;
}

/* Of a fixed size: a generation that shortened it would end the supervisor with a SIGBUS. */
static int make_page(struct serve_supervisor *supervisor)
{
    int fd = memfd_create("gossamer-generations", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    supervisor->page_fd = fd;
    if (ftruncate(fd, sizeof *supervisor->page))
        return -errno;
    int err = gs_sys_fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    return err ? err : serve_supervisor_map(supervisor);
}

static int finish(struct serve_supervisor *supervisor, int status)
{
    serve_kept_sockets_close(&supervisor->bound);
    serve_kept_sockets_close(&supervisor->activated);
    serve_notify_close(&supervisor->notify);
    if (supervisor->page)
        munmap(supervisor->page, sizeof *supervisor->page);
    if (supervisor->page_fd >= 0)
        gs_sys_close(supervisor->page_fd);
    if (supervisor->signal_fd >= 0)
        gs_sys_close(supervisor->signal_fd);
    if (supervisor->arguments)
        free(supervisor->arguments[0]);
    free(supervisor->arguments);
    free(supervisor->environment);
    return status;
}

static void init(struct serve_supervisor *supervisor, char **environment)
{
    *supervisor = (struct serve_supervisor){
        .arguments = read_arguments(),
        .environment = environment,
        .notify.fd = -1,
        .signal_fd = -1,
        .page_fd = -1,
        .serving = SERVE_NO_PLACE,
        .starting = SERVE_NO_PLACE,
        .restart_ns = GS_NEVER,
        .backoff_ns = BACKOFF_MIN_NS,
    };
}

static int run_after(struct serve_supervisor *supervisor, int err)
{
    if (!err && (!supervisor->arguments || !supervisor->environment))
        err = -ENOMEM;
    if (!err)
        err = watch_signals(supervisor);
    if (!err)
        return finish(supervisor, run(supervisor));
    serve_error("can't supervise: %s", strerror(-err));
    return finish(supervisor, 1);
}

int serve_supervise(const struct serve_options *options, char **environment)
{
    static struct serve_supervisor supervisor;
    init(&supervisor, environment);
    supervisor.start_timeout_ns = options->start_timeout_ns;
    supervisor.wants_reload = true;
    serve_notify_open(&supervisor.notify, -1);
    if (take_activated(&supervisor))
        return finish(&supervisor, 2);
    return run_after(&supervisor, make_page(&supervisor));
}

bool serve_supervisor_is_resumed(void)
{
    return getenv(SERVE_SUPERVISOR_VARIABLE);
}

int serve_supervisor_resume(char **environment)
{
    static struct serve_supervisor supervisor;
    init(&supervisor, environment);
    return run_after(&supervisor, serve_supervisor_take_over(&supervisor));
}
