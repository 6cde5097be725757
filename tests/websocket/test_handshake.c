/* Keys, the extension, URLs and answers of the handshake. */
#include "tests/test.h"
#include "websocket/response.h"

static const char key[] = "dGhlIHNhbXBsZSBub25jZQ==";
static const char *const accept_line = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";

static struct gs_http_text text_of(const char *string)
{
    return (struct gs_http_text){string, strlen(string)};
}

/* RFC 6455, 1.3. */
TEST(answer_to_the_key_of_the_standard)
{
    char answer[GS_WEBSOCKET_ACCEPT], made[GS_WEBSOCKET_KEY];
    gs_websocket_answer(key, answer);
    CHECK(!memcmp(answer, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", sizeof answer));
    gs_websocket_key((const uint8_t *)"the sample nonce", made);
    CHECK(!memcmp(made, key, sizeof made));
    CHECK(gs_websocket_key_is_valid(text_of(key)));
    CHECK(!gs_websocket_key_is_valid(text_of("")));
    CHECK(!gs_websocket_key_is_valid(text_of("dGhlIHNhbXBsZSBub25jZQ=")));
    CHECK(!gs_websocket_key_is_valid(text_of("dGhlIHNhbXBsZSBub25jZQAA")));
    CHECK(!gs_websocket_key_is_valid(text_of("dGhlIHNhbXBsZSBub25j,Q==")));
}

TEST(first_offer_that_is_understood_is_accepted)
{
    static const struct {
        const char *offers, *rest; /* of the answer; NULL: refused */
        uint8_t server_bits;
    } all[] = {
        {"permessage-deflate", "", 15},
        {"PerMessage-Deflate ; client_max_window_bits", "", 15},
        {"permessage-deflate; client_max_window_bits=\"10\"", "", 15},
        {"permessage-deflate; server_max_window_bits=10", "; server_max_window_bits=10", 10},
        {"permessage-deflate; server_max_window_bits=8", "; server_max_window_bits=8", 8},
        {"x, permessage-deflate; y, permessage-deflate; server_max_window_bits=9",
         "; server_max_window_bits=9", 9},
        {"", NULL, 0},
        {"permessage-bzip2", NULL, 0},
        {"permessage-deflate;", NULL, 0},
        {"permessage-deflate; server_max_window_bits", NULL, 0},
        {"permessage-deflate; server_max_window_bits=", NULL, 0},
        {"permessage-deflate; server_max_window_bits=7", NULL, 0},
        {"permessage-deflate; server_max_window_bits=16", NULL, 0},
        {"permessage-deflate; server_max_window_bits=09", NULL, 0},
        {"permessage-deflate; server_max_window_bits=9; server_max_window_bits=9", NULL, 0},
        {"permessage-deflate; client_no_context_takeover=1", NULL, 0},
        {"permessage-deflate; client_no_context_takeover; client_no_context_takeover", NULL, 0},
    };
    static const char start[] =
        "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct gs_websocket_agreement agreement = {0};
        char answer[GS_WEBSOCKET_EXTENSION_MAX], expected[GS_WEBSOCKET_EXTENSION_MAX];
        bool is_accepted = gs_websocket_extension_accept(text_of(all[i].offers), &agreement);
        CHECK_EQ(is_accepted, all[i].rest != NULL);
        if (!is_accepted)
            continue;
        CHECK_EQ(agreement.server_bits, all[i].server_bits);
        int n = snprintf(expected, sizeof expected, "%s%s", start, all[i].rest);
        CHECK_EQ(gs_websocket_extension_put(&agreement, answer), n);
        CHECK(!memcmp(answer, expected, (size_t)n));
    }
}

TEST(server_that_would_keep_its_window_is_refused)
{
    static const struct {
        const char *answer;
        uint8_t client_bits; /* 0: refused */
    } all[] = {
        {"permessage-deflate; server_no_context_takeover", 15},
        {"permessage-deflate; server_no_context_takeover; client_max_window_bits=9", 9},
        {"permessage-deflate; server_no_context_takeover; server_max_window_bits=12", 15},
        {"permessage-deflate", 0},
        {"permessage-deflate; server_no_context_takeover; client_max_window_bits", 0},
        {"permessage-deflate; server_no_context_takeover, x", 0},
        {"x", 0},
        {"", 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct gs_websocket_agreement agreement = {0};
        bool is_agreed = gs_websocket_extension_agree(text_of(all[i].answer), &agreement);
        CHECK_EQ(is_agreed, all[i].client_bits != 0);
        CHECK_EQ(agreement.client_bits, all[i].client_bits);
    }
}

TEST(url_has_a_host_and_perhaps_a_port_and_a_target)
{
    static const struct {
        const char *url, *address, *target; /* NULL: refused */
    } all[] = {
        {"ws://h", "h:80", "/"},
        {"wss://h", "h:443", "/"},
        {"WS://h:81", "h:81", "/"},
        {"ws://[::1]/a?b", "[::1]:80", "/a?b"},
        {"ws://[::1]:9/", "[::1]:9", "/"},
        {"ws://h?x", "h:80", "/?x"},
        {"http://h", NULL, NULL},
        {"ws:/h", NULL, NULL},
        {"ws://", NULL, NULL},
        {"ws:///x", NULL, NULL},
        {"ws://h:", NULL, NULL},
        {"ws://u@h/", NULL, NULL},
        {"ws://h/#x", NULL, NULL},
        {"ws://h/a b", NULL, NULL},
        {"ws://h/\r\nX: y", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct gs_websocket_url url;
        char address[64], target[64];
        bool is_url = gs_websocket_url_read(all[i].url, &url);
        CHECK_EQ(is_url, all[i].address != NULL);
        if (!is_url)
            continue;
        snprintf(address, sizeof address, "%.*s%s", (int)url.authority.n, url.authority.bytes,
                 url.port);
        snprintf(target, sizeof target, "%s%.*s", url.slash, (int)url.target.n, url.target.bytes);
        CHECK(!strcmp(address, all[i].address));
        CHECK(!strcmp(target, all[i].target));
    }
}

static const char *read_answer(const char *start, const char *accept, const char *end,
                               struct gs_websocket_response *response)
{
    static char head[1000];
    snprintf(head, sizeof head, "%s%s%s\r\n", start, accept, end);
    return gs_websocket_response_read(text_of(head), key, true, response);
}

TEST(answer_must_switch_and_know_the_key)
{
    static const char start[] =
        "HTTP/1.1 101 x\r\nUpgrade: WebSocket\r\nConnection: a, upgrade\r\n";
    struct gs_websocket_response response;
    CHECK(!read_answer(start, accept_line, "", &response));
    CHECK_EQ(response.status, 101);
    CHECK(!response.protocol.bytes && !response.agreement.is_agreed);
    CHECK(!read_answer(start, accept_line, "Sec-WebSocket-Protocol: p\r\n", &response));
    CHECK(gs_http_text_is(response.protocol, "p"));
    CHECK(!read_answer("HTTP/1.1 404 x\r\n", "", "", &response));
    CHECK_EQ(response.status, 404);
    CHECK(read_answer(start, "", "", &response));
    CHECK(
        read_answer(start, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo\r\n", "", &response));
    CHECK(read_answer(start, accept_line, accept_line, &response));
    CHECK(read_answer(start, accept_line, "Sec-WebSocket-Extensions: x\r\n", &response));
    CHECK(read_answer("HTTP/1.1 101\r\nUpgrade: websocket\r\n", accept_line, "", &response));
    CHECK(read_answer("HTTP/1.1 101\r\nConnection: upgrade\r\n", accept_line, "", &response));
    CHECK(read_answer("HTTP/1.0 101 x\r\n", accept_line, "", &response));
    CHECK(read_answer("nonsense and more\r\n", accept_line, "", &response));
    CHECK(read_answer("x\r\n", "", "", &response));
}
