/* How the supervisor executes its program again, with the same process id: the next program finds
 * all that this one has in one environment variable, and its descriptors open. */
#include "serve/operations/supervisor_state.h"

#include "serve/log/error_log.h"
#include "serve/operations/number.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Lines of words and numbers:
 *
 *     supervisor 1 LAST-NUMBER START-TIMEOUT LOG-LEVEL PAGE-FD NOTIFY-FD+1 WATCHDOG SERVING
 *     generation PLACE NUMBER PID CONTROL-FD
 *     activated FD NAME
 *     bound FD
 *
 * 1 is the version of this form. */
#define HEAD "supervisor 1 "
#define GENERATION "generation "
#define ACTIVATED "activated "
#define BOUND "bound "

/* ---- The program before ---- */

static void write_state(const struct serve_supervisor *supervisor, FILE *out)
{
    fprintf(out, HEAD "%" PRIu64 " %" PRIu64 " %u %d %d %" PRIu64 " %u\n", supervisor->last_number,
            supervisor->start_timeout_ns, (unsigned)serve_error_log_level(), supervisor->page_fd,
            supervisor->notify.fd + 1, supervisor->notify.watchdog_ns, supervisor->serving);
    for (unsigned i = 0; i < SERVE_GENERATIONS_MAX; i++) {
        const struct serve_supervised *one = &supervisor->places[i];
        if (one->number)
            fprintf(out, GENERATION "%u %" PRIu64 " %d %d\n", i, one->number, (int)one->pid,
                    one->control_fd);
    }
    for (unsigned i = 0; i < supervisor->activated.count; i++)
        fprintf(out, ACTIVATED "%d %s\n", supervisor->activated.items[i].fd,
                supervisor->activated.items[i].name);
    for (unsigned i = 0; i < supervisor->bound.count; i++)
        fprintf(out, BOUND "%d\n", supervisor->bound.items[i].fd);
}

static void set_inherited(const struct serve_supervisor *supervisor, bool is_inherited)
{
    int flags = is_inherited ? 0 : FD_CLOEXEC;
    const struct serve_kept_sockets *lists[] = {&supervisor->activated, &supervisor->bound};
    for (unsigned i = 0; i < 2; i++)
        for (unsigned j = 0; j < lists[i]->count; j++)
            gs_sys_fcntl(lists[i]->items[j].fd, F_SETFD, flags);
    for (unsigned i = 0; i < SERVE_GENERATIONS_MAX; i++)
        if (supervisor->places[i].number)
            gs_sys_fcntl(supervisor->places[i].control_fd, F_SETFD, flags);
    gs_sys_fcntl(supervisor->page_fd, F_SETFD, flags);
    if (supervisor->notify.fd >= 0)
        gs_sys_fcntl(supervisor->notify.fd, F_SETFD, flags);
}

/* Returns the variable with its name, or NULL. */
static char *make_variable(const struct serve_supervisor *supervisor)
{
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    if (!out)
        return NULL;
    fputs(SERVE_SUPERVISOR_VARIABLE "=", out);
    write_state(supervisor, out);
    if (!fclose(out))
        return text;
    free(text);
    return NULL;
}

/* What the next program is still to do: signals that wait are passed on to it. */
static void pass_wishes_on(const struct serve_supervisor *supervisor)
{
    if (supervisor->wants_reload)
        kill(getpid(), SIGHUP);
    if (supervisor->wants_upgrade)
        kill(getpid(), SIGUSR2);
}

int serve_supervisor_execute(struct serve_supervisor *supervisor)
{
    char *variable = make_variable(supervisor);
    char **environment = serve_supervisor_make_environment(supervisor->environment, &variable, 1);
    int err = -ENOMEM;
    if (variable && environment) {
        pass_wishes_on(supervisor);
        set_inherited(supervisor, true);
        execvpe(supervisor->arguments[0], supervisor->arguments, environment);
        err = -errno;
        set_inherited(supervisor, false);
    }
    free(environment);
    free(variable);
    return err;
}

