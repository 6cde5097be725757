/* Records that only a hostile or an unusual peer sends, after the handshake of TLS 1.3. */
#include "tests/test.h"
#include "tests/tls/pair.h"
#include "tls/engine.h"

#include <errno.h>

/* A server whose client is gone: the test has its keys. */
struct peer {
    struct pair pair;
    char record[40000];
    size_t record_n;
};

static void peer_init(struct peer *peer)
{
    pair_init(&peer->pair, NULL, NULL);
    CHECK_EQ(pair_exchange(&peer->pair), 0);
    CHECK(pair_talk(peer->pair.server, peer->pair.client, 10, 100));
    CHECK(!peer->pair.server->ssl && !peer->pair.client->ssl);
    peer->record_n = 0;
}

/* Append a record, whose content ends with zeros. */
static void add(struct peer *peer, int type, const void *bytes, size_t n)
{
    unsigned char *to = (unsigned char *)peer->record + peer->record_n;
    if (!gs_tls_seal(&peer->pair.client->records->sent, type, bytes, n, to))
        exit(1);
    peer->record_n += n + GS_TLS_SEALED_MORE;
}

static ssize_t deliver(struct peer *peer, size_t step, char *plain, size_t size)
{
    ssize_t result = -EAGAIN;
    for (size_t at = 0; at < peer->record_n && result == -EAGAIN; at += step) {
        size_t left = peer->record_n - at;
        struct gs_tls_input input = {peer->record + at, left < step ? left : step};
        result = gs_tls_engine_read(peer->pair.server, &input, plain, size);
    }
    return result;
}

/* Returns the alert that the server has sent; -1: none. */
static int alert_of(struct peer *peer)
{
    struct gs_tls_info info;
    char plain[100];
    ssize_t result = pair_pass(peer->pair.server, peer->pair.client, 1000, plain, sizeof plain);
    gs_tls_engine_info(peer->pair.client, &info);
    unsigned long error = peer->pair.client->error;
    return result == -EPROTO ? (int)(error & 0xfff) - SSL_AD_REASON_OFFSET : -1;
}

#define DATA SSL3_RT_APPLICATION_DATA
#define ALERT SSL3_RT_ALERT
#define HANDSHAKE SSL3_RT_HANDSHAKE

TEST(each_wrong_record_ends_the_connection_with_its_alert)
{
    static const unsigned char zeros[17000];
    static const struct {
        int type;
        const void *bytes;
        size_t n;
        int alert;
    } cases[] = {
        {0, zeros, 10, SSL_AD_UNEXPECTED_MESSAGE},
        {0, zeros, 16384 + 256 - 17, SSL_AD_RECORD_OVERFLOW},
        {DATA, zeros, 16385, SSL_AD_RECORD_OVERFLOW},
        {99, "x", 1, SSL_AD_UNEXPECTED_MESSAGE},
        {SSL3_RT_CHANGE_CIPHER_SPEC, "\1", 1, SSL_AD_UNEXPECTED_MESSAGE},
        {HANDSHAKE, "", 0, SSL_AD_UNEXPECTED_MESSAGE},
        {HANDSHAKE, "\1\0\0\1x", 5, SSL_AD_UNEXPECTED_MESSAGE},
        {HANDSHAKE, "\4\0\0\1x", 5, SSL_AD_UNEXPECTED_MESSAGE},
        {HANDSHAKE, "\30\0\0\0", 4, SSL_AD_DECODE_ERROR},
        {HANDSHAKE, "\30\0\0\2\0\0", 6, SSL_AD_DECODE_ERROR},
        {HANDSHAKE, "\30\0\0\1\2", 5, SSL_AD_ILLEGAL_PARAMETER},
        {HANDSHAKE, "\30\0\0\1\0\30\0\0\1\0", 10, SSL_AD_UNEXPECTED_MESSAGE},
        {ALERT, "\1", 1, SSL_AD_DECODE_ERROR},
        {ALERT, "", 0, SSL_AD_UNEXPECTED_MESSAGE},
        {ALERT, "\1\0\1\0", 4, SSL_AD_DECODE_ERROR},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct peer peer;
        char plain[100];
        peer_init(&peer);
        add(&peer, cases[i].type, cases[i].bytes, cases[i].n);
        ssize_t result = deliver(&peer, sizeof peer.record, plain, sizeof plain);
        int alert = alert_of(&peer);
        if (result != -EPROTO || alert != cases[i].alert)
            TEST_FAIL("case %u: result %zd, alert %d", i, result, alert);
        CHECK_EQ(deliver(&peer, 1, plain, sizeof plain), -EPROTO);
        pair_done(&peer.pair);
    }
}

