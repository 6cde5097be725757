/* What nsswitch.conf and resolv.conf say, and which look-ups are c-ares's: those for which
 * getaddrinfo would only ask name servers, in a way that c-ares knows. */
#ifndef GS_DNS_CONFIG_H
#define GS_DNS_CONFIG_H

#include "base/hidden.h"
#include "base/resolution.h"

#include <stdbool.h>
#include <stdint.h>

extern GS_HIDDEN const char *gs_nsswitch_conf, *gs_resolv_conf; /* tests change them */

/* By which a change of a file is noticed. */
struct file_stamp {
    uint64_t device, number, size;
    int64_t seconds, nanoseconds;
};

/* All zero at first. */
struct dns_config {
    uint64_t next_check_ns;
    struct file_stamp nsswitch, resolv;
    unsigned version; /* 0: nothing was read */

    /* Of "hosts:" in nsswitch.conf. */
    bool has_other_sources; /* than files, dns and the two below */
    bool has_mdns;          /* for .local */
    bool has_myhostname;    /* for this machine's name */

    /* Of resolv.conf, and of RES_OPTIONS. */
    bool has_other_options; /* than c-ares and these */
    bool rotates;
    unsigned timeout_s, attempts;
};

/* Read the files again if they have changed. Looks at most once a second. */
void gs_dns_config_refresh(struct dns_config *config, uint64_t now_ns);

/* Whether the look-up is c-ares's. */
bool gs_dns_config_suits(const struct dns_config *config, const struct resolution *resolution);

/* ---- Parsing: text ends with '\0', and is changed ---- */

void gs_dns_parse_nsswitch(struct dns_config *config, char *text);
void gs_dns_parse_resolv(struct dns_config *config, char *text);

#endif
