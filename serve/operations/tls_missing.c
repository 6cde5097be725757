/* In place of gossamer-tls, where that was not built: no context can be made. */
#include <errno.h>
#include <gossamer/tls_engine.h>
#include <stdio.h>

int gs_tls_context_new(const struct gs_tls_options *options, struct gs_tls_context **ret_context,
                       char ret_text[GS_TLS_TEXT])
{
    (void)options, (void)ret_context;
    if (ret_text)
        snprintf(
            ret_text, GS_TLS_TEXT,
            "this program was built without TLS: build it where OpenSSL 3.0 or newer is found");
    return -EOPNOTSUPP;
}

void gs_tls_context_hold(struct gs_tls_context *context)
{
    (void)context;
}

void gs_tls_context_release(struct gs_tls_context *context)
{
    (void)context;
}

int64_t gs_tls_context_expiry(const struct gs_tls_context *context)
{
    (void)context;
    return INT64_MAX;
}

int64_t gs_tls_context_ocsp_expiry(const struct gs_tls_context *context)
{
    (void)context;
    return INT64_MAX;
}

int gs_tls_engine_new(struct gs_tls_context *context, const char *server_name,
                      struct gs_tls_engine **ret_engine)
{
    (void)context, (void)server_name, (void)ret_engine;
    return -EOPNOTSUPP;
}

void gs_tls_engine_free(struct gs_tls_engine *engine)
{
    (void)engine;
}

ssize_t gs_tls_engine_read(struct gs_tls_engine *engine, struct gs_tls_input *input, void *plain,
                           size_t size)
{
    (void)engine, (void)input, (void)plain, (void)size;
    return -EPROTO;
}

ssize_t gs_tls_engine_write(struct gs_tls_engine *engine, const void *bytes, size_t n)
{
    (void)engine, (void)bytes, (void)n;
    return -EPROTO;
}

void gs_tls_engine_close(struct gs_tls_engine *engine)
{
    (void)engine;
}

const char *gs_tls_engine_output(const struct gs_tls_engine *engine, size_t *ret_n)
{
    (void)engine;
    *ret_n = 0;
    return NULL;
}

void gs_tls_engine_sent(struct gs_tls_engine *engine, size_t n)
{
    (void)engine, (void)n;
}

void gs_tls_engine_info(const struct gs_tls_engine *engine, struct gs_tls_info *ret_info)
{
    (void)engine;
    *ret_info = (struct gs_tls_info){0};
}
