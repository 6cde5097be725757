#include "compiler/runtime/libraries/library_locals.h"
#include "compiler/runtime/libraries/library_calls.h"
#include "compiler/runtime/signals/signals.h"
#include "compiler/runtime/start/kept.h"
#include "compiler/runtime/start/memory.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* As the loader has it. */
struct place {
    unsigned long module, offset;
};
/* The loader's __tls_get_addr; a program that is linked statically has none. */
static void *(*find_local)(struct place *place);

/* The variables of a library, or some of the program's. */
struct part {
    size_t slot;        /* in the table of a thread; no other part ever has it */
    struct place place; /* without a module: the distance from the kernel thread's pointer */
    size_t size, alignment;
    const char *image; /* what a new thread has in the first bytes; the others are 0 */
    size_t image_size;
    bool is_new;    /* it is looked for what reaches it */
    bool is_copied; /* for each thread that runs */
    bool is_late;   /* the first thread has begun before */
    struct part *_Atomic next;
    struct part *closed_before;
};

/* By the number that the loader gives them, which another library may get after this was closed. */
#define MODULES 1024u
#define LEAST_ALIGNMENT 16u
static struct part *_Atomic parts[MODULES];
static struct part *_Atomic copied;
static struct part *closed; /* another worker may have one in its hands */
static size_t slots;
static bool has_searched;

/* The blocks of a thread, by slots. */
struct library_locals {
    size_t count;
    char *blocks[];
};

/* Of the running kernel thread. */
static char *block_of_kernel_thread(const struct part *part)
{
    struct place place = part->place;
    if (!place.module)
        return (char *)__builtin_thread_pointer() + place.offset;
    return find_local(&place);
}

static void reset(char *block, const struct part *part)
{
    memcpy(block, part->image, part->image_size);
    memset(block + part->image_size, 0, part->size - part->image_size);
}

static char *find_block(const struct thread *thread, const struct part *part)
{
    const struct library_locals *locals = thread->extra ? thread->extra->library_locals : NULL;
    return locals && part->slot < locals->count ? locals->blocks[part->slot] : NULL;
}

/* By malloc: that of the program may be all that free knows. Before the block is its address. */
static char *allocate_block(const struct part *part)
{
    char *memory = malloc(sizeof memory + part->alignment + part->size);
    if (!memory)
        abort();
    char *block = memory + sizeof memory;
    block += -(uintptr_t)block % part->alignment;
    memcpy(block - sizeof memory, &memory, sizeof memory);
    return block;
}

static void free_block(const char *block)
{
    char *memory = NULL;
    if (block)
        memcpy(&memory, block - sizeof memory, sizeof memory);
    free(memory);
}

static char *make_block(struct thread *thread, const struct part *part)
{
    struct extra *extra = gs_cc_extra(thread);
    struct library_locals *locals = extra->library_locals;
    size_t count = locals ? locals->count : 0;
    if (part->slot >= count) {
        size_t more = part->slot + 1;
        struct library_locals *larger =
            realloc(locals, sizeof *larger + more * sizeof *larger->blocks);
        if (!larger)
            abort();
        memset(&larger->blocks[count], 0, (more - count) * sizeof *larger->blocks);
        larger->count = more;
        extra->library_locals = locals = larger;
    }
    char *block = allocate_block(part);
    reset(block, part);
    locals->blocks[part->slot] = block;
    return block;
}

void gs_cc_locals_free(struct extra *extra)
{
    struct library_locals *locals = extra->library_locals;
    for (size_t i = 0; locals && i < locals->count; i++)
        free_block(locals->blocks[i]);
    free(locals);
}

/* ---- Copies ---- */

void gs_cc_locals_enter(struct thread *thread)
{
    for (const struct part *part = atomic_load(&copied); part; part = part->next) {
        const char *block = find_block(thread, part);
        if (block)
            memcpy(block_of_kernel_thread(part), block, part->size);
        else if (!thread->is_first || part->is_late)
            reset(block_of_kernel_thread(part), part);
    }
}

