/* Every allocation fails once, ours and OpenSSL's: the connection ends with an error or works. */
#include "tests/test.h"
#include "tests/tls/certificates.h"
#include "tests/tls/pair.h"

#include <errno.h>
#include <openssl/crypto.h>

/* ---- Allocations ---- */

/* The allocation to fail, from 1 on; 0: none. */
static unsigned long ours_until, openssls_until, ours, openssls;

static bool fails(unsigned long *count, unsigned long until)
{
    return ++*count == until;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *block, size_t n);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *block, size_t n);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t n);

void *__wrap_malloc(size_t n)
{
    return fails(&ours, ours_until) ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t count, size_t n)
{
    return fails(&ours, ours_until) ? NULL : __real_calloc(count, n);
}

void *__wrap_realloc(void *block, size_t n)
{
    return fails(&ours, ours_until) ? NULL : __real_realloc(block, n);
}

char *__wrap_strdup(const char *text)
{
    return fails(&ours, ours_until) ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t n)
{
    return fails(&ours, ours_until) ? NULL : __real_strndup(text, n);
}

static void *openssl_malloc(size_t n, const char *file, int line)
{
    (void)file, (void)line;
    return n && !fails(&openssls, openssls_until) ? __real_malloc(n) : NULL;
}

static void *openssl_realloc(void *block, size_t n, const char *file, int line)
{
    (void)file, (void)line;
    if (n)
        return fails(&openssls, openssls_until) ? NULL : __real_realloc(block, n);
    free(block);
    return NULL;
}

static void openssl_free(void *block, const char *file, int line)
{
    (void)file, (void)line;
    free(block);
}

__attribute__((constructor)) static void start(void)
{
    if (!CRYPTO_set_mem_functions(openssl_malloc, openssl_realloc, openssl_free))
        exit(1);
}

/* ---- What is done meanwhile ---- */

static struct gs_tls_context *contexts[2][2]; /* of servers and clients, verifying or not */
static struct gs_tls_certificate certificates[2];
static char ocsp[128];

static void make_files(void)
{
    static struct certificate_files files[2];
    if (files[0].chain[0])
        return;
    certificate_make("server.test", &files[0]);
    certificate_make("*.test", &files[1]);
    certificate_make_ocsp(&files[0], 3600, ocsp);
    certificates[0] = (struct gs_tls_certificate){files[0].chain, files[0].key, NULL, ocsp};
    certificates[1] = (struct gs_tls_certificate){files[1].chain, files[1].key, NULL, NULL};
}

static struct gs_tls_options options_of(bool is_client, bool verifies)
{
    static const char *const protocols[] = {"h2", "http/1.1"};
    return (struct gs_tls_options){
        .is_client = is_client,
        .certificates = certificates,
        .certificate_count = is_client ? 1 : 2,
        .ca_file = certificates[0].chain,
        .verify = verifies ? GS_TLS_VERIFY_REQUIRED : GS_TLS_VERIFY_NONE,
        .protocols = protocols,
        .protocol_count = 2,
    };
}

static void make_contexts(void)
{
    make_files();
    for (int is_client = 0; !contexts[1][1] && is_client < 2; is_client++)
        for (int verifies = 0; verifies < 2; verifies++) {
            const struct gs_tls_options options = options_of(is_client, verifies);
            CHECK(!gs_tls_context_new(&options, &contexts[is_client][verifies], NULL));
        }
}

static bool use_context(int verifies)
{
    const struct gs_tls_options options = options_of(false, verifies);
    char text[GS_TLS_TEXT] = "";
    struct gs_tls_context *context;
    int err = gs_tls_context_new(&options, &context, text);
    if (!err)
        gs_tls_context_release(context);
    else if ((err != -ENOMEM && err != -EINVAL) || !*text)
        TEST_FAIL("error %d, \"%s\"", err, text);
    return !err;
}

static bool use_engines(struct pair *pair, struct gs_tls_session **session)
{
    char plain[10];
    if (*session && gs_tls_engine_resume(pair->client, *session))
        return false;
    if (pair_exchange(pair) || !pair_talk(pair->client, pair->server, 20000, 5000) ||
        !pair_talk(pair->server, pair->client, 20000, 5000))
        return false;
    if (!*session)
        *session = gs_tls_engine_session(pair->client);
    gs_tls_engine_close(pair->server);
    return pair_pass(pair->server, pair->client, 100, plain, sizeof plain) == 0;
}

/* Two connections, of which the second is resumed, each by new engines. */
static bool use_connections(int verifies)
{
    struct gs_tls_session *session = NULL;
    bool is_fine = true;
    for (int i = 0; is_fine && i < 2; i++) {
        struct pair pair = {.step = 1000};
        is_fine = !gs_tls_engine_new(contexts[0][verifies], NULL, &pair.server) &&
                  !gs_tls_engine_new(contexts[1][verifies], "server.test", &pair.client) &&
                  use_engines(&pair, &session);
        gs_tls_engine_free(pair.server);
        gs_tls_engine_free(pair.client);
    }
    gs_tls_session_free(session);
    return is_fine;
}

/* ---- Failing each ---- */

/* Returns how many allocations there were. */
static unsigned long run(bool (*use)(int verifies), int verifies, unsigned long fail_ours,
                         unsigned long fail_openssls, bool *ret_is_fine)
{
    ours = openssls = 0;
    ours_until = fail_ours;
    openssls_until = fail_openssls;
    *ret_is_fine = use(verifies);
    ours_until = openssls_until = 0;
    return fail_ours ? ours : openssls;
}

static void fail_each(bool (*use)(int verifies))
{
    bool is_fine;
    make_contexts();
    for (int verifies = 0; verifies < 2; verifies++) {
        (void)run(use, verifies, 0, 0, &is_fine);
        CHECK(is_fine);
        (void)run(use, verifies, 0, 0, &is_fine);
        unsigned long all_ours = ours, all_openssls = openssls;
        for (unsigned long i = 1; i <= all_ours; i++)
            (void)run(use, verifies, i, 0, &is_fine);
        for (unsigned long i = 1; i <= all_openssls; i += 1 + i / 20)
            (void)run(use, verifies, 0, i, &is_fine);
        (void)run(use, verifies, 0, 0, &is_fine);
        CHECK(is_fine);
    }
}

TEST(connection_survives_each_failing_allocation)
{
    fail_each(use_connections);
}

TEST(making_a_context_survives_each_failing_allocation)
{
    fail_each(use_context);
}
