#include "websocket/parser.h"

#include <gossamer/websocket.h>
#include <string.h>

enum { HEADER, PAYLOAD, CONTROL, FAILED, CLOSED };

static enum gs_websocket_event fail(struct gs_websocket_parser *parser, unsigned code,
                                    const char *failure)
{
    parser->state = FAILED;
    parser->code = (uint16_t)code;
    parser->failure = failure;
    return GS_WEBSOCKET_FAILED;
}

static enum gs_websocket_event refuse(struct gs_websocket_parser *parser, const char *failure)
{
    return fail(parser, GS_WEBSOCKET_PROTOCOL_ERROR, failure);
}

/* ---- Headers ---- */

/* How long the header is, as far as its first bytes tell. */
static size_t header_length(const struct gs_websocket_parser *parser)
{
    if (parser->kept_n < 2)
        return 2;
    unsigned length = parser->kept[1] & 0x7f, is_masked = parser->kept[1] & 0x80;
    return 2 + (length == 126 ? 2u : length == 127 ? 8u : 0u) + (is_masked ? 4u : 0u);
}

/* Returns whether the header is complete. */
static bool take_header(struct gs_websocket_parser *parser, struct gs_websocket_input *input)
{
    while (parser->kept_n < header_length(parser) && input->n) {
        parser->kept[parser->kept_n++] = *input->bytes++;
        input->n--;
    }
    return parser->kept_n == header_length(parser);
}

/* Returns the length of the payload; UINT64_MAX: it is not in the shortest form, or too large. */
static uint64_t payload_length(const struct gs_websocket_parser *parser)
{
    unsigned form = parser->kept[1] & 0x7f, n = form == 126 ? 2 : form == 127 ? 8 : 0;
    uint64_t length = n ? 0 : form;
    for (unsigned i = 0; i < n; i++)
        length = length << 8 | (unsigned char)parser->kept[2 + i];
    bool is_shortest = !n || (n == 2 ? length >= 126 : length > UINT16_MAX);
    return is_shortest && length <= INT64_MAX ? length : UINT64_MAX;
}

/* Returns why frames like this are refused; NULL: they are not. */
static const char *check_bits(const struct gs_websocket_parser *parser)
{
    unsigned first = (unsigned char)parser->kept[0];
    unsigned opcode = first & 15;
    bool is_masked = parser->kept[1] & 0x80;
    if (first & 0x30)
        return "a reserved bit of a frame is set";
    if (first & 0x40 && !(parser->may_compress && (opcode == 1 || opcode == 2)))
        return "a frame is compressed that must not be";
    if ((opcode > 2 && opcode < 8) || opcode > 10)
        return "the opcode of a frame is unknown";
    if (is_masked != parser->is_server)
        return is_masked ? "a frame of the server is masked"
                         : "a frame of the client is not masked";
    return NULL;
}

static enum gs_websocket_event begin_control(struct gs_websocket_parser *parser, uint64_t length)
{
    if (!(parser->kept[0] & 0x80))
        return refuse(parser, "a control frame is fragmented");
    if (length > GS_WEBSOCKET_CONTROL_MAX)
        return refuse(parser, "a control frame is too long");
    parser->control_left = (uint8_t)length;
    parser->state = CONTROL;
    return GS_WEBSOCKET_MORE;
}

static enum gs_websocket_event begin_data(struct gs_websocket_parser *parser, uint64_t length)
{
    bool is_first = parser->opcode != GS_WEBSOCKET_OP_CONTINUATION;
    if (is_first && parser->type)
        return refuse(parser, "a message begins within another one");
    if (!is_first && !parser->type)
        return refuse(parser, "a frame continues no message");
    if (is_first) {
        parser->message_n = 0;
        parser->type = parser->opcode;
        parser->is_compressed = parser->kept[0] & 0x40;
        parser->utf8 = (struct gs_websocket_utf8){0};
    }
    /* Incompressible data becomes a little longer. */
    uint64_t max =
        parser->max_message + (parser->is_compressed ? parser->max_message / 256 + 64 : 0);
    if (length > max || parser->message_n > max - length)
        return fail(parser, GS_WEBSOCKET_TOO_LARGE, "a message is too long");
    parser->message_n += length;
    parser->left = length;
    parser->is_last = parser->kept[0] & 0x80;
    parser->state = PAYLOAD;
    return is_first ? GS_WEBSOCKET_BEGIN : GS_WEBSOCKET_MORE;
}

static enum gs_websocket_event parse_header(struct gs_websocket_parser *parser,
                                            struct gs_websocket_input *input)
{
    if (!take_header(parser, input)) {
        /* The first bytes may suffice to refuse it. */
        const char *failure = parser->kept_n >= 2 ? check_bits(parser) : NULL;
        return failure ? refuse(parser, failure) : GS_WEBSOCKET_MORE;
    }
    const char *failure = check_bits(parser);
    uint64_t length = payload_length(parser);
    if (failure)
        return refuse(parser, failure);
    parser->opcode = parser->kept[0] & 15;
    bool is_control = parser->opcode >= GS_WEBSOCKET_OP_CLOSE;
    if (length == UINT64_MAX && !is_control)
        return refuse(parser, "the length of a frame is malformed");
    memcpy(parser->mask, parser->kept + parser->kept_n - 4, parser->is_server ? 4 : 0);
    parser->phase = 0;
    enum gs_websocket_event event =
        is_control ? begin_control(parser, length) : begin_data(parser, length);
    parser->kept_n = 0;
    return event;
}