TEST(each_wrong_header_ends_the_connection_before_the_record_arrives)
{
    static const struct {
        const char *header;
        int alert;
    } cases[] = {
        {"\x14\3\3\0\1", SSL_AD_UNEXPECTED_MESSAGE}, {"\x15\3\3\0\2", SSL_AD_UNEXPECTED_MESSAGE},
        {"\x16\3\3\0\5", SSL_AD_UNEXPECTED_MESSAGE}, {"GET /", SSL_AD_UNEXPECTED_MESSAGE},
        {"\x17\3\3\x41\1", SSL_AD_RECORD_OVERFLOW},  {"\x17\3\3\xff\xff", SSL_AD_RECORD_OVERFLOW},
        {"\x17\3\3\0\0", SSL_AD_BAD_RECORD_MAC},     {"\x17\3\3\0\x10", SSL_AD_BAD_RECORD_MAC},
    };
    for (unsigned i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct peer peer;
        char plain[100];
        peer_init(&peer);
        memcpy(peer.record, cases[i / 2].header, 5);
        peer.record_n = 5;
        CHECK_EQ(deliver(&peer, i % 2 ? 1 : 5, plain, sizeof plain), -EPROTO);
        CHECK_EQ(alert_of(&peer), cases[i / 2].alert);
        pair_done(&peer.pair);
    }
}

TEST(nothing_follows_close_notify)
{
    struct peer peer;
    char plain[100];
    peer_init(&peer);
    gs_tls_engine_close(peer.pair.server);
    memcpy(peer.record, "GET /", 5);
    peer.record_n = 5;
    CHECK_EQ(deliver(&peer, 5, plain, sizeof plain), -EPROTO);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pair_pass(peer.pair.server, peer.pair.client, 1000, plain, sizeof plain), 0);
    size_t n;
    gs_tls_engine_output(peer.pair.server, &n);
    CHECK_EQ(n, 0);
    pair_done(&peer.pair);
}

TEST(record_with_any_bit_changed_is_not_accepted)
{
    for (size_t at = 0; at < 10 + GS_TLS_SEALED_MORE; at++) {
        struct peer peer;
        char plain[100];
        struct gs_tls_info info;
        peer_init(&peer);
        add(&peer, DATA, "0123456789", 10);
        peer.record[at] ^= (char)(1 << at % 8);
        ssize_t result = deliver(&peer, sizeof peer.record, plain, sizeof plain);
        CHECK(result == -EPROTO || (result == -EAGAIN && at < 5));
        gs_tls_engine_info(peer.pair.server, &info);
        CHECK(result == -EAGAIN || info.failure == GS_TLS_FAILED_PROTOCOL);
        pair_done(&peer.pair);
    }
}

TEST(record_that_is_repeated_or_left_out_is_not_accepted)
{
    for (int i = 0; i < 2; i++) {
        struct peer peer;
        char plain[100];
        peer_init(&peer);
        add(&peer, DATA, "one", 3);
        if (i)
            peer.record_n = 0;
        else
            CHECK_EQ(deliver(&peer, sizeof peer.record, plain, sizeof plain), 3);
        if (i)
            add(&peer, DATA, "two", 3);
        CHECK_EQ(deliver(&peer, sizeof peer.record, plain, sizeof plain), -EPROTO);
        CHECK_EQ(alert_of(&peer), SSL_AD_BAD_RECORD_MAC);
        pair_done(&peer.pair);
    }
}

TEST(record_is_read_whatever_the_padding_and_the_pieces)
{
    static const size_t sizes[] = {1, 3, 100, 40000};
    for (unsigned i = 0; i < 16; i++) {
        struct peer peer;
        char content[600] = "text", plain[600];
        peer_init(&peer);
        content[4] = DATA; /* and what follows is padding */
        add(&peer, 0, content, i % 2 ? 600 : 5);
        size_t size = sizes[i / 4], got = 0;
        ssize_t n = deliver(&peer, sizes[i % 4], plain, size < 600 ? size : 600);
        struct gs_tls_input none = {"", 0};
        for (; n > 0; n = gs_tls_engine_read(peer.pair.server, &none, plain + got, size))
            got += (size_t)n;
        CHECK_EQ(n, -EAGAIN);
        CHECK(got == 4 && !memcmp(plain, "text", 4));
        CHECK(!peer.pair.server->records->rest && !peer.pair.server->records->partial);
        pair_done(&peer.pair);
    }
}

