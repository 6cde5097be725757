/* Which tickets are accepted, when and where. */
#include "tests/test.h"
#include "tests/tls/certificates.h"
#include "tests/tls/pair.h"

#include <gossamer/clock.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

uint64_t __real_gs_clock_now(void);
uint64_t __wrap_gs_clock_now(void);
uint64_t __real_gs_clock_wall(void);
uint64_t __wrap_gs_clock_wall(void);

#define HOUR_NS (3600 * (int64_t)GS_SECOND)
static int64_t shift_ns, wall_shift_ns;

uint64_t __wrap_gs_clock_now(void)
{
    return __real_gs_clock_now() + (uint64_t)shift_ns;
}

uint64_t __wrap_gs_clock_wall(void)
{
    return __real_gs_clock_wall() + (uint64_t)wall_shift_ns;
}

static int failing_hmac; /* 1: the next one; 0: none */

unsigned char *__real_HMAC(const EVP_MD *digest, const void *key, int key_n,
                           const unsigned char *bytes, size_t n, unsigned char *ret_bytes,
                           unsigned int *ret_n);
unsigned char *__wrap_HMAC(const EVP_MD *digest, const void *key, int key_n,
                           const unsigned char *bytes, size_t n, unsigned char *ret_bytes,
                           unsigned int *ret_n);
unsigned char *__wrap_HMAC(const EVP_MD *digest, const void *key, int key_n,
                           const unsigned char *bytes, size_t n, unsigned char *ret_bytes,
                           unsigned int *ret_n)
{
    if (failing_hmac && !--failing_hmac)
        return NULL;
    return __real_HMAC(digest, key, key_n, bytes, n, ret_bytes, ret_n);
}

static struct gs_tls_session *new_session(struct pair *pair)
{
    pair_renew(pair, "server.test");
    if (pair_exchange(pair))
        return NULL;
    return gs_tls_engine_session(pair->client);
}

static bool is_resumed(struct pair *pair, struct gs_tls_session *session)
{
    struct gs_tls_info info;
    pair_renew(pair, "server.test");
    if (gs_tls_engine_resume(pair->client, session) || pair_exchange(pair))
        return false;
    gs_tls_engine_info(pair->server, &info);
    return info.is_resumed;
}

TEST(ticket_lives_for_the_hour_and_the_next)
{
    for (int i = 0; i < 2; i++) {
        struct pair pair;
        pair_init(&pair, NULL, NULL);
        if (i)
            pair_speak_1_2(&pair);
        struct gs_tls_session *first = new_session(&pair);
        CHECK(first && is_resumed(&pair, first));
        shift_ns += HOUR_NS;
        CHECK(is_resumed(&pair, first));
        struct gs_tls_session *renewed = gs_tls_engine_session(pair.client);
        CHECK(renewed);
        shift_ns += HOUR_NS;
        CHECK(!is_resumed(&pair, first));
        CHECK(is_resumed(&pair, renewed));
        shift_ns += 20000 * HOUR_NS;
        CHECK(!is_resumed(&pair, renewed));
        struct gs_tls_session *last = new_session(&pair);
        CHECK(last && is_resumed(&pair, last));
        gs_tls_session_free(first);
        gs_tls_session_free(renewed);
        gs_tls_session_free(last);
        pair_done(&pair);
    }
}

TEST(keys_do_not_depend_on_the_wall_clock)
{
    struct pair pair;
    pair_init(&pair, NULL, NULL);
    struct gs_tls_session *session = new_session(&pair);
    CHECK(session);
    for (int64_t hours = -20000; hours <= 20000; hours += 8000) {
        wall_shift_ns = hours * HOUR_NS;
        CHECK(is_resumed(&pair, session));
    }
    shift_ns += HOUR_NS;
    CHECK(is_resumed(&pair, session));
    shift_ns += HOUR_NS;
    wall_shift_ns = -20000 * HOUR_NS;
    CHECK(!is_resumed(&pair, session));
    gs_tls_session_free(session);
    pair_done(&pair);
}

TEST(ticket_is_accepted_by_a_context_that_was_made_from_newer_files)
{
    struct pair pair, other;
    pair_init(&pair, NULL, NULL);
    pair_init(&other, NULL, NULL);
    struct gs_tls_session *session = new_session(&pair);
    CHECK(session && is_resumed(&other, session));
    gs_tls_session_free(session);
    pair_done(&pair);
    pair_done(&other);
}

TEST(ticket_is_refused_by_a_context_for_other_names_or_other_rules)
{
    struct pair pair, other;
    struct certificate_files files;
    certificate_make("other.test", &files);
    const struct gs_tls_certificate certificate = {.chain = files.chain, .key = files.key};
    const struct gs_tls_options others[] = {
        {.certificates = &certificate, .certificate_count = 1},
        {.verify = GS_TLS_VERIFY_OPTIONAL, .ca_file = files.chain},
    };
    pair_init(&pair, NULL, NULL);
    struct gs_tls_session *session = new_session(&pair);
    for (unsigned i = 0; i < 2; i++) {
        pair_init(&other, &others[i], NULL);
        CHECK(session && !is_resumed(&other, session));
        CHECK(pair_talk(other.client, other.server, 10, 100));
        pair_done(&other);
    }
    gs_tls_session_free(session);
    pair_done(&pair);
}

