/* A request: its fields, where it goes, and what follows it: a second attempt, redirects.
 *
 *     set_url --> make_fields --> attempt ----------------------> response
 *        ^                          |  ^ '--> once more, if a kept connection had been closed
 *        |                          |  '--------'
 *        '------ follow <-----------' 301, 302, 303, 307, 308
 */
#include "http/host.h"
#include "http/token.h"
#include "http_client/client.h"
#include "http_client/cookies.h"
#include "http_client/error.h"
#include "http_client/response.h"

#include <errno.h>
#include <gossamer/version.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

/* What a body by function is read in. */
#define PART_MAX (16u << 10)

/* The fields that the client adds. */
#define ADDED_MAX 5u

struct call {
    struct gs_http_client *client;
    const struct gs_http_client_request *request;
    uint64_t deadline_ns;

    const char *method;
    bool has_body;       /* the request's; dropped by some redirects */
    bool keeps_secrets;  /* the origin is that of the request */
    bool asks_decoded;   /* the client has sent Accept-Encoding */
    bool body_failed;    /* the function that gives the body has returned an error */
    char *authorization; /* of the URL; NULL: none */
    char *cookies;       /* from the jar; NULL: none */
    unsigned redirects;

    struct gs_http_url url;
    char *text; /* the URL */
    const char *target;
    const struct gs_http_client_proxy *proxy;

    struct gs_http_field *fields;
    unsigned field_count;

    struct gs_http_client_stream *stream;
    struct gs_http_client_answer answer;
};

/* ---- The request ---- */

static bool is_reserved(const char *name)
{
    static const char *const names[] = {
        "connection", "content-length",      "expect",           "host",
        "keep-alive", "proxy-authorization", "proxy-connection", "te",
        "trailer",    "transfer-encoding",   "upgrade"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcasecmp(name, names[i]))
            return true;
    return false;
}

static bool is_value(const char *value)
{
    while (*value && gs_http_is(*value, GS_HTTP_FIELD))
        value++;
    return !*value;
}

static int check_fields(const struct gs_http_client_request *request)
{
    for (unsigned i = 0; i < request->field_count; i++) {
        const struct gs_http_field *field = &request->fields[i];
        const struct gs_http_text name = {field->name, strlen(field->name)};
        if (!gs_http_is_token(name) || !is_value(field->value))
            return gs_http_client_fail(-EINVAL, "the field %u of the request is not valid", i);
        if (is_reserved(field->name))
            return gs_http_client_fail(-EINVAL, "the field %s is the client's to send",
                                       field->name);
    }
    return 0;
}

static int check_request(struct call *call)
{
    const struct gs_http_client_request *request = call->request;
    call->has_body = request->body || request->read_body;
    call->method = request->method ? request->method : call->has_body ? "POST" : "GET";
    const struct gs_http_text method = {call->method, strlen(call->method)};
    if (!gs_http_is_token(method) || !strcmp(call->method, "CONNECT"))
        return gs_http_client_fail(-EINVAL, "the method is not valid");
    if (request->body && request->read_body)
        return gs_http_client_fail(-EINVAL, "the request has two bodies");
    if (request->host &&
        !gs_http_host_is_valid((struct gs_http_text){request->host, strlen(request->host)}))
        return gs_http_client_fail(-EINVAL, "the host of the request is not valid");
    return check_fields(request);
}

/* ---- Where it goes ---- */

static int set_proxy(struct call *call)
{
    call->proxy =
        gs_http_client_proxy_for(&call->client->proxies, call->url.is_https, call->url.host);
    if (call->proxy && call->proxy->refusal)
        return gs_http_client_fail(-EPROTONOSUPPORT, "%s", call->proxy->refusal);
    return 0;
}

static int set_authorization(struct call *call)
{
    if (!call->url.user_length)
        return 0;
    call->authorization = malloc(GS_HTTP_BASIC_ROOM(call->url.user_length));
    if (!call->authorization)
        return -ENOMEM;
    gs_http_url_write_basic(&call->url, call->authorization);
    return 0;
}

