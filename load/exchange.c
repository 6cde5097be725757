#include "load/exchange.h"

#include "load/request_log.h"

#include <stdatomic.h>

/* The pause before a client connects again to a server that refused the connection. */
static const uint64_t retry_interval_ns = 10 * GS_MILLISECOND;

void gs_load_exchange_start(struct load_exchange *exchange, struct load_worker *worker,
                            uint64_t now_ns)
{
    exchange->request = worker->next_request;
    worker->next_request =
        exchange->request + 1 == worker->target->request_count ? 0 : exchange->request + 1;
    exchange->times.start_ns = exchange->times.sent_ns = now_ns;
    if (exchange->is_measured) {
        worker->last_start_ns = exchange->times.start_ns;
        worker->last_scheduled_ns = exchange->times.scheduled_ns;
    }
}

void gs_load_exchange_first_byte(struct load_exchange *exchange, struct load_worker *worker,
                                 uint64_t now_ns)
{
    exchange->times.first_byte_ns = now_ns;
    atomic_store_explicit(&worker->has_answer, true, memory_order_relaxed);
}

enum load_error gs_load_exchange_check(const struct load_exchange *exchange,
                                       struct load_worker *worker)
{
    uint64_t status = worker->settings->expect_status;
    uint64_t *length = &worker->expected_lengths[exchange->request];
    bool is_success = exchange->status >= 200 && exchange->status <= 399;
    if (status == LOAD_ANY ? !is_success : exchange->status != status)
        return LOAD_STATUS;
    if (*length == LOAD_FIRST)
        *length = exchange->body_bytes;
    return *length == LOAD_ANY || *length == exchange->body_bytes ? LOAD_OK : LOAD_LENGTH;
}

void gs_load_exchange_retry(const struct load_exchange *exchange, struct load_worker *worker)
{
    if (gs_load_worker_is_measuring(worker, exchange->times.start_ns))
        worker->metrics.retried++;
}

/* A response has a status even if it was not the expected one. */
static void log_request(const struct load_exchange *exchange, const struct load_worker *worker,
                        enum load_error error, uint64_t end_ns)
{
    const struct load_timestamps *times = &exchange->times;
    bool has_status = error == LOAD_OK || error == LOAD_STATUS || error == LOAD_LENGTH;
    bool is_scheduled = times->scheduled_ns != LOAD_NO_TIME;
    uint64_t start_ns = is_scheduled ? times->scheduled_ns : times->start_ns;
    bool is_in_flight = worker->is_finished && error == LOAD_TIMEOUT;
    gs_load_request_log_write(worker->settings->log_file, (int64_t)(start_ns - worker->measure_ns),
                              end_ns > start_ns ? end_ns - start_ns : 0,
                              has_status ? exchange->status : 0, is_in_flight ? LOAD_OK : error);
}

static void record_in_flight(const struct load_exchange *exchange, struct load_worker *worker,
                             bool is_connected)
{
    if (is_connected)
        gs_load_waiting_record(&worker->metrics.for_response, exchange->times.sent_ns,
                               worker->ended_ns);
    else
        gs_load_waiting_record(&worker->metrics.to_connect, exchange->times.start_ns,
                               worker->ended_ns);
    log_request(exchange, worker, LOAD_TIMEOUT, worker->ended_ns);
}

static void record_status(const struct load_exchange *exchange, struct load_metrics *metrics,
                          enum load_error error)
{
    if (error == LOAD_OK)
        metrics->statuses[exchange->status]++;
    else if (error == LOAD_STATUS)
        metrics->unexpected_statuses[exchange->status]++;
    metrics->excessive += exchange->has_excess;
}

void gs_load_exchange_record(struct load_exchange *exchange, struct load_connection *connection,
                             enum load_error error)
{
    struct load_worker *worker = connection->worker;
    if (worker->is_finished && error == LOAD_TIMEOUT)
        record_in_flight(exchange, worker, connection->is_established);
    if (error != LOAD_OK)
        exchange->times.end_ns = gs_clock_now();
    struct load_sample sample = gs_load_timestamps_sample(&exchange->times, connection->connect_ns);
    sample.handshake_ns = connection->handshake_ns;
    connection->connect_ns = connection->handshake_ns = LOAD_NO_TIME;
    if (error == LOAD_OK)
        gs_load_busy_poll_record_response(&worker->poll, sample.service_ns);
    if (!gs_load_worker_is_counted(worker, exchange->is_measured, exchange->times.end_ns))
        return;
    log_request(exchange, worker, error, exchange->times.end_ns);
    worker->metrics.queued += gs_load_timestamps_is_queued(&exchange->times);
    if (error == LOAD_OK)
        gs_load_metrics_record_response(&worker->metrics, &sample);
    else
        gs_load_metrics_record_error(&worker->metrics, error, &sample);
    record_status(exchange, &worker->metrics, error);
}

uint64_t gs_load_pause_ns(const struct load_settings *settings, enum load_error error)
{
    bool is_refused = error == LOAD_CONNECT || error == LOAD_HANDSHAKE || error == LOAD_CERTIFICATE;
    return is_refused && settings->think_ns < retry_interval_ns ? retry_interval_ns
                                                                : settings->think_ns;
}
