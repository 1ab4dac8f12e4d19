/* The script of the fake NVML library: what it says, and how a call follows it.

   Named by GPUPROBE_FAKE_NVML, read again whenever the file changes, also by a call that hangs.
   One statement a line; WHO is a PCI address or `*` (every GPU and the calls about none); CALL is
   the name of an exported function.

     gpu ADDRESS                      a GPU, listed in this order
     gone ADDRESS                     no longer listed; a handle that is left says "lost"
     set WHO NAME VALUE               a number or a text: see FakeNvml.set
     unsupported WHO NAME             NOT_SUPPORTED from the call or for the value of that name
     error WHO CALL CODE [after N]    that code; CALL may be `*`; N calls to the GPU first
     hang WHO CALL [after N]          the call does not return until the script says otherwise
     dstate WHO CALL [after N]        the same in an uninterruptible wait (state D)
     slow WHO CALL MILLISECONDS       the call takes that long
     event NUMBER ADDRESS TYPE DATA   for the event sets; numbers rise, each is delivered once
     not-loaded                       nvmlInit says DRIVER_NOT_LOADED
     generation N                     a new N: the driver was loaded anew, calls fail until nvmlInit

   Calls are counted over all processes that share the script, in SCRIPT.counts, so a lost GPU
   stays lost for the next process. Each call is written to SCRIPT.log when it begins and when its
   code is decided. When the script is deleted every call that hangs comes back. */
#define _GNU_SOURCE
#include "script.h"

#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum kind { SET, UNSUPPORTED, ERROR, HANG, DSTATE, SLOW };