static int set_url(struct call *call, const char *text)
{
    const char *reason;
    if (gs_http_url_parse(text, &call->url, &reason))
        return gs_http_client_fail(-EINVAL, "the URL %s %s", text, reason);
    if (!call->url.has_scheme)
        return gs_http_client_fail(-EINVAL, "the URL %s does not begin with http:// or https://",
                                   text);
    if (call->url.is_https && !call->client->options.tls)
        return gs_http_client_fail(-EPROTONOSUPPORT,
                                   "%s: the client has no TLS context (link gossamer-tls, and set "
                                   "the option tls)",
                                   text);
    char *written = malloc(gs_http_url_room(&call->url));
    if (!written)
        return -ENOMEM;
    gs_http_url_write(&call->url, written, &call->target);
    free(call->text);
    call->text = written;
    return set_proxy(call);
}

/* ---- The fields that are sent ---- */

static bool is_secret(const char *name)
{
    return !strcasecmp(name, "authorization") || !strcasecmp(name, "cookie");
}

static bool is_of_body(const char *name)
{
    return !strncasecmp(name, "content-", 8);
}

static void add_field(struct call *call, const char *name, const char *value)
{
    call->fields[call->field_count++] = (struct gs_http_field){.name = name, .value = value};
}

static bool has_field(const struct call *call, const char *name)
{
    return gs_http_client_find(call->fields, call->field_count, name);
}

/* A program that sends cookies itself keeps them itself, also where a redirect leads. */
static bool uses_cookies(const struct call *call)
{
    const struct gs_http_client_request *request = call->request;
    return call->client->cookies &&
           !gs_http_client_find(request->fields, request->field_count, "cookie");
}

static struct gs_http_client_place place_of(const struct call *call)
{
    return (struct gs_http_client_place){
        .host = call->url.host, .target = call->target, .is_https = call->url.is_https};
}

static int add_cookies(struct call *call)
{
    const struct gs_http_client_place place = place_of(call);
    struct gs_http_client *client = call->client;
    free(call->cookies);
    call->cookies = NULL;
    if (!uses_cookies(call))
        return 0;
    gs_mutex_lock(&client->cookies_lock, GS_NEVER);
    int err = gs_http_client_cookies_write(client->cookies, &place, time(NULL), &call->cookies);
    gs_mutex_unlock(&client->cookies_lock);
    if (call->cookies)
        add_field(call, "Cookie", call->cookies);
    return err;
}

static int store_cookies(const struct call *call)
{
    const struct gs_http_client_place place = place_of(call);
    struct gs_http_client *client = call->client;
    const struct gs_http_field *fields = call->answer.fields;
    int err = 0;
    if (!uses_cookies(call))
        return 0;
    gs_mutex_lock(&client->cookies_lock, GS_NEVER);
    for (unsigned i = 0; i < call->answer.field_count && !err; i++)
        if (!strcasecmp(fields[i].name, "set-cookie"))
            err =
                gs_http_client_cookies_store(client->cookies, &place, fields[i].value, time(NULL));
    gs_mutex_unlock(&client->cookies_lock);
    return err;
}

static int make_fields(struct call *call)
{
    const struct gs_http_client_request *request = call->request;
    bool had_body = request->body || request->read_body;
    if (!call->fields)
        call->fields = malloc((request->field_count + ADDED_MAX) * sizeof *call->fields);
    if (!call->fields)
        return -ENOMEM;
    call->field_count = 0;
    for (unsigned i = 0; i < request->field_count; i++) {
        const char *name = request->fields[i].name;
        bool is_dropped = (is_secret(name) && !call->keeps_secrets) ||
                          (is_of_body(name) && had_body && !call->has_body);
        if (!is_dropped)
            add_field(call, name, request->fields[i].value);
    }
    if (!has_field(call, "user-agent"))
        add_field(call, "User-Agent", "gossamer/" GOSSAMER_VERSION);
    /* A range of an encoded body could not be decoded. */
    call->asks_decoded = !call->client->options.leaves_encoded && gs_http_client_codings[0] &&
                         !has_field(call, "accept-encoding") && !has_field(call, "range");
    if (call->asks_decoded)
        add_field(call, "Accept-Encoding", gs_http_client_codings);
    if (call->authorization && call->keeps_secrets && !has_field(call, "authorization"))
        add_field(call, "Authorization", call->authorization);
    if (call->proxy && !call->url.is_https && call->proxy->authorization)
        add_field(call, "Proxy-Authorization", call->proxy->authorization);
    return add_cookies(call);
}

