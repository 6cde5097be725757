#include "http/users.h"

#include "http/base64.h"
#include "http/siphash.h"
#include "http/token.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

struct user {
    const char *name, *hash; /* in the copy of the file */
};

/* Credentials that were verified. Writers replace the words one by one: a reader that sees parts of
 * two credentials takes them for what neither client has. */
struct known {
    _Atomic(uint64_t) tag[2], until_ns;
};

#define WAYS 4
#define SETS (GS_HTTP_KNOWN_MAX / WAYS)
#define LEASE_NS (30 * GS_SECOND) /* after which a check counts as lost, with its process */

/* In memory that forked processes share. */
struct shared {
    struct known known[SETS][WAYS];
    _Atomic(uint64_t) checks[GS_HTTP_CHECKS_MAX]; /* until when each is taken; 0: it is free */
};

struct gs_http_users {
    gs_http_password_fn *verify;
    uint64_t key[2];
    struct shared *shared;
    struct user *users; /* sorted by name */
    size_t count;
    char text[];
};

/* ---- Files of users ---- */

static const char digits_of_bcrypt[] =
    "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

#define BCRYPT_LENGTH 60
#define COST_MAX 16 /* four seconds */

/* "$2y$10$", and 53 digits of salt and hash. */
static bool is_bcrypt(const char *hash)
{
    if (strlen(hash) != BCRYPT_LENGTH || memcmp(hash, "$2", 2) != 0 || !strchr("aby", hash[2]) ||
        hash[3] != '$' || hash[6] != '$' || !gs_http_is(hash[4], GS_HTTP_DIGIT) ||
        !gs_http_is(hash[5], GS_HTTP_DIGIT))
        return false;
    int cost = (hash[4] - '0') * 10 + hash[5] - '0';
    return cost >= 4 && cost <= COST_MAX && strspn(hash + 7, digits_of_bcrypt) == BCRYPT_LENGTH - 7;
}

static bool is_name(const char *name)
{
    size_t n = strlen(name);
    for (const char *at = name; *at; at++)
        if (!gs_http_is(*at, GS_HTTP_FIELD))
            return false;
    return n && n <= GS_HTTP_USER_MAX;
}

/* Returns what is wrong; NULL: nothing. */
static const char *read_line(struct gs_http_users *users, char *line)
{
    char *colon = strchr(line, ':');
    if (!*line || *line == '#')
        return NULL;
    if (!colon)
        return "there is no colon between name and hash; write NAME:HASH, as htpasswd -B does";
    *colon = '\0';
    char *hash = colon + 1;
    hash[strcspn(hash, ":")] = '\0'; /* comments follow, by habit of others */
    if (!is_name(line))
        return "the name is empty, longer than 255 bytes, or has control characters";
    if (!is_bcrypt(hash))
        return "the hash is not one of bcrypt with a cost of 4 to 16; make it with htpasswd -B";
    users->users[users->count++] = (struct user){line, hash};
    return NULL;
}

static int compare(const void *a, const void *b)
{
    const struct user *first = a, *second = b;
    return strcmp(first->name, second->name);
}

static int fail(struct gs_http_users_error *error, unsigned line, const char *text)
{
    *error = (struct gs_http_users_error){line, text};
    return -EINVAL;
}

static int read_lines(struct gs_http_users *users, size_t n, struct gs_http_users_error *error)
{
    unsigned number = 0;
    if (memchr(users->text, '\0', n))
        return fail(error, 0, "the file has a NUL; it is no file of htpasswd");
    for (char *line = users->text, *next; line; line = next) {
        char *end = strchr(line, '\n');
        next = end ? end + 1 : NULL;
        if (end)
            *end = '\0';
        size_t length = strlen(line);
        if (length && line[length - 1] == '\r')
            line[length - 1] = '\0';
        number++;
        const char *text = read_line(users, line);
        if (text)
            return fail(error, number, text);
    }
    if (!users->count)
        return fail(error, 0, "the file has no users; add one with htpasswd -B");
    qsort(users->users, users->count, sizeof *users->users, compare);
    for (size_t i = 1; i < users->count; i++)
        if (!compare(&users->users[i - 1], &users->users[i]))
            return fail(error, 0, "a name occurs twice; remove one of its lines");
    return 0;
}

static size_t count_lines(struct gs_http_text text)
{
    size_t count = 1;
    for (size_t i = 0; i < text.n; i++)
        count += text.bytes[i] == '\n';
    return count;
}

