/* Threads that read and write where a sandbox refuses the newer calls that `gossamer run` makes in
 * the place of the program's. */
#include "tests/compat/pthread/program.h"
#include "tests/sandbox.h"

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

/* In a child, without `count` of the newer calls from this one on. */
static void run_without(unsigned first, unsigned count, unsigned error)
{
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (!child)
        _exit(refuse_calls(&newer_calls[first], count, error) ? 77 : run_threads());
    waitpid(child, &status, 0);
    SHOW(status);
}

int main(void)
{
    static const unsigned errors[] = {EPERM, ENOSYS, EINVAL};
    file = tmpfile();
    SHOW(pipe(ends) || !file);
    for (unsigned i = 0; i + 1 < NEWER_CALLS; i++)
        run_without(i, 2, errors[i % 3]);
    for (unsigned i = 0; i < 3; i++)
        run_without(0, NEWER_CALLS, errors[i]);
    return 0;
}
