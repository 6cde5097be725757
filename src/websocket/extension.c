#include "websocket/extension.h"

#include "http/token.h"

/* The parameters of an offer, or of an answer. */
struct parameters {
    bool server_takes_none, client_takes_none; /* no context takeover */
    bool has_server_bits, has_client_bits;
    uint8_t server_bits, client_bits; /* 0: without a value */
};

static struct gs_http_text cut(struct gs_http_text *rest, char separator)
{
    const char *at = rest->n ? memchr(rest->bytes, separator, rest->n) : NULL;
    size_t n = at ? (size_t)(at - rest->bytes) : rest->n;
    struct gs_http_text part = {rest->bytes, n};
    *rest = at ? (struct gs_http_text){at + 1, rest->n - n - 1} : (struct gs_http_text){0};
    return gs_http_trim(part);
}

static bool set_flag(bool *flag, struct gs_http_text value)
{
    bool is_first = !*flag;
    *flag = true;
    return is_first && !value.bytes;
}

/* A number without leading zeros, perhaps quoted. */
static bool set_bits(bool *has_bits, uint8_t *bits, struct gs_http_text value)
{
    uint64_t number;
    bool is_first = !*has_bits;
    *has_bits = true;
    if (!value.bytes)
        return is_first;
    if (value.n >= 2 && *value.bytes == '"' && value.bytes[value.n - 1] == '"')
        value = (struct gs_http_text){value.bytes + 1, value.n - 2};
    if (!gs_http_get_decimal(value, &number) || number < 8 || number > 15 || *value.bytes == '0')
        return false;
    *bits = (uint8_t)number;
    return is_first;
}

static bool read_parameter(struct gs_http_text text, struct parameters *parameters)
{
    bool has_value = text.n && memchr(text.bytes, '=', text.n);
    struct gs_http_text name = cut(&text, '='), value = {0};
    if (has_value)
        value = text.bytes ? gs_http_trim(text) : GS_HTTP_TEXT("");
    if (gs_http_text_is_nocase(name, "server_no_context_takeover"))
        return set_flag(&parameters->server_takes_none, value);
    if (gs_http_text_is_nocase(name, "client_no_context_takeover"))
        return set_flag(&parameters->client_takes_none, value);
    if (gs_http_text_is_nocase(name, "server_max_window_bits"))
        return set_bits(&parameters->has_server_bits, &parameters->server_bits, value) && value.n;
    if (gs_http_text_is_nocase(name, "client_max_window_bits"))
        return set_bits(&parameters->has_client_bits, &parameters->client_bits, value);
    return false;
}

/* Read an element of the field. Returns false if it is no acceptable permessage-deflate. */
static bool read_element(struct gs_http_text element, struct parameters *ret_parameters)
{
    struct gs_http_text name = cut(&element, ';');
    *ret_parameters = (struct parameters){0};
    bool is_read = gs_http_text_is_nocase(name, "permessage-deflate");
    while (is_read && element.bytes) {
        struct gs_http_text parameter = cut(&element, ';');
        is_read = read_parameter(parameter, ret_parameters);
    }
    return is_read;
}

static void set_agreement(const struct parameters *parameters,
                          struct gs_websocket_agreement *ret_agreement)
{
    *ret_agreement = (struct gs_websocket_agreement){
        .is_agreed = true,
        .has_server_bits = parameters->has_server_bits,
        .server_bits = parameters->server_bits ? parameters->server_bits : 15,
        .client_bits = parameters->client_bits ? parameters->client_bits : 15,
    };
}

bool gs_websocket_extension_accept(struct gs_http_text offers,
                                   struct gs_websocket_agreement *ret_agreement)
{
    struct gs_http_text element;
    struct parameters parameters;
    while (gs_http_list_next(&offers, &element)) {
        if (read_element(element, &parameters)) {
            set_agreement(&parameters, ret_agreement);
            return true;
        }
    }
    return false;
}

size_t gs_websocket_extension_put(const struct gs_websocket_agreement *agreement,
                                  char out[GS_WEBSOCKET_EXTENSION_MAX])
{
    static const char start[] =
        "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
    static const char bits[] = "; server_max_window_bits=";
    size_t n = sizeof start - 1;
    memcpy(out, start, n);
    if (agreement->has_server_bits) {
        memcpy(out + n, bits, sizeof bits - 1);
        n += sizeof bits - 1;
        n += gs_http_put_decimal(out + n, agreement->server_bits);
    }
    return n;
}

/* A server that would keep its window does not accept the offer (RFC 7692, 7.1.1.1). */
bool gs_websocket_extension_agree(struct gs_http_text answer,
                                  struct gs_websocket_agreement *ret_agreement)
{
    struct gs_http_text element, other;
    struct parameters parameters;
    if (!gs_http_list_next(&answer, &element) || gs_http_list_next(&answer, &other))
        return false;
    if (!read_element(element, &parameters) || !parameters.server_takes_none ||
        (parameters.has_client_bits && !parameters.client_bits))
        return false;
    set_agreement(&parameters, ret_agreement);
    return true;
}
