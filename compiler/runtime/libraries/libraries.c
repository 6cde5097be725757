/* The tables of addresses through which shared libraries call others are changed: the entry of each
 * function that is replaced, in all but the C library itself and what belongs to it. */
#include "compiler/runtime/libraries/libraries.h"
#include "compiler/runtime/libraries/library_locals.h"
#include "compiler/runtime/threads/thread.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined __x86_64__
#define JUMP_SLOT R_X86_64_JUMP_SLOT
#define PLACE_OF_LOCAL R_X86_64_TPOFF64
#define DESCRIPTOR_OF_LOCAL R_X86_64_TLSDESC
#define IS_ADDRESS(type_)                                                                          \
    ((type_) == JUMP_SLOT || (type_) == R_X86_64_GLOB_DAT || (type_) == R_X86_64_64)
#elif defined __aarch64__
#define JUMP_SLOT R_AARCH64_JUMP_SLOT
#define PLACE_OF_LOCAL R_AARCH64_TLS_TPREL
#define DESCRIPTOR_OF_LOCAL R_AARCH64_TLSDESC
#define IS_ADDRESS(type_)                                                                          \
    ((type_) == JUMP_SLOT || (type_) == R_AARCH64_GLOB_DAT || (type_) == R_AARCH64_ABS64)
#else
#define JUMP_SLOT 0
#define PLACE_OF_LOCAL 0
#define DESCRIPTOR_OF_LOCAL 0
#define IS_ADDRESS(type_) ((void)(type_), false)
#endif

/* What the dynamic section of a library tells. */
struct library {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Rela) * relocations[2];
    size_t counts[2];
    uintptr_t size;
    uintptr_t protected_from, protected_to; /* read-only since it was relocated */
};

/* The functions that are replaced: those of the C library, or of a sanitizer in their place. A
 * program or a library may have a function of such a name, too, and a library may have stored the
 * address of another one where that of the C library was. */
struct originals {
    uintptr_t allocator;
    uintptr_t of_c_library[GS_CC_MAX_REPLACEMENTS], of_sanitizer[GS_CC_MAX_REPLACEMENTS];
    bool is_found_by_name[GS_CC_MAX_REPLACEMENTS]; /* before functions of the same name */
};

/* The program, the C library, its loader, and the runtimes of the compiler. */
static bool is_left_alone(const char *path)
{
    static const char *const prefixes[] = {"libc.so",       "ld-linux",   "ld-musl",  "libm.so",
                                           "libpthread.so", "libgcc_s",   "libdl.so", "librt.so",
                                           "linux-vdso",    "libclang_rt"};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (!*name)
        return true;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
            return true;
    return false;
}

/* The loader has made most of the addresses absolute; those of the kernel's library are not. */
static uintptr_t address_of(const struct library *library, uintptr_t value)
{
    return value < library->base ? library->base + value : value;
}

static void read_dynamic(struct library *library, const ElfW(Dyn) * entry)
{
    for (; entry->d_tag != DT_NULL; entry++) {
        const uintptr_t value = entry->d_un.d_val;
        switch (entry->d_tag) {
        case DT_SYMTAB:
            library->symbols = (const ElfW(Sym) *)address_of(library, value);
            break;
        case DT_STRTAB:
            library->names = (const char *)address_of(library, value);
            break;
        case DT_RELA:
            library->relocations[0] = (const ElfW(Rela) *)address_of(library, value);
            break;
        case DT_RELASZ:
            library->counts[0] = value / sizeof(ElfW(Rela));
            break;
        case DT_JMPREL:
            library->relocations[1] = (const ElfW(Rela) *)address_of(library, value);
            break;
        case DT_PLTRELSZ:
            library->counts[1] = value / sizeof(ElfW(Rela));
            break;
        default:
            break;
        }
    }
}

/* A sanitizer's functions have other names besides. */
static bool is_of_sanitizer(const char *name, uintptr_t function)
{
    static const char *const prefixes[] = {"__interceptor_", "__interceptor_trampoline_"};
    char interceptor[64];
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        snprintf(interceptor, sizeof interceptor, "%s%s", prefixes[i], name);
        if ((uintptr_t)dlsym(RTLD_DEFAULT, interceptor) == function)
            return true;
    }
    return false;
}

static bool contains(const struct dl_phdr_info *information, uintptr_t address)
{
    for (unsigned i = 0; i < information->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &information->dlpi_phdr[i];
        if (part->p_type == PT_LOAD &&
            address - (information->dlpi_addr + part->p_vaddr) < part->p_memsz)
            return true;
    }
    return false;
}

