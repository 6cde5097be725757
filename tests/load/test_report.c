/* The command `gossamer load`: its exit status and its output. */
#include "load/load.h"
#include "load/report.h"
#include "tests/load/remote.h"
#include "tests/load/run.h"

#include <zlib.h>

static char folder[] = "/tmp/gossamer-load-XXXXXX";

static const char *path_in_folder(const char *name)
{
    static char paths[4][128];
    static int next;
    if (strstr(folder, "XXXXXX"))
        CHECK(mkdtemp(folder));
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static char *read_file(const char *name)
{
    static char text[1 << 20];
    FILE *file = fopen(path_in_folder(name), "r");
    CHECK(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    unlink(path_in_folder(name));
    return text;
}

/* Run the command with these arguments, with stdout redirected to the file "out". Returns the exit
 * status. */
static int command(char *first, ...)
{
    static char name[] = "load";
    char *argv[RUN_ARGUMENTS_MAX] = {name, first};
    int argc = 2;
    va_list arguments;
    va_start(arguments, first);
    for (char *argument; (argument = va_arg(arguments, char *));)
        argv[argc++] = argument;
    va_end(arguments);
    fflush(NULL);
    int saved = dup(STDOUT_FILENO);
    CHECK(saved >= 0);
    CHECK(freopen(path_in_folder("out"), "w", stdout));
    int status = gs_load_main(argc, argv);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    return status;
}

static double number_after(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    if (!at)
        TEST_FAIL("no %s in %s", key, text);
    return strtod(at + strlen(key), NULL);
}

TEST(the_json_has_every_metric)
{
    struct server server;
    server_start(&server, serve_hello);
    char *url = run_url_for(&server);
    CHECK_EQ(command("-c", "3", "-n", "40", "--drop", "5", "--json", "-", url, NULL), 0);
    server_stop(&server);
    char *json = read_file("out");
    CHECK_EQ(json[0], '{');
    CHECK_STR(json + strlen(json) - 2, "}\n");
    CHECK(number_after(json, "\"requests\": ") == 40);
    CHECK(strstr(
        json,
        "\"errors\": {\"connect\": 0, \"timeout\": 0, \"reset\": 0, \"status\": 0, \"length\": 0, "
        "\"parse\": 0, \"closed\": 0, \"handshake\": 0, \"certificate\": 0, \"tls\": 0, "
        "\"truncated\": 0}"));
    double seconds = number_after(json, "\"seconds\": ");
    double throughput = number_after(json, "\"throughput_per_s\": ");
    CHECK(seconds > 0 && throughput * seconds > 39.9 && throughput * seconds < 40.1);
    CHECK(number_after(json, "\"bytes_per_s\": ") > throughput * 5);
    CHECK(number_after(json, "\"offered_load\": ") == 3);
    CHECK(number_after(json, "\"measured_load\": ") <= 3);
    CHECK(number_after(json, "\"dropped_samples\": ") == 10);
    CHECK(number_after(json, "\"client_cpu_s\": ") > 0);
    CHECK(number_after(json, "\"threads\": ") == 1);
    CHECK(number_after(json, "\"processes\": ") == 1);
    CHECK(strstr(json, "\"invalid\": false,\n  \"invalid_reason\": null,\n"));
    CHECK(strstr(json, "\"rate_per_s\": null,\n  \"sent_rate_per_s\": null,\n"));
    CHECK(strstr(json, "\"parse_reason\": null,\n"));
    CHECK(strstr(json, "\"statuses\": {\"200\": 40},\n  \"unexpected_statuses\": {},\n"));
    CHECK(strstr(json, "\"gave_up\": false,\n"));
    CHECK(strstr(json, "\"protocol\": \"HTTP/1.1\",\n  \"streams\": 1,\n"));
    static const char *const histograms[] = {"\"response_us\": {", "\"service_us\": {",
                                             "\"first_byte_us\": {"};
    static const char *const keys[] = {"\"mean\": ", "\"p50\": ",  "\"p75\": ", "\"p90\": ",
                                       "\"p99\": ",  "\"p999\": ", "\"max\": "};
    for (size_t i = 0; i < 3; i++) {
        char *part = strstr(json, histograms[i]);
        CHECK(part && number_after(part, "\"count\": ") == 30);
        double before = 0;
        for (size_t k = 1; k < sizeof keys / sizeof *keys; k++) {
            double value = number_after(part, keys[k]);
            CHECK(value >= before && value > 0);
            before = value;
        }
        CHECK(number_after(part, keys[0]) <= before);
    }
    CHECK(strstr(json, "\"connect_us\": {"));
}

TEST(the_text_names_what_was_measured)
{
    struct server server;
    server_start(&server, serve_hello);
    CHECK_EQ(command("-c", "2", "-n", "20", run_url_for(&server), NULL), 0);
    server_stop(&server);
    char *text = read_file("out");
    CHECK(number_after(text, "requests ") == 20);
    CHECK(number_after(text, "errors ") == 0);
    static const char *const parts[] = {"throughput", "bandwidth", "offered load", "measured load",
                                        "client CPU", "connect",   "first byte",   "response",
                                        "total ",     "p99.9",     "max"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i]))
            TEST_FAIL("no %s in %s", parts[i], text);
    CHECK(!strstr(text, "(null)"));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        CHECK(strlen(line) <= 100);
}

