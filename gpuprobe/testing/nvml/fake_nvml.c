/* A libnvidia-ml.so.1 whose GPUs are a text file: what a program calls, declared from its
   documentation, answered from script.c. Built by FakeNvml with the system's C compiler.

   Only what reads is here. A symbol that is not exported is what an older driver looks like. This
   file: the library, the system, and which GPUs there are. */
#include "calls.h"

#include <stdio.h>
#include <string.h>

u64 or_zero(device gpu, const char *name) {
    uint64_t value = 0;
    number(gpu, name, &value);
    return value;
}

int give(const char *call, device gpu, const char *name, unsigned *out) {
    uint64_t value;
    int code = enter(call, gpu);
    if (code == OK) code = out == NULL ? INVALID_ARGUMENT : number(gpu, name, &value);
    if (code == OK) *out = (unsigned)value;
    return code;
}

int give_text(const char *call, device gpu, const char *name, const char *otherwise,
                     char *out, unsigned size) {
    int code = enter(call, gpu);
    return code == OK ? text(gpu, name, otherwise, out, size) : code;
}

int give_wide(const char *call, device gpu, const char *name, u64 *out) {
    uint64_t value;
    int code = enter(call, gpu);
    if (code == OK) code = number(gpu, name, &value);
    if (code == OK) *out = value;
    return code;
}

/* --- the library and the system --- */

EXPORT int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    int code = enter(__func__, NULL);
    return code == OK ? library_open() : code;
}

EXPORT int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

EXPORT int nvmlShutdown(void) {
    int code = enter(__func__, NULL);
    if (code == OK) library_close();
    return code;
}

EXPORT const char *nvmlErrorString(int code) {
    switch (code) {
    case OK: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case TIMEOUT: return "Timeout";
    case GPU_IS_LOST: return "GPU is lost";
    case RESET_REQUIRED: return "GPU requires restart";
    default: return "Unknown Error";
    }
}

EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    return give_text(__func__, NULL, "driver", "580.65.06", out, size);
}

EXPORT int nvmlSystemGetNVMLVersion(char *out, unsigned size) {
    return give_text(__func__, NULL, "nvml", "13.580.65.06", out, size);
}

EXPORT int nvmlSystemGetCudaDriverVersion(int *out) {
    return give(__func__, NULL, "cuda", (unsigned *)out);
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    return give(__func__, NULL, "cuda", (unsigned *)out);
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *out) {
    int code = enter(__func__, NULL);
    if (code == OK) *out = (unsigned)gpu_count();
    return code;
}

static int handle(const char *call, device found, device *out) {
    int code = enter(call, found);
    if (code == OK && found == NULL) code = NOT_FOUND;
    if (code == OK) *out = found;
    return code;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, device *out) {
    int code = handle(__func__, gpu_by_index(index), out);
    return code == NOT_FOUND ? INVALID_ARGUMENT : code;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *address, device *out) {
    return handle(__func__, gpu_by_address(address), out);
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, device *out) {
    return handle(__func__, gpu_by_uuid(uuid), out);
}

/* --- who it is --- */

struct pci_info {
    char legacy[16];
    unsigned domain, bus, device, pci_id, subsystem_id;
    char address[32];
};

EXPORT int nvmlDeviceGetPciInfo_v3(device gpu, struct pci_info *out) {
    int code = enter(__func__, gpu);
    if (code != OK) return code;
    memset(out, 0, sizeof *out);
    snprintf(out->legacy, sizeof out->legacy, "%04X:%02X:%02X.%X", gpu->domain & 0xffff,
             gpu->bus & 0xff, gpu->device & 0xff, gpu->function & 7);
    snprintf(out->address, sizeof out->address, "%08X:%02X:%02X.%X", gpu->domain, gpu->bus,
             gpu->device, gpu->function);
    out->domain = gpu->domain;
    out->bus = gpu->bus;
    out->device = gpu->device;
    out->pci_id = (unsigned)or_zero(gpu, "pci_id");
    out->subsystem_id = (unsigned)or_zero(gpu, "pci_subsystem_id");
    return OK;
}

