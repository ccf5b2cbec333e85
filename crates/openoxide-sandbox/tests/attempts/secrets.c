/*! Reads of hidden credentials: each way to read a file, by each way to name it. */
#include "attempts.h"
#include <dirent.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

enum spelling { PLAIN, DOTS, LINK, SELF_ROOT, SELF_CWD, HOST_ROOT, HOST_CWD, HELD, INNER_DOTS, SPELLINGS };
static const char *const spelled[SPELLINGS] = {
    "plain", "dots", "link", "self-root", "self-cwd", "host-root", "host-cwd", "held", "inner-dots",
};

/* The path of the attempt's own secret, or of the directory in which it lies. */
static char *place(const struct attempt *a) {
    char *plain = text("%s/%s", base, a->text), *link, *slash;
    switch ((enum spelling)a->n) {
    case DOTS: return text("../%s", a->text);
    case LINK: return symlink(plain, link = text("./link-%s", a->name)), link;
    case SELF_ROOT: return text("/proc/self/root%s", plain);
    case SELF_CWD: return text("/proc/self/cwd/../%s", a->text);
    case HOST_ROOT: return text("/proc/%ld/root%s", outside_number("pid"), plain);
    case HOST_CWD: return text("/proc/%ld/cwd/%s", outside_number("pid"), a->text);
    case HELD:
        slash = strrchr(plain, '/');
        *slash = 0;
        return text("/proc/self/fd/%d/%s", open(plain, O_PATH | O_DIRECTORY), slash + 1);
    case INNER_DOTS: return text("%s/home/./../home//%s", base, strchr(a->text, '/') + 1);
    default: return plain;
    }
}

static long show(const struct attempt *a, int file) {
    char room[256] = {0};
    return file < 0 ? -1 : tell(a, room, read(file, room, sizeof room - 1));
}

static long by_open(const struct attempt *a) { return show(a, open(place(a), O_RDONLY)); }
static long by_openat2(const struct attempt *a) {
    struct open_how how = {.flags = O_RDONLY};
    return show(a, syscall(SYS_openat2, AT_FDCWD, place(a), &how, sizeof how));
}
static long by_reopen(const struct attempt *a) {
    return show(a, open(text("/proc/self/fd/%d", open(place(a), O_PATH)), O_RDONLY));
}
static long by_link(const struct attempt *a) {
    char *to = text("linked-%s", a->name);
    return link(place(a), to) < 0 ? -1 : show(a, open(to, O_RDONLY));
}
static long by_rename(const struct attempt *a) {
    char *to = text("renamed-%s", a->name);
    return rename(place(a), to) < 0 ? -1 : show(a, open(to, O_RDONLY));
}
static long by_symlink(const struct attempt *a) {
    char *to = text("symlinked-%s", a->name);
    return symlink(place(a), to) < 0 ? -1 : show(a, open(to, O_RDONLY));
}
static long by_mapping(const struct attempt *a) {
    int file = open(place(a), O_RDONLY);
    char *memory = file < 0 ? MAP_FAILED : mmap(NULL, 64, PROT_READ, MAP_PRIVATE, file, 0);
    return memory == MAP_FAILED ? -1 : tell(a, memory, strnlen(memory, 64));
}
/* Through a pipe, by calls that never bring the text into this process's memory as a read. */
static long through(const struct attempt *a, int ends[2], long count) {
    return count < 0 ? -1 : show(a, ends[0]);
}
static long by_splice(const struct attempt *a) {
    int ends[2];
    return pipe(ends) < 0 ? -1 : through(a, ends, splice(open(place(a), O_RDONLY), NULL, ends[1], NULL, 64, 0));
}
static long by_sendfile(const struct attempt *a) {
    int ends[2];
    return pipe(ends) < 0 ? -1 : through(a, ends, sendfile(ends[1], open(place(a), O_RDONLY), NULL, 64));
}
static long by_copy(const struct attempt *a) {
    int to = open(text("copied-%s", a->name), O_RDWR | O_CREAT, 0600);
    if (to < 0 || copy_file_range(open(place(a), O_RDONLY), NULL, to, NULL, 64, 0) < 0) return -1;
    return lseek(to, 0, SEEK_SET) < 0 ? -1 : show(a, to);
}
static long by_append(const struct attempt *a) { return show(a, open(place(a), O_RDWR | O_APPEND)); }
static long by_chmod(const struct attempt *a) {
    chmod(place(a), 0777);
    return by_open(a);
}
/* As a script, whose words the shell repeats in its complaint. */
static long by_shell(const struct attempt *a) {
    FILE *shell = popen(text("exec 2>&1; . '%s'", place(a)), "r");
    char room[256] = {0};
    return shell ? tell(a, room, fread(room, 1, sizeof room - 1, shell)) : -1;
}
static long by_handle(const struct attempt *a) {
    struct { unsigned bytes; int type; unsigned char handle[128]; } known = {.bytes = 128};
    int mount;
    if (syscall(SYS_name_to_handle_at, AT_FDCWD, place(a), &known, &mount, AT_SYMLINK_FOLLOW) < 0) return -1;
    return show(a, syscall(SYS_open_by_handle_at, open("/", O_RDONLY), &known, O_RDONLY));
}
static long by_listing(const struct attempt *a) {
    struct attempt outer = *a;
    char *path = text("%s", a->text), *slash = strrchr(path, '/');
    *slash = 0;
    outer.text = path;
    DIR *directory = opendir(place(&outer));
    if (!directory) return -1;
    /* The name is no secret text by itself: that it is there is what is told. */
    for (struct dirent *entry; (entry = readdir(directory));)
        if (!strcmp(entry->d_name, slash + 1)) return tell(a, "secret-name", 11);
    return errno = EACCES, -1;
}

