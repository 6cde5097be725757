#include "load/moments.h"

/* What has not come is of no meaning, rather than negative. */
static uint64_t since(uint64_t end_ns, uint64_t begin_ns)
{
    return end_ns > begin_ns ? end_ns - begin_ns : 0;
}

struct load_sample gs_load_moments_sample(const struct load_moments *moments, uint64_t connect_ns)
{
    struct load_sample sample = {.end_ns = moments->end_ns,
                                 .service_ns = since(moments->end_ns, moments->sent_ns),
                                 .first_byte_ns = since(moments->first_byte_ns, moments->sent_ns),
                                 .connect_ns = connect_ns,
                                 .lag_ns = LOAD_NO_TIME};
    sample.response_ns = sample.service_ns;
    if (moments->due_ns == LOAD_NO_TIME)
        return sample;
    uint64_t possible_ns = gs_load_moments_queued(moments) ? moments->free_ns : moments->due_ns;
    sample.response_ns = since(moments->end_ns, moments->due_ns);
    sample.lag_ns = since(moments->begun_ns, possible_ns);
    return sample;
}
