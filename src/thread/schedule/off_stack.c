#include "thread/schedule/off_stack.h"
#include "thread/context/sanitizer.h"
#include "thread/schedule/thread_extra.h"

#include <stdlib.h>
#include <sys/uio.h>

struct off_stack_copy {
    struct off_stack_copy *next;
    void *result; /* where it is copied to at the end; NULL: nowhere */
    size_t size;
    _Alignas(max_align_t) char bytes[];
};

static void *add_copy(struct off_stack *off, const void *at, size_t size, bool is_result)
{
    struct off_stack_copy *copy = off->err ? NULL : malloc(sizeof *copy + size);
    if (!copy) {
        off->err = -ENOMEM;
        return (void *)at;
    }
    copy->next = off->copies;
    copy->result = is_result ? (void *)at : NULL;
    copy->size = size;
    off->copies = copy;
    return memcpy(copy->bytes, at, size);
}

/* The address sanitizer may keep variables elsewhere: there everything is copied, so that it checks
 * this. */
void *gs_off_stack_copy(struct off_stack *off, const void *at, size_t size, bool is_result)
{
    bool is_on_stack = GS_ASAN || thread_contains(off->thread, (uintptr_t)at);
    return at && size && is_on_stack ? add_copy(off, at, size, is_result) : (void *)at;
}

/* The array is copied wherever it is: its copy gets other addresses. */
const struct iovec *gs_off_stack_copy_parts(struct off_stack *off, const struct iovec *parts,
                                            int count, bool is_result)
{
    struct iovec *copies = add_copy(off, parts, (size_t)count * sizeof *parts, false);
    for (int i = 0; i < count && !off->err; i++)
        copies[i].iov_base = gs_off_stack_copy(off, parts[i].iov_base, parts[i].iov_len, is_result);
    return copies;
}

void gs_off_stack_end(struct off_stack *off)
{
    while (off->copies) {
        struct off_stack_copy *copy = off->copies;
        off->copies = copy->next;
        if (copy->result)
            memcpy(copy->result, copy->bytes, copy->size);
        free(copy);
    }
}