/* ---- Keys that change ---- */

TEST(keys_are_updated_when_the_peer_asks_and_whatever_the_pieces)
{
    static const char update[] = "\30\0\0\1\1";
    for (size_t cut = 1; cut <= 5; cut++) {
        struct peer peer;
        char plain[100];
        peer_init(&peer);
        struct gs_tls_keys *keys = &peer.pair.client->records->sent;
        for (int i = 0; i < 3; i++) {
            peer.record_n = 0;
            add(&peer, HANDSHAKE, update, cut);
            if (cut < 5)
                add(&peer, HANDSHAKE, update + cut, 5 - cut);
            CHECK(gs_tls_keys_update(keys));
            add(&peer, DATA, "after", 5);
            CHECK_EQ(deliver(&peer, cut, plain, sizeof plain), 5);
            CHECK(pair_talk(peer.pair.client, peer.pair.server, 1000, 100));
            CHECK(pair_talk(peer.pair.server, peer.pair.client, 1000, 100));
        }
        pair_done(&peer.pair);
    }
}

TEST(one_new_key_is_the_answer_to_many)
{
    struct peer peer;
    char plain[100];
    size_t n;
    peer_init(&peer);
    for (int i = 0; i < 1000; i++) {
        peer.record_n = 0;
        add(&peer, HANDSHAKE, "\30\0\0\1\1", 5);
        CHECK(gs_tls_keys_update(&peer.pair.client->records->sent));
        add(&peer, DATA, "x", 1);
        CHECK_EQ(deliver(&peer, 1000, plain, sizeof plain), 1);
    }
    gs_tls_engine_output(peer.pair.server, &n);
    CHECK_EQ(n, 0);
    CHECK(pair_talk(peer.pair.server, peer.pair.client, 1, 1000));
    CHECK(pair_talk(peer.pair.server, peer.pair.client, 1, 1000));
    CHECK_EQ(peer.pair.server->records->sent.sequence, 2);
    pair_done(&peer.pair);
}

TEST(openssl_changes_its_key_before_it_has_sealed_too_much)
{
    struct pair pair;
    pair_init(&pair, NULL, NULL);
    CHECK_EQ(pair_exchange(&pair), 0);
    pair.client->sent_records = GS_TLS_MAX_RECORDS - 1;
    CHECK(pair_talk(pair.client, pair.server, 40000, 1000));
    CHECK(pair.client->has_new_keys);
    CHECK_EQ(pair.client->sent_records, 2);
    CHECK_EQ(pair.server->records->received.sequence, 2);
    pair_done(&pair);
}

/* Some versions of OpenSSL ignore it. */
TEST(change_of_cipher_that_comes_late_is_not_counted)
{
    struct pair pair;
    char plain[100];
    struct gs_tls_input input = {"\x14\3\3\0\1\1", 6};
    pair_init(&pair, NULL, NULL);
    CHECK_EQ(pair_exchange(&pair), 0);
    ssize_t result = gs_tls_engine_read(pair.client, &input, plain, sizeof plain);
    CHECK(result == -EPROTO || result == -EAGAIN);
    CHECK_EQ(pair.client->received_records, 1); /* the ticket */
    CHECK(result == -EPROTO || pair_talk(pair.server, pair.client, 100, 100));
    pair_done(&pair);
}

/* The client has sent so much that 32 bits do not count it. */
TEST(number_of_a_record_is_not_used_twice)
{
    struct pair pair;
    pair_init(&pair, NULL, NULL);
    CHECK_EQ(pair_exchange(&pair), 0);
    pair.client->sent_records = ((uint64_t)1 << 32) + 5;
    CHECK(pair_talk(pair.server, pair.client, 10, 100));
    CHECK_EQ(pair.client->records->sent.sequence, ((uint64_t)1 << 32) + 5);
    pair_done(&pair);
}

