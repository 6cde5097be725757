#include "http/record.h"

#include "http/conn.h"
#include "http/guard.h"

#include <stdlib.h>

static char *copy(char **at, struct gs_http_text text)
{
    if (!text.bytes)
        return NULL;
    char *start = *at;
    memcpy(start, text.bytes, text.n);
    start[text.n] = '\0';
    *at += text.n + 1;
    return start;
}

/* The memory of all lines of the field that names a client. */
static size_t forwarded_size(const struct gs_http_options *options, struct gs_http_text fields)
{
    struct gs_http_text value;
    size_t n = 0;
    while (options->forwarded && gs_http_field_next(&fields, options->forwarded, &value))
        n += value.n + 1;
    return n;
}

/* Lines of a list are one list (RFC 9110, 5.2). Returns NULL if there is none. */
static char *copy_forwarded(char *at, const struct gs_http_options *options,
                            struct gs_http_text fields)
{
    struct gs_http_text value;
    char *start = at;
    while (options->forwarded && gs_http_field_next(&fields, options->forwarded, &value)) {
        memcpy(at, value.bytes, value.n);
        at += value.n;
        *at++ = ',';
    }
    if (at == start)
        return NULL;
    at[-1] = '\0';
    return start;
}

/* Not inlined: the stack that it needs is not part of its caller's. */
__attribute__((noinline)) void gs_http_add_log_record(const struct gs_http_response *response,
                                                      struct gs_http_response_info info)
{
    struct gs_http_service *service = response->service;
    const struct gs_http_request *request = response->request;
    struct gs_http_output *output = response->output;
    struct gs_http_text host = {NULL, 0};
    if (service->options.logs_host)
        host = gs_http_site_host(request);
    const char *user = gs_http_guard_user(service, request);
    size_t n = request->line.n + request->referer.n + request->user_agent.n + host.n +
               strlen(user ? user : "") + 5 + forwarded_size(&service->options, request->fields);
    struct gs_http_log_record *record = malloc(sizeof *record + n);
    if (!record) { /* the response is more important than its log entry */
        gs_http_lose_log_line(response->conn);
        return;
    }
    char *at = (char *)(record + 1);
    struct gs_http_log_entry *entry = &record->entry;
    memset(record, 0, sizeof *record); /* a literal would take stack */
    record->body = info.body;
    record->end = output->end;
    entry->request_line = copy(&at, request->line);
    entry->request_line_length = request->line.n;
    entry->referer = copy(&at, request->referer);
    entry->user_agent = copy(&at, request->user_agent);
    entry->host = copy(&at, host);
    entry->user = copy(&at, (struct gs_http_text){user, user ? strlen(user) : 0});
    entry->status = info.status;
    entry->received = gs_http_service_wall_seconds(service, response->now_ns);
    entry->forwarded = copy_forwarded(at, &service->options, request->fields);
    *output->last_log_record = record;
    output->last_log_record = &record->next;
    if (user)
        gs_http_credentials_wipe(&service->pass->credentials);
}

__attribute__((noinline)) void gs_http_lose_log_line(const struct gs_http_conn *conn)
{
    const struct gs_http_options *options = &conn->service->options;
    options->log(conn, NULL, options->log_data);
}

void gs_http_flush_log(struct gs_http_conn *conn, bool all)
{
    struct gs_http_output *output = conn->output;
    const struct gs_http_options *options = &conn->service->options;
    while (output->log_records && (all || output->log_records->end <= output->position)) {
        struct gs_http_log_record *record = output->log_records;
        uint64_t sent = output->position < record->end ? output->position : record->end;
        record->entry.body_bytes = sent > record->body ? sent - record->body : 0;
        record->entry.started_ns = output->started_ns;
        options->log(conn, &record->entry, options->log_data);
        output->log_records = record->next;
        if (!output->log_records)
            output->last_log_record = &output->log_records;
        free(record);
    }
}
