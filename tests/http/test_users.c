#include "http/users.h"

#include "http/base64.h"
#include "tests/test.h"

#include <errno.h>

#define HASH "$2y$05$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234"
#define OTHER "$2b$10$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ56789"

static const uint64_t key[] = {1, 2};
static struct gs_http_users *users;
static unsigned verified;
static struct gs_http_users *busy_with; /* whose checks are used up by a check */

static int check(const char *user, const char *password, uint64_t now_ns);

/* The password of each user is what its hash ends with. */
static int verify(const char *password, const char *hash)
{
    verified++;
    if (busy_with && verified < GS_HTTP_CHECKS_MAX)
        return check("ann", "01234", 1);
    if (busy_with)
        CHECK_EQ(check("ann", "01234", 1), -EAGAIN);
    return strcmp(password, hash + strlen(hash) - 5) ? -EACCES : 0;
}

static int new_users(const char *file, struct gs_http_users_error *error)
{
    return gs_http_users_new((struct gs_http_text){file, strlen(file)}, verify, key, &users, error);
}

static void start(void)
{
    struct gs_http_users_error error;
    CHECK_EQ(new_users("# comment\n\nbob:" OTHER ":Bob\r\nann:" HASH "\n", &error), 0);
    verified = 0;
}

static struct gs_http_credentials make(const char *user, const char *password)
{
    struct gs_http_credentials credentials = {0};
    strcpy(credentials.text, user);
    credentials.password = (uint16_t)(strlen(user) + 1);
    strcpy(credentials.text + credentials.password, password);
    return credentials;
}

static int check(const char *user, const char *password, uint64_t now_ns)
{
    const struct gs_http_credentials credentials = make(user, password);
    return gs_http_users_check(users, &credentials, now_ns);
}

static bool knows(const char *user, const char *password, uint64_t now_ns)
{
    const struct gs_http_credentials credentials = make(user, password);
    return gs_http_users_know(users, &credentials, now_ns);
}

TEST(only_users_with_their_password_are_verified)
{
    start();
    CHECK_EQ(check("ann", "01234", 1), 0);
    CHECK_EQ(check("bob", "56789", 1), 0);
    CHECK_EQ(check("ann", "56789", 1), -EACCES);
    CHECK_EQ(check("bob", "", 1), -EACCES);
    CHECK_EQ(verified, 4);
    gs_http_users_free(users);
}

/* A client that measures the time must not learn which users there are. */
TEST(an_unknown_user_is_verified_and_refused)
{
    start();
    CHECK_EQ(check("eve", "01234", 1), -EACCES);
    CHECK_EQ(check("eve", "56789", 1), -EACCES);
    CHECK_EQ(verified, 2);
    CHECK(!knows("eve", "01234", 1));
    CHECK(!knows("eve", "56789", 1));
    gs_http_users_free(users);
}

TEST(what_was_verified_is_known_for_a_while)
{
    start();
    CHECK(!knows("ann", "01234", 1000));
    CHECK_EQ(check("ann", "01234", 1000), 0);
    CHECK_EQ(check("bob", "wrong", 1000), -EACCES);
    CHECK(knows("ann", "01234", 1000));
    CHECK(knows("ann", "01234", 999 + GS_HTTP_KNOWN_NS));
    CHECK(!knows("ann", "01234", 1000 + GS_HTTP_KNOWN_NS));
    CHECK(!knows("ann", "01235", 1000));
    CHECK(!knows("ann", "", 1000));
    CHECK(!knows("bob", "01234", 1000));
    CHECK(!knows("bob", "wrong", 1000));
    CHECK(!knows("", "", 1000));
    gs_http_users_free(users);
}

TEST(so_many_checks_at_a_time_are_made)
{
    start();
    busy_with = users;
    CHECK_EQ(check("ann", "01234", 1), 0);
    CHECK_EQ(verified, GS_HTTP_CHECKS_MAX);
    busy_with = NULL;
    for (unsigned i = 0; i < 2 * GS_HTTP_CHECKS_MAX; i++)
        CHECK_EQ(check("ann", "01234", 1), 0);
    gs_http_users_free(users);
}