/* ---- The next program ---- */

/* Take as many numbers as there are limits, with a space between two. Returns whether they were
 * there, and nothing else. */
static bool take_numbers(const char *text, const uint64_t *limits, unsigned count,
                         uint64_t *ret_numbers)
{
    for (unsigned i = 0; i < count; i++)
        if (!serve_take_number(&text, i + 1 < count ? ' ' : '\0', limits[i], &ret_numbers[i]))
            return false;
    return true;
}

static int take_head(struct serve_supervisor *supervisor, const char *text)
{
    static const char *const levels[] = {
        [SERVE_LOG_ERROR] = "error", [SERVE_LOG_WARN] = "warn", [SERVE_LOG_INFO] = "info"};
    static const uint64_t limits[] = {UINT64_MAX, UINT64_MAX, SERVE_LOG_INFO, INT32_MAX,
                                      INT32_MAX,  UINT64_MAX, UINT32_MAX};
    uint64_t numbers[7];
    if (!take_numbers(text, limits, 7, numbers) ||
        (numbers[6] >= SERVE_GENERATIONS_MAX && numbers[6] != SERVE_NO_PLACE))
        return -EINVAL;
    supervisor->last_number = numbers[0];
    supervisor->start_timeout_ns = numbers[1];
    supervisor->page_fd = (int)numbers[3];
    supervisor->notify.fd = (int)numbers[4] - 1;
    supervisor->notify.watchdog_ns = numbers[5];
    supervisor->serving = (unsigned)numbers[6];
    return serve_error_log_set_level(levels[numbers[2]]);
}

static int take_generation(struct serve_supervisor *supervisor, const char *text)
{
    static const uint64_t limits[] = {SERVE_GENERATIONS_MAX - 1, UINT64_MAX, INT32_MAX, INT32_MAX};
    uint64_t numbers[4];
    if (!take_numbers(text, limits, 4, numbers))
        return -EINVAL;
    supervisor->places[numbers[0]] = (struct serve_supervised){
        .number = numbers[1],
        .pid = (pid_t)numbers[2],
        .control_fd = (int)numbers[3],
        .since_ns = gs_clock_now(),
    };
    return 0;
}

/* Returns what follows the word, or NULL. */
static const char *after(const char *line, const char *word)
{
    return strncmp(line, word, strlen(word)) ? NULL : line + strlen(word);
}

static int take_line(struct serve_supervisor *supervisor, const char *line)
{
    const char *rest;
    uint64_t fd;
    if ((rest = after(line, HEAD)))
        return take_head(supervisor, rest);
    if ((rest = after(line, GENERATION)))
        return take_generation(supervisor, rest);
    if ((rest = after(line, ACTIVATED)) && serve_take_number(&rest, ' ', INT32_MAX, &fd))
        return serve_kept_sockets_add(&supervisor->activated, (int)fd, rest);
    if ((rest = after(line, BOUND)) && serve_is_number(rest, INT32_MAX, &fd))
        return serve_kept_sockets_add(&supervisor->bound, (int)fd, NULL);
    return -EINVAL;
}

int serve_supervisor_take_over(struct serve_supervisor *supervisor)
{
    const char *variable = getenv(SERVE_SUPERVISOR_VARIABLE);
    char *text = strdup(variable ? variable : ""), *rest = text, *line;
    int err = text ? 0 : -ENOMEM;
    supervisor->page_fd = -1;
    while (!err && (line = strsep(&rest, "\n")))
        if (*line)
            err = take_line(supervisor, line);
    free(text);
    if (err)
        return err;
    unsetenv(SERVE_SUPERVISOR_VARIABLE);
    set_inherited(supervisor, false);
    supervisor->has_served = true;
    return serve_supervisor_map(supervisor);
}