TEST(key_is_changed_before_it_has_sealed_too_much)
{
    struct pair pair;
    pair_init(&pair, NULL, NULL);
    CHECK_EQ(pair_exchange(&pair), 0);
    CHECK(pair_talk(pair.server, pair.client, 10, 100));
    pair.server->records->sent.sequence = pair.client->records->received.sequence = (1 << 24) - 1;
    for (int i = 0; i < 5; i++)
        CHECK(pair_talk(pair.server, pair.client, 20000, 1000));
    CHECK(pair.server->records->sent.sequence < 20);
    CHECK(pair_talk(pair.client, pair.server, 20000, 1000));
    pair_done(&pair);
}

TEST(openssl_and_our_records_change_keys_together)
{
    for (int request = 0; request < 2; request++) {
        struct pair pair;
        pair_init(&pair, NULL, NULL);
        CHECK_EQ(pair_exchange(&pair), 0);
        CHECK(!pair.server->ssl && pair.client->ssl);
        for (int i = 0; i < 5; i++) {
            CHECK(SSL_key_update(pair.client->ssl, request ? SSL_KEY_UPDATE_REQUESTED
                                                           : SSL_KEY_UPDATE_NOT_REQUESTED));
            CHECK(pair_talk(pair.client, pair.server, 40000, 100));
            CHECK(pair_talk(pair.server, pair.client, 40000, 100));
            /* Nobody tells the new secrets. */
            CHECK(pair.client->ssl);
        }
        pair_done(&pair);
    }
}

TEST(client_ignores_late_tickets_whatever_the_pieces)
{
    static const char message[] = "\4\0\0\x0a"
                                  "0123456789"
                                  "\4\0\0\0\4\0\0\3abc";
    for (size_t cut = 1; cut < sizeof message - 1; cut++) {
        struct peer peer;
        peer_init(&peer);
        char bytes[100];
        struct gs_tls_input input = {bytes, 0};
        struct gs_tls_keys *keys = &peer.pair.server->records->sent;
        size_t rest = sizeof message - 1 - cut;
        CHECK(gs_tls_seal(keys, HANDSHAKE, message, cut, (unsigned char *)bytes));
        CHECK(gs_tls_seal(keys, HANDSHAKE, message + cut, rest,
                          (unsigned char *)bytes + cut + GS_TLS_SEALED_MORE));
        input.n = sizeof message - 1 + 2 * GS_TLS_SEALED_MORE;
        CHECK_EQ(gs_tls_engine_read(peer.pair.client, &input, peer.record, 100), -EAGAIN);
        CHECK(pair_talk(peer.pair.server, peer.pair.client, 100, 10));
        pair_done(&peer.pair);
    }
}

/* OpenSSL's client can neither write nor close before it has the rest. */
TEST(client_waits_for_the_rest_of_a_ticket)
{
    static const char ticket[] = "\4\0\0\x0f\0\0\1\0"
                                 "1234\0\0\2ab\0\0";
    for (int closes = 0; closes < 2; closes++) {
        struct peer peer;
        char bytes[100], plain[100];
        pair_init(&peer.pair, NULL, NULL);
        struct pair *pair = &peer.pair;
        CHECK_EQ(pair_exchange(pair), 0);
        for (size_t at = 0, n = 8; at < sizeof ticket - 1; at += n, n = sizeof ticket - 1 - at) {
            struct gs_tls_input input = {bytes, n + GS_TLS_SEALED_MORE};
            CHECK(gs_tls_seal(&pair->server->records->sent, HANDSHAKE, ticket + at, n,
                              (unsigned char *)bytes));
            CHECK_EQ(gs_tls_engine_read(pair->client, &input, plain, sizeof plain), -EAGAIN);
            if (closes)
                gs_tls_engine_close(pair->client);
            else
                CHECK_EQ(gs_tls_engine_write(pair->client, "x", 1), at ? 1 : -EAGAIN);
        }
        CHECK_EQ(pair_pass(pair->client, pair->server, 100, plain, sizeof plain), !closes);
        pair_done(pair);
    }
}