/* ---- One attempt ---- */

static uint64_t length_of(const struct gs_http_client_request *request)
{
    return request->body_length ? request->body_length : GS_HTTP_UNKNOWN;
}

/* Returns 0, or the error of the function that gives the body, or of sending. */
static int send_parts(struct call *call, char *buffer)
{
    const struct gs_http_client_request *request = call->request;
    const struct gs_http_client_stream_operations *operations = call->stream->operations;
    uint64_t total = 0, length = length_of(request);
    ssize_t n = 1;
    int err = 0;
    while (n > 0 && !err) {
        n = request->read_body(request->data, buffer, PART_MAX, call->deadline_ns);
        total += n > 0 ? (uint64_t)n : 0;
        call->body_failed = n < 0;
        if (n < 0)
            return gs_http_client_fail((int)n, "the function that reads the body has failed: %s",
                                       gs_strerror((int)n));
        if (length != GS_HTTP_UNKNOWN && (total > length || (!n && total < length)))
            return gs_http_client_fail(-EINVAL, "the body does not have the length that was given");
        err = operations->send_body(call->stream, buffer, (size_t)n, call->deadline_ns);
    }
    return err;
}

static int send_request(struct call *call)
{
    const struct gs_http_client_request *request = call->request;
    bool is_absolute = call->proxy && !call->url.is_https;
    struct gs_http_client_head head = {
        .method = call->method,
        .scheme = call->url.is_https ? "https" : "http",
        .authority = request->host && !call->redirects ? request->host : call->url.authority,
        .target = is_absolute ? call->text : call->target,
        .fields = call->fields,
        .field_count = call->field_count,
        .body = call->has_body ? request->body : NULL,
        .body_n = call->has_body && request->body ? request->body_n : 0,
        .has_parts = call->has_body && request->read_body,
        .parts_length = length_of(request)};
    int err = call->stream->operations->send_head(call->stream, &head, call->deadline_ns);
    if (err || !head.has_parts)
        return err;
    char *buffer = malloc(PART_MAX);
    if (!buffer)
        return -ENOMEM;
    err = send_parts(call, buffer);
    free(buffer);
    return err;
}

static bool is_broken(int err)
{
    return err == -EPIPE || err == -ECONNRESET;
}

/* A server may answer and close the connection before it has received all. */
static int exchange(struct call *call, bool is_fresh)
{
    struct gs_http_client_route route = {&call->url, call->proxy, is_fresh};
    int err = gs_http_client_pool_take(call->client, &route, call->deadline_ns, &call->stream);
    if (err)
        return err;
    err = send_request(call);
    if (!err || (is_broken(err) && !call->body_failed)) {
        int result =
            call->stream->operations->receive_head(call->stream, call->deadline_ns, &call->answer);
        err = err && result ? err : result;
    }
    return err;
}

static void release_stream(struct call *call)
{
    if (call->stream)
        call->stream->operations->release(call->stream);
    call->stream = NULL;
    free(call->answer.memory);
    call->answer.memory = NULL;
}

