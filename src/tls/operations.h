/* What code that is not linked with OpenSSL calls of a context: its first member points to this.
 * The functions are those of gossamer/tls_engine.h. */
#ifndef GS_TLS_OPERATIONS_H
#define GS_TLS_OPERATIONS_H

#include <gossamer/tls_engine.h>

struct gs_tls_operations {
    int (*new_engine)(struct gs_tls_context *context, const char *server_name,
                      struct gs_tls_engine **ret_engine);
    void (*free_engine)(struct gs_tls_engine *engine);
    ssize_t (*read)(struct gs_tls_engine *engine, struct gs_tls_input *input, void *plain,
                    size_t size);
    ssize_t (*write)(struct gs_tls_engine *engine, const void *bytes, size_t n);
    void (*close)(struct gs_tls_engine *engine);
    const char *(*output)(const struct gs_tls_engine *engine, size_t *ret_n);
    void (*sent)(struct gs_tls_engine *engine, size_t n);
    void (*info)(const struct gs_tls_engine *engine, struct gs_tls_info *ret_info);
    void (*error)(const struct gs_tls_engine *engine, char ret_text[GS_TLS_TEXT]);
};

static inline const struct gs_tls_operations *
gs_tls_operations_of(const struct gs_tls_context *context)
{
    return *(const struct gs_tls_operations *const *)context;
}

#endif
