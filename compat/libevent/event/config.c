/* Configurations, and the choice of a method: each is a poller of the loop. */
#include "compat/libevent/event/base.h"
#include "compat/libevent/event/log.h"
#include "compat/libevent/event/memory.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

struct avoided {
    LIST_ENTRY(avoided) next;
    char name[];
};

struct event_config {
    LIST_HEAD(, avoided) avoided;
    int flags;
    int features;
    struct gs_ev_limits limits;
};

static const struct {
    const char *name, *variable;
    int features;
} methods[GS_EV_METHODS] = {
    [GS_EV_EPOLL] = {"epoll", "EVENT_NOEPOLL",
                     EV_FEATURE_ET | EV_FEATURE_O1 | EV_FEATURE_EARLY_CLOSE},
    [GS_EV_POLL] = {"poll", "EVENT_NOPOLL", EV_FEATURE_FDS | EV_FEATURE_EARLY_CLOSE},
    [GS_EV_SELECT] = {"select", "EVENT_NOSELECT", EV_FEATURE_FDS},
};

const char *gs_ev_poller_name(enum gs_ev_method method)
{
    return methods[method].name;
}

/* ---- Configurations ---- */

struct event_config *event_config_new(void)
{
    struct event_config *config = gs_ev_calloc(1, sizeof *config);
    if (!config)
        return NULL;
    LIST_INIT(&config->avoided);
    config->limits = (struct gs_ev_limits){UINT64_MAX, INT_MAX, 1};
    return config;
}

void event_config_free(struct event_config *config)
{
    struct avoided *avoided;
    while ((avoided = LIST_FIRST(&config->avoided))) {
        LIST_REMOVE(avoided, next);
        gs_ev_free(avoided);
    }
    gs_ev_free(config);
}

int event_config_avoid_method(struct event_config *config, const char *method)
{
    size_t size = strlen(method) + 1;
    struct avoided *avoided = gs_ev_malloc(sizeof *avoided + size);
    if (!avoided)
        return -1;
    memcpy(avoided->name, method, size);
    LIST_INSERT_HEAD(&config->avoided, avoided, next);
    return 0;
}

int event_config_require_features(struct event_config *config, int features)
{
    if (!config)
        return -1;
    config->features = features;
    return 0;
}

int event_config_set_flag(struct event_config *config, int flag)
{
    if (!config)
        return -1;
    config->flags |= flag;
    return 0;
}

/* Only a hint, for a method of another system. */
int event_config_set_num_cpus_hint(struct event_config *config, int cpus)
{
    (void)cpus;
    return config ? 0 : -1;
}

int event_config_set_max_dispatch_interval(struct event_config *config,
                                           const struct timeval *max_interval, int max_callbacks,
                                           int min_priority)
{
    config->limits.max_us =
        max_interval && max_interval->tv_sec >= 0
            ? (uint64_t)max_interval->tv_sec * 1000000 + (uint64_t)max_interval->tv_usec
            : UINT64_MAX;
    config->limits.max_callbacks = max_callbacks >= 0 ? max_callbacks : INT_MAX;
    config->limits.min_priority = min_priority < 0 ? 0 : min_priority;
    return 0;
}

/* ---- Methods ---- */

/* A program with other rights than its user does not listen to the environment. */
static const char *environment(const char *variable)
{
    return getauxval(AT_SECURE) ? NULL : getenv(variable);
}

static bool is_avoided(const struct event_config *config, const char *name)
{
    const struct avoided *avoided;
    LIST_FOREACH(avoided, &config->avoided, next)
    {
        if (!strcmp(avoided->name, name))
            return true;
    }
    return false;
}

static bool is_usable(const struct event_config *config, enum gs_ev_method method,
                      bool reads_environment)
{
    if (config && (is_avoided(config, methods[method].name) ||
                   (methods[method].features & config->features) != config->features))
        return false;
    return !reads_environment || !environment(methods[method].variable);
}

int gs_ev_configure(struct event_base *base, const struct event_config *config)
{
    base->flags = config ? config->flags : 0;
    base->limits = config ? config->limits : (struct gs_ev_limits){UINT64_MAX, INT_MAX, 1};
    if (base->limits.max_us == UINT64_MAX && base->limits.max_callbacks == INT_MAX)
        base->limits.min_priority = INT_MAX;
    bool reads_environment = !(base->flags & EVENT_BASE_FLAG_IGNORE_ENV);
    if (reads_environment && environment("EVENT_PRECISE_TIMER"))
        base->flags |= EVENT_BASE_FLAG_PRECISE_TIMER;
    if (reads_environment && environment("EVENT_EPOLL_USE_CHANGELIST"))
        base->flags |= EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST;
    base->method = GS_EV_EPOLL;
    while (base->method < GS_EV_METHODS && !is_usable(config, base->method, reads_environment))
        base->method++;
    if (base->method == GS_EV_METHODS)
        return -1;
    if (environment("EVENT_SHOW_METHOD"))
        gs_ev_msgx("libevent using: %s", event_base_get_method(base));
    return 0;
}

const char *event_base_get_method(const struct event_base *base)
{
    if (base->method == GS_EV_EPOLL && base->flags & EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST)
        return "epoll (with changelist)";
    return methods[base->method].name;
}

const char **event_get_supported_methods(void)
{
    static const char *names[GS_EV_METHODS + 1];
    for (int i = 0; i < GS_EV_METHODS; i++)
        names[i] = methods[i].name;
    return names;
}

int event_base_get_features(const struct event_base *base)
{
    return methods[base->method].features;
}
