/* The keys of session tickets. They follow from a secret of the process and from the hour, so
 * processes that fork after this library is loaded have the same ones without a word:
 *
 *     secret(hour + 1) = HMAC-SHA-256(secret(hour), "next")       one step of HKDF-Expand, RFC 5869
 *     keys(hour)       = HMAC-SHA-256(secret(hour), "name"), "cipher", "mac"
 *
 * The current keys encrypt; those of the hour before still decrypt, and such a session gets a new
 * ticket. Older ones are overwritten, and cannot be computed again: who steals the memory of a
 * server reads none of the earlier tickets.
 *
 * Hours are those of the monotonic clock, which all processes of the machine share. So an hour
 * takes an hour, whatever happens to the wall clock. */
#include "tls/context.h"

#include <gossamer/clock.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/params.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#define HOUR (3600 * GS_SECOND)

struct keys {
    unsigned char name[32], cipher[32], mac[32];
};

static struct {
    pthread_mutex_t lock;
    uint64_t hour;
    unsigned char secret[32];  /* of the hour */
    struct keys current, last; /* of the hour, and of the one before */
    bool is_random, has_keys, has_last;
} ratchet = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void lock(void)
{
    pthread_mutex_lock(&ratchet.lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&ratchet.lock);
}

/* Before main, and so before any fork. Without random bytes there are no tickets. */
__attribute__((constructor)) static void start(void)
{
    ratchet.is_random =
        getrandom(ratchet.secret, sizeof ratchet.secret, 0) == sizeof ratchet.secret;
    ratchet.hour = gs_clock_now() / HOUR;
    pthread_atfork(lock, unlock, unlock);
}

static bool derive(const char *what, unsigned char ret_bytes[32])
{
    unsigned char info[16];
    size_t n = strlen(what);
    memcpy(info, what, n);
    info[n] = 1;
    return HMAC(EVP_sha256(), ratchet.secret, sizeof ratchet.secret, info, n + 1, ret_bytes, NULL);
}

static bool derive_keys(void)
{
    return derive("name", ratchet.current.name) && derive("cipher", ratchet.current.cipher) &&
           derive("mac", ratchet.current.mac);
}

/* Turn to the next hour. Returns false without memory, and has changed nothing. */
static bool turn(void)
{
    unsigned char next[32];
    if (!derive("next", next))
        return false;
    memcpy(ratchet.secret, next, sizeof next);
    OPENSSL_cleanse(next, sizeof next);
    ratchet.last = ratchet.current;
    ratchet.has_last = true;
    ratchet.has_keys = false;
    ratchet.hour++;
    return true;
}

/* Returns whether the keys are those of the hour, or of a later one. */
static bool turn_to(uint64_t hour)
{
    if (!ratchet.is_random)
        return false;
    for (;;) {
        ratchet.has_keys = ratchet.has_keys || derive_keys();
        if (!ratchet.has_keys || ratchet.hour >= hour)
            return ratchet.has_keys;
        if (!turn())
            return false;
    }
}

static bool set_keys(const struct keys *keys, const unsigned char *iv, EVP_CIPHER_CTX *cipher,
                     EVP_MAC_CTX *mac, int encrypts)
{
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)keys->mac, sizeof keys->mac),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0),
        OSSL_PARAM_construct_end(),
    };
    return EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, keys->cipher, iv, encrypts) &&
           EVP_MAC_CTX_set_params(mac, parameters);
}

/* OpenSSL compares 16 bytes of a name, and calls this for each ticket. 0 is an unknown one, or that
 * there can be none: the handshake goes on without it. 2 is one that is to be renewed. Those of
 * TLS 1.3 always are, since a client uses each once, so that its connections cannot be linked
 * (RFC 8446, C.4). */
int gs_tls_ticket_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                      EVP_MAC_CTX *mac, int encrypts)
{
    struct keys current, last;
    bool is_used_once = !encrypts && SSL_version(ssl) == TLS1_3_VERSION;
    lock();
    bool has_keys = turn_to(gs_clock_now() / HOUR);
    bool has_last = has_keys && ratchet.has_last;
    current = ratchet.current;
    last = ratchet.last;
    unlock();
    bool is_current = has_keys && (encrypts || !memcmp(name, current.name, 16));
    bool is_last = has_last && !is_current && !memcmp(name, last.name, 16);
    bool is_set = is_current || is_last;
    if (encrypts && is_set) {
        memcpy(name, current.name, 16);
        is_set = getrandom(iv, 16, 0) == 16;
    }
    is_set = is_set && set_keys(is_current ? &current : &last, iv, cipher, mac, encrypts);
    OPENSSL_cleanse(&current, sizeof current);
    OPENSSL_cleanse(&last, sizeof last);
    bool is_renewed = is_last || is_used_once;
    return is_set ? 1 + is_renewed : 0;
}
