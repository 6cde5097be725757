/* Threads that read and write where a sandbox refuses the newer calls that `gossamer run` makes in
 * the place of the program's. */
#include "tests/compat/pthread/program.h"
#include "tests/sandbox.h"

#include <sys/syscall.h>
#include <sys/wait.h>

static int ends[2];
static FILE *file;

static void *pass_byte(void *argument)
{
    off_t at = (off_t)(intptr_t)argument * 3;
    char bytes[4] = "abc";
    bool is_passed = write(ends[1], bytes, 1) == 1 && read(ends[0], bytes, 1) == 1;
    bool is_stored = pwrite(fileno(file), bytes, 3, at) == 3 &&
                     pread(fileno(file), bytes, 3, at) == 3 && !memcmp(bytes, "abc", 3);
    return is_passed && is_stored ? NULL : &ends;
}

static int run_threads(void)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    int failures = 0;
    for (int i = 0; i < THREADS; i++)
        threads[i] = start(pass_byte, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        failures += finish(threads[i]) != 0;
    return failures;
}

int main(void)
{
    static const unsigned calls[] = {SYS_preadv2, SYS_pwritev2, SYS_epoll_pwait2, SYS_openat2,
                                     SYS_io_uring_setup};
    static const unsigned errors[] = {EPERM, ENOSYS, EINVAL};
    file = tmpfile();
    SHOW(pipe(ends) || !file);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        unsigned both[] = {calls[i], calls[(i + 1) % (sizeof calls / sizeof *calls)]};
        int status = -1;
        fflush(stdout);
        pid_t child = fork();
        if (!child)
            _exit(refuse_two_calls(both, errors[i % 3]) ? 77 : run_threads());
        waitpid(child, &status, 0);
        SHOW(status);
    }
    return 0;
}