void gs_cc_locals_leave(struct thread *thread)
{
    for (const struct part *part = atomic_load(&copied); part; part = part->next) {
        char *block = find_block(thread, part);
        memcpy(block ? block : make_block(thread, part), block_of_kernel_thread(part), part->size);
    }
}

/* ---- The call by which libraries find their variables ---- */

/* In a handler, those of the thread whose signal it is, if it has used them. Old compilers call it
 * without an aligned stack. */
#ifdef __x86_64__
__attribute__((force_align_arg_pointer))
#endif
static void *
library___tls_get_addr(struct place *place)
{
    struct thread *self = thread_self(), *thread = self ? self : gs_cc_handling.target;
    const struct part *part = place->module < MODULES ? atomic_load(&parts[place->module]) : NULL;
    if (!thread || thread->is_first || !part || part->is_copied)
        return find_local(place);
    char *block = find_block(thread, part);
    if (!block && self)
        block = make_block(self, part);
    return block ? block + place->offset : find_local(place);
}

/* ---- Which there are ---- */

static const ElfW(Phdr) * find_header(const struct dl_phdr_info *information)
{
    for (unsigned i = 0; i < information->dlpi_phnum; i++)
        if (information->dlpi_phdr[i].p_type == PT_TLS)
            return &information->dlpi_phdr[i];
    return NULL;
}

static struct part *new_part(const struct part *contents)
{
    struct part *part = gs_cc_allocate(sizeof *part);
    *part = *contents;
    part->slot = slots++;
    return part;
}

static void copy_from_now_on(struct part *part)
{
    part->is_copied = true;
    part->next = atomic_load(&copied);
    atomic_store(&copied, part);
    __atomic_store_n(&gs_cc_kept, gs_cc_kept | KEPT_LIBRARIES, __ATOMIC_RELAXED);
}

/* Those of machine code are together, once in what has initial values, and once in the rest: the
 * linker has put them between variables of the driver's. */
void gs_cc_locals_add_program(const struct dl_phdr_info *information)
{
    const ElfW(Phdr) *header = find_header(information);
    struct gs_cc_foreign_locals foreign[2];
    gs_cc_find_foreign_locals(foreign);
    for (unsigned i = 0; header && !has_searched && i < 2; i++) {
        struct part part = {.size = foreign[i].size, .alignment = LEAST_ALIGNMENT};
        const size_t offset = (size_t)(foreign[i].at - (const char *)information->dlpi_tls_data);
        part.place.offset =
            (unsigned long)(foreign[i].at - (const char *)__builtin_thread_pointer());
        part.image = (const char *)(information->dlpi_addr + header->p_vaddr + offset);
        if (offset < header->p_filesz)
            part.image_size = part.size;
        if (part.size)
            copy_from_now_on(new_part(&part));
    }
}

void gs_cc_locals_begin_search(void)
{
    *(void **)&find_local = dlsym(RTLD_DEFAULT, "__tls_get_addr");
}

static void forget(struct part *part)
{
    struct part *_Atomic *at = &copied;
    while (*at && *at != part)
        at = &(*at)->next;
    if (*at)
        *at = part->next;
    part->closed_before = closed;
    closed = part;
    struct thread *self = thread_self();
    char *block = self ? find_block(self, part) : NULL;
    free_block(block);
    if (block)
        self->extra->library_locals->blocks[part->slot] = NULL;
}

static int note_loaded(struct dl_phdr_info *information, size_t size, void *is_loaded)
{
    (void)size;
    if (information->dlpi_tls_modid < MODULES)
        ((bool *)is_loaded)[information->dlpi_tls_modid] = true;
    return 0;
}

void gs_cc_locals_forget_closed(void)
{
    bool is_loaded[MODULES] = {false};
    dl_iterate_phdr(note_loaded, is_loaded);
    for (unsigned i = 1; i < MODULES; i++) {
        struct part *part = atomic_load(&parts[i]);
        if (!part || is_loaded[i])
            continue;
        atomic_store(&parts[i], NULL);
        forget(part);
    }
}

