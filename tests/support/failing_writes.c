/* Lets writes to files below one directory fail, seen from a program that was started with this library preloaded.
 *
 * FAILING_WRITES_BELOW names the directory, FAILING_WRITES_CONTROL a file of struct control that the test and the program share.
 * Each write and each sync of a regular file there is a position, counted from 1. Those from `first` on, `count` of them, fail as
 * `kind` says. What goes around the C library is not seen. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { REFUSED, HALF, HALF_THAT_STAYS };

struct control {
    _Atomic uint64_t position, first, count, kind;
};

static struct control *control;
static char below[PATH_MAX];

__attribute__((constructor)) static void set_up(void) {
    const char *directory = getenv("FAILING_WRITES_BELOW"), *shared = getenv("FAILING_WRITES_CONTROL");
    if (!directory || !shared || strlen(directory) + 2 > sizeof below)
        return;
    int fd = open(shared, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *place = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (place == MAP_FAILED)
        return;
    snprintf(below, sizeof below, "%s/", directory);
    control = place;
}

static int is_ours(int fd) {
    struct stat about;
    if (!control || fstat(fd, &about) || !S_ISREG(about.st_mode))
        return 0;
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path);
    return length > 0 && (size_t)length > strlen(below) && !strncmp(path, below, strlen(below));
}

static int is_within(uint64_t position) {
    uint64_t first = control->first;
    return first && position >= first && position < first + control->count;
}

/* Whether this call fails; it is a position of its own. */
static int fails(int fd) {
    int saved = errno, failing = is_ours(fd) && is_within(++control->position);
    errno = saved;
    return failing;
}

/* A disk that is full takes a part of what is written, says so, and refuses the rest, which the caller tries next. */
static _Thread_local int refuses_next = -1;

static ssize_t refuse(int error) {
    errno = error;
    return -1;
}

static ssize_t write_at(int fd, const void *bytes, size_t length, const off64_t *at) {
    if (refuses_next == fd) {
        refuses_next = -1;
        return refuse(ENOSPC);
    }
    if (fails(fd)) {
        if (control->kind == REFUSED)
            return refuse(EIO);
        if (length < 2)
            return refuse(ENOSPC);
        length /= 2;
        refuses_next = fd;
    }
    return at ? syscall(SYS_pwrite64, fd, bytes, length, *at) : syscall(SYS_write, fd, bytes, length);
}

ssize_t write(int fd, const void *bytes, size_t length) { return write_at(fd, bytes, length, NULL); }
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) { return write_at(fd, bytes, length, &at); }
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) { return pwrite64(fd, bytes, length, at); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (count > 0 && is_ours(fd))
        return write_at(fd, parts[0].iov_base, parts[0].iov_len, NULL);
    return syscall(SYS_writev, fd, parts, count);
}

static int sync_with(long number, int fd) { return fails(fd) ? (int)refuse(EIO) : (int)syscall(number, fd); }

int fdatasync(int fd) { return sync_with(SYS_fdatasync, fd); }
int fsync(int fd) { return sync_with(SYS_fsync, fd); }

/* Cutting is no position: it fails where the write before it did, if what was written is to stay. */
int ftruncate64(int fd, off64_t length) {
    if (is_ours(fd) && control->kind == HALF_THAT_STAYS && is_within(control->position))
        return (int)refuse(EIO);
    return (int)syscall(SYS_ftruncate, fd, length);
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }
