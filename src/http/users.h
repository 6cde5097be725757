/* Users of basic authentication (RFC 7617): their names, and the hashes of their passwords, as
 * `htpasswd -B` writes them.
 *
 *     err = gs_http_users_new(file, crypt_password, key, &users, &error);
 *     if (gs_http_credentials_parse(field, &credentials) &&
 *         (gs_http_users_know(users, &credentials, now_ns) ||
 *          !gs_http_users_check(users, &credentials, now_ns)))
 *         the request is this user's
 *
 * A hash takes tens of milliseconds on purpose, so gs_http_users_check is called where loads run.
 * Credentials that were verified are known for five minutes, by a keyed hash: neither the password
 * nor anything that another process could compare it with is kept. What is known is in memory that
 * is shared with processes that are forked later.
 *
 * Threads: any kernel thread may call these functions with the same users, except the first and the
 * last.
 */
#ifndef GS_HTTP_USERS_H
#define GS_HTTP_USERS_H

#include "http/text.h"

#include <gossamer/api.h>
#include <gossamer/clock.h>
#include <stdint.h>

struct gs_http_users;

/* Hash the password with the method and salt of `hash`, and compare. It takes long. Returns 0,
 * -EACCES (it is another password), -ENOMEM, or -EINVAL (no such method). */
typedef int gs_http_password_fn(const char *password, const char *hash);

/* What is wrong with a file of users. */
struct gs_http_users_error {
    unsigned line;    /* from 1; 0: the file as a whole */
    const char *text; /* "..., remedy" */
};

/* How long credentials are known, and how many of them at most. */
#define GS_HTTP_KNOWN_NS (300 * GS_SECOND)
#define GS_HTTP_KNOWN_MAX 1024

/* Passwords that are hashed at the same time, by all processes. */
#define GS_HTTP_CHECKS_MAX 4

/* Read the users of a file: lines of "name:hash", empty ones and those that begin with '#'. Hashes
 * are those of bcrypt. key: random, and secret. Returns 0, -ENOMEM, or -EINVAL with *ret_error. */
GS_MUST_CHECK int gs_http_users_new(struct gs_http_text file, gs_http_password_fn *verify,
                                    const uint64_t key[2], struct gs_http_users **ret_users,
                                    struct gs_http_users_error *ret_error);

/* NULL is accepted. */
void gs_http_users_free(struct gs_http_users *users);

/* ---- Credentials of a request ---- */

#define GS_HTTP_USER_MAX 255
#define GS_HTTP_PASSWORD_MAX 72 /* bcrypt ignores what is longer */

/* What follows the texts is zero, so that equal credentials have equal bytes. */
struct gs_http_credentials {
    uint16_t password;                                          /* where it begins */
    char text[GS_HTTP_USER_MAX + 1 + GS_HTTP_PASSWORD_MAX + 1]; /* the user's name comes first */
};

static inline const char *gs_http_password(const struct gs_http_credentials *credentials)
{
    return credentials->text + credentials->password;
}

/* Parse the field Authorization. Returns false if there is none of the scheme Basic, or if it is
 * malformed, too long, or has control characters. */
GS_MUST_CHECK bool gs_http_credentials_parse(struct gs_http_text field,
                                             struct gs_http_credentials *ret_credentials);

/* Overwrite what is secret. */
void gs_http_credentials_wipe(struct gs_http_credentials *credentials);

/* Returns whether they were verified less than GS_HTTP_KNOWN_NS ago. */
bool gs_http_users_know(const struct gs_http_users *users,
                        const struct gs_http_credentials *credentials, uint64_t now_ns);

/* Verify them; a user who does not exist takes as long as others. Returns 0, and they are known;
 * -EACCES; -EAGAIN (GS_HTTP_CHECKS_MAX others are being verified), or -ENOMEM. */
GS_MUST_CHECK int gs_http_users_check(struct gs_http_users *users,
                                      const struct gs_http_credentials *credentials,
                                      uint64_t now_ns);

#endif
