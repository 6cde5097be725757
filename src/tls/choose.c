/* A server's choice among several certificates, by the name that the client asks for. */
#include "tls/context.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Names ---- */

static void to_lower(char *text)
{
    for (; *text; text++)
        *text = (char)tolower((unsigned char)*text);
}

static int add_name(struct gs_tls_context *context, const ASN1_STRING *name, unsigned identity)
{
    size_t n = (size_t)ASN1_STRING_length(name);
    const char *bytes = (const char *)ASN1_STRING_get0_data(name);
    if (memchr(bytes, 0, n))
        return 0;
    struct gs_tls_name *names =
        realloc(context->names, (context->name_count + 1) * sizeof *context->names);
    if (!names)
        return -ENOMEM;
    context->names = names;
    char *text = strndup(bytes, n);
    if (!text)
        return -ENOMEM;
    to_lower(text);
    names[context->name_count++] = (struct gs_tls_name){text, identity};
    return 0;
}

static int add_names_of(struct gs_tls_context *context, unsigned identity)
{
    const X509 *certificate = context->identities[identity].certificate;
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    int err = 0;
    for (int i = 0; !err && i < sk_GENERAL_NAME_num(names); i++) {
        int type;
        const ASN1_STRING *name = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
        if (type == GEN_DNS)
            err = add_name(context, name, identity);
    }
    GENERAL_NAMES_free(names);
    return err;
}

static int compare(const void *a, const void *b)
{
    const struct gs_tls_name *one = a, *other = b;
    int order = strcmp(one->text, other->text);
    return order ? order : (one->identity > other->identity) - (one->identity < other->identity);
}

/* Returns the first of the names that are the text; NULL: none. */
static const struct gs_tls_name *find(const struct gs_tls_context *context, const char *text)
{
    size_t first = 0, end = context->name_count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (strcmp(context->names[middle].text, text) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    bool is_found = first < context->name_count && !strcmp(context->names[first].text, text);
    return is_found ? &context->names[first] : NULL;
}

/* An exact name comes before "*." and all labels but the first. */
static const struct gs_tls_name *match(const struct gs_tls_context *context, const char *wanted)
{
    char text[256];
    size_t n = strlen(wanted);
    if (n >= sizeof text)
        return NULL;
    memcpy(text, wanted, n + 1);
    to_lower(text);
    const struct gs_tls_name *found = find(context, text);
    char *dot = strchr(text, '.');
    if (found || !dot || dot == text)
        return found;
    dot[-1] = '*';
    return find(context, dot - 1);
}

/* ---- What OpenSSL calls ---- */

static int use(SSL *ssl, const struct gs_tls_identity *identity)
{
    return SSL_use_cert_and_key(ssl, identity->certificate, identity->key, identity->chain, 0);
}

/* Certificates for the same name have keys of different kinds, of which OpenSSL chooses one; of the
 * same kind the first is taken. */
static int choose(SSL *ssl, void *data)
{
    const struct gs_tls_context *context = data;
    const char *wanted = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    const struct gs_tls_name *found = wanted ? match(context, wanted) : NULL;
    SSL_certs_clear(ssl);
    if (!found)
        return use(ssl, &context->identities[0]);
    int is_set = use(ssl, &context->identities[found->identity]);
    const struct gs_tls_name *end = context->names + context->name_count;
    for (const struct gs_tls_name *next = found + 1; next < end && !strcmp(next->text, found->text);
         next++)
        if (use(ssl, &context->identities[next->identity]) != 1)
            ERR_clear_error();
    return is_set;
}

/* Accept any name; so a session remembers its own. */
static int accept_name(SSL *ssl, int *alert, void *unused)
{
    (void)ssl, (void)alert, (void)unused;
    return SSL_TLSEXT_ERR_OK;
}

static int staple(SSL *ssl, void *data)
{
    const struct gs_tls_context *context = data;
    const struct gs_tls_identity *identity = context->identities;
    const X509 *certificate = SSL_get_certificate(ssl);
    while (identity < context->identities + context->identity_count &&
           identity->certificate != certificate)
        identity++;
    if (identity == context->identities + context->identity_count || !identity->ocsp ||
        identity->ocsp_expiry <= time(NULL))
        return SSL_TLSEXT_ERR_NOACK;
    unsigned char *copy = OPENSSL_memdup(identity->ocsp, (size_t)identity->ocsp_n);
    if (!copy)
        return SSL_TLSEXT_ERR_NOACK;
    SSL_set_tlsext_status_ocsp_resp(ssl, copy, identity->ocsp_n);
    return SSL_TLSEXT_ERR_OK;
}

/* ---- Life ---- */

int gs_tls_choose_init(struct gs_tls_context *context)
{
    int err = 0;
    for (unsigned i = 0; !err && i < context->identity_count; i++)
        err = add_names_of(context, i);
    if (context->name_count)
        qsort(context->names, context->name_count, sizeof *context->names, compare);
    if (context->identity_count > 1)
        SSL_CTX_set_cert_cb(context->ssl, choose, context);
    SSL_CTX_set_tlsext_servername_callback(context->ssl, accept_name);
    SSL_CTX_set_tlsext_status_cb(context->ssl, staple);
    SSL_CTX_set_tlsext_status_arg(context->ssl, context);
    return err;
}

void gs_tls_choose_done(struct gs_tls_context *context)
{
    for (size_t i = 0; i < context->name_count; i++)
        free(context->names[i].text);
    free(context->names);
}
