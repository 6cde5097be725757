#include "http/chunked.h"

#include "http/token.h"

#include <errno.h>

#define DATA_MAX (UINT64_MAX >> 1)
#define DIGITS_MAX 16

/* The machine, as the table `next` has it. Each line: a state, and where the bytes lead from it.
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
 * All else leads to MALFORMED. */
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

enum kind {
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
    KINDS
};

static const uint8_t next[STATES][KINDS] = {
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

static enum kind kind_of(char c)
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

/* One more digit of a size: false if that is too many or too large. */
static bool take_digit(struct gs_http_chunked *chunked, char digit)
{
    if (chunked->digits == DIGITS_MAX || chunked->left > DATA_MAX >> 4)
        return false;
    chunked->digits++;
    chunked->left = chunked->left << 4 | gs_http_hex_value(digit);
    return chunked->left <= DATA_MAX - chunked->total;
}

/* What a byte does besides changing the state; the state after it. */
static enum state step(struct gs_http_chunked *chunked, char c)
{
    enum state state = next[chunked->state][kind_of(c)];
    if (state == SIZE && !take_digit(chunked, c))
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

ssize_t gs_http_chunked_eat(struct gs_http_chunked *chunked, const char *bytes, size_t n,
                            bool *ret_done)
{
    size_t eaten = 0;
    while (eaten < n && chunked->state != DONE && chunked->state != MALFORMED) {
        if (chunked->state != DATA) {
            chunked->state = (uint8_t)step(chunked, bytes[eaten++]);
            continue;
        }
        size_t piece = n - eaten < chunked->left ? n - eaten : (size_t)chunked->left;
        eaten += piece;
        chunked->total += piece;
        chunked->left -= piece;
        if (!chunked->left)
            chunked->state = DATA_CR;
    }
    if (chunked->state == MALFORMED)
        return -EPROTO;
    *ret_done = chunked->state == DONE;
    return (ssize_t)eaten;
}
