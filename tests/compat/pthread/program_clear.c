/* memset with zero on many pages: what is cleared, whatever was there and wherever it begins; what
 * is beside it stays; and where it faults. */
#include "tests/compat/pthread/program.h"

#include <setjmp.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define SIZE (12 * PAGE)

static sigjmp_buf before;
static char *fault;

static char *map(int protection)
{
    char *memory = mmap(NULL, SIZE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        exit(98);
    return memory;
}

/* By a pointer, lest the compiler clears the memory itself. */
static void *(*volatile set)(void *, int, size_t) = memset;

static unsigned long count(const char *bytes, size_t n, char byte)
{
    unsigned long found = 0;
    for (size_t i = 0; i < n; i++)
        found += bytes[i] == byte;
    return found;
}

static void clear_between(char *memory, size_t from, size_t to, int byte)
{
    SHOW((char *)set(memory + from, byte, to - from) - memory);
    SHOW(count(memory + from, to - from, (char)byte));
    SHOW(count(memory, SIZE, 0));
    SHOW(count(memory, SIZE, 'a'));
}

static void *clear_all(void *unused)
{
    static const size_t from[] = {0, 1, PAGE - 1, PAGE, PAGE + 100}, to[] = {SIZE, SIZE - 1};
    for (unsigned i = 0; i < 5; i++)
        for (unsigned k = 0; k < 2; k++) {
            char *memory = map(PROT_READ | PROT_WRITE);
            clear_between(memory, from[i], to[k], 0); /* untouched */
            memory[5 * PAGE] = memory[6 * PAGE - 1] = memory[7 * PAGE + 16] = 'b';
            clear_between(memory, from[i], to[k], 0); /* a byte in some pages */
            set(memory, 'a', SIZE);
            clear_between(memory, from[i], to[k], 0);
            clear_between(memory, from[i], to[k], 'c');
            clear_between(memory, from[i], to[k], 256); /* a byte of zero */
            munmap(memory, SIZE);
        }
    return unused;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    fault = info->si_addr;
    siglongjmp(before, 1);
}

static void *clear_protected(void *unused)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    char *memory = map(PROT_READ);
    sigaction(SIGSEGV, &action, NULL);
    SHOW(sigsetjmp(before, 1) ? fault >= memory && fault < memory + PAGE
                              : (set(memory, 0, SIZE), -1));
    munmap(memory, SIZE);
    return unused;
}

int main(void)
{
    SHOW(finish(start(clear_all, NULL)));
    SHOW(finish(start(clear_protected, NULL)));
    return 0;
}
