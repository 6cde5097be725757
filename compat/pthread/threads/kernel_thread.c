/* Kernel threads that the C library does not know: it would take locks to create them, for which a
 * task may be waiting, or which a task may hold. They may not call it either. The memory of one
 * that has ended is used again: the kernel clears `is_alive`. */
#include "compat/pthread/threads/task.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define STACK ((size_t)64 << 10) /* with a guard */
#define GUARD ((size_t)4096)
#define ABOVE_THREAD_POINTER ((size_t)4096)
#define BELOW_MIN ((size_t)4096)

struct memory {
    struct gs_bare_thread thread;
    struct memory *next;
    unsigned is_alive;
};

static struct gs_run_lock lock;
static struct memory *all;

static char *thread_pointer(void)
{
    char *pointer;
    __asm__ volatile("movq %%fs:0, %0" : "=r"(pointer));
    return pointer;
}

/* How far below the thread pointer our own thread-local variables are, in every kernel thread. */
static size_t distance(void)
{
    static size_t distance;
    if (!distance) {
        size_t a = (size_t)(thread_pointer() - (char *)&gs_task);
        size_t b = (size_t)(thread_pointer() - (char *)&gs_task_is_inside);
        distance = ((a > b ? a : b) + BELOW_MIN + 63) & ~(size_t)63;
    }
    return distance;
}

static struct memory *map(void)
{
    size_t size = STACK + distance() + ABOVE_THREAD_POINTER;
    long address = gs_syscall(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address < 0)
        return NULL;
    char *start = (char *)address;
    gs_syscall(SYS_mprotect, address, GUARD, PROT_NONE, 0, 0, 0);
    struct memory *memory = (struct memory *)(start + STACK - sizeof *memory);
    void **pointer = (void **)(start + STACK + distance());
    *pointer = pointer;
    memory->thread.stack_top = (char *)((uintptr_t)memory & ~(uintptr_t)15);
    memory->thread.thread_pointer = pointer;
    return memory;
}

static struct memory *take(void)
{
    gs_run_acquire(&lock);
    struct memory *memory = all;
    while (memory && __atomic_load_n(&memory->is_alive, __ATOMIC_ACQUIRE))
        memory = memory->next;
    if (!memory && (memory = map())) {
        memory->next = all;
        all = memory;
    }
    if (memory)
        __atomic_store_n(&memory->is_alive, 1, __ATOMIC_RELAXED);
    gs_run_release(&lock);
    return memory;
}

int gs_bare_thread_new(struct gs_bare_thread **ret_thread)
{
    struct memory *memory = take();
    if (!memory)
        return -ENOMEM;
    *ret_thread = &memory->thread;
    return 0;
}

/* All signals are blocked in the new kernel thread until it decides. */
int gs_kernel_thread_start(void (*fn)(void *argument), void *argument)
{
    const long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                       CLONE_SYSVSEM | CLONE_SETTLS | CLONE_CHILD_CLEARTID;
    gs_signals all_signals = ~(gs_signals)0, before;
    struct memory *memory = take();
    if (!memory)
        return -ENOMEM;
    void **sp = (void **)memory->thread.stack_top;
    *--sp = argument;
    *--sp = (void *)(uintptr_t)fn;
    gs_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all_signals, (long)&before, sizeof before, 0,
               0);
    long tid = gs_run_clone(flags, sp, NULL, &memory->is_alive, (long)memory->thread.thread_pointer,
                            (void *)(uintptr_t)gs_run_thread_entry);
    gs_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before, 0, 0);
    if (tid < 0)
        __atomic_store_n(&memory->is_alive, 0, __ATOMIC_RELEASE);
    return tid < 0 ? (int)tid : 0;
}

void gs_kernel_threads_forget(void)
{
    lock = (struct gs_run_lock){0};
    for (struct memory *memory = all; memory; memory = memory->next)
        memory->is_alive = 0;
}
