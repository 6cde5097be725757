/* Conversations between two engines, whose bytes a proxy cuts, and whose records it splits or
 * passes on together: each must go as the one in which it changes nothing. */
#include "tests/test.h"
#include "tests/tls/pair.h"
#include "tls/engine.h"

#include <errno.h>

/* What the proxy does with each series of bytes that one side has to send. */
struct rules {
    size_t cut;  /* at this byte; 0: nowhere */
    bool splits; /* cuts the records of the handshake there, rather than the bytes */
    bool joins;  /* what a side has to say follows its handshake at once */
    bool breaks; /* changes a bit of the client's last record */
};

enum { SERVER, CLIENT };

struct outcome {
    char heard[2][1000];
    size_t heard_n[2];
    ssize_t result[2]; /* the last one */
    unsigned long error[2];
    char version[8];
};

struct conversation {
    struct gs_tls_engine *sides[2];
    const struct rules *rules;
    bool is_secret[2]; /* what the side sends is encrypted now */
    bool has_spoken[2];
    size_t longest; /* series of bytes, or record that may be split */
    struct outcome outcome;
};

/* ---- The proxy ---- */

static void note_length(struct conversation *conversation, size_t n)
{
    if (n > conversation->longest)
        conversation->longest = n;
}

static size_t put_record(unsigned char *to, const unsigned char *record, size_t from, size_t n)
{
    memcpy(to, record, 3);
    to[3] = (unsigned char)(n >> 8);
    to[4] = (unsigned char)n;
    memcpy(to + 5, record + 5 + from, n);
    return 5 + n;
}

/* Returns the new length. */
static size_t split_records(struct conversation *conversation, int from, const unsigned char *bytes,
                            size_t n, unsigned char *to)
{
    size_t cut = conversation->rules->cut, end = 0;
    for (size_t at = 0, length; at < n; at += 5 + length) {
        const unsigned char *record = bytes + at;
        length = (size_t)record[3] << 8 | record[4];
        conversation->is_secret[from] |= record[0] != SSL3_RT_HANDSHAKE;
        bool is_split = !conversation->is_secret[from] && cut < length;
        if (!conversation->is_secret[from])
            note_length(conversation, length);
        if (is_split)
            end += put_record(to + end, record, 0, cut);
        end += put_record(to + end, record, is_split ? cut : 0, length - (is_split ? cut : 0));
    }
    return end;
}

static void deliver(struct conversation *conversation, int to, const unsigned char *bytes, size_t n)
{
    struct outcome *outcome = &conversation->outcome;
    struct gs_tls_input input = {(const char *)bytes, n};
    ssize_t result = 1;
    while (result > 0) {
        result = gs_tls_engine_read(conversation->sides[to], &input,
                                    outcome->heard[to] + outcome->heard_n[to],
                                    sizeof outcome->heard[to] - outcome->heard_n[to]);
        outcome->heard_n[to] += result > 0 ? (size_t)result : 0;
    }
    outcome->result[to] = result;
}

/* Returns whether there was anything. */
static bool pass(struct conversation *conversation, int from)
{
    unsigned char taken[8000], changed[8000];
    const struct rules *rules = conversation->rules;
    size_t n;
    const char *output = gs_tls_engine_output(conversation->sides[from], &n);
    if (!n)
        return false;
    memcpy(taken, output, n);
    gs_tls_engine_sent(conversation->sides[from], n);
    if (rules->breaks && from == CLIENT && conversation->has_spoken[from])
        taken[n - 1] ^= 1;
    const unsigned char *bytes = taken;
    if (rules->splits) {
        n = split_records(conversation, from, taken, n, changed);
        bytes = changed;
    } else {
        note_length(conversation, n);
    }
    size_t cut = rules->splits || rules->cut > n ? 0 : rules->cut;
    if (cut)
        deliver(conversation, !from, bytes, cut);
    deliver(conversation, !from, bytes + cut, n - cut);
    return true;
}

/* ---- The conversation ---- */

static void speak(struct conversation *conversation, int side, const char *text)
{
    static char bytes[600];
    struct gs_tls_engine *engine = conversation->sides[side];
    conversation->has_spoken[side] = true;
    CHECK_EQ(gs_tls_engine_write(engine, text, strlen(text)), strlen(text));
    CHECK_EQ(gs_tls_engine_write(engine, bytes, sizeof bytes), sizeof bytes);
    gs_tls_engine_close(engine);
}

