/* What contexts are made of, and whom they trust. */
#include "tests/test.h"
#include "tests/tls/certificates.h"
#include "tests/tls/pair.h"
#include "tls/engine.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

/* ---- Files ---- */

static int load(const struct gs_tls_certificate *certificate, char *ret_text)
{
    const struct gs_tls_options options = {.certificates = certificate, .certificate_count = 1};
    struct gs_tls_context *context;
    int err = gs_tls_context_new(&options, &context, ret_text);
    if (!err)
        gs_tls_context_release(context);
    return err;
}

struct files {
    struct certificate_files site, other, encrypted, single;
    char passphrase[128], wrong[128], empty[128], broken[128], ocsp[128];
};

static void files_init(struct files *files)
{
    static const struct certificate_request encrypted = {
        .names = "DNS:e.test", .common_name = "e", .days = 1, .passphrase = "secret word"};
    static const struct certificate_request single = {
        .names = "DNS:s.test", .common_name = "s", .days = 1, .is_in_one_file = true};
    static const char broken[] = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    certificate_make("site.test", &files->site);
    certificate_make("other.test", &files->other);
    certificate_make_as(&encrypted, &files->encrypted);
    certificate_make_as(&single, &files->single);
    certificate_write("secret word\r\nmore", 17, files->passphrase);
    certificate_write("secret", 6, files->wrong);
    certificate_write("", 0, files->empty);
    certificate_write(broken, sizeof broken - 1, files->broken);
    certificate_make_ocsp(&files->site, 3600, files->ocsp);
}

TEST(each_defect_of_a_file_is_named_with_the_file)
{
    struct files files;
    files_init(&files);
    const char *site = files.site.chain, *key = files.site.key, *encrypted = files.encrypted.key;
    const struct {
        struct gs_tls_certificate certificate;
        int err;
        const char *text, *file;
    } cases[] = {
        {{site, key, NULL, NULL}, 0, "", ""},
        {{site, key, NULL, files.ocsp}, 0, "", ""},
        {{files.single.chain, NULL, NULL, NULL}, 0, "", ""},
        {{files.encrypted.chain, encrypted, files.passphrase, NULL}, 0, "", ""},
        {{"/nowhere/a.pem", key, NULL, NULL}, -ENOENT, "No such file", "/nowhere/a.pem"},
        {{site, "/nowhere/a.key", NULL, NULL}, -ENOENT, "No such file", "/nowhere/a.key"},
        {{"/tmp", key, NULL, NULL}, -EISDIR, "Is a directory", "/tmp"},
        {{"/dev/zero", key, NULL, NULL}, -EFBIG, "File too large", "/dev/zero"},
        {{key, key, NULL, NULL}, -EINVAL, "no certificate in the format PEM", key},
        {{files.broken, key, NULL, NULL}, -EINVAL, "no certificate", files.broken},
        {{files.empty, key, NULL, NULL}, -EINVAL, "no certificate", files.empty},
        {{site, site, NULL, NULL}, -EINVAL, "no private key", site},
        {{site, NULL, NULL, NULL}, -EINVAL, "no private key", site},
        {{site, files.other.key, NULL, NULL}, -EINVAL, "does not belong", files.other.key},
        {{site, encrypted, NULL, NULL}, -EINVAL, "name a file with its passphrase", encrypted},
        {{site, encrypted, files.wrong, NULL}, -EINVAL, "is not that of the key", files.wrong},
        {{site, encrypted, files.empty, NULL}, -EINVAL, "is not that of the key", files.empty},
        {{site, encrypted, "/nowhere/p", NULL}, -ENOENT, "No such file", "/nowhere/p"},
        {{site, key, NULL, "/nowhere/o"}, -ENOENT, "No such file", "/nowhere/o"},
        {{site, key, NULL, site}, -EINVAL, "no response of OCSP", site},
        {{files.other.chain, files.other.key, NULL, files.ocsp}, -EINVAL, "OCSP", files.ocsp},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[GS_TLS_TEXT];
        int err = load(&cases[i].certificate, text);
        if (err != cases[i].err)
            TEST_FAIL("case %u: error %d, \"%s\"", i, err, text);
        if (err && (!strstr(text, cases[i].text) || !strstr(text, cases[i].file)))
            TEST_FAIL("case %u: \"%s\" lacks \"%s\" or \"%s\"", i, text, cases[i].text,
                      cases[i].file);
        CHECK_EQ(load(&cases[i].certificate, NULL), err);
    }
}

