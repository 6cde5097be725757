/* Two budgets. Each reset of a stream takes from the first, and each frame without use from the
 * second; both are refilled with time, as those of nginx and h2o are, and the second by what is
 * sent: a peer that receives much may also say much about it, and repeat what was refused. */
#include "http2/session.h"

#define BURST 1000
#define REFILL_A_SECOND 33
#define WORK_OF_A_REQUEST 4
#define BYTES_OF_A_UNIT 512

static unsigned add(unsigned budget, uint64_t n)
{
    return n < BURST - budget ? budget + (unsigned)n : BURST;
}

void gs_http2_limits_init(struct gs_http2_session *session)
{
    session->resets = session->work = BURST;
    session->refilled_ns = session->now_ns;
}

static void refill(struct gs_http2_session *session)
{
    const uint64_t unit_ns = GS_SECOND / REFILL_A_SECOND;
    if (session->now_ns < session->refilled_ns + unit_ns)
        return;
    uint64_t n = (session->now_ns - session->refilled_ns) / unit_ns;
    session->resets = add(session->resets, n);
    session->work = add(session->work, n);
    session->refilled_ns += n * unit_ns;
}

void gs_http2_note_work(struct gs_http2_session *session, uint64_t n)
{
    session->work = add(session->work, WORK_OF_A_REQUEST + n / BYTES_OF_A_UNIT);
}

void gs_http2_note_use(struct gs_http2_session *session, size_t n)
{
    if (n && n < GS_HTTP2_SMALL_DATA)
        session->work = add(session->work, 1);
}

static void end(struct gs_http2_session *session, uint64_t *counter)
{
    if (!session->is_ending)
        gs_http_count(counter, 1);
    gs_http2_terminate(session, NGHTTP2_ENHANCE_YOUR_CALM);
}

void gs_http2_end_abuse(struct gs_http2_session *session)
{
    end(session, &session->counts->http2_abuses);
}

void gs_http2_end_overload(struct gs_http2_session *session)
{
    end(session, &session->counts->http2_overloads);
}

static bool take(struct gs_http2_session *session, unsigned *budget)
{
    refill(session);
    if (*budget) {
        --*budget;
        return true;
    }
    gs_http2_end_abuse(session);
    return false;
}

bool gs_http2_may_disturb(struct gs_http2_session *session)
{
    return take(session, &session->work);
}

bool gs_http2_may_reset(struct gs_http2_session *session)
{
    return take(session, &session->resets);
}