/* The client speaks first. */
static void speak_if_due(struct conversation *conversation, int side)
{
    struct gs_tls_engine *engine = conversation->sides[side];
    size_t n;
    struct gs_tls_info info;
    gs_tls_engine_info(engine, &info);
    gs_tls_engine_output(engine, &n);
    bool is_due =
        side == CLIENT ? conversation->rules->joins || !n : !conversation->outcome.result[side];
    if (info.is_established && !info.failure && is_due && !conversation->has_spoken[side])
        speak(conversation, side, side == CLIENT ? "question" : "answer");
}

static void converse(struct pair *pair, const struct rules *rules,
                     struct conversation *ret_conversation)
{
    struct conversation *conversation = ret_conversation;
    struct gs_tls_info info;
    pair_renew(pair, "server.test");
    *conversation = (struct conversation){{pair->server, pair->client}, .rules = rules};
    struct outcome *outcome = &conversation->outcome;
    outcome->result[SERVER] = -EAGAIN;
    deliver(conversation, CLIENT, (const unsigned char *)"", 0);
    bool was_client = true, goes_on = true;
    while (goes_on) {
        speak_if_due(conversation, CLIENT);
        was_client = pass(conversation, CLIENT);
        speak_if_due(conversation, SERVER);
        goes_on = pass(conversation, SERVER) || was_client;
    }
    for (int side = 0; side < 2; side++)
        outcome->error[side] = conversation->sides[side]->error;
    gs_tls_engine_info(pair->client, &info);
    snprintf(outcome->version, sizeof outcome->version, "%s", info.version);
}

static bool is_same(const struct outcome *one, const struct outcome *other)
{
    return !memcmp(one, other, sizeof *one);
}

/* Cut at each byte. */
static void compare(struct pair *pair, struct rules rules, const struct outcome *expected)
{
    struct conversation conversation = {.longest = 1};
    for (rules.cut = 1; rules.cut <= conversation.longest; rules.cut++) {
        converse(pair, &rules, &conversation);
        if (!is_same(&conversation.outcome, expected))
            TEST_FAIL("cut at %zu, splits %d, joins %d: results %zd %zd, heard %zu %zu", rules.cut,
                      rules.splits, rules.joins, conversation.outcome.result[SERVER],
                      conversation.outcome.result[CLIENT], conversation.outcome.heard_n[SERVER],
                      conversation.outcome.heard_n[CLIENT]);
    }
    CHECK(rules.cut > 100);
}

static void try_version(bool is_old)
{
    struct pair pair;
    struct rules rules = {.cut = 0};
    struct conversation whole;
    pair_init(&pair, NULL, NULL);
    if (is_old)
        pair_speak_1_2(&pair);
    converse(&pair, &rules, &whole);
    CHECK(whole.outcome.heard_n[SERVER] == 608 && whole.outcome.heard_n[CLIENT] == 606);
    CHECK(!memcmp(whole.outcome.heard[SERVER], "question", 8));
    CHECK(!memcmp(whole.outcome.heard[CLIENT], "answer", 6));
    CHECK(!whole.outcome.result[SERVER] && !whole.outcome.result[CLIENT]);
    CHECK(!strcmp(whole.outcome.version, is_old ? "TLSv1.2" : "TLSv1.3"));
    for (int joins = 0; joins < 2; joins++)
        compare(&pair, (struct rules){.joins = joins}, &whole.outcome);
    compare(&pair, (struct rules){.splits = true, .joins = true}, &whole.outcome);
    rules.breaks = true;
    converse(&pair, &rules, &whole);
    CHECK_EQ(whole.outcome.result[SERVER], -EPROTO);
    CHECK_EQ(whole.outcome.error[CLIENT] & 0xfff, SSL_AD_REASON_OFFSET + SSL_AD_BAD_RECORD_MAC);
    compare(&pair, rules, &whole.outcome);
    pair_done(&pair);
}

TEST(bytes_and_records_may_be_cut_anywhere_in_tls_1_3)
{
    try_version(false);
}

TEST(bytes_and_records_may_be_cut_anywhere_in_tls_1_2)
{
    try_version(true);
}