struct rule {
    enum kind kind;
    int gpu; /* place, or -1 for all */
    char name[TEXT];
    char value[TEXT];
    long after;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpu gpus[MAX_GPUS];
static struct gpu instances[MAX_GPUS][MAX_MIG];
static int known_gpus;
static struct rule rules[MAX_RULES];
static int rule_count;
static struct event events[MAX_EVENTS];
static int event_count;
static int not_loaded;
static long generation, opened_generation;
static int opened;
static struct stat seen;
static int log_fd = -1;
static uint64_t *counts; /* one a GPU, the last for calls about none */

/* Where a number was not scripted. Like a healthy card under load. */
static const struct { const char *name; uint64_t value; } DEFAULTS[] = {
    {"power_mw", 250000}, {"power_limit_mw", 350000}, {"power_default_mw", 350000},
    {"power_min_mw", 100000}, {"power_max_mw", 400000}, {"temp_c", 55}, {"memory_temp_c", 64},
    {"margin_temp_c", 32}, {"temp_shutdown_c", 95}, {"temp_slowdown_c", 92},
    {"temp_gpu_max_c", 87}, {"temp_memory_max_c", 105}, {"sm_clock_mhz", 1800}, {"memory_clock_mhz", 9501},
    {"video_clock_mhz", 1500}, {"sm_clock_max_mhz", 2100}, {"memory_clock_max_mhz", 9751},
    {"video_clock_max_mhz", 1950}, {"event_reasons", 0}, {"event_reasons_supported", 0x1ff},
    {"pstate", 0}, {"util_percent", 60}, {"util_memory_percent", 30},
    {"memory_total_bytes", 25769803776ull}, {"memory_reserved_bytes", 402653184},
    {"memory_used_bytes", 10737418240ull}, {"bar1_total_bytes", 268435456},
    {"bar1_used_bytes", 2097152}, {"link_gen", 4}, {"link_width", 16}, {"link_gen_max", 4},
    {"link_gen_max_gpu", 4}, {"link_width_max", 16}, {"replay", 0}, {"replay_rollover", 0},
    {"rx_kb_per_s", 1000}, {"tx_kb_per_s", 1000}, {"fan_percent", 45}, {"fan_rpm", 1600},
    {"fans", 2}, {"persistence", 1}, {"ecc_mode", 1}, {"ecc_corrected", 0},
    {"ecc_uncorrected", 0}, {"remap_corrected", 0}, {"remap_uncorrected", 0},
    {"remap_pending", 0}, {"remap_failure", 0}, {"recovery_action", 0}, {"pci_id", 0x268410de},
    {"pci_subsystem_id", 0x167c10de}, {"compute_mode", 0}, {"gsp_firmware", 1}, {"mig", 0},
    {"mig_instances", 0}, {"mig_max", MAX_MIG}, {"event_types", 0xff9f}, {"cc_major", 8},
    {"cc_minor", 9}, {"architecture", 8}, {"brand", 5}, {"cuda", 13000}, {"thermal_sw_ns", 0},
    {"thermal_hw_ns", 0}, {"power_brake_ns", 0}, {"l0_to_recovery", 1280}, {"correctable", 0},
    {"naks_received", 0}, {"naks_sent", 18}, {"receiver_error", 19}, {"bad_tlp", 24},
    {"bad_dllp", 1}, {"non_fatal", 0}, {"fatal", 0}, {"unsupported_request", 0}, {"lcrc", 0},
    {"lane_error", 31},
};

uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void nap(void) {
    struct timespec pause = {0, 5000000};
    nanosleep(&pause, NULL);
}

static const char *script_path(void) { return getenv("GPUPROBE_FAKE_NVML"); }

/* --- reading the script: all of it with `lock` held --- */

static struct gpu *find_or_add(const char *address) {
    for (int i = 0; i < known_gpus; i++)
        if (strcmp(gpus[i].address, address) == 0) return &gpus[i];
    if (known_gpus == MAX_GPUS) return NULL;
    struct gpu *gpu = &gpus[known_gpus];
    if (sscanf(address, "%x:%x:%x.%x", &gpu->domain, &gpu->bus, &gpu->device, &gpu->function) != 4)
        return NULL;
    snprintf(gpu->address, TEXT, "%s", address);
    gpu->place = known_gpus;
    gpu->instances = instances[known_gpus];
    for (int i = 0; i < MAX_MIG; i++) {
        gpu->instances[i] = *gpu;
        gpu->instances[i].parent = gpu;
        gpu->instances[i].instance = i;
    }
    known_gpus++;
    return gpu;
}

static void add_rule(enum kind kind, const char *who, const char *name, const char *value,
                     long after) {
    if (rule_count == MAX_RULES) return;
    struct rule *rule = &rules[rule_count];
    struct gpu *gpu = strcmp(who, "*") == 0 ? NULL : find_or_add(who);
    if (gpu == NULL && strcmp(who, "*") != 0) return;
    rule->kind = kind;
    rule->gpu = gpu ? gpu->place : -1;
    rule->after = after;
    snprintf(rule->name, TEXT, "%s", name);
    snprintf(rule->value, TEXT, "%s", value);
    rule_count++;
}

static void read_statement(char *line) {
    char word[TEXT] = "", who[TEXT] = "", name[TEXT] = "", value[TEXT] = "";
    long after = 0;
    int rest = 0;
    if (sscanf(line, "%95s %95s %95s %n", word, who, name, &rest) < 1 || word[0] == '#') return;
    if (rest > 0) snprintf(value, TEXT, "%s", line + rest);
    const char *mark = strstr(line, " after ");
    if (mark != NULL) after = strtol(mark + 7, NULL, 10);
    if (strcmp(word, "gpu") == 0 || strcmp(word, "gone") == 0) {
        struct gpu *gpu = find_or_add(who);
        if (gpu != NULL) gpu->listed = word[1] == 'p';
    } else if (strcmp(word, "set") == 0) add_rule(SET, who, name, value, 0);
    else if (strcmp(word, "unsupported") == 0) add_rule(UNSUPPORTED, who, name, "", 0);
    else if (strcmp(word, "error") == 0) add_rule(ERROR, who, name, value, after);
    else if (strcmp(word, "hang") == 0) add_rule(HANG, who, name, "", after);
    else if (strcmp(word, "dstate") == 0) add_rule(DSTATE, who, name, "", after);
    else if (strcmp(word, "slow") == 0) add_rule(SLOW, who, name, value, 0);
    else if (strcmp(word, "not-loaded") == 0) not_loaded = 1;
    else if (strcmp(word, "generation") == 0) generation = strtol(who, NULL, 10);
    else if (strcmp(word, "event") == 0 && event_count < MAX_EVENTS) {
        struct gpu *gpu = find_or_add(name);
        struct event *event = &events[event_count];
        if (gpu == NULL) return;
        event->number = strtol(who, NULL, 10);
        event->gpu = gpu->place;
        char *end = value;
        event->type = strtoull(value, &end, 0);
        event->data = strtoull(end, NULL, 0);
        event_count++;
    }
}

static int changed(const struct stat *now) {
    return now->st_ino != seen.st_ino || now->st_size != seen.st_size ||
           now->st_mtim.tv_sec != seen.st_mtim.tv_sec ||
           now->st_mtim.tv_nsec != seen.st_mtim.tv_nsec;
}

static void open_beside(const char *path) {
    char name[4096];
    if (log_fd >= 0) return;
    snprintf(name, sizeof name, "%s.log", path);
    log_fd = open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    snprintf(name, sizeof name, "%s.counts", path);
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    size_t size = (MAX_GPUS + 1) * sizeof *counts;
    if (fd >= 0 && ftruncate(fd, (off_t)size) == 0) {
        void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (mapped != MAP_FAILED) counts = mapped;
    }
    if (fd >= 0) close(fd);
}

static void read_script(void) {
    const char *path = script_path();
    struct stat now;
    char line[512];
    if (path == NULL || stat(path, &now) != 0) {
        rule_count = 0; /* deleted: whatever hangs comes back */
        return;
    }
    if (!changed(&now)) return;
    FILE *file = fopen(path, "re");
    if (file == NULL) return;
    open_beside(path);
    fstat(fileno(file), &seen);
    rule_count = event_count = not_loaded = 0;
    for (int i = 0; i < known_gpus; i++) gpus[i].listed = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        read_statement(line);
    }
    fclose(file);
}