static const struct way {
    const char *name;
    long (*run)(const struct attempt *);
    enum control control;
} ways[] = {
    {"read", by_open, EVERYBODY}, {"read-openat2", by_openat2, EVERYBODY}, {"read-reopened", by_reopen, EVERYBODY},
    {"read-linked", by_link, EVERYBODY}, {"read-renamed", by_rename, EVERYBODY},
    {"read-symlinked", by_symlink, EVERYBODY}, {"read-mapped", by_mapping, EVERYBODY},
    {"read-spliced", by_splice, EVERYBODY}, {"read-sent", by_sendfile, EVERYBODY},
    {"read-copied", by_copy, EVERYBODY}, {"read-both", by_append, EVERYBODY},
    {"read-after-chmod", by_chmod, EVERYBODY}, {"read-by-shell", by_shell, EVERYBODY},
    {"read-by-handle", by_handle, ROOT},
};

void add_secrets(void) {
    static const char *const places[] = {"home/.ssh", "home/.openoxide", "home/.aws"};
    for (int s = 0; s < SPELLINGS; s++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            struct attempt *a = add("secrets", SECRET, ways[i].control, ways[i].run, "%s-%s", ways[i].name, spelled[s]);
            a->n = s, a->text = text("%s/%s", places[(s + i) % 3], a->name), a->refusal = ENOENT;
        }
    /* Where Landlock stands alone, names are seen. */
    for (int s = 0; s < SPELLINGS; s++) {
        struct attempt *a = add("names", SECRET, EVERYBODY, by_listing, "list-%s", spelled[s]);
        a->n = s, a->text = text("home/.ssh/%s", a->name), a->refusal = ENOENT;
    }
    static const char *const files[] = {
        ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".docker/config.json", ".cargo/credentials.toml",
        ".config/gh/hosts.yml", ".config/gcloud/credentials.db", ".config/git/credentials", ".config/hub",
        ".codex/auth.json", ".claude/.credentials.json", ".gemini/oauth_creds.json", ".local/share/keyrings/login",
        ".password-store/a.gpg", ".kube/config", ".gnupg/secring.gpg", ".azure/token",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct attempt *a = add("secrets", SECRET, EVERYBODY, by_open, "read-known-%zu-%s", i, strrchr(files[i], '/') ? strrchr(files[i], '/') + 1 : files[i]);
        a->text = text("home/%s", files[i]), a->refusal = ENOENT;
    }
}
