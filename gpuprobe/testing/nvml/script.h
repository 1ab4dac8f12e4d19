/* What the scripted NVML library does next: see script.c for the form of the script. */
#ifndef GPUPROBE_FAKE_SCRIPT_H
#define GPUPROBE_FAKE_SCRIPT_H

#include <stdint.h>

enum {
    MAX_GPUS = 16,
    MAX_RULES = 256,
    MAX_EVENTS = 256,
    MAX_MIG = 7,
    TEXT = 96,
};

/* Return codes, by their numbers in NVML. */
enum {
    OK = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    RESET_REQUIRED = 16,
    ARGUMENT_VERSION_MISMATCH = 25,
    UNKNOWN = 999,
};

/* One GPU, or one MIG instance of it (`parent` set). A handle is a pointer to one of these, and
   stays good over re-readings of the script because a GPU keeps its place by its address. */
struct gpu {
    char address[TEXT]; /* as sysfs writes it: 0000:04:00.0 */
    unsigned domain, bus, device, function;
    int place; /* in the table */
    int listed; /* in the script as it stands now */
    struct gpu *parent;
    int instance;
    struct gpu *instances;
};

struct event {
    long number;
    int gpu; /* place in the table */
    uint64_t type, data;
};

/* Every exported call begins with this: counts, logs, waits as scripted; the code to return. */
int enter(const char *call, struct gpu *gpu);

int library_open(void);
void library_close(void);

int gpu_count(void);
struct gpu *gpu_by_index(unsigned index);
struct gpu *gpu_by_address(const char *address);
struct gpu *gpu_by_uuid(const char *uuid);
int gpu_index(const struct gpu *gpu);

/* The code scripted for one value alone, such as a field (`error WHO field.186 15`), else OK. */
int refused(struct gpu *gpu, const char *name);
/* A scripted number: 0 and *value, or NOT_SUPPORTED. */
int number(struct gpu *gpu, const char *name, uint64_t *value);
/* A scripted text, or `otherwise`. */
int text(struct gpu *gpu, const char *name, const char *otherwise, char *out, unsigned size);

/* The first event after `after` for a GPU in `mask`; its number, or 0 where there is none. */
long next_event(long after, unsigned mask, struct event *found);
struct gpu *gpu_at(int place);

uint64_t now_ns(void);

#endif
