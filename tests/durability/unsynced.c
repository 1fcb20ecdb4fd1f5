/* Writes down what a process does to the files of one folder, and when it has them synced, so that a test can say what
 * a disk would hold after a power cut (disk.py reads it).
 *
 * Preload it with UNSYNCED_FOLDER, the real path of the folder, and UNSYNCED_LOGS, a folder for one log a process. All
 * calls are made as they are. What cannot be followed, such as a shared mapping, is written down as such.
 *
 * A record is a struct Head and `size` bytes. Its time orders the records of all processes: a write's is taken after
 * it, a sync has one before it and one after it, and covers what was written before the first.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct __attribute__((packed)) Head {
    char kind; /* Written, Zeros, Truncated, sync Begun, sync Ended, Created, Deleted, Renamed, X: not followed */
    uint64_t time_ns;
    uint64_t inode;
    int64_t number; /* offset, length, or what ties the beginning of a sync to its end */
    uint64_t count; /* bytes of Zeros */
    uint32_t size;
};

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_file = -1;
static pid_t log_owner;
static int64_t syncs;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void note(char kind, uint64_t time_ns, uint64_t inode, int64_t number, uint64_t count, const void *data, size_t size) {
    int saved = errno;
    struct Head head = {kind, time_ns, inode, number, count, (uint32_t)size};
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)data, size}};
    pthread_mutex_lock(&lock);
    if (log_owner != getpid()) { /* also after a fork */
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%d-%llu", getenv("UNSYNCED_LOGS"), getpid(), (unsigned long long)now_ns());
        log_file = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        log_owner = getpid();
    }
    if (syscall(SYS_writev, log_file, parts, 2) != (long)(sizeof head + size)) abort();
    pthread_mutex_unlock(&lock);
    errno = saved;
}

static const char *folder(void) { return getenv("UNSYNCED_LOGS") ? getenv("UNSYNCED_FOLDER") : NULL; }

/* The inode of a regular file of the folder, or of the folder itself; 0 for all else. */
static uint64_t inode_of(int fd) {
    int saved = errno;
    struct stat about;
    char link[64], path[PATH_MAX];
    uint64_t inode = 0;
    const char *in = folder();
    if (in && syscall(SYS_fstat, fd, &about) == 0 && (S_ISREG(about.st_mode) || S_ISDIR(about.st_mode))) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, path, sizeof path - 1);
        size_t prefix = strlen(in);
        if (length > 0) {
            path[length] = 0;
            if (strncmp(path, in, prefix) == 0 && (path[prefix] == '/' || path[prefix] == 0)) inode = about.st_ino;
        }
    }
    errno = saved;
    return inode;
}

/* The name within the folder that a path has, by the real path of its parent; NULL for all else. */
static const char *name_of(int at, const char *path, char *room) {
    int saved = errno;
    char whole[2 * PATH_MAX], parent[PATH_MAX], link[64];
    const char *in = folder(), *name = NULL;
    whole[0] = 0;
    if (in && path) {
        if (path[0] != '/' && at != AT_FDCWD) {
            snprintf(link, sizeof link, "/proc/self/fd/%d", at);
            ssize_t length = readlink(link, whole, PATH_MAX - 1);
            if (length > 0) whole[length] = 0, strcat(whole, "/");
        }
        strncat(whole, path, PATH_MAX - 1);
        char *last = strrchr(whole, '/');
        strncpy(room, last ? last + 1 : whole, NAME_MAX);
        room[NAME_MAX] = 0;
        if (last) *last = 0;
        if (realpath(last ? (whole[0] ? whole : "/") : ".", parent) && strcmp(parent, in) == 0) name = room;
    }
    errno = saved;
    return name;
}

static uint64_t inode_at(int at, const char *path) {
    int saved = errno;
    struct stat about;
    uint64_t inode = fstatat(at, path, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(about.st_mode) ? about.st_ino : 0;
    errno = saved;
    return inode;
}

static void wrote(uint64_t inode, const char *data, int64_t offset, size_t size) {
    if (size > 64 && data[0] == 0 && memcmp(data, data + 1, size - 1) == 0)
        note('Z', now_ns(), inode, offset, size, NULL, 0);
    else
        note('W', now_ns(), inode, offset, 0, data, size);
}

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    uint64_t inode = inode_of(fd);
    ssize_t done = real(fd, data, size);
    if (inode && done > 0) wrote(inode, data, (int64_t)lseek(fd, 0, SEEK_CUR) - done, (size_t)done);
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    REAL(pwrite);
    ssize_t done = real(fd, data, size, offset);
    uint64_t inode = done > 0 ? inode_of(fd) : 0;
    if (inode) wrote(inode, data, offset, (size_t)done);
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) { return pwrite(fd, data, size, offset); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    uint64_t inode = inode_of(fd);
    if (inode) note('X', now_ns(), inode, 0, 0, "writev", 6);
    return real(fd, parts, count);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    REAL(pwritev);
    uint64_t inode = inode_of(fd);
    if (inode) note('X', now_ns(), inode, 0, 0, "pwritev", 7);
    return real(fd, parts, count, offset);
}

ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t size, unsigned flags) {
    REAL(copy_file_range);
    uint64_t inode = inode_of(to);
    if (inode) note('X', now_ns(), inode, 0, 0, "copy_file_range", 15);
    return real(from, from_at, to, to_at, size, flags);
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
    uint64_t inode = fd >= 0 && (flags & MAP_SHARED) && (protection & PROT_WRITE) ? inode_of(fd) : 0;
    if (inode) note('X', now_ns(), inode, 0, 0, "mmap", 4);
    return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t size, int protection, int flags, int fd, off64_t offset) {
    return mmap(address, size, protection, flags, fd, offset);
}

