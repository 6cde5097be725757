/* Parts of messages of which some bytes were transferred already. */
#include "compiler/runtime/io/transfer.h"

int gs_cc_parts_after(const struct iovec *parts, size_t count, size_t skipped,
                      struct iovec *ret_left)
{
    int left = 0;
    for (size_t i = 0; i < count && left < PARTS; i++) {
        if (skipped >= parts[i].iov_len && skipped) {
            skipped -= parts[i].iov_len;
            continue;
        }
        ret_left[left++] =
            (struct iovec){(char *)parts[i].iov_base + skipped, parts[i].iov_len - skipped};
        skipped = 0;
    }
    return left;
}

size_t gs_cc_length_of(const struct iovec *parts, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += parts[i].iov_len;
    return n;
}