TEST(client_gets_no_longer_records_than_it_asks_for)
{
    for (unsigned mode = TLSEXT_max_fragment_length_512; mode <= TLSEXT_max_fragment_length_4096;
         mode++) {
        struct pair pair;
        pair_init(&pair, NULL, NULL);
        CHECK(SSL_CTX_set_tlsext_max_fragment_length(pair.client_context->ssl, (uint8_t)mode));
        pair_renew(&pair, "server.test");
        CHECK_EQ(pair_exchange(&pair), 0);
        CHECK(pair_talk(pair.server, pair.client, 20000, 1000));
        CHECK(pair_talk(pair.client, pair.server, 20000, 1000));
        pair_done(&pair);
    }
}

TEST(message_is_not_interrupted_by_data)
{
    struct peer peer;
    char plain[100];
    peer_init(&peer);
    add(&peer, HANDSHAKE, "\30\0\0", 3);
    add(&peer, DATA, "x", 1);
    CHECK_EQ(deliver(&peer, 1000, plain, sizeof plain), -EPROTO);
    CHECK_EQ(alert_of(&peer), SSL_AD_UNEXPECTED_MESSAGE);
    pair_done(&peer.pair);
}

/* ---- Floods ---- */

TEST(messages_without_data_end_the_connection_before_long)
{
    static const struct {
        int type;
        const char *bytes;
        size_t n;
    } cases[] = {
        {HANDSHAKE, "\30\0\0\1\1", 5},
        {HANDSHAKE, "\30\0\0\1\0", 5},
        {DATA, "", 0},
        {ALERT, "\1\x5a", 2},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct peer peer;
        char plain[100], text[GS_TLS_TEXT];
        ssize_t result = -EAGAIN;
        int count = 0;
        size_t n;
        peer_init(&peer);
        while (result == -EAGAIN && count < 1000) {
            peer.record_n = 0;
            add(&peer, cases[i].type, cases[i].bytes, cases[i].n);
            if (cases[i].type == HANDSHAKE)
                CHECK(gs_tls_keys_update(&peer.pair.client->records->sent));
            result = deliver(&peer, 1000, plain, sizeof plain);
            count++;
        }
        CHECK_EQ(result, -EPROTO);
        CHECK(count > 20 && count < 100);
        gs_tls_engine_output(peer.pair.server, &n);
        CHECK(n < 2000);
        gs_tls_engine_error(peer.pair.server, text);
        CHECK(strstr(text, "without end"));
        pair_done(&peer.pair);
    }
}

TEST(server_refuses_to_renegotiate)
{
    struct pair pair;
    char text[GS_TLS_TEXT];
    pair_init(&pair, NULL, NULL);
    SSL_CTX_clear_options(pair.client_context->ssl, SSL_OP_NO_RENEGOTIATION);
    pair_speak_1_2(&pair);
    CHECK_EQ(pair_exchange(&pair), 0);
    CHECK(SSL_renegotiate(pair.client->ssl));
    CHECK_EQ(SSL_do_handshake(pair.client->ssl), -1);
    CHECK_EQ(pair_pass(pair.client, pair.server, 1000, text, sizeof text), -EAGAIN);
    CHECK_EQ(pair_pass(pair.server, pair.client, 1000, text, sizeof text), -EPROTO);
    gs_tls_engine_error(pair.client, text);
    CHECK(strstr(text, "no renegotiation"));
    CHECK_EQ(SSL_num_renegotiations(pair.server->ssl), 0);
    pair_done(&pair);
}

TEST(asking_to_renegotiate_without_end_ends_the_connection)
{
    struct pair pair;
    char text[GS_TLS_TEXT];
    ssize_t result = -EAGAIN;
    int count = 0;
    size_t n;
    pair_init(&pair, NULL, NULL);
    SSL_CTX_clear_options(pair.server_context->ssl, SSL_OP_NO_RENEGOTIATION);
    pair_speak_1_2(&pair);
    CHECK_EQ(pair_exchange(&pair), 0);
    while (result == -EAGAIN && count++ < 1000) {
        CHECK(SSL_renegotiate(pair.server->ssl));
        (void)SSL_do_handshake(pair.server->ssl);
        result = pair_pass(pair.server, pair.client, 1000, text, sizeof text);
    }
    CHECK_EQ(result, -EPROTO);
    CHECK(count > 10 && count < 100);
    gs_tls_engine_error(pair.client, text);
    CHECK(strstr(text, "without end"));
    gs_tls_engine_output(pair.client, &n);
    CHECK(n < 3000);
    pair_done(&pair);
}
