/*! Writes to what may only be read: each way to change a file or directory, by each way to name it. */
#include "attempts.h"
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <utime.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#define SYS_SETXATTRAT 463

/* Ways to name the directory of an attempt. */
enum spelling {
    PLAIN, DOTS, OLD_LINK, NEW_LINK, SELF_ROOT, SELF_CWD, THREAD_ROOT, TASK_CWD, PARENT_ROOT, INIT_ROOT, HOST_ROOT,
    HOST_CWD, HELD, DEV_HELD, SPELLINGS
};
static const char *const spelled[SPELLINGS] = {
    "plain", "dots", "old-link", "new-link", "self-root", "self-cwd", "thread-root", "task-cwd", "parent-root",
    "init-root", "host-root", "host-cwd", "held", "dev-held",
};

static char *place(const struct attempt *a) {
    char *plain = text("%s/outside/%s", base, a->name), *link;
    switch ((enum spelling)a->n) {
    case DOTS: return text("../outside/%s", a->name);
    case OLD_LINK: return text("link-out/%s", a->name);
    case NEW_LINK: return symlink(plain, link = text("link-%s", a->name)), link;
    case SELF_ROOT: return text("/proc/self/root%s", plain);
    case SELF_CWD: return text("/proc/self/cwd/../outside/%s", a->name);
    case THREAD_ROOT: return text("/proc/thread-self/root%s", plain);
    case TASK_CWD: return text("/proc/self/task/%d/cwd/../outside/%s", getpid(), a->name);
    case PARENT_ROOT: return text("/proc/%d/root%s", getppid(), plain);
    case INIT_ROOT: return text("/proc/1/root%s", plain);
    case HOST_ROOT: return text("/proc/%ld/root%s", outside_number("pid"), plain);
    case HOST_CWD: return text("/proc/%ld/cwd/outside/%s", outside_number("pid"), a->name);
    case HELD: return text("/proc/self/fd/%d", open(plain, O_PATH | O_DIRECTORY));
    case DEV_HELD: return text("/dev/fd/%d", open(plain, O_RDONLY | O_DIRECTORY));
    default: return plain;
    }
}

static char *in(const struct attempt *a, const char *leaf) { return text("%s/%s", place(a), leaf); }

/* A file of the workspace, where that can be written. */
static char *mine(const struct attempt *a) {
    char *path = text("mine-%s", a->name);
    int file = open(path, O_CREAT | O_WRONLY, 0644);
    if (file >= 0) close(file);
    return path;
}

static long put(int file) {
    if (file < 0) return -1;
    long done = write(file, "changed", 7);
    return close(file), done;
}

static long by_openat2(const struct attempt *a, const char *leaf, uint64_t flags, uint64_t resolve) {
    struct open_how how = {.flags = flags, .mode = flags & O_CREAT ? 0644 : 0, .resolve = resolve};
    return put(syscall(SYS_openat2, AT_FDCWD, in(a, leaf), &how, sizeof how));
}