/* The loader is a part of it. */
static int look_in_c_library(struct dl_phdr_info *information, size_t size, void *address)
{
    (void)size;
    return contains(information, *(uintptr_t *)address) &&
           (contains(information, (uintptr_t)gnu_get_libc_version) ||
            contains(information, getauxval(AT_BASE)));
}

/* dladdr would also look for the name of the function, through all of the library's. */
static bool is_of_c_library(const void *function)
{
    uintptr_t address = (uintptr_t)function;
    return function && dl_iterate_phdr(look_in_c_library, &address) > 0;
}

/* dlopen would initialize the C library, if it is not yet, without the arguments of the process: so
 * only where other libraries have a function of this name. */
static uintptr_t find_in_c_library(const char *name, void *used)
{
    void *next = dlsym(RTLD_NEXT, name);
    if (is_of_c_library(used) || !used)
        return (uintptr_t)used;
    if (is_of_c_library(next) || !next)
        return (uintptr_t)next;
    void *c_library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    if (!c_library)
        return (uintptr_t)used;
    void *found = dlsym(c_library, name);
    dlclose(c_library);
    return (uintptr_t)found;
}

static void find_originals(struct originals *ret_originals)
{
    *ret_originals = (struct originals){.allocator = (uintptr_t)dlsym(RTLD_DEFAULT, "malloc")};
    if (gs_cc_replacement_at(GS_CC_MAX_REPLACEMENTS))
        abort();
    for (unsigned i = 0; i < GS_CC_MAX_REPLACEMENTS; i++) {
        const struct gs_cc_replacement *replacement = gs_cc_replacement_at(i);
        if (!replacement)
            break;
        const char *name = replacement->name;
        uintptr_t used = (uintptr_t)dlsym(RTLD_DEFAULT, name);
        uintptr_t original = find_in_c_library(name, (void *)used);
        ret_originals->of_c_library[i] = original;
        if (used && used != original && is_of_sanitizer(name, used))
            ret_originals->of_sanitizer[i] = used;
        ret_originals->is_found_by_name[i] =
            used && (used == original || used == ret_originals->of_sanitizer[i]);
    }
}

/* A call that was not made yet leads to the library itself, which looks for the function then. */
static bool is_original(const struct library *library, const struct originals *originals,
                        unsigned i, unsigned type, uintptr_t address)
{
    if (type == JUMP_SLOT && address - library->base < library->size)
        return originals->is_found_by_name[i];
    return address &&
           (address == originals->of_c_library[i] || address == originals->of_sanitizer[i]);
}

static void replace_one(const struct library *library, const struct originals *originals,
                        const ElfW(Rela) * relocation)
{
    const unsigned type = (unsigned)ELF64_R_TYPE(relocation->r_info);
    const ElfW(Sym) *symbol = &library->symbols[ELF64_R_SYM(relocation->r_info)];
    if (!IS_ADDRESS(type) || symbol->st_shndx != SHN_UNDEF || relocation->r_addend)
        return;
    int found = gs_cc_find_replacement(library->names + symbol->st_name);
    if (found < 0)
        return;
    _Atomic(uintptr_t) *slot = (void *)(library->base + relocation->r_offset);
    if (is_original(library, originals, (unsigned)found, type,
                    atomic_load_explicit(slot, memory_order_relaxed)))
        atomic_store_explicit(slot, (uintptr_t)gs_cc_replacement_at((unsigned)found)->function,
                              memory_order_relaxed);
}

static void replace_all(const struct library *library, const struct originals *originals)
{
    for (unsigned kind = 0; kind < 2; kind++)
        for (size_t i = 0; library->relocations[kind] && i < library->counts[kind]; i++)
            replace_one(library, originals, &library->relocations[kind][i]);
}

/* How it reaches thread-local variables. */
static void find_locals(const struct library *library)
{
    for (unsigned kind = 0; kind < 2; kind++) {
        for (size_t i = 0; library->relocations[kind] && i < library->counts[kind]; i++) {
            const ElfW(Rela) *relocation = &library->relocations[kind][i];
            const unsigned type = (unsigned)ELF64_R_TYPE(relocation->r_info);
            if (type && type == PLACE_OF_LOCAL)
                gs_cc_locals_are_reached(*(uintptr_t *)(library->base + relocation->r_offset));
            else if (type && type == DESCRIPTOR_OF_LOCAL)
                gs_cc_locals_all_are_reached();
        }
    }
}

static bool allow(const struct library *library, int protection)
{
    return library->protected_from == library->protected_to ||
           !mprotect((void *)library->protected_from,
                     library->protected_to - library->protected_from, protection);
}

