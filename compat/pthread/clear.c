/* memset with zero on much memory, as servers clear the buffer of a connection after each request.
 * Pages that are zero already are only read: what the thread has never used stays without memory,
 * and what is no longer in the processor's caches need not be written back. The first and the last
 * page are always written, so that a wrong address faults where it does natively. */
#include "compat/pthread/real.h"
#include "compat/pthread/task.h"

#include <string.h>

enum { PAGE = 4096, PAGES_MIN = 4 };

typedef unsigned long long block __attribute__((vector_size(16), may_alias));
typedef void *memset_fn(void *, int, size_t);

static memset_fn *real;

static bool is_zero(const char *page)
{
    enum { STEP = 16 };
    const block *blocks = (const block *)page;
    for (unsigned i = 0; i < PAGE / sizeof *blocks; i += STEP) {
        block all = {0};
        for (unsigned k = 0; k < STEP; k++)
            all |= blocks[i + k];
        if (all[0] | all[1])
            return false;
    }
    return true;
}

static void *clear(char *bytes, size_t n)
{
    char *end = bytes + n;
    char *first = (char *)(((uintptr_t)bytes | (PAGE - 1)) + 1); /* the second page */
    char *last = (char *)((uintptr_t)(end - 1) & ~(uintptr_t)(PAGE - 1));
    real(bytes, 0, (size_t)(first - bytes));
    for (char *page = first; page < last; page += PAGE)
        if (!is_zero(page))
            real(page, 0, PAGE);
    real(last, 0, (size_t)(end - last));
    return bytes;
}

/* Also for this library's own calls, and before it is initialized. */
__attribute__((visibility("default"))) void *memset(void *bytes, int byte, size_t n)
{
    if (GS_UNLIKELY(!real)) {
        void *to = bytes;
        __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(byte) : "memory");
        return bytes;
    }
    if (GS_LIKELY(n < (size_t)PAGES_MIN * PAGE) || (unsigned char)byte || !gs_run.is_active)
        return real(bytes, byte, n);
    return clear(bytes, n);
}

__attribute__((constructor)) static void find_real(void)
{
    real = (memset_fn *)gs_real_function("memset");
}
