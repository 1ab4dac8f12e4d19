/* What a GPU says of itself: power, heat, clocks, use, link, errors. */
#define _GNU_SOURCE
#include "calls.h"

#include <time.h>

/* --- power, heat, clocks --- */

/* Without a script: the power now times the time since the machine booted, so that it rises. */
int energy_mj(device gpu, uint64_t *out) {
    if (number(gpu, "energy_mj", out) == OK) return OK;
    uint64_t power_mw;
    int code = number(gpu, "power_mw", &power_mw);
    if (code == OK) *out = power_mw * (now_ns() / 1000000) / 1000;
    return code;
}

NUMBER(nvmlDeviceGetPowerUsage, "power_mw")
NUMBER(nvmlDeviceGetPowerManagementLimit, "power_limit_mw")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw")
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "power_default_mw")
NUMBER(nvmlDeviceGetFanSpeed, "fan_percent")
NUMBER(nvmlDeviceGetNumFans, "fans")
NUMBER(nvmlDeviceGetPerformanceState, "pstate")

EXPORT int nvmlDeviceGetPowerManagementLimitConstraints(device gpu, unsigned *low, unsigned *high) {
    int code = give(__func__, gpu, "power_min_mw", low);
    if (code == OK) *high = (unsigned)or_zero(gpu, "power_max_mw");
    return code;
}

EXPORT int nvmlDeviceGetTotalEnergyConsumption(device gpu, u64 *out) {
    uint64_t value;
    int code = enter(__func__, gpu);
    if (code == OK) code = energy_mj(gpu, &value);
    if (code == OK) *out = value;
    return code;
}

EXPORT int nvmlDeviceGetTemperature(device gpu, unsigned sensor, unsigned *out) {
    return sensor == 0 ? give(__func__, gpu, "temp_c", out) : INVALID_ARGUMENT;
}

struct temperature { unsigned version, sensor; int degrees; };

EXPORT int nvmlDeviceGetTemperatureV(device gpu, struct temperature *out) {
    if (out->version != 0x100000c) return ARGUMENT_VERSION_MISMATCH;
    return give(__func__, gpu, "temp_c", (unsigned *)&out->degrees);
}

EXPORT int nvmlDeviceGetTemperatureThreshold(device gpu, unsigned kind, unsigned *out) {
    static const char *const NAMES[] = {"temp_shutdown_c", "temp_slowdown_c", "temp_memory_max_c",
                                        "temp_gpu_max_c"};
    return kind < 4 ? give(__func__, gpu, NAMES[kind], out) : INVALID_ARGUMENT;
}

struct margin { unsigned version; int degrees; };

EXPORT int nvmlDeviceGetMarginTemperature(device gpu, struct margin *out) {
    if (out->version != 0x1000008) return ARGUMENT_VERSION_MISMATCH;
    return give(__func__, gpu, "margin_temp_c", (unsigned *)&out->degrees);
}

EXPORT int nvmlDeviceGetFanSpeed_v2(device gpu, unsigned fan, unsigned *out) {
    return fan < or_zero(gpu, "fans") ? give(__func__, gpu, "fan_percent", out) : INVALID_ARGUMENT;
}

struct fan_speed { unsigned version, fan, rpm; };

EXPORT int nvmlDeviceGetFanSpeedRPM(device gpu, struct fan_speed *out) {
    return give(__func__, gpu, "fan_rpm", &out->rpm);
}

EXPORT int nvmlDeviceGetClockInfo(device gpu, unsigned kind, unsigned *out) {
    static const char *const NAMES[] = {"sm_clock_mhz", "sm_clock_mhz", "memory_clock_mhz",
                                        "video_clock_mhz"};
    return kind < 4 ? give(__func__, gpu, NAMES[kind], out) : INVALID_ARGUMENT;
}

EXPORT int nvmlDeviceGetMaxClockInfo(device gpu, unsigned kind, unsigned *out) {
    static const char *const NAMES[] = {"sm_clock_max_mhz", "sm_clock_max_mhz",
                                        "memory_clock_max_mhz", "video_clock_max_mhz"};
    return kind < 4 ? give(__func__, gpu, NAMES[kind], out) : INVALID_ARGUMENT;
}

EXPORT int nvmlDeviceGetCurrentClocksEventReasons(device gpu, u64 *out) {
    return give_wide(__func__, gpu, "event_reasons", out);
}

EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(device gpu, u64 *out) {
    return give_wide(__func__, gpu, "event_reasons", out);
}

EXPORT int nvmlDeviceGetSupportedClocksEventReasons(device gpu, u64 *out) {
    return give_wide(__func__, gpu, "event_reasons_supported", out);
}

/* --- use and memory --- */

struct utilization { unsigned gpu, memory; };