TEST(file_that_may_not_be_read_is_named)
{
    struct certificate_files site;
    char text[GS_TLS_TEXT];
    certificate_make("site.test", &site);
    const struct gs_tls_certificate certificate = {.chain = site.chain, .key = site.key};
    uid_t user = geteuid();
    CHECK(!chmod(site.key, 0) && (user || !seteuid(65534)));
    int err = load(&certificate, text);
    CHECK(user || !seteuid(user));
    CHECK_EQ(err, -EACCES);
    CHECK(strstr(text, "cannot be read: Permission denied"));
}

TEST(options_that_contradict_each_other_are_refused)
{
    static const char *const empty[] = {""};
    static char long_name[300];
    static const char *const too_long[] = {long_name};
    static const struct gs_tls_certificate two[2];
    const struct {
        struct gs_tls_options options;
        int err;
        const char *text;
    } cases[] = {
        {{.is_client = false}, -EINVAL, "needs a certificate"},
        {{.is_client = true, .certificates = two, .certificate_count = 2}, -EINVAL, "at most"},
        {{.is_client = true, .protocols = empty, .protocol_count = 1}, -EINVAL, "protocol"},
        {{.is_client = true, .protocols = too_long, .protocol_count = 1}, -EINVAL, "299"},
        {{.is_client = true, .ca_file = "/nowhere"}, -ENOENT, "/nowhere"},
        {{.is_client = true, .ca_file = "/dev/null"}, -EINVAL, "no CA's certificate"},
        {{.is_client = true, .key_log = "/nowhere/log"}, -ENOENT, "cannot be written"},
    };
    memset(long_name, 'x', sizeof long_name - 1);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gs_tls_context *context;
        char text[GS_TLS_TEXT];
        CHECK_EQ(gs_tls_context_new(&cases[i].options, &context, text), cases[i].err);
        CHECK(strstr(text, cases[i].text));
    }
}

TEST(expiry_is_that_of_the_certificate_which_expires_first)
{
    struct certificate_files files[3];
    struct gs_tls_certificate certificates[3];
    for (int i = 0; i < 3; i++) {
        const struct certificate_request request = {.common_name = "x",
                                                    .days = (i + 2) % 3 * 10 + 5};
        certificate_make_as(&request, &files[i]);
        certificates[i] = (struct gs_tls_certificate){.chain = files[i].chain, .key = files[i].key};
    }
    const struct gs_tls_options options = {.certificates = certificates, .certificate_count = 3};
    struct gs_tls_context *context;
    CHECK_EQ(gs_tls_context_new(&options, &context, NULL), 0);
    int64_t left = gs_tls_context_expiry(context) - time(NULL);
    CHECK(left > 5 * 86400L - 100 && left <= 5 * 86400L);
    gs_tls_context_release(context);
    struct pair pair;
    pair_init(&pair, NULL, NULL);
    CHECK(gs_tls_context_expiry(pair.client_context) == INT64_MAX);
    pair_done(&pair);
}

TEST(key_log_has_the_secrets_of_each_side)
{
    char path[128];
    certificate_write("", 0, path);
    struct pair pair;
    const struct gs_tls_options options = {.verify = GS_TLS_VERIFY_NONE, .key_log = path};
    pair_init(&pair, NULL, &options);
    CHECK_EQ(pair_exchange(&pair), 0);
    pair_done(&pair);
    FILE *file = fopen(path, "r");
    char bytes[4000];
    CHECK(file);
    size_t n = fread(bytes, 1, sizeof bytes - 1, file);
    fclose(file);
    bytes[n] = 0;
    CHECK(strstr(bytes, "CLIENT_HANDSHAKE_TRAFFIC_SECRET ") &&
          strstr(bytes, "\nSERVER_TRAFFIC_SECRET_0 ") && bytes[n - 1] == '\n');
}

/* ---- Names ---- */

static const char *shown_name(struct gs_tls_engine *client)
{
    static char name[100];
    X509 *shown = SSL_get0_peer_certificate(client->ssl);
    X509_NAME_get_text_by_NID(X509_get_subject_name(shown), NID_commonName, name, sizeof name);
    return name;
}