/* A listener that never accepts, with an accept queue of length 1. */
static struct server start_full_listener(void)
{
    struct server server = {.family = AF_INET, .fd = socket(AF_INET, SOCK_STREAM, 0)};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    CHECK_EQ(bind(server.fd, (struct sockaddr *)&address, length), 0);
    CHECK_EQ(listen(server.fd, 0), 0);
    CHECK_EQ(getsockname(server.fd, (struct sockaddr *)&address, &length), 0);
    server.port = ntohs(address.sin_port);
    return server;
}

TEST(requests_in_flight_at_the_end_are_reported_with_their_longest_wait)
{
    struct server server = start_full_listener();
    char *url = run_url_for(&server);
    command("-c", "4", "-d", "1", "--json", "-", url, NULL);
    char *json = read_file("out");
    char *connecting = strstr(json, "\"waiting_to_connect\": {");
    char *requesting = strstr(json, "\"waiting_for_response\": {");
    CHECK(connecting && number_after(connecting, "\"count\": ") == 3);
    CHECK(requesting && number_after(requesting, "\"count\": ") == 1);
    CHECK(number_after(connecting, "\"longest_us\": ") >= 100000);
    CHECK(number_after(connecting, "\"mean_us\": ") >= 100000);
    CHECK(number_after(requesting, "\"longest_us\": ") >= 100000);
    command("-c", "4", "-d", "1", "--processes", "2", url, NULL);
    close(server.fd);
    char *text = read_file("out");
    CHECK(strstr(text, "waiting                     4 to connect at the end, the longest for"));
}

TEST(the_log_has_a_line_for_each_request_with_its_status)
{
    struct server server;
    server_start(&server, serve_hello);
    char *url = run_url_for(&server);
    CHECK_EQ(command("-c", "2", "-n", "6", "--log", (char *)path_in_folder("log"), url, NULL), 0);
    char *log = read_file("log"), *line = strchr(log, '\n');
    CHECK(!strncmp(log, "start_s,duration_s,status\n", 26));
    int count = 0;
    for (; line && line[1]; line = strchr(line + 1, '\n'), count++) {
        double start_s, duration_s;
        int status;
        CHECK_EQ(sscanf(line + 1, "%lf,%lf,%d", &start_s, &duration_s, &status), 3);
        CHECK(start_s > -1 && duration_s > 0 && duration_s < 60 && status == 200);
    }
    CHECK_EQ(count, 6);
    server_stop(&server);
}