static bool is_idempotent(const char *method)
{
    static const char *const methods[] = {"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (!strcmp(method, methods[i]))
            return true;
    return false;
}

/* A body by function has perhaps been read. */
static bool may_repeat(const struct call *call)
{
    const struct gs_http_client_stream *stream = call->stream;
    if (!stream || (call->has_body && call->request->read_body))
        return false;
    return stream->is_unprocessed ||
           (stream->is_reused && !stream->has_started && is_idempotent(call->method));
}

static int attempt(struct call *call)
{
    int err = make_fields(call);
    if (!err)
        err = exchange(call, false);
    if (is_broken(err) && may_repeat(call)) {
        bool is_fresh = !call->stream->is_unprocessed;
        release_stream(call);
        gs_http_client_error_clear();
        err = exchange(call, is_fresh);
    }
    return err ? err : store_cookies(call);
}

/* ---- Redirects ---- */

/* Returns where the response leads; NULL: nowhere. */
static const char *location(const struct call *call)
{
    unsigned status = call->answer.status;
    bool is_redirect =
        status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
    if (!is_redirect || call->client->options.returns_redirects)
        return NULL;
    return gs_http_client_find(call->answer.fields, call->answer.field_count, "location");
}

/* As browsers do (the Fetch standard, "HTTP-redirect fetch"). */
static void change_method(struct call *call)
{
    unsigned status = call->answer.status;
    bool is_get = !strcmp(call->method, "GET") || !strcmp(call->method, "HEAD");
    if ((status == 303 && !is_get) || (status < 303 && !strcmp(call->method, "POST"))) {
        call->method = "GET";
        call->has_body = false;
    }
}

static int go_to(struct call *call, const char *reference)
{
    size_t room = strlen(call->text) + 3 * strlen(reference) + 16;
    struct {
        bool is_https;
        char host[256], port[6];
    } *old = malloc(sizeof *old + room);
    if (!old)
        return -ENOMEM;
    char *text = (char *)(old + 1);
    old->is_https = call->url.is_https;
    memcpy(old->host, call->url.host, sizeof old->host);
    memcpy(old->port, call->url.port, sizeof old->port);
    int err = gs_http_url_resolve(call->text, reference, text, room);
    if (!err)
        err = set_url(call, text);
    if (!err && old->is_https && !call->url.is_https && !call->client->options.allows_downgrade)
        err = gs_http_client_fail(-EPERM, "a redirect leads from https to %s (allows_downgrade)",
                                  call->text);
    call->keeps_secrets &= !err && old->is_https == call->url.is_https &&
                           !strcmp(old->host, call->url.host) && !strcmp(old->port, call->url.port);
    free(old);
    return err;
}

static int follow(struct call *call, const char *reference)
{
    change_method(call);
    if (call->has_body && call->request->read_body)
        return gs_http_client_fail(-ENOTSUP,
                                   "%s: a redirect (%u) would send the body again, which is read "
                                   "by a function (give it in memory)",
                                   call->text, call->answer.status);
    if (++call->redirects > call->client->options.max_redirects)
        return gs_http_client_fail(-ELOOP, "%s: more than %u redirects", call->request->url,
                                   call->client->options.max_redirects);
    int err = go_to(call, reference);
    release_stream(call);
    return err == -EINVAL ? -EPROTO : err;
}

/* ---- The call ---- */

static int run(struct call *call)
{
    const char *reference;
    int err = check_request(call);
    if (!err)
        err = set_url(call, call->request->url);
    if (!err)
        err = set_authorization(call);
    if (!err)
        err = attempt(call);
    while (!err && (reference = location(call))) {
        err = follow(call, reference);
        if (!err)
            err = attempt(call);
    }
    return err;
}

/* The response takes what the call has. */
static int respond(struct call *call, struct gs_http_response **ret_response)
{
    struct gs_http_client_reading *reading;
    int err =
        gs_http_client_respond(call->client, call->stream, &call->answer, call->text, &reading);
    if (err)
        return err;
    call->stream = NULL;
    call->answer.memory = NULL;
    call->text = NULL;
    const char *coding = gs_http_response_field(&reading->response, "content-encoding");
    if (call->asks_decoded && call->answer.has_body && coding &&
        gs_http_client_can_decode(coding)) {
        reading->coding = coding;
        reading->response.is_decoded = true;
        reading->response.content_length = GS_HTTP_UNKNOWN;
    }
    *ret_response = &reading->response;
    return 0;
}

int gs_http_fetch(struct gs_http_client *client, const struct gs_http_client_request *request,
                  uint64_t deadline_ns, struct gs_http_response **ret_response)
{
    struct call *call = calloc(1, sizeof *call);
    gs_http_client_error_clear();
    if (!call)
        return gs_http_client_fail_plainly(-ENOMEM, request->url);
    call->client = client;
    call->request = request;
    call->deadline_ns = deadline_ns;
    call->keeps_secrets = true;
    int err = run(call);
    if (!err)
        err = respond(call, ret_response);
    if (err)
        gs_http_client_fail_plainly(err, call->text ? call->text : request->url);
    release_stream(call);
    free(call->authorization);
    free(call->cookies);
    free(call->fields);
    free(call->text);
    free(call);
    return err;
}

int gs_http_get(struct gs_http_client *client, const char *url, uint64_t deadline_ns,
                struct gs_http_response **ret_response)
{
    const struct gs_http_client_request request = {.url = url};
    return gs_http_fetch(client, &request, deadline_ns, ret_response);
}
