/* Makes calls of the C library that change files fail, or kills the process there: for LD_PRELOAD, in tests.

   Counts the calls that touch a path below a folder, of the kinds that it is told, as in "create write". From the first
   that is to fail on, so many return an error (0: all of them); error 0 is death by SIGKILL. A process is told by
   `fault_begin`, or by its environment: FAULT_UNDER, FAULT_CALLS, FAULT_AT, FAULT_FOR, FAULT_ERRNO. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#undef open
#undef open64
#undef openat
#undef openat64
#undef creat
#undef pwrite64
#undef ftruncate64
#undef posix_fallocate64
#undef fallocate64
#undef pwritev64

static char under[4096], calls[256];
static long at, span, number;
static int error, logged = -1;

#define REAL(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))

/* Called once in a process, before what is to be watched; `log` may be empty. */
void fault_begin(const char *path, const char *kinds, long first, long count, int number_of_error, const char *log) {
    snprintf(under, sizeof under, "%s", path), snprintf(calls, sizeof calls, "%s", kinds);
    at = first, span = count, error = number_of_error, number = 0;
    if (*log) logged = REAL(int, "open", const char *, int, ...)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULT_UNDER");
    if (path)
        fault_begin(path, getenv("FAULT_CALLS"), atol(getenv("FAULT_AT")), atol(getenv("FAULT_FOR")),
                    atoi(getenv("FAULT_ERRNO")), "");
}

/* Counts a call; returns whether it is to fail. */
static int fails(const char *kind, const char *path) {
    long mine;
    int saved = errno;
    if (!*under || !path || strncmp(path, under, strlen(under)) || !strstr(calls, kind)) return 0;
    mine = __atomic_add_fetch(&number, 1, __ATOMIC_SEQ_CST);
    if (logged >= 0) dprintf(logged, "%s %s\n", kind, path + strlen(under));
    errno = saved;
    if (!at || mine < at || (span && mine >= at + span)) return 0;
    if (!error) raise(SIGKILL);
    errno = error;
    return 1;
}

static int fails_fd(const char *kind, int fd) {
    char link[64], path[4096];
    ssize_t length;
    int saved = errno;
    if (!*under) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    errno = saved;
    if (length <= 0) return 0;
    path[length] = 0;
    return fails(kind, path);
}

static int fails_at(const char *kind, int folder, const char *name) {
    char link[64], path[8192];
    ssize_t length;
    if (name[0] == '/' || folder == AT_FDCWD) return fails(kind, name);
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    if ((length = readlink(link, path, 4000)) <= 0) return 0;
    snprintf(path + length, sizeof path - length, "/%s", name);
    return fails(kind, path);
}

/* Opening counts as `create` where the file would be made, else as `open` where it would be written. */
static const char *opening(const char *path, int flags) {
    struct stat found;
    if ((flags & O_CREAT) && lstat(path, &found)) return "create";
    return (flags & (O_WRONLY | O_RDWR | O_TRUNC)) ? "open" : NULL;
}

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                       \
        va_list more;                                                                                                  \
        int mode;                                                                                                      \
        const char *kind = opening(path, flags);                                                                       \
        va_start(more, flags), mode = va_arg(more, int), va_end(more);                                                 \
        return kind && fails(kind, path) ? -1 : REAL(int, #name, const char *, int, ...)(path, flags, mode);           \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                                                   \
    int name(int folder, const char *path, int flags, ...) {                                                           \
        va_list more;                                                                                                  \
        int mode;                                                                                                      \
        const char *kind = path[0] == '/' || folder == AT_FDCWD ? opening(path, flags) : NULL;                         \
        va_start(more, flags), mode = va_arg(more, int), va_end(more);                                                 \
        return kind && fails(kind, path) ? -1                                                                          \
                                         : REAL(int, #name, int, const char *, int, ...)(folder, path, flags, mode);   \
    }
OPENAT(openat)
OPENAT(openat64)

#define BY_FD(type, name, kind, parameters, arguments, failed)                                                         \
    type name parameters { return fails_fd(kind, fd) ? failed : ((type(*) parameters)dlsym(RTLD_NEXT, #name))arguments; }
BY_FD(ssize_t, write, "write", (int fd, const void *data, size_t size), (fd, data, size), -1)
BY_FD(ssize_t, pwrite, "write", (int fd, const void *data, size_t size, off_t place), (fd, data, size, place), -1)
BY_FD(ssize_t, pwrite64, "write", (int fd, const void *data, size_t size, off64_t place), (fd, data, size, place), -1)
BY_FD(ssize_t, writev, "write", (int fd, const struct iovec *data, int count), (fd, data, count), -1)
BY_FD(ssize_t, pwritev, "write", (int fd, const struct iovec *data, int count, off_t place), (fd, data, count, place), -1)
BY_FD(int, fsync, "sync", (int fd), (fd), -1)
BY_FD(int, fdatasync, "sync", (int fd), (fd), -1)
BY_FD(int, ftruncate, "write", (int fd, off_t size), (fd, size), -1)
BY_FD(int, ftruncate64, "write", (int fd, off64_t size), (fd, size), -1)
BY_FD(int, posix_fallocate, "write", (int fd, off_t place, off_t size), (fd, place, size), errno)
BY_FD(int, fallocate, "write", (int fd, int mode, off_t place, off_t size), (fd, mode, place, size), -1)

#define BY_PATH(name, kind, path, parameters, arguments)                                                               \
    int name parameters { return fails(kind, path) ? -1 : ((int(*) parameters)dlsym(RTLD_NEXT, #name))arguments; }
BY_PATH(rename, "rename", to, (const char *from, const char *to), (from, to))
BY_PATH(link, "rename", to, (const char *from, const char *to), (from, to))
BY_PATH(unlink, "remove", path, (const char *path), (path))
BY_PATH(rmdir, "remove", path, (const char *path), (path))
BY_PATH(mkdir, "mkdir", path, (const char *path, mode_t mode), (path, mode))

int renameat(int one, const char *from, int other, const char *to) {
    return fails_at("rename", other, to) ? -1 : REAL(int, "renameat", int, const char *, int, const char *)(one, from, other, to);
}
int renameat2(int one, const char *from, int other, const char *to, unsigned flags) {
    return fails_at("rename", other, to) ? -1 : REAL(int, "renameat2", int, const char *, int, const char *, unsigned)(one, from, other, to, flags);
}
int linkat(int one, const char *from, int other, const char *to, int flags) {
    return fails_at("rename", other, to) ? -1 : REAL(int, "linkat", int, const char *, int, const char *, int)(one, from, other, to, flags);
}
int unlinkat(int folder, const char *path, int flags) {
    return fails_at("remove", folder, path) ? -1 : REAL(int, "unlinkat", int, const char *, int)(folder, path, flags);
}
int mkdirat(int folder, const char *path, mode_t mode) {
    return fails_at("mkdir", folder, path) ? -1 : REAL(int, "mkdirat", int, const char *, mode_t)(folder, path, mode);
}