/* Each of these makes one change to `file`, `inner` or the directory itself. */
static long open_write(const struct attempt *a) { return put(open(in(a, "file"), O_WRONLY)); }
static long open_both(const struct attempt *a) { return put(open(in(a, "file"), O_RDWR)); }
static long open_append(const struct attempt *a) { return put(open(in(a, "file"), O_WRONLY | O_APPEND)); }
static long open_truncate(const struct attempt *a) { return open(in(a, "file"), O_WRONLY | O_TRUNC); }
static long read_truncate(const struct attempt *a) { return open(in(a, "file"), O_RDONLY | O_TRUNC); }
static long open_create(const struct attempt *a) { return put(open(in(a, "new"), O_WRONLY | O_CREAT | O_EXCL, 0644)); }
static long open_read_create(const struct attempt *a) { return open(in(a, "new"), O_RDONLY | O_CREAT, 0644); }
static long by_creat(const struct attempt *a) { return put(creat(in(a, "new"), 0644)); }
static long openat2_write(const struct attempt *a) { return by_openat2(a, "file", O_WRONLY, 0); }
static long openat2_create(const struct attempt *a) { return by_openat2(a, "new", O_WRONLY | O_CREAT, 0); }
static long by_openat(const struct attempt *a) {
    return put(openat(open(place(a), O_RDONLY | O_DIRECTORY), "new", O_WRONLY | O_CREAT, 0644));
}
static long by_openat_path(const struct attempt *a) {
    return put(openat(open(place(a), O_PATH), "file", O_WRONLY | O_NOFOLLOW));
}
static long temporary(const struct attempt *a) {
    int file = open(place(a), O_TMPFILE | O_WRONLY, 0644);
    if (file < 0) return -1;
    return linkat(AT_FDCWD, text("/proc/self/fd/%d", file), AT_FDCWD, in(a, "new"), AT_SYMLINK_FOLLOW);
}
static long by_truncate(const struct attempt *a) { return truncate(in(a, "file"), 1); }
static long rename_within(const struct attempt *a) { return rename(in(a, "file"), in(a, "moved")); }
static long rename_directory(const struct attempt *a) { return rename(in(a, "inner"), in(a, "moved")); }
static long rename_in(const struct attempt *a) { return rename(mine(a), in(a, "new")); }
static long rename_over(const struct attempt *a) { return rename(mine(a), in(a, "file")); }
static long rename_out(const struct attempt *a) { return rename(in(a, "file"), text("stolen-%s", a->name)); }
static long exchange(const struct attempt *a) {
    return syscall(SYS_renameat2, AT_FDCWD, mine(a), AT_FDCWD, in(a, "file"), 2);
}
static long no_replace(const struct attempt *a) {
    return syscall(SYS_renameat2, AT_FDCWD, in(a, "file"), AT_FDCWD, in(a, "moved"), 1);
}
static long whiteout(const struct attempt *a) {
    return syscall(SYS_renameat2, AT_FDCWD, in(a, "file"), AT_FDCWD, in(a, "moved"), 4);
}
static long link_in(const struct attempt *a) {
    char *to = text("linked-%s", a->name);
    return link(in(a, "file"), to) < 0 ? -1 : put(open(to, O_WRONLY));
}
static long link_out(const struct attempt *a) { return link(mine(a), in(a, "new")); }
static long link_descriptor(const struct attempt *a) {
    int file = open(in(a, "file"), O_PATH);
    return linkat(AT_FDCWD, text("/proc/self/fd/%d", file), AT_FDCWD, in(a, "new"), AT_SYMLINK_FOLLOW);
}
static long by_symlink(const struct attempt *a) { return symlink("anywhere", in(a, "new")); }
static long by_unlink(const struct attempt *a) { return unlink(in(a, "file")); }
static long by_unlinkat(const struct attempt *a) { return unlinkat(AT_FDCWD, in(a, "inner"), AT_REMOVEDIR); }
static long by_rmdir(const struct attempt *a) { return rmdir(in(a, "inner")); }
static long by_mkdir(const struct attempt *a) { return mkdir(in(a, "new"), 0755); }
static long by_mkdirat(const struct attempt *a) {
    return mkdirat(open(place(a), O_RDONLY | O_DIRECTORY), "new", 0755);
}
static long make_pipe(const struct attempt *a) { return mknod(in(a, "new"), S_IFIFO | 0644, 0); }
static long make_socket(const struct attempt *a) { return mknod(in(a, "new"), S_IFSOCK | 0644, 0); }
static long make_character(const struct attempt *a) { return mknod(in(a, "new"), S_IFCHR | 0644, makedev(1, 3)); }
static long by_chmod(const struct attempt *a) { return chmod(in(a, "file"), 0777); }
static long chmod_directory(const struct attempt *a) { return chmod(in(a, "inner"), 0777); }
static long set_user_id(const struct attempt *a) { return chmod(in(a, "file"), 06755); }
static long by_fchmod(const struct attempt *a) { return fchmod(open(in(a, "file"), O_RDONLY), 0777); }
static long by_fchmodat2(const struct attempt *a) {
    return syscall(SYS_fchmodat2, AT_FDCWD, in(a, "file"), 0777, AT_SYMLINK_NOFOLLOW);
}
static long chmod_descriptor(const struct attempt *a) {
    return chmod(text("/proc/self/fd/%d", open(in(a, "file"), O_PATH)), 0777);
}
static long by_chown(const struct attempt *a) { return chown(in(a, "file"), getuid(), getgid()); }
static long by_lchown(const struct attempt *a) { return lchown(in(a, "file"), getuid(), getgid()); }
static long by_fchown(const struct attempt *a) { return fchown(open(in(a, "file"), O_RDONLY), getuid(), getgid()); }
static long by_fchownat(const struct attempt *a) {
    return fchownat(open(in(a, "file"), O_PATH), "", getuid(), getgid(), AT_EMPTY_PATH);
}
static long by_utime(const struct attempt *a) { return utime(in(a, "file"), &(struct utimbuf){1, 1}); }
static long by_utimes(const struct attempt *a) { return utimes(in(a, "file"), (struct timeval[2]){{1, 0}, {1, 0}}); }
static long by_utimensat(const struct attempt *a) { return utimensat(AT_FDCWD, in(a, "file"), NULL, 0); }
static long by_futimens(const struct attempt *a) { return futimens(open(in(a, "file"), O_RDONLY), NULL); }
static long by_futimesat(const struct attempt *a) { return futimesat(AT_FDCWD, in(a, "file"), NULL); }
static long by_setxattr(const struct attempt *a) { return setxattr(in(a, "file"), "user.a", "x", 1, 0); }
static long by_lsetxattr(const struct attempt *a) { return lsetxattr(in(a, "inner"), "user.a", "x", 1, 0); }
static long by_fsetxattr(const struct attempt *a) {
    return fsetxattr(open(in(a, "file"), O_RDONLY), "user.a", "x", 1, 0);
}
static long by_setxattrat(const struct attempt *a) {
    struct { uint64_t value; uint32_t size, flags; } how = {(uintptr_t)"x", 1, 0};
    return syscall(SYS_SETXATTRAT, AT_FDCWD, in(a, "file"), 0, "user.a", &how, sizeof how);
}
static long set_flags(const struct attempt *a) {
    int file = open(in(a, "file"), O_RDONLY);
    long flags = 0;
    if (ioctl(file, FS_IOC_GETFLAGS, &flags) < 0) return -1;
    flags |= FS_NODUMP_FL;
    return ioctl(file, FS_IOC_SETFLAGS, &flags);
}
static long set_attributes(const struct attempt *a) {
    int file = open(in(a, "file"), O_RDONLY);
    struct fsxattr flags = {0};
    if (ioctl(file, FS_IOC_FSGETXATTR, &flags) < 0) return -1;
    flags.fsx_xflags |= FS_XFLAG_NODUMP;
    return ioctl(file, FS_IOC_FSSETXATTR, &flags);
}
/* What was opened for nothing, or for reading, is opened anew for writing. */
static int anew(const struct attempt *a, int flags) {
    return open(text("/proc/self/fd/%d", open(in(a, "file"), flags)), O_RDWR);
}
static long reopen_path(const struct attempt *a) { return put(anew(a, O_PATH)); }
static long reopen_read(const struct attempt *a) { return put(anew(a, O_RDONLY)); }
static long by_mapping(const struct attempt *a) {
    char *memory = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, anew(a, O_RDONLY), 0);
    if (memory == MAP_FAILED) return errno == EBADF ? (errno = EACCES, -1) : -1;
    memcpy(memory, "changed", 7);
    return msync(memory, 8, MS_SYNC);
}
static long by_fallocate(const struct attempt *a) {
    int file = anew(a, O_PATH);
    return file < 0 ? -1 : fallocate(file, 0, 0, 9999);
}
static long by_sendfile(const struct attempt *a) {
    int file = anew(a, O_PATH);
    return file < 0 ? -1 : sendfile(file, open("/proc/self/exe", O_RDONLY), NULL, 16);
}
static long by_copy(const struct attempt *a) {
    int file = open(in(a, "file"), O_RDWR);
    if (file < 0) return -1;
    long done = copy_file_range(open(text("%s/bin/attempts", base), O_RDONLY), NULL, file, NULL, 16, 0);
    return done;
}
static long by_splice(const struct attempt *a) {
    int ends[2], file = anew(a, O_PATH);
    if (file < 0 || pipe(ends) < 0 || write(ends[1], "changed", 7) < 0) return -1;
    return splice(ends[0], NULL, file, NULL, 7, 0);
}
static long by_socket(const struct attempt *a) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (chdir(place(a)) < 0) return -1;
    strcpy(address.sun_path, "new");
    int made = socket(AF_UNIX, SOCK_STREAM, 0);
    return made < 0 ? -1 : bind(made, (void *)&address, sizeof address);
}
/* A ring of one entry has the kernel make a directory, in a way that no filter of calls sees. */
static long by_ring(const struct attempt *a) {
    struct io_uring_params p = {0};
    int ring = syscall(SYS_io_uring_setup, 1, &p);
    if (ring < 0) return -1;
    size_t size = p.sq_off.array + p.sq_entries * sizeof(unsigned);
    char *queue = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entry =
        mmap(NULL, sizeof *entry, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    if (queue == MAP_FAILED || entry == MAP_FAILED) return -1;
    memset(entry, 0, sizeof *entry);
    entry->opcode = IORING_OP_MKDIRAT, entry->fd = AT_FDCWD, entry->len = 0755;
    entry->addr = (uintptr_t)in(a, "new");
    *(unsigned *)(queue + p.sq_off.array) = 0;
    __atomic_store_n((unsigned *)(queue + p.sq_off.tail), 1, __ATOMIC_RELEASE);
    return syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
}

static const struct way {
    const char *name;
    long (*run)(const struct attempt *);
    enum control control;
} ways[] = {
    {"open-write", open_write, EVERYBODY}, {"open-both", open_both, EVERYBODY},
    {"open-append", open_append, EVERYBODY}, {"open-truncate", open_truncate, EVERYBODY},
    {"read-truncate", read_truncate, EVERYBODY}, {"open-create", open_create, EVERYBODY},
    {"open-read-create", open_read_create, EVERYBODY}, {"creat", by_creat, EVERYBODY},
    {"openat2-write", openat2_write, EVERYBODY}, {"openat2-create", openat2_create, EVERYBODY},
    {"openat", by_openat, EVERYBODY}, {"openat-path", by_openat_path, EVERYBODY},
    {"tmpfile", temporary, EVERYBODY}, {"truncate", by_truncate, EVERYBODY},
    {"rename-within", rename_within, EVERYBODY}, {"rename-directory", rename_directory, EVERYBODY},
    {"rename-in", rename_in, EVERYBODY}, {"rename-over", rename_over, EVERYBODY},
    {"rename-out", rename_out, EVERYBODY}, {"exchange", exchange, EVERYBODY},
    {"no-replace", no_replace, EVERYBODY}, {"whiteout", whiteout, ROOT}, {"link-in", link_in, EVERYBODY},
    {"link-out", link_out, EVERYBODY}, {"link-descriptor", link_descriptor, EVERYBODY},
    {"symlink", by_symlink, EVERYBODY}, {"unlink", by_unlink, EVERYBODY}, {"unlinkat", by_unlinkat, EVERYBODY},
    {"rmdir", by_rmdir, EVERYBODY}, {"mkdir", by_mkdir, EVERYBODY}, {"mkdirat", by_mkdirat, EVERYBODY},
    {"mkfifo", make_pipe, EVERYBODY}, {"mksocket", make_socket, EVERYBODY}, {"mkchar", make_character, ROOT},
    {"chmod", by_chmod, EVERYBODY}, {"chmod-directory", chmod_directory, EVERYBODY},
    {"set-user-id", set_user_id, EVERYBODY}, {"fchmod", by_fchmod, EVERYBODY},
    {"fchmodat2", by_fchmodat2, EVERYBODY}, {"chmod-descriptor", chmod_descriptor, EVERYBODY},
    {"chown", by_chown, EVERYBODY}, {"lchown", by_lchown, EVERYBODY}, {"fchown", by_fchown, EVERYBODY},
    {"fchownat", by_fchownat, EVERYBODY}, {"utime", by_utime, EVERYBODY}, {"utimes", by_utimes, EVERYBODY},
    {"utimensat", by_utimensat, EVERYBODY}, {"futimens", by_futimens, EVERYBODY},
    {"futimesat", by_futimesat, EVERYBODY}, {"setxattr", by_setxattr, EVERYBODY},
    {"lsetxattr", by_lsetxattr, EVERYBODY}, {"fsetxattr", by_fsetxattr, EVERYBODY},
    {"setxattrat", by_setxattrat, NOBODY}, {"set-flags", set_flags, EVERYBODY},
    {"set-attributes", set_attributes, EVERYBODY}, {"reopen-path", reopen_path, EVERYBODY},
    {"reopen-read", reopen_read, EVERYBODY}, {"mmap", by_mapping, EVERYBODY},
    {"fallocate", by_fallocate, EVERYBODY}, {"sendfile", by_sendfile, EVERYBODY},
    {"copy-file-range", by_copy, EVERYBODY}, {"splice", by_splice, EVERYBODY}, {"bind", by_socket, EVERYBODY},
    {"io-uring", by_ring, EVERYBODY},
};

static long create_in(const struct attempt *a) {
    int file = open(text("%s/openoxide-attempt-%d", a->text, getpid()), O_WRONLY | O_CREAT, 0600);
    return file;
}

void add_files(void) {
    for (int s = 0; s < SPELLINGS; s++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            /* The first process of a machine may hold more rights than even root. */
            enum control control = s == INIT_ROOT ? NOBODY : ways[i].control;
            add("files", CANARY, control, ways[i].run, "%s-%s", ways[i].name, spelled[s])->n = s;
        }
    static const char *const places[] = {
        "/", "/bin", "/boot", "/dev/pts", "/etc", "/etc/cron.d", "/etc/profile.d", "/home", "/lib", "/mnt", "/opt", "/proc",
        "/proc/1", "/proc/sys/kernel", "/root", "/run", "/run/lock", "/sbin", "/srv", "/sys", "/sys/fs/cgroup", "/usr",
        "/usr/bin", "/usr/lib", "/usr/local/bin", "/var", "/var/lib", "/var/log", "/var/run", "/var/spool", "/var/tmp",
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct attempt *a = add("answers", ANSWER, NOBODY, create_in, "create-in-%s", places[i]);
        a->text = places[i], a->refusal = ENOENT;
    }
}