/* In a child, which turns the keys by itself: make a session, and write it. */
static void write_session(struct pair *pair, int64_t hours, int fd)
{
    unsigned char *bytes = NULL;
    shift_ns += hours * HOUR_NS;
    struct gs_tls_session *session = new_session(pair);
    int n = session ? i2d_SSL_SESSION((SSL_SESSION *)session, &bytes) : 0;
    _exit(n <= 0 || write(fd, bytes, (size_t)n) != n);
}

/* The session that a child has made as many hours later. */
static struct gs_tls_session *session_of_child(struct pair *pair, int64_t hours)
{
    unsigned char bytes[10000];
    int fds[2], status;
    CHECK(!pipe(fds));
    pid_t child = fork();
    if (!child)
        write_session(pair, hours, fds[1]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    const unsigned char *at = bytes;
    ssize_t n = read(fds[0], bytes, sizeof bytes);
    SSL_SESSION *session = n > 0 ? d2i_SSL_SESSION(NULL, &at, n) : NULL;
    close(fds[0]);
    close(fds[1]);
    CHECK(session);
    return (struct gs_tls_session *)session;
}

TEST(processes_have_the_same_keys_after_a_fork_also_hours_later)
{
    struct pair pair;
    pair_init(&pair, NULL, NULL);
    for (int64_t hours = 0; hours < 4; hours++) {
        struct gs_tls_session *session = session_of_child(&pair, hours);
        shift_ns += hours * HOUR_NS;
        CHECK(is_resumed(&pair, session));
        gs_tls_session_free(session);
    }
    pair_done(&pair);
}

/* Two hours have passed: of each, the secret or a key cannot be derived at first. */
TEST(keys_are_the_same_after_a_failure_to_derive_them)
{
    struct pair pair;
    pair_init(&pair, NULL, NULL);
    for (int failing = 1; failing <= 8; failing++) {
        struct gs_tls_session *session = session_of_child(&pair, 2);
        shift_ns += 2 * HOUR_NS;
        failing_hmac = failing;
        (void)!is_resumed(&pair, session);
        CHECK_EQ(failing_hmac, 0);
        CHECK(is_resumed(&pair, session));
        gs_tls_session_free(session);
    }
    pair_done(&pair);
}

TEST(without_keys_a_connection_has_no_ticket)
{
    for (int i = 0; i < 2; i++) {
        struct pair pair;
        pair_init(&pair, NULL, NULL);
        if (i)
            pair_speak_1_2(&pair);
        shift_ns += HOUR_NS;
        failing_hmac = 1;
        pair_renew(&pair, "server.test");
        CHECK_EQ(pair_exchange(&pair), 0);
        CHECK_EQ(failing_hmac, 0);
        CHECK(pair_talk(pair.client, pair.server, 10, 100));
        CHECK(pair_talk(pair.server, pair.client, 10, 100));
        CHECK(!gs_tls_engine_session(pair.client));
        pair_done(&pair);
    }
}

TEST(resumed_connection_of_tls_1_3_gets_a_ticket_of_its_own)
{
    struct pair pair;
    pair_init(&pair, NULL, NULL);
    struct gs_tls_session *session = new_session(&pair);
    for (int i = 0; i < 3; i++) {
        const unsigned char *old, *new;
        size_t old_n, new_n;
        CHECK(session && is_resumed(&pair, session));
        struct gs_tls_session *next = gs_tls_engine_session(pair.client);
        CHECK(next);
        SSL_SESSION_get0_ticket((SSL_SESSION *)session, &old, &old_n);
        SSL_SESSION_get0_ticket((SSL_SESSION *)next, &new, &new_n);
        CHECK(old_n != new_n || memcmp(old, new, old_n));
        gs_tls_session_free(session);
        session = next;
    }
    gs_tls_session_free(session);
    pair_done(&pair);
}

TEST(context_keeps_the_newest_sessions_of_its_servers)
{
    char names[GS_TLS_MAX_SESSIONS + 1][8];
    struct pair pair;
    pair_init(&pair, NULL, NULL);
    struct gs_tls_session *first = new_session(&pair), *second = new_session(&pair);
    CHECK(first && second && first != second);
    gs_tls_session_keep(pair.client_context, "a", first);
    gs_tls_session_keep(pair.client_context, "a", second);
    CHECK(gs_tls_session_take(pair.client_context, "a") == second);
    CHECK(gs_tls_session_take(pair.client_context, "a") == first);
    CHECK(!gs_tls_session_take(pair.client_context, "a"));
    gs_tls_session_free(first);
    gs_tls_session_keep(pair.client_context, "0", second);
    for (int i = 1; i <= GS_TLS_MAX_SESSIONS; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        gs_tls_session_keep(pair.client_context, names[i], new_session(&pair));
    }
    CHECK(!gs_tls_session_take(pair.client_context, "0"));
    struct gs_tls_session *left = gs_tls_session_take(pair.client_context, "1");
    CHECK(left);
    gs_tls_session_free(left);
    pair_done(&pair);
}

TEST(context_that_forgets_sessions_keeps_none)
{
    const struct gs_tls_options options = {.is_client = true, .forgets_sessions = true};
    struct gs_tls_context *context;
    struct pair pair;
    pair_init(&pair, NULL, NULL);
    CHECK_EQ(gs_tls_context_new(&options, &context, NULL), 0);
    struct gs_tls_session *session = new_session(&pair);
    CHECK(session);
    gs_tls_session_keep(context, "a", session);
    CHECK(!gs_tls_session_take(context, "a"));
    gs_tls_context_release(context);
    pair_done(&pair);
}