TEST(the_log_names_what_became_of_requests_without_a_response)
{
    struct server server = start_full_listener();
    char *url = run_url_for(&server);
    command("-c", "4", "-d", "1", "--processes", "2", "--log", (char *)path_in_folder("log"), url,
            NULL);
    close(server.fd);
    const char *line = read_file("log");
    int count = 0;
    while ((line = strstr(line, ",waiting\n"))) {
        line++;
        count++;
    }
    CHECK_EQ(count, 4);
    CHECK_EQ(command("-n", "1", "--log", "/proc/no/such/folder", url, NULL), 1);
}

TEST(the_json_of_an_open_loop_has_its_rate_and_send_delay)
{
    struct server server;
    server_start(&server, serve_hello);
    char *url = run_url_for(&server);
    CHECK_EQ(command("-c", "3", "-n", "40", "--rate", "100", "--max-send-delay", "1h", "--json",
                     "-", url, NULL),
             0);
    server_stop(&server);
    char *json = read_file("out");
    CHECK(number_after(json, "\"rate_per_s\": ") == 100);
    CHECK(number_after(json, "\"requests_queued\": ") <= 40);
    double utilization = number_after(json, "\"max_worker_utilization\": ");
    CHECK(utilization >= 0 && utilization <= 1);
    static const char *const histograms[] = {"\"response_us\": {", "\"service_us\": {",
                                             "\"send_delay_us\": {"};
    for (size_t i = 0; i < 3; i++) {
        char *part = strstr(json, histograms[i]);
        CHECK(part && number_after(part, "\"count\": ") == 40);
        CHECK(number_after(part, "\"p99\": ") <= number_after(part, "\"max\": "));
    }
}

TEST(an_invalid_run_exits_with_status_3_and_a_reason)
{
    struct server server;
    server_start(&server, serve_hello);
    char *url = run_url_for(&server);
    CHECK_EQ(command("-n", "20", "-r", "500", "--max-send-delay", "0.0001", url, NULL), 3);
    char *text = read_file("out");
    CHECK(strstr(text,
                 "\nINVALID: the client was the bottleneck: the 99th percentile of the send delay "
                 "is "));
    CHECK(number_after(text, "configured rate ") == 500);
    CHECK(strstr(text, "\nsend delay ") && strstr(text, "\nservice ") && strstr(text, "\nqueued "));
    CHECK_EQ(
        command("-n", "20", "-r", "500", "--max-send-delay", "0.0001", "--json", "-", url, NULL),
        3);
    server_stop(&server);
    CHECK(
        strstr(read_file("out"), "\"invalid\": true,\n  \"invalid_reason\": \"the client was the"));
}

TEST(errors_cause_exit_status_1_and_are_named)
{
    struct server server;
    server_start(&server, serve_hello);
    char *url = run_url_for(&server);
    CHECK_EQ(command("-n", "4", "-c", "1", "--expect-status", "404", url, NULL), 1);
    server_stop(&server);
    char *text = read_file("out");
    CHECK(strstr(text, "(status 4)"));
    server_reserve_port(&server);
    url = run_url_for(&server);
    CHECK_EQ(command("-n", "4", "-c", "2", url, NULL), 1);
    close(server.fd);
    CHECK(strstr(read_file("out"), "(connect 4: Connection refused)"));
}

