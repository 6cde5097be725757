#include "http/coding.h"

#include "http/request.h"
#include "http/token.h"

#include <stdlib.h>

#define WEIGHT_1 1001

static const struct {
    const char *name, *suffix;
} codings[GS_HTTP_CODINGS] = {
    [GS_HTTP_IN_IDENTITY] = {"identity", ""},
    [GS_HTTP_IN_BR] = {"br", ".br"},
    [GS_HTTP_IN_ZSTD] = {"zstd", ".zst"},
    [GS_HTTP_IN_GZIP] = {"gzip", ".gz"},
};

const char *gs_http_coding_name(enum gs_http_coding coding)
{
    return codings[coding].name;
}

const char *gs_http_coding_suffix(enum gs_http_coding coding)
{
    return codings[coding].suffix;
}

void gs_http_coded_unref(struct gs_http_coded *coded)
{
    if (coded && atomic_fetch_sub_explicit(&coded->references, 1, memory_order_acq_rel) == 1)
        free(coded);
}

/* ---- Accept-Encoding ---- */

/* Behind the codings: what "*" says of those that are not listed. */
#define OTHERS GS_HTTP_CODINGS

struct listing {
    int weights[GS_HTTP_CODINGS + 1]; /* -1: not listed */
};

/* Returns GS_HTTP_CODINGS + 1 for a coding that is not known. */
static unsigned find_coding(struct gs_http_text name)
{
    if (gs_http_text_is(name, "*"))
        return OTHERS;
    if (gs_http_text_is_nocase(name, "x-gzip"))
        return GS_HTTP_IN_GZIP;
    unsigned coding = 0;
    while (coding < GS_HTTP_CODINGS && !gs_http_text_is_nocase(name, codings[coding].name))
        coding++;
    return coding < GS_HTTP_CODINGS ? coding : OTHERS + 1;
}

/* RFC 9110, 12.4.2: 0 or 1, with up to three decimals. Returns -1 if it is malformed. */
static int parse_weight(struct gs_http_text text)
{
    const char *at = text.bytes;
    if (text.n < 3 || text.n > 7 || (at[0] != 'q' && at[0] != 'Q') || at[1] != '=' ||
        (at[2] != '0' && at[2] != '1') || (text.n > 3 && at[3] != '.'))
        return -1;
    int thousandths = at[2] == '1' ? 1000 : 0, unit = 100;
    for (size_t i = 4; i < text.n; i++, unit /= 10) {
        if (!gs_http_is(at[i], GS_HTTP_DIGIT))
            return -1;
        thousandths += (at[i] - '0') * unit;
    }
    return thousandths > 1000 ? -1 : thousandths ? thousandths + 1 : 0;
}

static void take_element(struct listing *listing, struct gs_http_text element)
{
    const char *semicolon = memchr(element.bytes, ';', element.n);
    struct gs_http_text name = element;
    int weight = WEIGHT_1;
    if (semicolon) {
        name.n = (size_t)(semicolon - element.bytes);
        weight = parse_weight(
            gs_http_trim((struct gs_http_text){semicolon + 1, element.n - name.n - 1}));
    }
    unsigned coding = find_coding(gs_http_trim(name));
    if (coding <= OTHERS && weight >= 0 && listing->weights[coding] < 0)
        listing->weights[coding] = weight;
}

static void rank(struct gs_http_accepted *accepted)
{
    const uint16_t *weights = accepted->weights;
    for (unsigned than = 0; than < GS_HTTP_CODINGS; than++)
        for (unsigned coding = 1; coding < GS_HTTP_CODINGS; coding++) {
            bool is_earlier = coding < than || !than;
            if (weights[coding] && (weights[coding] > weights[than] ||
                                    (weights[coding] == weights[than] && is_earlier)))
                accepted->above[than] |= (uint8_t)GS_HTTP_CODING_BIT(coding);
        }
}

struct gs_http_accepted gs_http_accepted_in(struct gs_http_text fields)
{
    struct gs_http_accepted accepted = {{0}, {0}};
    struct listing listing = {{-1, -1, -1, -1, -1}};
    struct gs_http_text value, element;
    bool is_given = false;
    while (gs_http_field_next(&fields, "accept-encoding", &value)) {
        is_given = true;
        while (gs_http_tokens_next(&value, &element))
            take_element(&listing, element);
    }
    if (!is_given)
        return (struct gs_http_accepted)GS_HTTP_ACCEPTED_ANY;
    for (unsigned coding = 0; coding < GS_HTTP_CODINGS; coding++) {
        int weight =
            listing.weights[coding] >= 0 ? listing.weights[coding] : listing.weights[OTHERS];
        accepted.weights[coding] = (uint16_t)(weight >= 0 ? weight : coding == GS_HTTP_IN_IDENTITY);
    }
    rank(&accepted);
    return accepted;
}