void gs_cc_locals_add_library(const struct dl_phdr_info *information)
{
    const ElfW(Phdr) *header = find_header(information);
    const size_t module = header ? information->dlpi_tls_modid : 0;
    if (!module || module >= MODULES)
        return;
    const struct part part = {.place.module = module,
                              .size = header->p_memsz,
                              .alignment = header->p_align < LEAST_ALIGNMENT ? LEAST_ALIGNMENT
                                                                             : header->p_align,
                              .image = (const char *)(information->dlpi_addr + header->p_vaddr),
                              .image_size = header->p_filesz,
                              .is_new = true,
                              .is_late = has_searched};
    struct part *known = atomic_load(&parts[module]);
    if (known && known->image == part.image && known->size == part.size)
        return;
    atomic_store(&parts[module], new_part(&part));
    if (known)
        forget(known);
}

static bool is_in(const struct part *part, uintptr_t address)
{
    return address - (uintptr_t)block_of_kernel_thread(part) < part->size;
}

void gs_cc_locals_are_reached(uintptr_t offset)
{
    const uintptr_t address = (uintptr_t)__builtin_thread_pointer() + offset;
    for (unsigned i = 1; i < MODULES; i++) {
        struct part *part = atomic_load(&parts[i]);
        if (!part || !part->is_new || !is_in(part, address))
            continue;
        part->place = (struct place){
            0, (unsigned long)(block_of_kernel_thread(part) - (char *)__builtin_thread_pointer())};
        part->is_copied = true;
    }
}

void gs_cc_locals_all_are_reached(void)
{
    for (unsigned i = 1; i < MODULES; i++) {
        struct part *part = atomic_load(&parts[i]);
        if (part && part->is_new)
            part->is_copied = true;
    }
}

/* What constructors of a library that is loaded by a thread have written, is this thread's. */
static void move_to_thread(struct thread *self, const struct part *part)
{
    char *block = block_of_kernel_thread(part);
    memcpy(make_block(self, part), block, part->size);
    if (!part->is_copied)
        reset(block, part);
}

void gs_cc_locals_end_search(void)
{
    struct thread *self = thread_self();
    for (unsigned i = 1; i < MODULES; i++) {
        struct part *part = atomic_load(&parts[i]);
        if (!part || !part->is_new)
            continue;
        part->is_new = false;
        if (self && !self->is_first)
            move_to_thread(self, part);
        if (part->is_copied)
            copy_from_now_on(part);
    }
    has_searched = true;
}

/* ---- Functions for the end of a thread ---- */

struct ender {
    void (*fn)(void *);
    void *object;
    void *library; /* that has the function, or NULL: it stays until this was called */
    struct ender *next;
};

static void *hold(void *address)
{
    Dl_info information;
    struct link_map *library = NULL;
    bool is_found =
        dladdr1(address, &information, (void **)&library, RTLD_DL_LINKMAP) && *library->l_name;
    return is_found ? dlopen(library->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

int gs_cc_at_end_of_thread(void (*fn)(void *), void *object,
                           void *library) __asm__("__cxa_thread_atexit_impl");
int gs_cc___cxa_thread_atexit_impl(void (*fn)(void *), void *object, void *library);

int gs_cc___cxa_thread_atexit_impl(void (*fn)(void *), void *object, void *library)
{
    struct thread *self = thread_self();
    if (!self || self->is_first)
        return gs_cc_at_end_of_thread(fn, object, library);
    struct extra *extra = gs_cc_extra(self);
    struct ender *ender = gs_cc_allocate(sizeof *ender);
    *ender = (struct ender){fn, object, hold(library), extra->enders};
    extra->enders = ender;
    return 0;
}

void gs_cc_run_enders(struct thread *self)
{
    for (struct ender *ender; (ender = self->extra->enders);) {
        self->extra->enders = ender->next;
        ender->fn(ender->object);
        if (ender->library)
            gs_cc_close_library(ender->library);
        gs_cc_release(ender, sizeof *ender);
    }
}

/* In the order of strcmp. */
static const struct gs_cc_replacement replacements[] = {
    {"__cxa_thread_atexit_impl", (void (*)(void))gs_cc___cxa_thread_atexit_impl},
    REPLACED(__tls_get_addr),
};
const struct gs_cc_replacements gs_cc_library_locals = REPLACEMENTS(replacements);
