/* Processes of random threads. */
#include "tests/compat/pthread/program.h"
#include "tests/compat/pthread/program_fuzz.h"

#include <spawn.h>

static void *give_back(void *argument)
{
    return argument;
}

/* In a child: it has one thread, and may have more. */
static int live_in_child(uint32_t way, int output)
{
    int status = (int)(way % 50);
    if (write(output, "child", 5) != 5)
        return 99;
    if (way % 3 == 0 && finish(start(give_back, &status)) != (long)&status)
        return 98;
    if (way % 7 == 0)
        raise(SIGKILL);
    return status;
}

static long wait_for(pid_t pid)
{
    int status = -1;
    EXPECT(RETRIED(waitpid(pid, &status, 0)) == pid);
    return status;
}

static long fork_child(struct fuzz *fuzz)
{
    uint32_t way = fuzz_next(fuzz);
    char text[8] = "";
    int ends[2];
    EXPECT(!pipe2(ends, O_CLOEXEC));
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (!pid)
        _exit(live_in_child(way, ends[1]));
    EXPECT(!close(ends[1]));
    EXPECT(RETRIED(read(ends[0], text, sizeof text)) == 5 && !strcmp(text, "child"));
    EXPECT(!close(ends[0]));
    return wait_for(pid);
}

/* A thread holds a lock of the C library, perhaps, while another forks. */
static long fork_and_allocate(struct fuzz *fuzz)
{
    size_t size = 1 + fuzz_next(fuzz) % 200000;
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (!pid) {
        char *bytes = malloc(size);
        memset(bytes, 1, size);
        free(bytes);
        _exit(bytes ? 7 : 8);
    }
    return wait_for(pid);
}

static long spawn(struct fuzz *fuzz)
{
    char *arguments[] = {
        "sh", "-c", "exit $1", "sh", (char[]){(char)('0' + fuzz_next(fuzz) % 10), 0}, NULL};
    pid_t pid;
    if (fuzz_next(fuzz) % 4) /* is rare, since it takes long */
        return 0;
    EXPECT(!posix_spawn(&pid, "/bin/sh", NULL, NULL, arguments, environ));
    return wait_for(pid);
}

const struct fuzz_action fuzz_processes[] = {{fork_child}, {fork_and_allocate}, {spawn}, {0}};
