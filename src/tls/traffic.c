#include "tls/traffic.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

static bool is_label(const struct gs_tls_expansion *expansion, const char *label)
{
    return expansion->label_n == strlen(label) &&
           !memcmp(expansion->label, label, expansion->label_n);
}

/* What is too long is not of a cipher that is known here. */
static void keep(unsigned char *kept, unsigned char *kept_n, size_t max, const unsigned char *bytes,
                 size_t n)
{
    if (n > max)
        return;
    memcpy(kept, bytes, n);
    *kept_n = (unsigned char)n;
}

static void note_secret(struct gs_tls_traffic **traffic, bool is_client, const unsigned char *bytes,
                        size_t n)
{
    if (!*traffic)
        *traffic = calloc(1, sizeof **traffic);
    if (!*traffic)
        return;
    struct gs_tls_derived *derived = is_client ? &(*traffic)->client : &(*traffic)->server;
    keep(derived->secret, &derived->secret_n, sizeof derived->secret, bytes, n);
}

static struct gs_tls_derived *find(struct gs_tls_traffic *traffic,
                                   const struct gs_tls_expansion *expansion)
{
    struct gs_tls_derived *both[] = {&traffic->client, &traffic->server};
    for (int i = 0; i < 2; i++)
        if (both[i]->secret_n == expansion->secret_n &&
            !memcmp(both[i]->secret, expansion->secret, expansion->secret_n))
            return both[i];
    return NULL;
}

void gs_tls_traffic_note(struct gs_tls_traffic **traffic, const struct gs_tls_expansion *expansion,
                         const unsigned char *bytes, size_t n)
{
    bool is_client = is_label(expansion, "c ap traffic");
    if (is_client || is_label(expansion, "s ap traffic")) {
        note_secret(traffic, is_client, bytes, n);
        return;
    }
    struct gs_tls_derived *derived = *traffic ? find(*traffic, expansion) : NULL;
    if (derived && is_label(expansion, "key"))
        keep(derived->key, &derived->key_n, sizeof derived->key, bytes, n);
    else if (derived && is_label(expansion, "iv"))
        keep(derived->iv, &derived->iv_n, sizeof derived->iv, bytes, n);
}

void gs_tls_traffic_free(struct gs_tls_traffic *traffic)
{
    if (traffic)
        OPENSSL_cleanse(traffic, sizeof *traffic);
    free(traffic);
}
