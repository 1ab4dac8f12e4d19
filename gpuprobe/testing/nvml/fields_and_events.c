/* Values by number, the driver's own samples, and events. */
#define _GNU_SOURCE
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* --- field values: each with a return code of its own --- */

struct field_value {
    unsigned id, scope;
    long long timestamp_us, latency_us;
    int type, code;
    union value value;
};

static const struct { unsigned id; const char *name; int type; } FIELDS[] = {
    {1, "ecc_mode", UNSIGNED_INT}, {82, "memory_temp_c", UNSIGNED_INT},
    {94, "replay", UNSIGNED_INT}, {95, "replay_rollover", UNSIGNED_INT},
    {142, "remap_corrected", UNSIGNED_INT}, {143, "remap_uncorrected", UNSIGNED_INT},
    {144, "remap_pending", UNSIGNED_INT}, {145, "remap_failure", UNSIGNED_INT},
    {169, "l0_to_recovery", UNSIGNED_INT}, {173, "correctable", UNSIGNED_INT},
    {174, "naks_received", UNSIGNED_INT}, {175, "receiver_error", UNSIGNED_INT},
    {176, "bad_tlp", UNSIGNED_INT}, {177, "naks_sent", UNSIGNED_INT},
    {178, "bad_dllp", UNSIGNED_INT}, {179, "non_fatal", UNSIGNED_INT},
    {180, "fatal", UNSIGNED_INT}, {181, "unsupported_request", UNSIGNED_INT},
    {182, "lcrc", UNSIGNED_INT}, {183, "lane_error", UNSIGNED_INT},
    {185, "power_mw", UNSIGNED_INT}, {186, "power_mw", UNSIGNED_INT},
    {187, "power_min_mw", UNSIGNED_INT}, {188, "power_max_mw", UNSIGNED_INT},
    {189, "power_default_mw", UNSIGNED_INT}, {190, "power_limit_mw", UNSIGNED_INT},
    {192, "power_limit_mw", UNSIGNED_INT}, {230, "recovery_action", UNSIGNED_INT},
    {269, "thermal_sw_ns", UNSIGNED_LONG_LONG}, {270, "thermal_hw_ns", UNSIGNED_LONG_LONG},
    {271, "power_brake_ns", UNSIGNED_LONG_LONG},
};

static int field(device gpu, unsigned id, int *type, uint64_t *value) {
    char name[24];
    snprintf(name, sizeof name, "field.%u", id);
    *type = UNSIGNED_LONG_LONG;
    int code = refused(gpu, name);
    if (code != OK) return code;
    if (number(gpu, name, value) == OK) return OK;
    if (id == 83 || id == 191) return energy_mj(gpu, value);
    if (id == 197 || id == 198) { /* bytes so far, at the scripted rate since the boot */
        code = number(gpu, id == 197 ? "tx_kb_per_s" : "rx_kb_per_s", value);
        if (code == OK) *value = *value * 1024 * (now_ns() / 1000000) / 1000;
        return code;
    }
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++)
        if (FIELDS[i].id == id) {
            *type = FIELDS[i].type;
            return number(gpu, FIELDS[i].name, value);
        }
    return NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetFieldValues(device gpu, int count, struct field_value *values) {
    int code = enter(__func__, gpu);
    if (code != OK) return code;
    for (int i = 0; i < count; i++) {
        uint64_t value = 0;
        values[i].code = field(gpu, values[i].id, &values[i].type, &value);
        values[i].timestamp_us = (long long)(now_ns() / 1000);
        values[i].latency_us = 0;
        values[i].value.ull = 0;
        if (values[i].type == UNSIGNED_INT) values[i].value.u = (unsigned)value;
        else values[i].value.ull = value;
    }
    return OK;
}

/* --- the driver's own samples --- */

struct sample { u64 timestamp_us; union value value; };
enum { SAMPLES = 119, SAMPLE_US = 9600 };

/* Power alone, one each 9.6 ms and 119 kept, stamped with the wall clock, as an H200 has it. */
EXPORT int nvmlDeviceGetSamples(device gpu, unsigned kind, u64 after_us, int *type,
                                unsigned *count, struct sample *out) {
    struct timespec now;
    uint64_t power_mw;
    int code = enter(__func__, gpu);
    if (code != OK) return code;
    if (kind != 0) return NOT_SUPPORTED;
    if ((code = number(gpu, "power_mw", &power_mw)) != OK) return code;
    clock_gettime(CLOCK_REALTIME, &now);
    u64 newest = ((u64)now.tv_sec * 1000000 + (u64)now.tv_nsec / 1000) / SAMPLE_US;
    u64 oldest = newest - SAMPLES + 1;
    if (after_us / SAMPLE_US >= oldest) oldest = after_us / SAMPLE_US + 1;
    if (oldest > newest) return NOT_FOUND;
    unsigned found = (unsigned)(newest - oldest + 1);
    *type = UNSIGNED_INT;
    if (out != NULL) {
        if (found > *count) found = *count;
        for (unsigned i = 0; i < found; i++) {
            out[i].timestamp_us = (oldest + i) * SAMPLE_US;
            out[i].value.ull = 0;
            out[i].value.u = (unsigned)power_mw;
        }
    }
    *count = found;
    return OK;
}

/* --- events --- */

struct event_set { unsigned gpus; u64 types[MAX_GPUS]; long delivered; };
struct event_data { device gpu; u64 type, data; unsigned instance, compute_instance; };

EXPORT int nvmlDeviceGetSupportedEventTypes(device gpu, u64 *out) {
    return give_wide(__func__, gpu, "event_types", out);
}

/* What happened before the set was made is not delivered to it, as with the real library. */
EXPORT int nvmlEventSetCreate(struct event_set **out) {
    struct event past;
    long number_past;
    int code = enter(__func__, NULL);
    if (code != OK) return code;
    if ((*out = calloc(1, sizeof **out)) == NULL) return UNKNOWN;
    while ((number_past = next_event((*out)->delivered, ~0u, &past)) != 0)
        (*out)->delivered = number_past;
    return OK;
}

EXPORT int nvmlDeviceRegisterEvents(device gpu, u64 types, struct event_set *set) {
    int code = enter(__func__, gpu);
    if (code != OK) return code;
    if (types & ~or_zero(gpu, "event_types")) return NOT_SUPPORTED; /* fails as a whole */
    set->gpus |= 1u << gpu->place;
    set->types[gpu->place] |= types;
    return OK;
}

EXPORT int nvmlEventSetWait_v2(struct event_set *set, struct event_data *out, unsigned timeout_ms) {
    struct timespec pause = {0, 2000000};
    struct event event;
    uint64_t until = now_ns() + timeout_ms * 1000000ull;
    int code = enter(__func__, NULL);
    if (code != OK) return code;
    for (;;) {
        long number_found = next_event(set->delivered, set->gpus, &event);
        if (number_found != 0) {
            set->delivered = number_found;
            if ((set->types[event.gpu] & event.type) == 0) continue;
            *out = (struct event_data){gpu_at(event.gpu), event.type, event.data, ~0u, ~0u};
            return OK;
        }
        if (now_ns() >= until) return TIMEOUT;
        nanosleep(&pause, NULL);
    }
}

EXPORT int nvmlEventSetFree(struct event_set *set) {
    int code = enter(__func__, NULL);
    if (code == OK) free(set);
    return code;
}
