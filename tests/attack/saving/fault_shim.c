/* Fails, cuts short or kills at the n-th call of one kind: preloaded into the process that saves.

   shim_arm(kind, n, error, action, after) chooses the call; shim_calls() is how many of that kind were made since, and
   shim_hits() how many of them were disturbed. Calls on other things than regular files and folders do not count. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <dirent.h>
#include <unistd.h>

enum { OPEN, WRITE, SYNC, RENAME, UNLINK, CHMOD, LOCK, DUP, SPACE, LIST, KINDS };
enum { FAIL, SHORT, KILL };

static int armed = -1, at, error, action, after, calls, hits;

void shim_arm(int kind, int n, int code, int what, int later) {
    at = n, error = code, action = what, after = later, calls = 0, hits = 0;
    __atomic_store_n(&armed, kind, __ATOMIC_SEQ_CST);
}
void shim_disarm(void) { __atomic_store_n(&armed, -1, __ATOMIC_SEQ_CST); }
int shim_calls(void) { return calls; }
int shim_hits(void) { return hits; }

/* 1 if this call is the one to disturb. */
static int chosen(int kind) {
    if (__atomic_load_n(&armed, __ATOMIC_SEQ_CST) != kind) return 0;
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) != at) return 0;
    __atomic_add_fetch(&hits, 1, __ATOMIC_SEQ_CST);
    return 1;
}
static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}
static int counts(int fd) {
    struct stat found;
    int before = errno, good = fstat(fd, &found) == 0 && (S_ISREG(found.st_mode) || S_ISDIR(found.st_mode));
    errno = before;
    return good;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
/* The call itself, before or after which the fault occurs. */
#define FAULTED(kind, failure, call)                        \
    do {                                                    \
        if (chosen(kind)) {                                 \
            if (after) (void)!(call);                       \
            if (action == KILL) die();                      \
            errno = error;                                  \
            return failure;                                 \
        }                                                   \
        return call;                                        \
    } while (0)

static int faulted_open(int folder, const char *path, int flags, mode_t mode) {
    static int (*next)(int, const char *, int, ...);
    if (!next) next = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat64");
    if (chosen(OPEN)) {
        if (after) {
            int made = next(folder, path, flags, mode);
            if (made >= 0) close(made);
        }
        if (action == KILL) die();
        errno = error;
        return -1;
    }
    return next(folder, path, flags, mode);
}
#define MODE(last)                                          \
    mode_t mode = 0;                                        \
    if (flags & (O_CREAT | O_TMPFILE)) {                    \
        va_list rest;                                       \
        va_start(rest, last);                               \
        mode = va_arg(rest, mode_t);                        \
        va_end(rest);                                       \
    }
int open(const char *path, int flags, ...) { MODE(flags) return faulted_open(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return faulted_open(AT_FDCWD, path, flags, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE(flags) return faulted_open(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE(flags) return faulted_open(folder, path, flags, mode); }

ssize_t write(int fd, const void *data, size_t size) {
    static ssize_t (*next)(int, const void *, size_t);
    if (!next) next = NEXT(write);
    if (__atomic_load_n(&armed, __ATOMIC_SEQ_CST) == WRITE && counts(fd) && chosen(WRITE)) {
        if (action == SHORT) return next(fd, data, size > 1 ? size / 2 : size);
        if (after) (void)!next(fd, data, size / 2);
        if (action == KILL) die();
        errno = error;
        return -1;
    }
    return next(fd, data, size);
}
int fsync(int fd) {
    static int (*next)(int);
    if (!next) next = NEXT(fsync);
    FAULTED(SYNC, -1, next(fd));
}
int rename(const char *from, const char *to) {
    static int (*next)(const char *, const char *);
    if (!next) next = NEXT(rename);
    FAULTED(RENAME, -1, next(from, to));
}
int unlink(const char *path) {
    static int (*next)(const char *);
    if (!next) next = NEXT(unlink);
    FAULTED(UNLINK, -1, next(path));
}
int chmod(const char *path, mode_t mode) {
    static int (*next)(const char *, mode_t);
    if (!next) next = NEXT(chmod);
    FAULTED(CHMOD, -1, next(path, mode));
}
int flock(int fd, int operation) {
    static int (*next)(int, int);
    if (!next) next = NEXT(flock);
    FAULTED(LOCK, -1, next(fd, operation));
}
static int faulted_fcntl(int fd, int command, void *argument) {
    static int (*next)(int, int, ...);
    if (!next) next = (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl64");
    if (!next) next = (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl");
    if (command == F_DUPFD_CLOEXEC && chosen(DUP)) {
        if (action == KILL) die();
        errno = error;
        return -1;
    }
    return next(fd, command, argument);
}
#define ARGUMENT                                            \
    va_list rest;                                           \
    va_start(rest, command);                                \
    void *argument = va_arg(rest, void *);                  \
    va_end(rest);
int fcntl(int fd, int command, ...) { ARGUMENT return faulted_fcntl(fd, command, argument); }
int fcntl64(int fd, int command, ...) { ARGUMENT return faulted_fcntl(fd, command, argument); }

int statvfs64(const char *path, struct statvfs64 *found) {
    static int (*next)(const char *, struct statvfs64 *);
    if (!next) next = NEXT(statvfs64);
    FAULTED(SPACE, -1, next(path, found));
}
int statvfs(const char *path, struct statvfs *found) {
    static int (*next)(const char *, struct statvfs *);
    if (!next) next = NEXT(statvfs);
    FAULTED(SPACE, -1, next(path, found));
}
DIR *opendir(const char *path) {
    static DIR *(*next)(const char *);
    if (!next) next = NEXT(opendir);
    FAULTED(LIST, NULL, next(path));
}
