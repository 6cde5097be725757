/* The names of functions. The dynamic linker knows those that are exported; the others stand in the symbol table of the module's
 * file, if it was not stripped, which is mapped for as long as a report is written. Allocates nothing: signal handlers may ask. */
#include "thread/calls.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { MODULES_MOST = 8, RECENT = 64 };

/* A file that is mapped: its table of symbols, and their names. */
struct module {
    const struct link_map *map;
    char *file;
    size_t size;
    const ElfW(Sym) * symbols;
    size_t count;
    const char *names;
    size_t names_size;
};

/* What was found for an address: many threads wait in the same places. */
struct recent {
    const void *pc;
    const char *name;
};

static struct gs_spin lock; /* guards all of this */
static atomic_int holder;   /* the kernel thread that has the lock */
static struct module modules[MODULES_MOST];
static unsigned module_count;
static struct recent recent[RECENT];

static int kernel_thread(void)
{
    return (int)gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

static bool is_holder(void)
{
    return atomic_load(&holder) == kernel_thread();
}

void gs_symbols_begin(bool may_wait)
{
    if (may_wait)
        spin_lock_always(&lock);
    else if (atomic_exchange(&lock.held, true))
        return;
    atomic_store(&holder, kernel_thread());
}

void gs_symbols_end(void)
{
    if (!is_holder())
        return;
    for (unsigned i = 0; i < module_count; i++)
        if (modules[i].file)
            gs_sys_munmap(modules[i].file, modules[i].size);
    module_count = 0;
    memset(recent, 0, sizeof recent);
    atomic_store(&holder, 0);
    spin_unlock_always(&lock);
}

/* ---- A module's file ---- */

/* Whether the file holds so many bytes there. */
static bool is_within(const struct module *module, size_t offset, size_t size)
{
    return offset <= module->size && size <= module->size - offset;
}

static void find_table(struct module *module)
{
    const ElfW(Ehdr) *header = (const void *)module->file;
    if (!is_within(module, 0, sizeof *header) || memcmp(header->e_ident, ELFMAG, SELFMAG) ||
        !is_within(module, header->e_shoff, header->e_shnum * sizeof(ElfW(Shdr))))
        return;
    const ElfW(Shdr) *sections = (const void *)(module->file + header->e_shoff);
    for (unsigned i = 0; i < header->e_shnum; i++) {
        const ElfW(Shdr) *section = &sections[i];
        if (section->sh_type != SHT_SYMTAB || section->sh_link >= header->e_shnum)
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
        find_table(module);
}

/* NULL: there are too many. */
static const struct module *module_of(const struct link_map *map)
{
    for (unsigned i = 0; i < module_count; i++)
        if (modules[i].map == map)
            return &modules[i];
    if (module_count == MODULES_MOST)
        return NULL;
    struct module *module = &modules[module_count++];
    *module = (struct module){.map = map};
    open_module(module);
    return module;
}

static const char *find_in_table(const struct module *module, uintptr_t at)
{
    for (size_t i = 0; i < module->count; i++) {
        const ElfW(Sym) *symbol = &module->symbols[i];
        if ((symbol->st_info & 15) == STT_FUNC && at - symbol->st_value < symbol->st_size &&
            symbol->st_name < module->names_size)
            return module->names + symbol->st_name;
    }
    return NULL;
}

static const char *find_unexported(const struct link_map *map, const void *pc)
{
    struct recent *known = &recent[(uintptr_t)pc * UINT64_C(0x9e3779b97f4a7c15) >> 58];
    if (known->pc != pc) {
        const struct module *module = module_of(map);
        *known =
            (struct recent){pc, module ? find_in_table(module, (uintptr_t)pc - map->l_addr) : NULL};
    }
    return known->name;
}

void gs_symbols_find(const void *pc, struct symbol *ret_symbol)
{
    Dl_info info;
    struct link_map *map = NULL;
    *ret_symbol = (struct symbol){.offset = (uintptr_t)pc};
    if (!dladdr1(pc, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return;
    const char *slash = strrchr(info.dli_fname, '/');
    ret_symbol->module = slash ? slash + 1 : info.dli_fname;
    ret_symbol->offset = (size_t)((const char *)pc - (const char *)info.dli_fbase);
    ret_symbol->name = is_holder() ? find_unexported(map, pc) : NULL;
    if (!ret_symbol->name)
        ret_symbol->name = info.dli_sname;
}
