/* Programs that are built with the thread sanitizer. It replaces functions of the C library: clang
 * links it into the program, whose functions come before ours, and GCC's is a library after ours.
 *
 * It must see the program's locks and calls, and nothing that the runtime does:
 *
 * - The wrappers pass everything on (gs_run.is_watched); it comes back by the signal, from the C
 *   library that the sanitizer calls.
 * - The functions that this library imports are bound to the C library's own again. Otherwise the
 *   sanitizer would see memory that the runtime copies and clears, on stacks and with thread
 *   pointers of which it knows nothing.
 * - The program's first thread creates the kernel threads of the runtime. The C library allocates
 *   memory for each of them by the sanitizer's functions, which need to know their caller; of the
 *   new kernel threads the sanitizer knows nothing, and they call nothing of it. So there are no
 *   additional ones later, when all workers are stuck. */
#include "compat/pthread/start/sanitizer.h"

#include "compat/pthread/start/real.h"
#include "compat/pthread/threads/task.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define STACK ((size_t)8 << 20)
#define PAGE ((uintptr_t)4096)

extern void tsan_init(void) __asm__("__tsan_init") __attribute__((weak));
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

extern const char gs_run_hides_from_tsan; /* for src/thread/report/report.c */
const char gs_run_hides_from_tsan = 1;

static int (*create_thread)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* ---- Imports ---- */

struct imports {
    const ElfW(Sym) * symbols;
    const char *names;
    void *library; /* the C library */
};

/* The loader has added our address to the dynamic section's; not all loaders do. */
static const void *dynamic(ElfW(Sxword) tag, size_t *ret_value)
{
    uintptr_t base = (uintptr_t)__ehdr_start;
    for (const ElfW(Dyn) *entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag != tag)
            continue;
        *ret_value = entry->d_un.d_val;
        return (const void *)(entry->d_un.d_ptr < base ? base + entry->d_un.d_ptr
                                                       : entry->d_un.d_ptr);
    }
    *ret_value = 0;
    return NULL;
}

static void bind_again(const struct imports *imports, const ElfW(Rela) * relocation)
{
    const ElfW(Sym) *symbol = &imports->symbols[ELF64_R_SYM(relocation->r_info)];
    void **slot = (void **)((uintptr_t)__ehdr_start + relocation->r_offset);
    void *function = dlsym(imports->library, imports->names + symbol->st_name);
    if (!function || function == *slot)
        return;
    /* The loader has made them read-only. */
    uintptr_t page = (uintptr_t)slot & ~(PAGE - 1);
    gs_syscall(SYS_mprotect, (long)page, PAGE, PROT_READ | PROT_WRITE, 0, 0, 0);
    *slot = function;
}

/* Of functions that are called; variables may have been copied into the program. */
static void bind_all_again(void *library)
{
    size_t unused, size;
    const struct imports imports = {.symbols = dynamic(DT_SYMTAB, &unused),
                                    .names = dynamic(DT_STRTAB, &unused),
                                    .library = library};
    const ElfW(Rela) *all = dynamic(DT_JMPREL, &unused);
    (void)dynamic(DT_PLTRELSZ, &size);
    if (!imports.symbols || !imports.names || !all)
        return;
    for (size_t i = 0; i < size / sizeof *all; i++)
        bind_again(&imports, &all[i]);
}

/* ---- Kernel threads ---- */

/* The sanitizer's thread-local storage is on the stack, too. */
int gs_create_unwatched(pthread_t *ret_thread, const pthread_attr_t *attributes,
                        void *(*fn)(void *), void *argument)
{
    pthread_attr_t larger;
    if (!gs_run.is_watched)
        return gs_real()->pthread_create(ret_thread, attributes, fn, argument);
    if (attributes)
        larger = *attributes;
    else
        pthread_attr_init(&larger);
    pthread_attr_setstacksize(&larger, STACK);
    int err = create_thread(ret_thread, &larger, fn, argument);
    if (!attributes)
        pthread_attr_destroy(&larger);
    return err;
}

/* Requests are made one at a time: NONE -> MADE -> SERVED -> NONE, and CLOSED for the last. */
enum { NONE, MADE, SERVED, CLOSED };
static struct {
    uint32_t state; /* a futex */
    pthread_t *ret_thread;
    const pthread_attr_t *attributes;
    void *(*fn)(void *);
    void *argument;
    int err;
} request;

static void set_state(uint32_t state)
{
    __atomic_store_n(&request.state, state, __ATOMIC_RELEASE);
    gs_syscall(SYS_futex, (long)&request.state, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
}

/* Returns true if the state is reached, and false if it is CLOSED. */
static bool await_state(uint32_t state)
{
    uint32_t seen;
    while ((seen = __atomic_load_n(&request.state, __ATOMIC_ACQUIRE)) != state) {
        if (seen == CLOSED)
            return false;
        gs_syscall(SYS_futex, (long)&request.state, FUTEX_WAIT_PRIVATE, seen, 0, 0, 0);
    }
    return true;
}

int gs_sanitizer_create_thread(pthread_t *ret_thread, const pthread_attr_t *attributes,
                               void *(*fn)(void *), void *argument)
{
    if (!await_state(NONE))
        return EAGAIN;
    request.ret_thread = ret_thread;
    request.attributes = attributes;
    request.fn = fn;
    request.argument = argument;
    set_state(MADE);
    bool is_last = !await_state(SERVED);
    int err = request.err;
    if (!is_last)
        set_state(NONE);
    return err;
}

void gs_sanitizer_create_threads(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        (void)await_state(MADE);
        request.err = gs_create_unwatched(request.ret_thread, request.attributes, request.fn,
                                          request.argument);
        set_state(i + 1 < count ? SERVED : CLOSED);
    }
}

/* ---- Children ---- */

static bool is_forking;

static void end_fork(void)
{
    is_forking = false;
}

void gs_sanitizer_forget(void)
{
    is_forking = gs_run.is_watched;
}

bool gs_sanitizer_is_forking(void)
{
    return is_forking;
}

/* ---- Start ---- */

void gs_sanitizer_start(void)
{
    request.state = NONE;
    if (!tsan_init || gs_run.is_watched)
        return;
    void *library = dlopen("libc.so.6", RTLD_NOLOAD | RTLD_LAZY);
    if (library)
        *(void **)&create_thread = dlsym(library, "pthread_create");
    if (!library || !create_thread)
        gs_report_refusal("the program is built with the thread sanitizer");
    bind_all_again(library);
    pthread_atfork(NULL, NULL, end_fork);
    gs_run.is_watched = true;
}