TEST(a_file_that_is_not_of_users_is_refused_with_its_line)
{
    static const struct {
        const char *file, *text;
        unsigned line;
    } cases[] = {
        {"", "has no users", 0},
        {"# ann:" HASH "\n", "has no users", 0},
        {"ann:" HASH "\nbob\n", "no colon", 2},
        {"ann:" HASH "\n\n:" HASH "\n", "name is empty", 3},
        {"a\x01n:" HASH, "control characters", 1},
        {"ann:", "bcrypt", 1},
        {"ann:secret", "bcrypt", 1},
        {"ann:$apr1$salt$Xxd1irWT9ycqoYxGFn4cb.", "htpasswd -B", 1},
        {"ann:$2y$03$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234", "cost", 1},
        {"ann:$2y$31$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234", "cost", 1},
        {"ann:$2y$05$abcdefghijklmnopqrstu!ABCDEFGHIJKLMNOPQRSTUVWXYZ01234", "bcrypt", 1},
        {"ann:" HASH "x", "bcrypt", 1},
        {"ann:" HASH "\nann:" OTHER, "twice", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gs_http_users_error error = {0};
        CHECK_EQ(new_users(cases[i].file, &error), -EINVAL);
        CHECK_EQ(error.line, cases[i].line);
        CHECK(strstr(error.text, cases[i].text));
    }
    struct gs_http_users_error error = {0};
    CHECK_EQ(gs_http_users_new(GS_HTTP_TEXT("ann:" HASH "\n\0"), verify, key, &users, &error),
             -EINVAL);
}

static bool parse(const char *field, struct gs_http_credentials *ret_credentials)
{
    return gs_http_credentials_parse((struct gs_http_text){field, strlen(field)}, ret_credentials);
}

/* "Basic " and the text in base64. */
static bool parse_text(const char *text, size_t n, struct gs_http_credentials *ret_credentials)
{
    char field[1000] = "Basic ";
    gs_http_base64_write(field + 6, (const uint8_t *)text, n);
    return parse(field, ret_credentials);
}

TEST(credentials_are_parsed)
{
    struct gs_http_credentials credentials;
    CHECK(parse("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", &credentials));
    CHECK_STR(credentials.text, "Aladdin");
    CHECK_STR(gs_http_password(&credentials), "open sesame");
    CHECK(parse("bAsIc   QWxhZGRpbjpvcGVuIHNlc2FtZQ== ", &credentials));
    CHECK(parse_text("a:b:c", 5, &credentials));
    CHECK_STR(gs_http_password(&credentials), "b:c");
    CHECK(parse_text("a:", 2, &credentials));
    CHECK_STR(gs_http_password(&credentials), "");
    CHECK(parse_text("\xc3\xa4:\xc3\xb6", 5, &credentials));
    gs_http_credentials_wipe(&credentials);
    CHECK_STR(credentials.text, "");
}

TEST(malformed_credentials_are_refused)
{
    struct gs_http_credentials credentials;
    static const char *const fields[] = {"",
                                         "Basic",
                                         "Basic ",
                                         "BasicQWxhZGRpbjpvcGVuIHNlc2FtZQ==",
                                         "Bearer QTpi",
                                         "Basic QTpi=",
                                         "Basic QTpi QTpi",
                                         "Basic Og==",
                                         "Basic QQ=="};
    char text[500];
    CHECK(!gs_http_credentials_parse((struct gs_http_text){NULL, 0}, &credentials));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        CHECK(!parse(fields[i], &credentials));
    CHECK(!parse_text("a:b\0c", 5, &credentials));
    CHECK(!parse_text("a\n:b", 4, &credentials));
    memset(text, 'x', sizeof text);
    text[GS_HTTP_USER_MAX] = ':';
    CHECK(parse_text(text, GS_HTTP_USER_MAX + 1 + GS_HTTP_PASSWORD_MAX, &credentials));
    CHECK(!parse_text(text, GS_HTTP_USER_MAX + 2 + GS_HTTP_PASSWORD_MAX, &credentials));
    CHECK(!parse_text(text, sizeof text, &credentials));
    text[GS_HTTP_USER_MAX] = 'x';
    text[GS_HTTP_USER_MAX + 1] = ':';
    CHECK(!parse_text(text, GS_HTTP_USER_MAX + 3, &credentials));
}
