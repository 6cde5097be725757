#include "http/chunked.h"

#include "http/token.h"

#include <errno.h>

#define DATA_MAX (UINT64_MAX >> 1)
#define DIGITS_MAX 16

/* The state machine of the table `transitions`. Each line: a state, and its transitions by class of
 * byte.
 *
 *   SIZE_START   digit: SIZE
 *   SIZE         digit: SIZE     space: GAP        ';': NAME_START   CR: SIZE_LF
 *   GAP          space: GAP                        ';': NAME_START
 *   NAME_START   space: itself   token: NAME
 *   NAME         token: itself   space: NAME_END   ';': NAME_START   CR: SIZE_LF   '=': VALUE_START
 *   NAME_END     space: itself                     ';': NAME_START                 '=': VALUE_START
 *   VALUE_START  space: itself   token: VALUE      '"': QUOTED
 *   VALUE        token: itself   space: GAP        ';': NAME_START   CR: SIZE_LF
 *   QUOTED       text: itself    '\\': ESCAPED, text: QUOTED          '"': VALUE_END
 *   VALUE_END    space: GAP                        ';': NAME_START   CR: SIZE_LF
 *   SIZE_LF      LF: DATA, or LINE_START after the size 0
 *   DATA         the last byte of the chunk: DATA_CR, CR: DATA_LF, LF: SIZE_START
 *   LINE_START   token: FIELD_NAME, ':': FIELD_VALUE, CR: LINE_LF, LF: LINE_START
 *                CR: LAST_LF, LF: DONE
 *
 * All other bytes lead to MALFORMED. */
enum state {
    MALFORMED,
    SIZE_START,
    SIZE,
    GAP,
    NAME_START,
    NAME,
    NAME_END,
    VALUE_START,
    VALUE,
    QUOTED,
    ESCAPED,
    VALUE_END,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    LINE_START,
    FIELD_NAME,
    FIELD_VALUE,
    LINE_LF,
    LAST_LF,
    DONE,
    STATES,
};

enum byte_class {
    CONTROL,
    HEX,
    TOKEN,
    SPACE,
    SEMICOLON,
    EQUALS,
    QUOTE,
    BACKSLASH,
    COLON,
    CR,
    LF,
    OTHER,
    BYTE_CLASSES
};

static const uint8_t transitions[STATES][BYTE_CLASSES] = {
    [SIZE_START] = {[HEX] = SIZE},
    [SIZE] = {[HEX] = SIZE, [SPACE] = GAP, [SEMICOLON] = NAME_START, [CR] = SIZE_LF},
    [GAP] = {[SPACE] = GAP, [SEMICOLON] = NAME_START},
    [NAME_START] = {[SPACE] = NAME_START, [HEX] = NAME, [TOKEN] = NAME},
    [NAME] = {[HEX] = NAME,
              [TOKEN] = NAME,
              [SPACE] = NAME_END,
              [EQUALS] = VALUE_START,
              [SEMICOLON] = NAME_START,
              [CR] = SIZE_LF},
    [NAME_END] = {[SPACE] = NAME_END, [EQUALS] = VALUE_START, [SEMICOLON] = NAME_START},
    [VALUE_START] = {[SPACE] = VALUE_START, [HEX] = VALUE, [TOKEN] = VALUE, [QUOTE] = QUOTED},
    [VALUE] =
        {[HEX] = VALUE, [TOKEN] = VALUE, [SPACE] = GAP, [SEMICOLON] = NAME_START, [CR] = SIZE_LF},
    [QUOTED] = {[HEX] = QUOTED,
                [TOKEN] = QUOTED,
                [SPACE] = QUOTED,
                [SEMICOLON] = QUOTED,
                [EQUALS] = QUOTED,
                [COLON] = QUOTED,
                [OTHER] = QUOTED,
                [BACKSLASH] = ESCAPED,
                [QUOTE] = VALUE_END},
    [ESCAPED] = {[HEX] = QUOTED,
                 [TOKEN] = QUOTED,
                 [SPACE] = QUOTED,
                 [SEMICOLON] = QUOTED,
                 [EQUALS] = QUOTED,
                 [COLON] = QUOTED,
                 [OTHER] = QUOTED,
                 [BACKSLASH] = QUOTED,
                 [QUOTE] = QUOTED},
    [VALUE_END] = {[SPACE] = GAP, [SEMICOLON] = NAME_START, [CR] = SIZE_LF},
    [SIZE_LF] = {[LF] = DATA},
    [DATA_CR] = {[CR] = DATA_LF},
    [DATA_LF] = {[LF] = SIZE_START},
    [LINE_START] = {[HEX] = FIELD_NAME, [TOKEN] = FIELD_NAME, [CR] = LAST_LF},
    [FIELD_NAME] = {[HEX] = FIELD_NAME, [TOKEN] = FIELD_NAME, [COLON] = FIELD_VALUE},
    [FIELD_VALUE] = {[HEX] = FIELD_VALUE,
                     [TOKEN] = FIELD_VALUE,
                     [SPACE] = FIELD_VALUE,
                     [SEMICOLON] = FIELD_VALUE,
                     [EQUALS] = FIELD_VALUE,
                     [QUOTE] = FIELD_VALUE,
                     [BACKSLASH] = FIELD_VALUE,
                     [COLON] = FIELD_VALUE,
                     [OTHER] = FIELD_VALUE,
                     [CR] = LINE_LF},
    [LINE_LF] = {[LF] = LINE_START},
    [LAST_LF] = {[LF] = DONE},
};