int gs_http_users_new(struct gs_http_text file, gs_http_password_fn *verify, const uint64_t key[2],
                      struct gs_http_users **ret_users, struct gs_http_users_error *ret_error)
{
    struct gs_http_users *users = calloc(1, sizeof *users + file.n + 1);
    if (!users)
        return -ENOMEM;
    users->verify = verify;
    users->key[0] = key[0];
    users->key[1] = key[1];
    memcpy(users->text, file.bytes, file.n);
    users->users = calloc(count_lines(file), sizeof *users->users);
    void *shared = mmap(NULL, sizeof *users->shared, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    users->shared = shared == MAP_FAILED ? NULL : shared;
    int err = users->users && users->shared ? read_lines(users, file.n, ret_error) : -ENOMEM;
    if (err)
        gs_http_users_free(users);
    else
        *ret_users = users;
    return err;
}

void gs_http_users_free(struct gs_http_users *users)
{
    if (!users)
        return;
    if (users->shared)
        munmap(users->shared, sizeof *users->shared);
    free(users->users);
    free(users);
}

/* ---- Credentials of a request ---- */

/* The compiler must not leave it out. */
void gs_http_credentials_wipe(struct gs_http_credentials *credentials)
{
    memset(credentials, 0, sizeof *credentials);
    __asm__ volatile("" : : "r"(credentials) : "memory");
}

/* "user:password", n bytes. A password may have a colon; neither may have control characters. */
static bool split(struct gs_http_credentials *credentials, size_t n)
{
    char *colon = memchr(credentials->text, ':', n);
    for (size_t i = 0; i < n; i++)
        if (!gs_http_is(credentials->text[i], GS_HTTP_FIELD))
            return false;
    if (!colon)
        return false;
    size_t user_n = (size_t)(colon - credentials->text), password_n = n - user_n - 1;
    if (!user_n || user_n > GS_HTTP_USER_MAX || password_n > GS_HTTP_PASSWORD_MAX)
        return false;
    *colon = '\0';
    credentials->password = (uint16_t)(user_n + 1);
    return true;
}

bool gs_http_credentials_parse(struct gs_http_text field,
                               struct gs_http_credentials *ret_credentials)
{
    struct gs_http_text scheme = {field.bytes, field.n < 5 ? field.n : 5};
    memset(ret_credentials, 0, sizeof *ret_credentials);
    if (!gs_http_text_is_nocase(scheme, "basic") || field.n < 6 || field.bytes[5] != ' ')
        return false;
    struct gs_http_text text = gs_http_trim((struct gs_http_text){field.bytes + 5, field.n - 5});
    ssize_t n = gs_http_base64_read(ret_credentials->text, sizeof ret_credentials->text - 1, text);
    bool is_valid = n >= 0 && split(ret_credentials, (size_t)n);
    if (!is_valid)
        gs_http_credentials_wipe(ret_credentials);
    return is_valid;
}

/* ---- What was verified ---- */

struct tag {
    uint64_t words[2];
};

/* Of the whole structure, whose unused bytes are zero. */
static struct tag tag_of(const struct gs_http_users *users,
                         const struct gs_http_credentials *credentials)
{
    struct tag tag;
    gs_http_siphash(users->key, credentials, sizeof *credentials, tag.words);
    return tag;
}

static struct known *set_of(const struct gs_http_users *users, struct tag tag)
{
    return users->shared->known[tag.words[0] % SETS];
}

static uint64_t read_word(_Atomic(uint64_t) *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

bool gs_http_users_know(const struct gs_http_users *users,
                        const struct gs_http_credentials *credentials, uint64_t now_ns)
{
    struct tag tag = tag_of(users, credentials);
    struct known *set = set_of(users, tag);
    for (unsigned i = 0; i < WAYS; i++) {
        uint64_t difference =
            (read_word(&set[i].tag[0]) ^ tag.words[0]) | (read_word(&set[i].tag[1]) ^ tag.words[1]);
        if (!difference && now_ns < read_word(&set[i].until_ns))
            return true;
    }
    return false;
}

/* In place of those that were verified first. */
static void remember(struct gs_http_users *users, struct tag tag, uint64_t now_ns)
{
    struct known *set = set_of(users, tag), *oldest = &set[0];
    for (unsigned i = 1; i < WAYS; i++)
        if (read_word(&set[i].until_ns) < read_word(&oldest->until_ns))
            oldest = &set[i];
    atomic_store_explicit(&oldest->tag[0], tag.words[0], memory_order_relaxed);
    atomic_store_explicit(&oldest->tag[1], tag.words[1], memory_order_relaxed);
    atomic_store_explicit(&oldest->until_ns, now_ns + GS_HTTP_KNOWN_NS, memory_order_relaxed);
}

/* ---- Checks ---- */

/* A process that is killed leaves its check taken, so each is taken for a time only. */
static _Atomic(uint64_t) *take_check(struct shared *shared, uint64_t now_ns)
{
    for (unsigned i = 0; i < GS_HTTP_CHECKS_MAX; i++) {
        uint64_t until_ns = read_word(&shared->checks[i]);
        if (until_ns <= now_ns &&
            atomic_compare_exchange_strong(&shared->checks[i], &until_ns, now_ns + LEASE_NS))
            return &shared->checks[i];
    }
    return NULL;
}

int gs_http_users_check(struct gs_http_users *users, const struct gs_http_credentials *credentials,
                        uint64_t now_ns)
{
    _Atomic(uint64_t) *check = take_check(users->shared, now_ns);
    if (!check)
        return -EAGAIN;
    const struct user wanted = {.name = credentials->text};
    const struct user *user = bsearch(&wanted, users->users, users->count, sizeof wanted, compare);
    int err =
        users->verify(gs_http_password(credentials), user ? user->hash : users->users[0].hash);
    atomic_store(check, 0);
    if (!err && !user)
        err = -EACCES;
    if (!err)
        remember(users, tag_of(users, credentials), now_ns);
    return err;
}