/* ---- Payload ---- */

static char *unmask(struct gs_websocket_parser *parser, struct gs_websocket_input *input, size_t n)
{
    char *bytes = input->bytes;
    if (parser->is_server)
        gs_websocket_mask(bytes, n, parser->mask, parser->phase);
    parser->phase = (uint8_t)((parser->phase + n) % 4);
    input->bytes += n;
    input->n -= n;
    return bytes;
}

static bool check_text(struct gs_websocket_parser *parser, const char *bytes, size_t n, bool is_end)
{
    if (parser->type != GS_WEBSOCKET_OP_TEXT || parser->is_compressed)
        return true;
    return gs_websocket_utf8_check(&parser->utf8, bytes, n) &&
           (!is_end || gs_websocket_utf8_is_complete(&parser->utf8));
}

static enum gs_websocket_event parse_payload(struct gs_websocket_parser *parser,
                                             struct gs_websocket_input *input, size_t max,
                                             struct gs_websocket_piece *ret_piece)
{
    size_t n = input->n < max ? input->n : max;
    if (n > parser->left)
        n = (size_t)parser->left;
    if (!n && parser->left)
        return GS_WEBSOCKET_MORE;
    char *bytes = unmask(parser, input, n);
    parser->left -= n;
    bool is_end = !parser->left && parser->is_last;
    if (!check_text(parser, bytes, n, is_end))
        return fail(parser, GS_WEBSOCKET_MALFORMED, "a text is not UTF-8");
    if (!parser->left)
        parser->state = HEADER;
    if (is_end)
        parser->type = 0;
    *ret_piece = (struct gs_websocket_piece){bytes, n, is_end};
    return n || is_end ? GS_WEBSOCKET_DATA : GS_WEBSOCKET_MORE;
}

static enum gs_websocket_event end_close(struct gs_websocket_parser *parser,
                                         struct gs_websocket_piece *piece)
{
    struct gs_websocket_utf8 utf8 = {0};
    parser->code = 0;
    if (piece->n == 1)
        return refuse(parser, "a close has half a code");
    bool has_code = piece->n;
    if (has_code) {
        const unsigned char *code = (const unsigned char *)piece->bytes;
        parser->code = (uint16_t)(code[0] << 8 | code[1]);
        piece->bytes += 2;
        piece->n -= 2;
    }
    if (has_code && !gs_websocket_code_is_valid(parser->code))
        return refuse(parser, "the code of a close is invalid");
    if (!gs_websocket_utf8_check(&utf8, piece->bytes, piece->n) ||
        !gs_websocket_utf8_is_complete(&utf8))
        return fail(parser, GS_WEBSOCKET_MALFORMED, "the reason of a close is not UTF-8");
    parser->state = CLOSED;
    return GS_WEBSOCKET_CLOSE;
}

static enum gs_websocket_event parse_control(struct gs_websocket_parser *parser,
                                             struct gs_websocket_input *input,
                                             struct gs_websocket_piece *ret_piece)
{
    size_t n = input->n < parser->control_left ? input->n : parser->control_left;
    char *bytes = unmask(parser, input, n);
    memcpy(parser->kept + parser->kept_n, bytes, n);
    parser->kept_n = (uint8_t)(parser->kept_n + n);
    parser->control_left = (uint8_t)(parser->control_left - n);
    if (parser->control_left)
        return GS_WEBSOCKET_MORE;
    *ret_piece = (struct gs_websocket_piece){parser->kept, parser->kept_n, true};
    parser->kept_n = 0;
    parser->state = HEADER;
    return parser->opcode == GS_WEBSOCKET_OP_PING   ? GS_WEBSOCKET_PING
           : parser->opcode == GS_WEBSOCKET_OP_PONG ? GS_WEBSOCKET_PONG
                                                    : end_close(parser, ret_piece);
}

enum gs_websocket_event gs_websocket_parser_next(struct gs_websocket_parser *parser,
                                                 struct gs_websocket_input *input, size_t max,
                                                 struct gs_websocket_piece *ret_piece)
{
    enum gs_websocket_event event = GS_WEBSOCKET_MORE;
    bool is_stuck = false;
    while (event == GS_WEBSOCKET_MORE && !is_stuck) {
        uint8_t state = parser->state;
        if (state == HEADER)
            event = parse_header(parser, input);
        else if (state == PAYLOAD)
            event = parse_payload(parser, input, max, ret_piece);
        else if (state == CONTROL)
            event = parse_control(parser, input, ret_piece);
        else
            return state == FAILED ? GS_WEBSOCKET_FAILED : GS_WEBSOCKET_MORE;
        is_stuck = parser->state == state && !input->n;
    }
    return event;
}
