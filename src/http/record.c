#include "http/reply.h"

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

static void count(struct gs_http_counts *counts, unsigned status)
{
    gs_http_count(&counts->requests, 1);
    if (status >= 400)
        gs_http_count(status < 500 ? &counts->client_errors : &counts->server_errors, 1);
}

void gs_http_reply_record(const struct gs_http_reply *reply, struct gs_http_replied replied)
{
    struct gs_http_service *service = reply->service;
    const struct gs_http_request *request = reply->request;
    struct gs_http_output *output = reply->output;
    count(service->counts, replied.status);
    output->answers++;
    if (!service->options.log)
        return;
    size_t n = request->line.n + request->referer.n + request->user_agent.n + 3;
    struct gs_http_logged *logged = malloc(sizeof *logged + n);
    if (!logged)
        return; /* an answer matters more than its line in the log */
    char *at = (char *)(logged + 1);
    *logged = (struct gs_http_logged){.body = replied.body, .end = output->end};
    logged->entry = (struct gs_http_log_entry){
        .request_line = copy(&at, request->line),
        .referer = copy(&at, request->referer),
        .user_agent = copy(&at, request->user_agent),
        .status = replied.status,
        .received = gs_http_service_wall(service, reply->now_ns),
    };
    *output->last_logged = logged;
    output->last_logged = &logged->next;
}

void gs_http_reply_flush_log(struct gs_http_conn *conn, bool all)
{
    struct gs_http_output *output = conn->output;
    const struct gs_http_options *options = &conn->service->options;
    while (output->logged && (all || output->logged->end <= output->position)) {
        struct gs_http_logged *logged = output->logged;
        uint64_t sent = output->position < logged->end ? output->position : logged->end;
        logged->entry.body_bytes = sent > logged->body ? sent - logged->body : 0;
        options->log(conn, &logged->entry, options->log_data);
        output->logged = logged->next;
        if (!output->logged)
            output->last_logged = &output->logged;
        free(logged);
    }
}