/* --- following it --- */

static uint64_t *count_of(const struct gpu *gpu) {
    static uint64_t unshared[MAX_GPUS + 1];
    return (counts ? counts : unshared) + (gpu ? gpu->place : MAX_GPUS);
}

static const struct rule *applying(enum kind kind, const struct gpu *gpu, const char *name) {
    const struct rule *found = NULL; /* the last one wins, one for this GPU over one for all */
    uint64_t calls = *count_of(gpu);
    for (int i = 0; i < rule_count; i++) {
        const struct rule *rule = &rules[i];
        if (rule->kind != kind || (rule->gpu >= 0 && (gpu == NULL || rule->gpu != gpu->place)))
            continue;
        if (strcmp(rule->name, name) != 0 && strcmp(rule->name, "*") != 0) continue;
        if (rule->after > 0 && calls <= (uint64_t)rule->after) continue;
        if (found != NULL && found->gpu >= 0 && rule->gpu < 0) continue;
        found = rule;
    }
    return found;
}

static void write_log(char what, const struct gpu *gpu, const char *call, int code) {
    char line[256];
    if (log_fd < 0) return;
    int size = snprintf(line, sizeof line, "%c %llu %d %ld %s %s %d\n", what,
                        (unsigned long long)now_ns(), (int)getpid(), syscall(SYS_gettid),
                        gpu ? gpu->address : "-", call, code);
    if (write(log_fd, line, (size_t)size) < 0) log_fd = -1;
}

/* Wait in state D: the kernel keeps the caller of vfork() so until its child is gone. The child
   shares our memory, so it takes no lock and only looks at the script and at its parent. */
static void wait_in_d(void) {
    const char *path = script_path();
    struct stat now, before = seen;
    pid_t parent = getpid();
    pid_t child = vfork();
    if (child != 0) return;
    while (path != NULL && stat(path, &now) == 0 && now.st_ino == before.st_ino &&
           now.st_mtim.tv_sec == before.st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == before.st_mtim.tv_nsec && getppid() == parent)
        nap();
    _exit(0);
}

static void wait_as_scripted(const char *call, const struct gpu *gpu) {
    for (;;) {
        const struct rule *stuck = applying(DSTATE, gpu, call);
        if (stuck != NULL) {
            pthread_mutex_unlock(&lock);
            wait_in_d();
            nap();
        } else if (applying(HANG, gpu, call) != NULL) {
            pthread_mutex_unlock(&lock);
            nap();
        } else return;
        pthread_mutex_lock(&lock);
        read_script();
    }
}

static int decide(const char *call, struct gpu *gpu) {
    int about_open = strcmp(call, "nvmlInitWithFlags") == 0 || strcmp(call, "nvmlShutdown") == 0;
    const struct rule *rule = applying(ERROR, gpu, call);
    if (rule != NULL && !(about_open && strcmp(rule->name, "*") == 0))
        return (int)strtol(rule->value, NULL, 10);
    if (about_open) return OK;
    if (!opened) return UNINITIALIZED;
    if (not_loaded || generation != opened_generation) return DRIVER_NOT_LOADED;
    if (gpu != NULL && !(gpu->parent ? gpu->parent : gpu)->listed) return GPU_IS_LOST;
    return applying(UNSUPPORTED, gpu, call) != NULL ? NOT_SUPPORTED : OK;
}