static void read_library(struct library *library, const struct dl_phdr_info *information)
{
    const uintptr_t page = (uintptr_t)getpagesize();
    *library = (struct library){.base = information->dlpi_addr};
    for (unsigned i = 0; i < information->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &information->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && library->size < part->p_vaddr + part->p_memsz)
            library->size = part->p_vaddr + part->p_memsz;
        if (part->p_type == PT_DYNAMIC)
            read_dynamic(library, (const ElfW(Dyn) *)(library->base + part->p_vaddr));
        if (part->p_type != PT_GNU_RELRO)
            continue;
        library->protected_from = (library->base + part->p_vaddr) & ~(page - 1);
        library->protected_to = (library->base + part->p_vaddr + part->p_memsz) & ~(page - 1);
    }
}

static bool is_program(const struct dl_phdr_info *information)
{
    return contains(information, (uintptr_t)is_program);
}

/* The runtime itself allocates memory, also where no thread may wait. */
static bool is_changed(const struct dl_phdr_info *information, const struct originals *originals)
{
    return !is_left_alone(information->dlpi_name) && !contains(information, originals->allocator);
}

static int add_locals(struct dl_phdr_info *information, size_t size, void *originals)
{
    (void)size;
    if (is_program(information))
        gs_cc_locals_add_program(information);
    else if (is_changed(information, originals))
        gs_cc_locals_add_library(information);
    return 0;
}

static int replace_in(struct dl_phdr_info *information, size_t size, void *argument)
{
    const struct originals *originals = argument;
    struct library library;
    (void)size;
    if (!is_program(information) && !is_changed(information, originals))
        return 0;
    read_library(&library, information);
    if (!library.symbols || !library.names)
        return 0;
    find_locals(&library);
    if (is_program(information) || !allow(&library, PROT_READ | PROT_WRITE))
        return 0;
    replace_all(&library, originals);
    allow(&library, PROT_READ);
    return 0;
}

static int is_other(struct dl_phdr_info *information, size_t size, void *unused)
{
    (void)size, (void)unused;
    return !is_left_alone(information->dlpi_name);
}

bool gs_cc_has_other_libraries(void)
{
    return dl_iterate_phdr(is_other, NULL);
}

void gs_cc_replace_in_libraries(void)
{
    struct originals originals = {0};
    if (gs_cc_has_other_libraries()) {
        find_originals(&originals);
        gs_cc_locals_begin_search();
    }
    dl_iterate_phdr(add_locals, &originals);
    if (gs_cc_has_other_libraries())
        dl_iterate_phdr(replace_in, &originals);
    gs_cc_locals_end_search();
}

/* ---- Libraries that the program loads and closes: what they do then may wait ----
 * Meanwhile no other thread loads or closes any, as with the loader's own lock. */

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
int gs_cc_pthread_mutex_lock(pthread_mutex_t *mutex);
int gs_cc_pthread_mutex_unlock(pthread_mutex_t *mutex);

void gs_cc_libraries_after_fork(void)
{
    lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

int gs_cc_close_library(void *library)
{
    gs_cc_pthread_mutex_lock(&lock);
    int status = dlclose(library);
    gs_cc_locals_forget_closed();
    gs_cc_pthread_mutex_unlock(&lock);
    return status;
}

struct call {
    const char *name;
    int flags, status;
    void *library;
};

static void run_load(void *argument)
{
    struct call *call = argument;
    gs_cc_pthread_mutex_lock(&lock);
    call->library = dlopen(call->name, call->flags);
    if (call->library)
        gs_cc_replace_in_libraries();
    gs_cc_pthread_mutex_unlock(&lock);
}

static void run_close(void *argument)
{
    struct call *call = argument;
    call->status = gs_cc_close_library(call->library);
}

/* Returns `here` as it is if the thread has to wait. */
static struct call make_on_stack(void (*run)(void *), struct call here)
{
    struct thread *self = thread_self();
    if (!self || self->stack) {
        run(&here);
        return here;
    }
    if (self->phase == PHASE_NEW) {
        struct call *call = gs_cc_box(sizeof *call);
        *call = here;
        self->progress = (size_t)call;
    }
    struct call *call = (struct call *)self->progress;
    gs_cc_call_on_stack(run, call);
    if (gs_cc_state.suspending)
        return here;
    here = *call;
    gs_cc_box_free(call, sizeof *call);
    return here;
}

void *gs_cc_dlopen(const char *name, int flags);
void *gs_cc_dlopen(const char *name, int flags)
{
    return make_on_stack(run_load, (struct call){.name = name, .flags = flags}).library;
}

int gs_cc_dlclose(void *library);
int gs_cc_dlclose(void *library)
{
    return make_on_stack(run_close, (struct call){.library = library}).status;
}
