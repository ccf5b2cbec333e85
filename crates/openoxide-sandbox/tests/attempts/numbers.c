/*! The calls by their other numbers: those of 32-bit programs (`int 0x80`) and those of x32, which a filter that looks at
 *  one table only lets through. On other processors there are none. */
#include "attempts.h"
#include <sys/mman.h>
#include <sys/wait.h>

#ifdef __x86_64__

/* A call by the 32-bit entry: the number and three arguments, addresses below 4 GiB. */
static long legacy(long number, long first, long second, long third) {
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(first), "c"(second), "d"(third), "S"(0L), "D"(0L)
                     : "r8", "r9", "r10", "r11", "memory");
    if (result < 0 && result > -4096) return errno = (int)-result, -1;
    return result;
}

/* A text where 32 bits reach it. */
static long low(const char *words) {
    char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (memory == MAP_FAILED) abort();
    return (long)(uintptr_t)strcpy(memory, words);
}

static char *canary(const struct attempt *a, const char *leaf) {
    return text("%s/outside/%s/%s", base, a->name, leaf);
}

static const struct { const char *name; long legacy, wide; } numbers[] = {
    {"socket", 359, 41}, {"socketpair", 360, 53}, {"mount", 21, 165}, {"umount2", 52, 166}, {"chroot", 61, 161},
    {"pivot_root", 217, 155}, {"ptrace", 26, 521}, {"unshare", 310, 272}, {"setns", 346, 308},
    {"io_uring_setup", 425, 425}, {"bpf", 357, 321}, {"keyctl", 288, 250}, {"add_key", 286, 248},
    {"open_by_handle_at", 342, 304}, {"name_to_handle_at", 341, 303}, {"perf_event_open", 336, 298},
    {"userfaultfd", 374, 323}, {"process_vm_readv", 347, 539}, {"process_vm_writev", 348, 540},
    {"init_module", 128, 175}, {"delete_module", 129, 176}, {"sethostname", 74, 170}, {"quotactl", 131, 179},
    {"swapon", 87, 167}, {"acct", 51, 163}, {"reboot", 88, 169}, {"kexec_load", 283, 528}, {"syslog", 103, 103},
    {"fsopen", 430, 430}, {"move_mount", 429, 429}, {"open_tree", 428, 428}, {"mount_setattr", 442, 442},
    {"clone3", 435, 435}, {"pidfd_getfd", 438, 438}, {"pidfd_open", 434, 434}, {"fanotify_init", 338, 300},
    {"ioperm", 101, 173}, {"iopl", 110, 172}, {"kcmp", 349, 312}, {"getpid", 20, 39},
};

static long by_legacy(const struct attempt *a) {
    /* A user namespace, a Unix socket, or nothing that exists. */
    long first = a->n == 310 ? 0x10000000 : a->n == 359 ? 1 : -1;
    return legacy(a->n, first, a->n == 359 ? 1 : 0, 0);
}
static long by_wide(const struct attempt *a) { return syscall(0x40000000 | a->n, 1, 1, 0, 0, 0); }

static long legacy_open(const struct attempt *a) { return legacy(5, low(canary(a, "new")), O_CREAT | O_WRONLY, 0644); }
static long legacy_creat(const struct attempt *a) { return legacy(8, low(canary(a, "new")), 0644, 0); }
static long legacy_unlink(const struct attempt *a) { return legacy(10, low(canary(a, "file")), 0, 0); }
static long legacy_chmod(const struct attempt *a) { return legacy(15, low(canary(a, "file")), 0777, 0); }
static long legacy_rename(const struct attempt *a) {
    return legacy(38, low(canary(a, "file")), low(canary(a, "moved")), 0);
}
static long legacy_mkdir(const struct attempt *a) { return legacy(39, low(canary(a, "new")), 0755, 0); }
static long legacy_rmdir(const struct attempt *a) { return legacy(40, low(canary(a, "inner")), 0, 0); }
static long legacy_truncate(const struct attempt *a) { return legacy(92, low(canary(a, "file")), 1, 0); }
static long legacy_symlink(const struct attempt *a) { return legacy(83, low("x"), low(canary(a, "new")), 0); }
static long legacy_mknod(const struct attempt *a) { return legacy(14, low(canary(a, "new")), S_IFIFO | 0644, 0); }
static long legacy_utime(const struct attempt *a) { return legacy(30, low(canary(a, "file")), 0, 0); }
static long wide_open(const struct attempt *a) {
    return syscall(0x40000000 | SYS_open, canary(a, "new"), O_CREAT | O_WRONLY, 0644);
}
static long wide_unlink(const struct attempt *a) { return syscall(0x40000000 | SYS_unlink, canary(a, "file")); }
static long wide_mkdir(const struct attempt *a) { return syscall(0x40000000 | SYS_mkdir, canary(a, "new"), 0755); }

void add_numbers(void) {
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        /* Kernels without these tables answer ENOSYS to everybody. */
        add("answers", ANSWER, NOBODY, by_legacy, "legacy-%s", numbers[i].name)->n = numbers[i].legacy;
        add("answers", ANSWER, NOBODY, by_wide, "x32-%s", numbers[i].name)->n = numbers[i].wide;
    }
    static const struct { const char *name; long (*run)(const struct attempt *); } writes[] = {
        {"legacy-write-open", legacy_open}, {"legacy-write-creat", legacy_creat}, {"legacy-write-unlink", legacy_unlink},
        {"legacy-write-chmod", legacy_chmod}, {"legacy-write-rename", legacy_rename}, {"legacy-write-mkdir", legacy_mkdir},
        {"legacy-write-rmdir", legacy_rmdir}, {"legacy-write-truncate", legacy_truncate},
        {"legacy-write-symlink", legacy_symlink}, {"legacy-write-mknod", legacy_mknod}, {"legacy-write-utime", legacy_utime},
        {"x32-write-open", wide_open}, {"x32-write-unlink", wide_unlink}, {"x32-write-mkdir", wide_mkdir},
    };
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++)
        add("writes", CANARY, NOBODY, writes[i].run, "%s", writes[i].name);
}

#else
void add_numbers(void) {}
#endif