int enter(const char *call, struct gpu *gpu) {
    if (gpu != NULL && gpu->parent != NULL) gpu = gpu->parent;
    pthread_mutex_lock(&lock);
    read_script();
    __atomic_add_fetch(count_of(gpu), 1, __ATOMIC_RELAXED);
    write_log('>', gpu, call, 0);
    wait_as_scripted(call, gpu);
    const struct rule *slow = applying(SLOW, gpu, call);
    if (slow != NULL) {
        long pause_ms = strtol(slow->value, NULL, 10);
        struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};
        pthread_mutex_unlock(&lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&lock);
        read_script();
    }
    int code = decide(call, gpu);
    write_log('<', gpu, call, code);
    pthread_mutex_unlock(&lock);
    return code;
}

int library_open(void) {
    pthread_mutex_lock(&lock);
    int code = not_loaded ? DRIVER_NOT_LOADED : OK;
    if (code == OK) {
        opened++;
        opened_generation = generation;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

void library_close(void) {
    pthread_mutex_lock(&lock);
    if (opened > 0) opened--;
    pthread_mutex_unlock(&lock);
}

int gpu_count(void) {
    int count = 0;
    for (int i = 0; i < known_gpus; i++) count += gpus[i].listed;
    return count;
}

struct gpu *gpu_at(int place) { return &gpus[place]; }

struct gpu *gpu_by_index(unsigned index) {
    for (int i = 0; i < known_gpus; i++)
        if (gpus[i].listed && index-- == 0) return &gpus[i];
    return NULL;
}

int gpu_index(const struct gpu *gpu) {
    int index = 0;
    for (int i = 0; i < gpu->place; i++) index += gpus[i].listed;
    return index;
}

struct gpu *gpu_by_address(const char *address) {
    unsigned domain, bus, device, function = 0;
    if (sscanf(address, "%x:%x:%x.%x", &domain, &bus, &device, &function) < 3) return NULL;
    for (int i = 0; i < known_gpus; i++)
        if (gpus[i].listed && gpus[i].domain == domain && gpus[i].bus == bus &&
            gpus[i].device == device && gpus[i].function == function)
            return &gpus[i];
    return NULL;
}

struct gpu *gpu_by_uuid(const char *uuid) {
    char own[TEXT];
    for (int i = 0; i < known_gpus; i++)
        if (gpus[i].listed && text(&gpus[i], "uuid", "", own, sizeof own) == OK &&
            strcmp(own, uuid) == 0)
            return &gpus[i];
    return NULL;
}

/* --- values --- */

int refused(struct gpu *gpu, const char *name) {
    int code = OK;
    pthread_mutex_lock(&lock);
    const struct rule *rule = applying(ERROR, gpu, name);
    if (rule != NULL) code = atoi(rule->value);
    else if (applying(UNSUPPORTED, gpu, name) != NULL) code = NOT_SUPPORTED;
    pthread_mutex_unlock(&lock);
    return code;
}

int number(struct gpu *gpu, const char *name, uint64_t *value) {
    int code = NOT_SUPPORTED;
    if (gpu != NULL && gpu->parent != NULL) gpu = gpu->parent;
    pthread_mutex_lock(&lock);
    const struct rule *rule = applying(SET, gpu, name);
    if (applying(UNSUPPORTED, gpu, name) != NULL) rule = NULL;
    else if (rule != NULL) {
        *value = strtoull(rule->value, NULL, 0);
        code = OK;
    } else
        for (size_t i = 0; i < sizeof DEFAULTS / sizeof *DEFAULTS; i++)
            if (strcmp(DEFAULTS[i].name, name) == 0) {
                *value = DEFAULTS[i].value;
                code = OK;
            }
    pthread_mutex_unlock(&lock);
    return code;
}

int text(struct gpu *gpu, const char *name, const char *otherwise, char *out, unsigned size) {
    pthread_mutex_lock(&lock);
    const struct rule *rule = applying(SET, gpu, name);
    const char *found = rule ? rule->value : otherwise;
    int code = strlen(found) < size ? OK : INSUFFICIENT_SIZE;
    if (code == OK) snprintf(out, size, "%s", found);
    pthread_mutex_unlock(&lock);
    return code;
}

long next_event(long after, unsigned mask, struct event *found) {
    long number_found = 0;
    pthread_mutex_lock(&lock);
    read_script();
    for (int i = 0; i < event_count && number_found == 0; i++)
        if (events[i].number > after && mask >> events[i].gpu & 1) {
            *found = events[i];
            number_found = events[i].number;
        }
    pthread_mutex_unlock(&lock);
    return number_found;
}
