/* Fuzzes the buffers of libevent's interface with any operations, beside a model. */
#include "tests/libevent/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_open;
    if (!is_open) {
        model_open();
        is_open = true;
    }
    model_run(data, size, sizeof model_operations / sizeof model_operations[0]);
    return 0;
}