TEST(server_shows_the_certificate_for_the_name_that_is_asked_for)
{
    static const struct certificate_request requests[] = {
        {"DNS:first.test", "first", .days = 1},
        {"DNS:A.test,DNS:*.a.test", "a", .days = 1},
        {"DNS:b.a.test,IP:127.0.0.1", "b", .days = 1},
        {"DNS:A.test,DNS:*.test", "later", .days = 1},
        {"DNS:*.a.test", "rsa", .days = 1, .is_rsa = true},
    };
    static const struct {
        const char *asked, *shown, *algorithms;
    } cases[] = {
        {"first.test", "first"}, {"a.test", "a"},
        {"A.TEST", "a"},         {"x.a.test", "a"},
        {"b.a.test", "b"},       {"B.A.Test", "b"},
        {"y.x.a.test", "first"}, {"other.test", "later"},
        {"test", "first"},       {"unknown.org", "first"},
        {".a.test", "first"},    {NULL, "first"},
        {"127.0.0.1", "first"},  {"x.a.test", "rsa", "RSA-PSS+SHA256"},
    };
    struct certificate_files files[5];
    struct gs_tls_certificate certificates[5];
    for (int i = 0; i < 5; i++) {
        certificate_make_as(&requests[i], &files[i]);
        certificates[i] = (struct gs_tls_certificate){.chain = files[i].chain, .key = files[i].key};
    }
    const struct gs_tls_options options = {.certificates = certificates, .certificate_count = 5};
    struct pair pair;
    pair_init(&pair, &options, NULL);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        pair_renew(&pair, NULL);
        if (cases[i].asked && strcmp(cases[i].asked, "127.0.0.1"))
            CHECK(SSL_set_tlsext_host_name(pair.client->ssl, cases[i].asked));
        if (cases[i].algorithms)
            CHECK(SSL_set1_sigalgs_list(pair.client->ssl, cases[i].algorithms));
        CHECK_EQ(pair_exchange(&pair), 0);
        if (strcmp(shown_name(pair.client), cases[i].shown))
            TEST_FAIL("for %s: %s", cases[i].asked, shown_name(pair.client));
    }
    pair_done(&pair);
}

TEST(response_of_ocsp_is_stapled_until_it_is_old)
{
    struct certificate_files files;
    certificate_make("site.test", &files);
    for (int seconds = -10; seconds <= 3600; seconds += 3610) {
        char ocsp[128];
        const unsigned char *bytes;
        certificate_make_ocsp(&files, seconds, ocsp);
        const struct gs_tls_certificate certificate = {files.chain, files.key, NULL, ocsp};
        const struct gs_tls_options options = {.certificates = &certificate,
                                               .certificate_count = 1};
        struct pair pair;
        pair_init(&pair, &options, NULL);
        SSL_set_tlsext_status_type(pair.client->ssl, TLSEXT_STATUSTYPE_ocsp);
        CHECK_EQ(pair_exchange(&pair), 0);
        CHECK_EQ(SSL_get_tlsext_status_ocsp_resp(pair.client->ssl, &bytes) > 0, seconds > 0);
        int64_t left = gs_tls_context_ocsp_expiry(pair.server_context) - time(NULL);
        CHECK(left <= seconds && left > seconds - 600);
        CHECK(gs_tls_context_ocsp_expiry(pair.client_context) == INT64_MAX);
        pair_done(&pair);
    }
}

/* ---- Trust ---- */

struct world {
    struct certificate_files authority, stranger, server, old, early, client, common, odd;
};

static void make_signed(const char *names, const char *name, int days,
                        const struct certificate_files *issuer, struct certificate_files *ret)
{
    const struct certificate_request request = {names, name,  issuer, NULL,
                                                days,  false, false,  false};
    certificate_make_as(&request, ret);
}

static void world_init(struct world *world)
{
    static const struct certificate_request authority = {
        .common_name = "The CA", .days = 5, .is_authority = true};
    static const struct certificate_request stranger = {
        .common_name = "A stranger", .days = 5, .is_authority = true};
    certificate_make_as(&authority, &world->authority);
    certificate_make_as(&stranger, &world->stranger);
    make_signed("DNS:good.test,DNS:*.good.test,IP:127.0.0.1,IP:::1", "good.test", 5,
                &world->authority, &world->server);
    make_signed(NULL, "good.test", 5, &world->authority, &world->common);
    make_signed("DNS:good.test", "good.test", -2, &world->authority, &world->old);
    make_signed("DNS:good.test", "good.test", 5, &world->stranger, &world->odd);
    make_signed("DNS:bad\x01.test", "b\nd", 5, &world->authority, &world->early);
    make_signed(NULL, "A client", 5, &world->authority, &world->client);
}

static struct gs_tls_certificate certificate_of(const struct certificate_files *files)
{
    return (struct gs_tls_certificate){.chain = files->chain, .key = files->key};
}

