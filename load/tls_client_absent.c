/* What load has in place of TLS without OpenSSL: no run begins with an https URL. */
#include "load/tls_client.h"

#include <stdlib.h>

int gs_load_tls_target_init(struct load_tls_target *target, const struct load_settings *settings,
                            const struct gs_http_url *url, bool is_loopback)
{
    (void)target, (void)settings, (void)is_loopback;
    return cli_fail(&gs_load_command, "%s: https needs OpenSSL, without which this was built",
                    url->authority);
}

void gs_load_tls_target_done(struct load_tls_target *target)
{
    (void)target;
}

int gs_load_tls_connect(struct load_tls *tls, const struct load_tls_target *target, int fd,
                        uint64_t deadline_ns)
{
    (void)tls, (void)target, (void)fd, (void)deadline_ns;
    abort();
}

ssize_t gs_load_tls_receive(struct load_tls *tls, const void *bytes, size_t n, load_plain_fn *fn,
                            void *data)
{
    (void)tls, (void)bytes, (void)n, (void)fn, (void)data;
    abort();
}

ssize_t gs_load_tls_send(struct load_tls *tls, const char *bytes, size_t n)
{
    (void)tls, (void)bytes, (void)n;
    abort();
}

void gs_load_tls_close(struct load_tls *tls, const struct load_tls_target *target)
{
    (void)tls, (void)target;
}

void gs_load_tls_done(struct load_tls *tls)
{
    (void)tls;
}

bool gs_load_tls_record(const struct load_tls *tls, struct load_metrics *metrics)
{
    (void)tls, (void)metrics;
    return false;
}

enum load_error gs_load_tls_error(const struct load_tls *tls, struct load_metrics *metrics)
{
    (void)tls, (void)metrics;
    return LOAD_TLS;
}