int ftruncate(int fd, off_t length) {
    REAL(ftruncate);
    int failed = real(fd, length);
    uint64_t inode = failed ? 0 : inode_of(fd);
    if (inode) note('T', now_ns(), inode, length, 0, NULL, 0);
    return failed;
}

int ftruncate64(int fd, off64_t length) { return ftruncate(fd, length); }

int posix_fallocate(int fd, off_t offset, off_t length) {
    REAL(posix_fallocate);
    struct stat before;
    int64_t old = fstat(fd, &before) ? 0 : before.st_size;
    int failed = real(fd, offset, length);
    uint64_t inode = failed ? 0 : inode_of(fd);
    if (inode && offset + length > old) note('T', now_ns(), inode, offset + length, 0, NULL, 0);
    return failed;
}

int posix_fallocate64(int fd, off64_t offset, off64_t length) { return posix_fallocate(fd, offset, length); }

int fallocate(int fd, int mode, off_t offset, off_t length) {
    REAL(fallocate);
    uint64_t inode = inode_of(fd);
    if (inode) note('X', now_ns(), inode, 0, 0, "fallocate", 9);
    return real(fd, mode, offset, length);
}

static int synced(int fd, int (*real)(int)) {
    uint64_t inode = inode_of(fd);
    int64_t number = 0;
    if (inode) {
        number = ((int64_t)getpid() << 32) + __atomic_add_fetch(&syncs, 1, __ATOMIC_SEQ_CST);
        note('B', now_ns(), inode, number, 0, NULL, 0);
    }
    int failed = real(fd);
    if (inode && !failed) note('E', now_ns(), inode, number, 0, NULL, 0);
    return failed;
}

int fsync(int fd) {
    REAL(fsync);
    return synced(fd, real);
}

int fdatasync(int fd) {
    REAL(fdatasync);
    return synced(fd, real);
}

static int opened(int at, const char *path, int flags, mode_t mode) {
    char room[NAME_MAX + 1];
    const char *name = flags & (O_CREAT | O_TRUNC) ? name_of(at, path, room) : NULL;
    uint64_t before = name ? inode_at(at, path) : 0;
    int fd = (int)syscall(SYS_openat, at, path, flags, mode);
    if (fd >= 0 && name) {
        uint64_t inode = inode_at(at, path);
        if (inode && inode != before) note('C', now_ns(), inode, 0, 0, name, strlen(name));
        if (inode && (flags & O_TRUNC)) note('T', now_ns(), inode, 0, 0, NULL, 0);
    }
    return fd;
}

#define MODE(flags, last) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, last); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) { MODE(flags, flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, flags) return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags, flags) return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags, flags) return opened(at, path, flags | O_LARGEFILE, mode); }
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int unlinkat(int at, const char *path, int flags) {
    REAL(unlinkat);
    char room[NAME_MAX + 1];
    const char *name = name_of(at, path, room);
    uint64_t inode = name ? inode_at(at, path) : 0;
    int failed = real(at, path, flags);
    if (!failed && inode) note('D', now_ns(), inode, 0, 0, name, strlen(name));
    return failed;
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

int renameat(int from_at, const char *from, int to_at, const char *to) {
    REAL(renameat);
    char from_room[NAME_MAX + 1], to_room[NAME_MAX + 1], both[2 * NAME_MAX + 2];
    const char *from_name = name_of(from_at, from, from_room), *to_name = name_of(to_at, to, to_room);
    uint64_t inode = from_name || to_name ? inode_at(from_at, from) : 0;
    int failed = real(from_at, from, to_at, to);
    if (!failed && inode) {
        if (!from_name || !to_name)
            note('X', now_ns(), inode, 0, 0, "rename", 6);
        else
            note('R', now_ns(), inode, 0, 0, both, (size_t)snprintf(both, sizeof both, "%s/%s", from_name, to_name));
    }
    return failed;
}

int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

int link(const char *from, const char *to) {
    REAL(link);
    char room[NAME_MAX + 1];
    if (name_of(AT_FDCWD, to, room)) note('X', now_ns(), 0, 0, 0, "link", 4);
    return real(from, to);
}