/* Send 404, 503, 404, 503, ... on each connection. */
static void serve_two_statuses(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    for (int i = 0; server_read(server, fd, text, sizeof text); i++)
        server_write(fd, i % 2 ? "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
                               : "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
}

/* A server that accepts no connection, and whose accept queue has room. */
TEST(a_run_without_any_response_exits_with_status_1)
{
    struct server server;
    server_reserve_port(&server);
    CHECK_EQ(listen(server.fd, 8), 0);
    char *url = run_url_for(&server);
    CHECK_EQ(command("-d", "50ms", "-c", "1", url, NULL), 1);
    CHECK_EQ(command("-d", "50ms", "-c", "1", "--rate", "100", url, NULL), 1);
    CHECK_EQ(command("-d", "50ms", "-c", "2", "--processes", "2", url, NULL), 1);
    close(server.fd);
    CHECK_EQ(command("-d", "50ms", "-c", "1", "http://name.invalid/", NULL), 1);
}

static void serve_redirect_and_ssh(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    for (int i = 0; server_read(server, fd, text, sizeof text); i++)
        server_write(fd, i ? "SSH-2.0\r\n" : "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n");
}

TEST(redirects_are_counted_and_invalid_responses_are_explained)
{
    struct remote remote;
    remote_start(&remote, serve_redirect_and_ssh);
    char *url = run_url_for(&remote.server);
    CHECK_EQ(command("-n", "2", "-c", "1", url, NULL), 1);
    CHECK(strstr(read_file("out"), "requests                    1\n"
                                   "  status 302                1\n"
                                   "errors                      1  (parse 1: not a status line"));
    CHECK_EQ(command("-n", "4", "-c", "2", "--processes", "2", "--json", "-", url, NULL), 1);
    CHECK_EQ(remote_stop(&remote), 6);
    char *json = read_file("out");
    CHECK(strstr(json, "\"parse_reason\": \"not a status line of HTTP/1.0 or 1.1\",\n"));
    CHECK(strstr(json, "\"statuses\": {\"302\": 2},\n"));
}

TEST(unexpected_statuses_are_counted_in_a_table)
{
    struct server server;
    server_start(&server, serve_two_statuses);
    char *url = run_url_for(&server);
    CHECK_EQ(command("-n", "5", "-c", "1", url, NULL), 1);
    CHECK(strstr(read_file("out"), "errors                      5  (status 5)\n"
                                   "  status 404                3\n"
                                   "  status 503                2\n"));
    CHECK_EQ(command("-n", "5", "-c", "1", "--processes", "1", "--json", "-", url, NULL), 1);
    server_stop(&server);
    CHECK(strstr(read_file("out"), "\"unexpected_statuses\": {\"404\": 3, \"503\": 2},\n"));
}

TEST(the_report_says_how_much_of_the_rate_was_missed)
{
    struct load_settings settings = {.rate = 10000, .connections = 1};
    struct load_result result = {.seconds = 1, .sent_rate_per_s = 9511.6};
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    CHECK_EQ(gs_load_metrics_init(&result.metrics, 0), 0);
    CHECK_EQ(gs_load_report_text(&settings, &result, file), 0);
    fflush(file);
    CHECK(strstr(text, "\ntarget rate missed: 9,512/s of 10,000/s\n"));
    char *urls[] = {"http://localhost/"};
    settings.urls = urls;
    rewind(file);
    CHECK_EQ(gs_load_report_json(&settings, &result, file), 0);
    fflush(file);
    CHECK(strstr(text, "\"sent_rate_per_s\": 9511.600000,\n  \"rate_missed\": true,\n"));
    result.sent_rate_per_s = 9901;
    rewind(file);
    CHECK_EQ(gs_load_report_json(&settings, &result, file), 0);
    CHECK_EQ(gs_load_report_text(&settings, &result, file), 0);
    fclose(file);
    CHECK(strstr(text, "\"rate_missed\": false,\n") && !strstr(text, "target rate"));
    free(text);
    gs_load_result_done(&result);
}

TEST(a_file_that_cannot_be_written_causes_exit_status_1)
{
    struct server server;
    server_start(&server, serve_hello);
    CHECK_EQ(
        command("-n", "4", "-c", "1", "--json", "/nonexistent/file", run_url_for(&server), NULL),
        1);
    server_stop(&server);
    unlink(path_in_folder("out"));
}

TEST(help_exits_with_status_0)
{
    CHECK_EQ(command("--help", NULL), 0);
    char *text = read_file("out");
    CHECK(strstr(text, "--requests-per-connection") && strstr(text, "--hdr-log"));
}

TEST(the_percentile_table_is_written_in_microseconds)
{
    struct server server;
    server_start(&server, serve_hello);
    char *url = run_url_for(&server);
    CHECK_EQ(
        command("-n", "30", "-c", "2", "--hdr", path_in_folder("hdr"), "--json", "-", url, NULL),
        0);
    server_stop(&server);
    double largest = number_after(strstr(read_file("out"), "\"response_us\""), "\"max\": ");
    char *table = read_file("hdr");
    CHECK(strstr(table, "       Value     Percentile TotalCount 1/(1-Percentile)\n\n") == table);
    CHECK(number_after(table, "Total count    = ") == 30);
    double difference = number_after(table, "#[Max     = ") - largest;
    CHECK(difference > -0.01 && difference < 0.01);
}

static size_t decode_base64(const char *text, uint8_t *bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0, bit_count = 0;
    size_t n = 0;
    for (const char *digit; *text && *text != '=' && *text != '\n'; text++) {
        digit = strchr(digits, *text);
        CHECK(digit);
        bits = bits << 6 | (uint32_t)(digit - digits);
        bit_count += 6;
        if (bit_count >= 8) {
            bit_count -= 8;
            bytes[n++] = (uint8_t)(bits >> bit_count);
        }
    }
    return n;
}

/* Check that the log line with this tag contains the encoded histogram. */
static void check_line(const char *log, const char *tag, const struct gs_histogram *histogram)
{
    static uint8_t packed[1 << 18], found[1 << 18], expected[1 << 20];
    const char *line = strstr(log, tag);
    CHECK(line);
    const char *end = strchr(line + 1, '\n'), *text = end;
    while (text[-1] != ',')
        text--;
    size_t n = decode_base64(text, packed);
    CHECK_EQ((size_t)(end - text) % 4, 0);
    CHECK(n > 8 && packed[0] == 0x1c && packed[1] == 0x84 && packed[2] == 0x93 &&
          packed[3] == 0x14);
    CHECK_EQ((size_t)packed[4] << 24 | (size_t)packed[5] << 16 | (size_t)packed[6] << 8 | packed[7],
             n - 8);
    uLongf length = sizeof found;
    CHECK_EQ(uncompress(found, &length, packed + 8, (uLong)(n - 8)), Z_OK);
    CHECK(gs_histogram_encoded_bound(histogram) <= sizeof expected);
    CHECK_EQ(length, gs_histogram_encode(histogram, expected));
    CHECK_EQ(memcmp(found, expected, length), 0);
}

TEST(the_log_of_an_open_loop_also_has_service_and_send_delay)
{
    char *log;
    size_t length;
    struct load_result result = run_beside(serve_hello, "-c", "2", "-n", "50", "-r", "5000", NULL);
    FILE *file = open_memstream(&log, &length);
    CHECK_EQ(gs_load_report_log(&result, file), 0);
    fclose(file);
    check_line(log, "\nTag=response,0.000,", &result.metrics.times[LOAD_TIME_RESPONSE]);
    check_line(log, "\nTag=service,0.000,", &result.metrics.times[LOAD_TIME_SERVICE]);
    check_line(log, "\nTag=send_delay,0.000,", &result.metrics.times[LOAD_TIME_SEND_DELAY]);
    free(log);
    gs_load_result_done(&result);
}

TEST(the_log_of_a_closed_loop_has_three_histograms)
{
    char *log;
    size_t length;
    struct load_result result = run_beside(serve_hello, "-c", "2", "-n", "50", NULL);
    FILE *file = open_memstream(&log, &length);
    CHECK_EQ(gs_load_report_log(&result, file), 0);
    fclose(file);
    CHECK(strstr(log, "#[Histogram log format version 1.3]\n#[StartTime: ") == log);
    CHECK(strstr(log, "\n\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_"
                      "Compressed_Histogram\"\n"));
    check_line(log, "\nTag=response,0.000,", &result.metrics.times[LOAD_TIME_RESPONSE]);
    check_line(log, "\nTag=first_byte,0.000,", &result.metrics.times[LOAD_TIME_FIRST_BYTE]);
    check_line(log, "\nTag=connect,0.000,", &result.metrics.times[LOAD_TIME_CONNECT]);
    CHECK(!strstr(log, "Tag=service") && !strstr(log, "Tag=send_delay"));
    free(log);
    gs_load_result_done(&result);
    rmdir(folder);
}
