/* How many CPUs this process may use: its affinity mask and the CPU quota of its cgroup, version 1 or 2. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATH_ROOM = 1024 };

static int32_t affinity_count(void) {
    unsigned long mask[1024 / sizeof(unsigned long)];
    const long got = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    int32_t count = 0;
    for (long i = 0; i < got / (long)sizeof mask[0]; i++) count += __builtin_popcountl(mask[i]);
    return count > 0 ? count : 1;
}

/* The file's text, or "" where it cannot be read. */
static const char *read_text(const char *path, char *text, size_t room) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = -1;
    if (file >= 0) {
        got = read(file, text, room - 1);
        close(file);
    }
    text[got > 0 ? got : 0] = 0;
    return text;
}

/* CPUs by the quota of one group's folder, rounded up; 0: none set there. */
static int64_t group_quota(const char *root, const char *group, int version) {
    char path[PATH_ROOM + 64], text[64], *rest;
    long long quota, period;
    if (version == 2) {
        snprintf(path, sizeof path, "%s%s/cpu.max", root, group);
        quota = strtoll(read_text(path, text, sizeof text), &rest, 10); /* "max 100000": 0 */
        period = strtoll(rest, NULL, 10);
    } else {
        snprintf(path, sizeof path, "%s%s/cpu.cfs_quota_us", root, group);
        quota = strtoll(read_text(path, text, sizeof text), NULL, 10); /* "-1": none */
        snprintf(path, sizeof path, "%s%s/cpu.cfs_period_us", root, group);
        period = strtoll(read_text(path, text, sizeof text), NULL, 10);
    }
    return quota > 0 && period > 0 ? (quota + period - 1) / period : 0;
}

/* The tightest quota from the group up to its root. In a container the path may be the host's: the root still counts. */
static int64_t path_quota(const char *root, const char *path, int version) {
    char group[PATH_ROOM];
    int64_t least = 0;
    snprintf(group, sizeof group, "%s", path);
    for (;;) {
        const int64_t quota = group_quota(root, strcmp(group, "/") ? group : "", version);
        if (quota && (!least || quota < least)) least = quota;
        char *slash = strrchr(group, '/');
        if (!slash) return least;
        *slash = 0;
    }
}

/* Whether a line of /proc/self/cgroup, "ID:CONTROLLERS:PATH", is the v1 hierarchy of the cpu controller. */
static int has_cpu_controller(const char *controllers, const char *end) {
    for (const char *at = controllers; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;
        if (stop - at == 3 && !memcmp(at, "cpu", 3)) return 1;
        at = stop + 1;
    }
    return 0;
}

static int64_t cgroup_count(void) {
    char text[4096];
    int64_t least = 0;
    read_text("/proc/self/cgroup", text, sizeof text);
    for (char *line = text; *line;) {
        char *end = line + strcspn(line, "\n"), *next = *end ? end + 1 : end;
        *end = 0;
        const char *controllers = strchr(line, ':');
        const char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        int64_t quota = 0;
        if (path && path == controllers + 1)
            quota = path_quota("/sys/fs/cgroup", path + 1, 2);
        else if (path && has_cpu_controller(controllers + 1, path))
            quota = path_quota("/sys/fs/cgroup/cpu", path + 1, 1);
        if (quota && (!least || quota < least)) least = quota;
        line = next;
    }
    return least;
}

static int32_t usable_cpus(void) {
    const int32_t affinity = affinity_count();
    const int64_t quota = cgroup_count();
    return quota && quota < affinity ? (int32_t)quota : affinity;
}