EXPORT int nvmlDeviceGetUUID(device gpu, char *out, unsigned size) {
    char uuid[TEXT];
    int code = enter(__func__, gpu);
    if (code != OK) return code;
    text(gpu->parent ? gpu->parent : gpu, "uuid", "", uuid, sizeof uuid);
    if (gpu->parent == NULL) return text(gpu, "uuid", "", out, size);
    snprintf(out, size, "MIG-%.34s%02x", strlen(uuid) > 4 ? uuid + 4 : uuid, gpu->instance);
    return OK;
}

TEXT_OF(nvmlDeviceGetName, "name", "NVIDIA GeForce RTX 4090")
TEXT_OF(nvmlDeviceGetSerial, "serial", "1320021000001")
TEXT_OF(nvmlDeviceGetVbiosVersion, "vbios", "95.02.18.80.5F")
TEXT_OF(nvmlDeviceGetBoardPartNumber, "part", "900-1G136-2530-000")
TEXT_OF(nvmlDeviceGetInforomImageVersion, "inforom", "G002.0000.00.03")
NUMBER(nvmlDeviceGetBrand, "brand")
NUMBER(nvmlDeviceGetArchitecture, "architecture")
NUMBER(nvmlDeviceGetComputeMode, "compute_mode")
NUMBER(nvmlDeviceGetPersistenceMode, "persistence")

EXPORT int nvmlDeviceGetGspFirmwareVersion(device gpu, char *out) {
    return give_text(__func__, gpu, "gsp_version", "580.65.06", out, 64);
}

EXPORT int nvmlDeviceGetGspFirmwareMode(device gpu, unsigned *on, unsigned *preset) {
    int code = give(__func__, gpu, "gsp_firmware", on);
    if (code == OK) *preset = *on;
    return code;
}

EXPORT int nvmlDeviceGetIndex(device gpu, unsigned *out) {
    int code = enter(__func__, gpu);
    if (code == OK) *out = (unsigned)gpu_index(gpu);
    return code;
}

EXPORT int nvmlDeviceGetMinorNumber(device gpu, unsigned *out) {
    int code = enter(__func__, gpu);
    if (code == OK) *out = (unsigned)gpu->place;
    return code;
}

EXPORT int nvmlDeviceGetCudaComputeCapability(device gpu, int *major, int *minor) {
    int code = give(__func__, gpu, "cc_major", (unsigned *)major);
    if (code == OK) *minor = (int)or_zero(gpu, "cc_minor");
    return code;
}

/* --- MIG --- */

NUMBER(nvmlDeviceGetMaxMigDeviceCount, "mig_max")

EXPORT int nvmlDeviceGetMigMode(device gpu, unsigned *now, unsigned *pending) {
    int code = give(__func__, gpu, "mig", now);
    if (code == OK) *pending = *now;
    return code;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(device gpu, unsigned index, device *out) {
    int code = enter(__func__, gpu);
    if (code == OK && (index >= or_zero(gpu, "mig_instances") || index >= MAX_MIG)) code = NOT_FOUND;
    if (code == OK) *out = &gpu->instances[index];
    return code;
}

EXPORT int nvmlDeviceIsMigDeviceHandle(device gpu, unsigned *out) {
    int code = enter(__func__, gpu);
    if (code == OK) *out = gpu->parent != NULL;
    return code;
}

EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device gpu, device *out) {
    int code = enter(__func__, gpu);
    if (code == OK) *out = gpu->parent ? gpu->parent : gpu;
    return code;
}

EXPORT int nvmlDeviceGetGpuInstanceId(device gpu, unsigned *out) {
    int code = enter(__func__, gpu);
    if (code == OK) *out = (unsigned)gpu->instance;
    return code;
}