static enum byte_class classify(char c)
{
    switch (c) {
    case ' ':
    case '\t':
        return SPACE;
    case ';':
        return SEMICOLON;
    case '=':
        return EQUALS;
    case '"':
        return QUOTE;
    case '\\':
        return BACKSLASH;
    case ':':
        return COLON;
    case '\r':
        return CR;
    case '\n':
        return LF;
    default:
        return gs_http_is(c, GS_HTTP_HEX)     ? HEX
               : gs_http_is(c, GS_HTTP_TCHAR) ? TOKEN
               : gs_http_is(c, GS_HTTP_FIELD) ? OTHER
                                              : CONTROL;
    }
}

/* Append a digit to the size. Returns false if there are too many digits or the size is too large.
 */
static bool add_digit(struct gs_http_chunked *chunked, char digit)
{
    if (chunked->digits == DIGITS_MAX || chunked->left > DATA_MAX >> 4)
        return false;
    chunked->digits++;
    chunked->left = chunked->left << 4 | gs_http_hex_value(digit);
    return chunked->left <= DATA_MAX - chunked->total;
}

/* Process one byte outside of data. Returns the new state. */
static enum state step(struct gs_http_chunked *chunked, char c)
{
    enum state state = transitions[chunked->state][classify(c)];
    if (state == SIZE && !add_digit(chunked, c))
        return MALFORMED;
    if (state >= GAP && state <= VALUE_END &&
        ++chunked->extension_bytes > GS_HTTP_CHUNK_EXTENSIONS_MAX)
        return MALFORMED;
    if (chunked->state >= LINE_START && ++chunked->trailer_bytes > GS_HTTP_CHUNK_TRAILER_MAX)
        return MALFORMED;
    if (state == DATA) {
        chunked->digits = 0;
        return chunked->left ? DATA : LINE_START;
    }
    return state;
}

void gs_http_chunked_init(struct gs_http_chunked *chunked)
{
    *chunked = (struct gs_http_chunked){.state = SIZE_START};
}

/* Record that data of the current chunk, at most n bytes, is consumed. Returns its length. */
static size_t take_data(struct gs_http_chunked *chunked, size_t n)
{
    size_t data = n < chunked->left ? n : (size_t)chunked->left;
    chunked->total += data;
    chunked->left -= data;
    if (!chunked->left)
        chunked->state = DATA_CR;
    return data;
}

ssize_t gs_http_chunked_next(struct gs_http_chunked *chunked, const char *bytes, size_t n,
                             struct gs_http_text *ret_data, bool *ret_done)
{
    size_t at = 0;
    while (at < n && chunked->state != DATA && chunked->state != DONE &&
           chunked->state != MALFORMED)
        chunked->state = (uint8_t)step(chunked, bytes[at++]);
    if (chunked->state == MALFORMED)
        return -EPROTO;
    size_t data = chunked->state == DATA ? take_data(chunked, n - at) : 0;
    *ret_data = (struct gs_http_text){bytes + at, data};
    *ret_done = chunked->state == DONE;
    return (ssize_t)(at + data);
}

ssize_t gs_http_chunked_decode(struct gs_http_chunked *chunked, const char *bytes, size_t n,
                               bool *ret_done)
{
    size_t consumed = 0;
    struct gs_http_text data;
    if (!n) {
        *ret_done = chunked->state == DONE;
        return 0;
    }
    do {
        ssize_t step_length =
            gs_http_chunked_next(chunked, bytes + consumed, n - consumed, &data, ret_done);
        if (step_length < 0)
            return step_length;
        consumed += (size_t)step_length;
    } while (consumed < n && !*ret_done);
    return (ssize_t)consumed;
}
