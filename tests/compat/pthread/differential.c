/* differential GOSSAMER PROGRAM [ARGUMENT...]: run the program natively, and by `gossamer run` with
 * one, two and four workers, and with two and rewritten calls; what it prints and how it ends must
 * be the same. */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT_MAX = 1 << 20, ARGUMENTS_MAX = 32, SECONDS_MAX = 60 };

struct outcome {
    char output[OUTPUT_MAX];
    size_t n;
    int status;
    bool has_ended;
};

static void execute(char **arguments, int output)
{
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    close(output);
    setpgid(0, 0);
    execvp(arguments[0], arguments);
    perror(arguments[0]);
    _exit(127);
}

/* Until everything that has the pipe has ended; what hangs is killed, with its children. */
static void collect(int input, pid_t pid, struct outcome *ret_outcome)
{
    struct pollfd polls = {.fd = input, .events = POLLIN};
    ret_outcome->n = 0;
    ret_outcome->has_ended = true;
    for (ssize_t n = 1; n > 0;) {
        if (poll(&polls, 1, SECONDS_MAX * 1000) <= 0) {
            ret_outcome->has_ended = false;
            kill(-pid, SIGKILL);
            break;
        }
        n = read(input, ret_outcome->output + ret_outcome->n, OUTPUT_MAX - 1 - ret_outcome->n);
        ret_outcome->n += n > 0 ? (size_t)n : 0;
    }
    ret_outcome->output[ret_outcome->n] = 0;
    close(input);
    waitpid(pid, &ret_outcome->status, 0);
}

static void run(char **arguments, struct outcome *ret_outcome)
{
    int ends[2];
    if (pipe(ends))
        abort();
    pid_t pid = fork();
    if (!pid) {
        close(ends[0]);
        execute(arguments, ends[1]);
    }
    close(ends[1]);
    collect(ends[0], pid, ret_outcome);
}

static void show_difference(const char *native, const char *ours)
{
    size_t line = 0, i = 0;
    for (; native[i] && native[i] == ours[i]; i++)
        if (native[i] == '\n')
            line = i + 1;
    fprintf(stderr, "natively: %.*s\nby run:   %.*s\n", (int)strcspn(native + line, "\n"),
            native + line, (int)strcspn(ours + line, "\n"), ours + line);
}

static bool compare(const struct outcome *native, const struct outcome *ours, const char *option)
{
    bool is_same =
        native->status == ours->status && ours->has_ended && !strcmp(native->output, ours->output);
    if (is_same)
        return true;
    fprintf(stderr, "%s: status %#x natively, %#x by run%s\n", option, native->status, ours->status,
            ours->has_ended ? "" : ", which did not end");
    show_difference(native->output, ours->output);
    return false;
}

int main(int argc, char **argv)
{
    static struct outcome native, ours;
    static char *options[] = {"--workers=1", "--workers=2", "--workers=4"};
    char *arguments[ARGUMENTS_MAX] = {argv[1], "run", NULL};
    bool is_same = true;
    if (argc < 3 || argc > ARGUMENTS_MAX - 3)
        return 2;
    memcpy(arguments + 3, argv + 2, (size_t)(argc - 2) * sizeof *argv);
    run(argv + 2, &native);
    if (!native.has_ended || !native.n) {
        fprintf(stderr, "natively it does not end, or prints nothing\n");
        return 1;
    }
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        arguments[2] = options[i];
        run(arguments, &ours);
        is_same &= compare(&native, &ours, options[i]);
    }
    return !is_same;
}
