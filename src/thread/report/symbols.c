/* The names of functions. The dynamic linker knows those that are exported; others are looked up in
 * the symbol table of the module's file, if it was not stripped, which is mapped while a report is
 * written. Allocates no memory: signal handlers may call it. */
#include "thread/report/backtrace.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { MODULES_MAX = 8, CACHE_SIZE = 64 };

/* A mapped file: its symbol table, and the names. */
struct module {
    const struct link_map *map;
    char *file;
    size_t size;
    const ElfW(Sym) * symbols;
    size_t count;
    const char *names;
    size_t names_size;
};

static struct gs_spin lock; /* guards all of this */
static atomic_int holder;   /* the kernel thread that holds the lock */
static struct module modules[MODULES_MAX];
static unsigned module_count;
static struct {
    const void *pc;
    const char *name;
} cache[CACHE_SIZE]; /* many threads wait in the same functions */

static int kernel_thread(void)
{
    return (int)gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

static bool is_holder(void)
{
    return atomic_load(&holder) == kernel_thread();
}

void gs_symbols_open(bool may_wait)
{
    if (may_wait)
        spin_lock_always(&lock);
    else if (atomic_exchange(&lock.held, true))
        return;
    atomic_store(&holder, kernel_thread());
}

void gs_symbols_close(void)
{
    if (!is_holder())
        return;
    for (unsigned i = 0; i < module_count; i++)
        if (modules[i].file)
            gs_sys_munmap(modules[i].file, modules[i].size);
    module_count = 0;
    memset(cache, 0, sizeof cache);
    atomic_store(&holder, 0);
    spin_unlock_always(&lock);
}

/* ---- Fork ----
 *
 * Another kernel thread may have been writing a report, and may be blocked in that for long: the
 * fork does not wait for it. In the child the lock is free; what that thread had mapped stays
 * mapped. */

void gs_symbols_after_fork(void)
{
    module_count = 0;
    memset(cache, 0, sizeof cache);
    atomic_store(&holder, 0);
    atomic_store(&lock.held, false);
}

/* ---- A module's file ---- */

/* Whether the range is within the file. */
static bool is_within(const struct module *module, size_t offset, size_t size)
{
    return offset <= module->size && size <= module->size - offset;
}

/* type: SHT_SYMTAB, which strip removes, or SHT_DYNSYM: the exported symbols. */
static void find_table(struct module *module, unsigned type)
{
    const ElfW(Ehdr) *header = (const void *)module->file;
    if (!is_within(module, 0, sizeof *header) || memcmp(header->e_ident, ELFMAG, SELFMAG) ||
        !is_within(module, header->e_shoff, header->e_shnum * sizeof(ElfW(Shdr))))
        return;
    const ElfW(Shdr) *sections = (const void *)(module->file + header->e_shoff);
    for (unsigned i = 0; i < header->e_shnum; i++) {
        const ElfW(Shdr) *section = &sections[i];
        if (section->sh_type != type || section->sh_link >= header->e_shnum)
            continue;
        const ElfW(Shdr) *names = &sections[section->sh_link];
        if (!is_within(module, section->sh_offset, section->sh_size) ||
            !is_within(module, names->sh_offset, names->sh_size))
            return;
        module->symbols = (const void *)(module->file + section->sh_offset);
        module->count = section->sh_size / sizeof *module->symbols;
        module->names = module->file + names->sh_offset;
        module->names_size = names->sh_size;
        return;
    }
}

static void open_module(struct module *module)
{
    const char *path = module->map->l_name[0] ? module->map->l_name : "/proc/self/exe";
    struct stat status;
    int fd = gs_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (!gs_sys_fstat(fd, &status) && status.st_size > 0) {
        module->size = (size_t)status.st_size;
        long file = gs_sys_mmap(NULL, module->size, PROT_READ, MAP_PRIVATE, fd);
        module->file = file < 0 && file > -4096 ? NULL : (char *)file;
    }
    gs_sys_close(fd);
    if (module->file)
        find_table(module, SHT_SYMTAB);
    if (module->file && !module->symbols)
        find_table(module, SHT_DYNSYM);
}

/* Returns NULL if there are too many modules. */
static const struct module *module_of(const struct link_map *map)
{
    for (unsigned i = 0; i < module_count; i++)
        if (modules[i].map == map)
            return &modules[i];
    if (module_count == MODULES_MAX)
        return NULL;
    struct module *module = &modules[module_count++];
    *module = (struct module){.map = map};
    open_module(module);
    return module;
}

/* ---- A function ---- */

/* Returns the name of the function that contains the address; NULL: unknown. Global symbols are the
 * last ones: they are preferred to local aliases, which compilers add for calls within a file
 * (gs_thread_exit.localalias). */
static const char *name_at(const struct module *module, uintptr_t at)
{
    for (size_t i = module->count; i-- > 0;) {
        const ElfW(Sym) *symbol = &module->symbols[i];
        if ((symbol->st_info & 15) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
            at - symbol->st_value < symbol->st_size && symbol->st_name < module->names_size)
            return module->names + symbol->st_name;
    }
    return NULL;
}

static const char *look_up(const struct link_map *map, const void *pc)
{
    unsigned i = (uintptr_t)pc % CACHE_SIZE;
    if (cache[i].pc != pc) {
        const struct module *module = module_of(map);
        cache[i].pc = pc;
        cache[i].name = module ? name_at(module, (uintptr_t)pc - map->l_addr) : NULL;
    }
    return cache[i].name;
}

void gs_symbols_find(const void *pc, struct symbol *ret_symbol)
{
    Dl_info info;
    struct link_map *map = NULL;
    *ret_symbol = (struct symbol){.offset = (uintptr_t)pc};
    if (!dladdr1(pc, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return;
    const char *slash = strrchr(info.dli_fname, '/');
    const char *name = is_holder() ? look_up(map, pc) : NULL;
    *ret_symbol = (struct symbol){
        .name = name ? name : info.dli_sname,
        .module = slash ? slash + 1 : info.dli_fname,
        .offset = (uintptr_t)pc - map->l_addr,
    };
}