EXPORT int nvmlDeviceGetUtilizationRates(device gpu, struct utilization *out) {
    int code = give(__func__, gpu, "util_percent", &out->gpu);
    if (code == OK) out->memory = (unsigned)or_zero(gpu, "util_memory_percent");
    return code;
}

struct memory_v1 { u64 total, free, used; };
struct memory_v2 { unsigned version; u64 total, reserved, free, used; };

EXPORT int nvmlDeviceGetMemoryInfo(device gpu, struct memory_v1 *out) {
    int code = give_wide(__func__, gpu, "memory_total_bytes", &out->total);
    if (code != OK) return code;
    out->used = or_zero(gpu, "memory_used_bytes") + or_zero(gpu, "memory_reserved_bytes");
    out->free = out->total - out->used;
    return OK;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(device gpu, struct memory_v2 *out) {
    if (out->version != 0x2000028) return ARGUMENT_VERSION_MISMATCH;
    int code = give_wide(__func__, gpu, "memory_total_bytes", &out->total);
    if (code != OK) return code;
    out->used = or_zero(gpu, "memory_used_bytes");
    out->reserved = or_zero(gpu, "memory_reserved_bytes");
    out->free = out->total - out->used - out->reserved;
    return OK;
}

EXPORT int nvmlDeviceGetBAR1MemoryInfo(device gpu, struct memory_v1 *out) {
    int code = give_wide(__func__, gpu, "bar1_total_bytes", &out->total);
    if (code != OK) return code;
    out->used = or_zero(gpu, "bar1_used_bytes");
    out->free = out->total - out->used;
    return OK;
}

struct process { unsigned pid; u64 memory_bytes; unsigned instance, compute_instance; };

/* `process` in the script is one process id; its memory is the GPU's memory in use. */
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(device gpu, unsigned *count,
                                                   struct process *out) {
    uint64_t pid = 0;
    int code = enter(__func__, gpu);
    if (code != OK) return code;
    unsigned room = *count;
    *count = number(gpu, "process", &pid) == OK && pid != 0;
    if (*count == 0) return OK;
    if (room == 0 || out == NULL) return INSUFFICIENT_SIZE;
    *out = (struct process){(unsigned)pid, or_zero(gpu, "memory_used_bytes"), ~0u, ~0u};
    return OK;
}

EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(device gpu, unsigned *count, void *out) {
    (void)out;
    int code = enter(__func__, gpu);
    if (code == OK) *count = 0;
    return code;
}

/* --- the link --- */

NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "link_gen")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "link_width")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "link_gen_max")
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, "link_gen_max_gpu")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "link_width_max")
NUMBER(nvmlDeviceGetPcieReplayCounter, "replay")

static unsigned speed_mts(unsigned generation) {
    static const unsigned SPEEDS[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};
    return generation < 7 ? SPEEDS[generation] : 0;
}

EXPORT int nvmlDeviceGetPcieSpeed(device gpu, unsigned *out) {
    int code = give(__func__, gpu, "link_gen", out);
    if (code == OK) *out = speed_mts(*out);
    return code;
}

EXPORT int nvmlDeviceGetPcieThroughput(device gpu, unsigned direction, unsigned *out) {
    struct timespec window = {0, 20000000}; /* as the real one, which counts for 20 ms */
    int code = give(__func__, gpu, direction == 0 ? "tx_kb_per_s" : "rx_kb_per_s", out);
    if (code == OK) nanosleep(&window, NULL);
    return code;
}

/* --- errors and state --- */

EXPORT int nvmlDeviceGetEccMode(device gpu, unsigned *now, unsigned *pending) {
    int code = give(__func__, gpu, "ecc_mode", now);
    if (code == OK) *pending = *now;
    return code;
}

EXPORT int nvmlDeviceGetTotalEccErrors(device gpu, unsigned kind, unsigned counter, u64 *out) {
    (void)counter;
    return give_wide(__func__, gpu, kind == 0 ? "ecc_corrected" : "ecc_uncorrected", out);
}

EXPORT int nvmlDeviceGetMemoryErrorCounter(device gpu, unsigned kind, unsigned counter,
                                           unsigned location, u64 *out) {
    (void)counter, (void)location;
    return give_wide(__func__, gpu, kind == 0 ? "ecc_corrected" : "ecc_uncorrected", out);
}

EXPORT int nvmlDeviceGetRemappedRows(device gpu, unsigned *corrected, unsigned *uncorrected,
                                     unsigned *pending, unsigned *failure) {
    int code = give(__func__, gpu, "remap_corrected", corrected);
    if (code != OK) return code;
    *uncorrected = (unsigned)or_zero(gpu, "remap_uncorrected");
    *pending = (unsigned)or_zero(gpu, "remap_pending");
    *failure = (unsigned)or_zero(gpu, "remap_failure");
    return OK;
}
