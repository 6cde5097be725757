#include "thread/stack/slot_set.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <sys/mman.h>

int gs_slot_set_init(struct slot_set *set, size_t max)
{
    size_t size = (max + 63) / 64 * sizeof *set->words;
    long words = gs_sys_mmap(NULL, size, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (words < 0)
        return -ENOMEM;
    *set = (struct slot_set){.words = (uint64_t *)words};
    return 0;
}

void gs_slot_set_add(struct slot_set *set, size_t slot)
{
    set->words[slot / 64] |= UINT64_C(1) << slot % 64;
    if (!set->count++ || slot / 64 < set->lowest)
        set->lowest = slot / 64;
}

bool gs_slot_set_has(const struct slot_set *set, size_t slot)
{
    return set->words[slot / 64] >> slot % 64 & 1;
}

size_t gs_slot_set_take(struct slot_set *set)
{
    while (!set->words[set->lowest])
        set->lowest++;
    uint64_t *word = &set->words[set->lowest];
    unsigned bit = (unsigned)__builtin_ctzll(*word);
    *word &= *word - 1;
    set->count--;
    return set->lowest * 64 + bit;
}