TEST(client_accepts_only_a_certificate_for_the_name_that_a_ca_has_signed)
{
    struct world world;
    world_init(&world);
    char old_text[64];
    time_t old = time(NULL) - 2 * 86400L;
    strftime(old_text, sizeof old_text, "good.test has expired on %Y-%m-%d", gmtime(&old));
    const struct {
        const struct certificate_files *shown;
        const char *asked, *text; /* NULL: it is accepted */
    } cases[] = {
        {&world.server, "good.test", NULL},
        {&world.server, "GOOD.test", NULL},
        {&world.server, "x.good.test", NULL},
        {&world.server, "127.0.0.1", NULL},
        {&world.server, "::1", NULL},
        {&world.server, "127.0.0.2", "is for good.test, and not for 127.0.0.2"},
        {&world.server, "y.x.good.test", "is for good.test, and not for y.x.good.test"},
        {&world.client, "a.test", "is for A client (a common name, which does not count), and not"},
        {&world.common, "good.test", "is for good.test (a common name, which does not count)"},
        {&world.server, "evil.test", "is for good.test, and not for evil.test"},
        {&world.old, "good.test", old_text},
        {&world.odd, "good.test", "is signed by \"A stranger\", which is not a trusted CA"},
        {&world.early, "good.test", "is for bad?.test, and not for good.test"},
    };
    const struct gs_tls_options client = {.ca_file = world.authority.chain};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct gs_tls_certificate shown = certificate_of(cases[i].shown);
        const struct gs_tls_options server = {.certificates = &shown, .certificate_count = 1};
        struct pair pair;
        struct gs_tls_info info;
        char text[GS_TLS_TEXT];
        pair_init(&pair, &server, &client);
        pair_renew(&pair, cases[i].asked);
        CHECK_EQ(pair_exchange(&pair), cases[i].text ? -EPROTO : 0);
        gs_tls_engine_error(pair.client, text);
        gs_tls_engine_info(pair.client, &info);
        if (info.failure != (cases[i].text ? GS_TLS_FAILED_VERIFY : GS_TLS_NO_FAILURE) ||
            !strstr(text, cases[i].text ? cases[i].text : ""))
            TEST_FAIL("case %u: failure %d, \"%s\"", i, info.failure, text);
        pair_done(&pair);
    }
}

TEST(client_that_verifies_needs_a_name)
{
    static char long_name[300];
    memset(long_name, 'a', sizeof long_name - 1);
    const char *const names[] = {NULL, "", ".good.test", long_name};
    const struct gs_tls_options verifying = {.is_client = true};
    struct gs_tls_context *context;
    struct gs_tls_engine *engine;
    CHECK_EQ(gs_tls_context_new(&verifying, &context, NULL), 0);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        CHECK_EQ(gs_tls_engine_new(context, names[i], &engine), -EINVAL);
    gs_tls_context_release(context);
}

TEST(server_asks_clients_for_a_certificate_as_its_rules_say)
{
    struct world world;
    world_init(&world);
    const struct {
        enum gs_tls_verify verify;
        const struct certificate_files *shown;
        const char *text; /* NULL: it is accepted */
    } cases[] = {
        {GS_TLS_VERIFY_NONE, NULL, NULL},
        {GS_TLS_VERIFY_USUAL, &world.odd, NULL},
        {GS_TLS_VERIFY_OPTIONAL, NULL, NULL},
        {GS_TLS_VERIFY_OPTIONAL, &world.client, NULL},
        {GS_TLS_VERIFY_OPTIONAL, &world.odd, "A stranger"},
        {GS_TLS_VERIFY_REQUIRED, NULL, "shown no certificate"},
        {GS_TLS_VERIFY_REQUIRED, &world.client, NULL},
        {GS_TLS_VERIFY_REQUIRED, &world.old, "has expired on"},
    };
    const struct gs_tls_certificate own = certificate_of(&world.server);
    for (unsigned i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        bool is_1_2 = i % 2;
        unsigned at = i / 2;
        const struct gs_tls_options server = {.certificates = &own,
                                              .certificate_count = 1,
                                              .verify = cases[at].verify,
                                              .ca_file = world.authority.chain};
        const struct gs_tls_certificate shown =
            cases[at].shown ? certificate_of(cases[at].shown) : (struct gs_tls_certificate){NULL};
        const struct gs_tls_options client = {.verify = GS_TLS_VERIFY_NONE,
                                              .certificates = &shown,
                                              .certificate_count = cases[at].shown != NULL};
        struct pair pair;
        char text[GS_TLS_TEXT];
        pair_init(&pair, &server, &client);
        if (is_1_2)
            pair_speak_1_2(&pair);
        CHECK_EQ(pair_exchange(&pair), cases[at].text ? -EPROTO : 0);
        gs_tls_engine_error(pair.server, text);
        if (!strstr(text, cases[at].text ? cases[at].text : ""))
            TEST_FAIL("case %u: \"%s\"", i, text);
        if (!cases[at].text)
            CHECK(pair_talk(pair.client, pair.server, 100, 100));
        pair_done(&pair);
    }
}
