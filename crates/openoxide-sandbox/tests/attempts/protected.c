/*! Changes to protected names in workspaces at `BASE/p`: by each call, in the top directory and in
 *  nested repositories, through what leads to them, and by moving what they stand in. */
#include "attempts.h"
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/xattr.h>

static void must(int failed, const char *what) {
    if (failed) {
        perror(what);
        exit(2);
    }
}
static void put(const char *path, const char *content) {
    int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    must(file < 0 || write(file, content, strlen(content)) < 0 || close(file) < 0, path);
}
/* A repository, by all that makes git take it for one. */
static void repository(const char *path) {
    must(mkdir(path, 0755) < 0, path);
    must(mkdir(text("%s/objects", path), 0755) < 0 || mkdir(text("%s/refs", path), 0755) < 0, path);
    must(mkdir(text("%s/hooks", path), 0755) < 0, path);
    put(text("%s/HEAD", path), "ref: refs/heads/main\n");
    put(text("%s/config", path), "[core]\n\trepositoryformatversion = 0\n");
}

/* Makes the workspace of an attempt, if it is the first one there. */
void prepare_workspace(const struct attempt *a) {
    static const char *const directories[] = {"", "nested", "nested/src", "deep", "deep/er", "sub", "module", "evil"};
    mkdir(text("%s/p", base), 0755);
    char *top = text("%s/p/%s", base, a->workspace);
    if (access(top, F_OK) == 0) return;
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++)
        must(mkdir(text("%s/%s", top, directories[i]), 0755) < 0, top);
    put(text("%s/file", top), "a file\n"), put(text("%s/evil/config", top), "evil\n");
    if (!strcmp(a->family, "missing")) return;
    static const char *const repositories[] = {".git", "nested/.git", "deep/er/.git", "sub/.GIT", "store", ".codex", ".agents"};
    for (size_t i = 0; i < sizeof repositories / sizeof *repositories; i++)
        repository(text("%s/%s", top, repositories[i]));
    put(text("%s/module/.git", top), "gitdir: ../store\n");
    if (strcmp(a->family, "links")) return;
    must(mkdir(text("%s/linked", top), 0755) < 0, top);
    repository(text("%s/real", top));
    must(symlink("../real", text("%s/linked/.git", top)) < 0, top);
}

/* A file of the workspace, where that can be written. */
static char *mine(void) {
    int file = open("mine", O_CREAT | O_WRONLY, 0644);
    if (file >= 0) close(file);
    return "mine";
}
static char *in(const struct attempt *a, const char *leaf) { return text("%s/%s", a->text, leaf); }
/* A name that no other attempt of the workspace uses. */
static char *own(const struct attempt *a, const char *word) { return text("%s-%s", word, a->name); }
static long poured(int file) { return file < 0 ? -1 : write(file, "changed", 7); }

/* Of a directory. */
static long create(const struct attempt *a) { return poured(open(in(a, "new"), O_WRONLY | O_CREAT, 0644)); }
static long create_hook(const struct attempt *a) { return poured(open(in(a, "hooks/pre-commit"), O_WRONLY | O_CREAT, 0755)); }
static long append(const struct attempt *a) { return poured(open(in(a, "config"), O_WRONLY | O_APPEND)); }
static long by_truncate(const struct attempt *a) { return truncate(in(a, "config"), 1); }
static long by_unlink(const struct attempt *a) { return unlink(in(a, "config")); }
static long by_rmdir(const struct attempt *a) { return rmdir(in(a, "hooks")); }
static long by_mkdir(const struct attempt *a) { return mkdir(in(a, "new"), 0755); }
static long by_mkfifo(const struct attempt *a) { return mknod(in(a, "new"), S_IFIFO | 0644, 0); }
static long by_symlink(const struct attempt *a) { return symlink("/", in(a, "new")); }
static long by_chmod(const struct attempt *a) { return chmod(a->text, 0777); }
static long chmod_file(const struct attempt *a) { return chmod(in(a, "config"), 0777); }
static long by_times(const struct attempt *a) { return utimensat(AT_FDCWD, in(a, "config"), NULL, 0); }
static long by_chown(const struct attempt *a) { return chown(a->text, getuid(), getgid()); }
static long by_xattr(const struct attempt *a) { return setxattr(in(a, "config"), "user.a", "x", 1, 0); }
static long rename_file(const struct attempt *a) { return rename(in(a, "config"), in(a, "moved")); }
static long rename_out(const struct attempt *a) { return rename(in(a, "config"), own(a, "stolen")); }
static long rename_over(const struct attempt *a) { return rename(mine(), in(a, "config")); }
static long rename_away(const struct attempt *a) { return rename(a->text, own(a, "away")); }
static long rename_beside(const struct attempt *a) { return rename(a->text, text("%s.old", a->text)); }
static long exchange(const struct attempt *a) { return syscall(SYS_renameat2, AT_FDCWD, a->text, AT_FDCWD, "evil", 2); }
static long exchange_back(const struct attempt *a) { return syscall(SYS_renameat2, AT_FDCWD, "evil", AT_FDCWD, a->text, 2); }
static long exchange_file(const struct attempt *a) {
    return syscall(SYS_renameat2, AT_FDCWD, mine(), AT_FDCWD, in(a, "config"), 2);
}
static long link_out(const struct attempt *a) {
    return link(in(a, "config"), own(a, "linked")) < 0 ? -1 : poured(open(own(a, "linked"), O_WRONLY));
}
static long link_in(const struct attempt *a) { return link(mine(), in(a, "new")); }
static long by_temporary(const struct attempt *a) {
    int file = open(a->text, O_TMPFILE | O_WRONLY, 0644);
    if (file < 0) return -1;
    return linkat(AT_FDCWD, text("/proc/self/fd/%d", file), AT_FDCWD, in(a, "new"), AT_SYMLINK_FOLLOW);
}
static long by_mapping(const struct attempt *a) {
    int file = open(text("/proc/self/fd/%d", open(in(a, "config"), O_PATH)), O_RDWR);
    char *memory = file < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? -1 : (memcpy(memory, "changed", 7), 0);
}
static long by_mount(const struct attempt *a) {
    if (mount("evil", a->text, NULL, MS_BIND, NULL) < 0) return -1;
    return create(a);
}
static long uncover(const struct attempt *a) { return umount2(a->text, MNT_DETACH) < 0 ? -1 : create(a); }
static long held(const struct attempt *a) {
    int place = open(a->text, O_PATH);
    return poured(openat(place, "new", O_WRONLY | O_CREAT, 0644));
}
static long self_cwd(const struct attempt *a) {
    return poured(open(text("/proc/self/cwd/%s/new", a->text), O_WRONLY | O_CREAT, 0644));
}
static long self_root(const struct attempt *a) {
    char *path = text("/proc/self/root%s/p/%s/%s/new", base, a->workspace, a->text);
    return poured(open(path, O_WRONLY | O_CREAT, 0644));
}
static long new_link(const struct attempt *a) {
    symlink(a->text, own(a, "link"));
    return poured(open(text("%s/new", own(a, "link")), O_WRONLY | O_CREAT, 0644));
}
static long entered(const struct attempt *a) {
    return chdir(a->text) < 0 ? -1 : poured(open("new", O_WRONLY | O_CREAT, 0644));
}
static long by_socket(const struct attempt *a) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "new"};
    int made = chdir(a->text) < 0 ? -1 : socket(AF_UNIX, SOCK_STREAM, 0);
    return made < 0 ? -1 : bind(made, (void *)&address, sizeof address);
}

/* Of a pointer file or a link. */
static long rewrite(const struct attempt *a) { return poured(open(a->text, O_WRONLY | O_TRUNC)); }
static long remove_it(const struct attempt *a) { return unlink(a->text); }
static long replace(const struct attempt *a) { return rename(mine(), a->text); }
static long exchange_it(const struct attempt *a) { return syscall(SYS_renameat2, AT_FDCWD, mine(), AT_FDCWD, a->text, 2); }
static long replace_link(const struct attempt *a) {
    symlink("../evil", own(a, "other"));
    return rename(own(a, "other"), a->text);
}

/* What they stand in is moved away, and another put in its place. */
static long move_parent(const struct attempt *a) {
    if (rename(a->text, own(a, "moved")) < 0) return -1;
    mkdir(a->text, 0755);
    return rename("evil", in(a, a->more));
}
static long move_within(const struct attempt *a) { return rename(a->text, own(a, "evil/moved")); }
static long exchange_parent(const struct attempt *a) { return exchange(a); }
static long parent_over(const struct attempt *a) {
    mkdir(own(a, "empty"), 0755);
    return rename(a->text, own(a, "empty"));
}
static long parent_held(const struct attempt *a) {
    int top = open(".", O_PATH);
    return renameat(top, a->text, open("evil", O_PATH), own(a, "moved"));
}
static long parent_by_proc(const struct attempt *a) {
    return rename(text("/proc/self/cwd/%s", a->text), text("/proc/self/root%s/p/%s/moved-%s", base, a->workspace, a->name));
}

/* Names that are not there. A placeholder may stand for them; it goes with the command. */
static long make_directory(const struct attempt *a) { return mkdir(a->text, 0755) < 0 ? -1 : create(a); }
static long make_file(const struct attempt *a) { return poured(open(a->text, O_WRONLY | O_CREAT, 0644)); }
static long make_exclusive(const struct attempt *a) { return poured(open(a->text, O_WRONLY | O_CREAT | O_EXCL, 0644)); }
static long make_link(const struct attempt *a) { return symlink("evil", a->text); }
static long make_pipe(const struct attempt *a) { return mknod(a->text, S_IFIFO | 0644, 0); }
static char *other(const struct attempt *a) {
    mkdir(own(a, "other"), 0755);
    return own(a, "other");
}
static long rename_to(const struct attempt *a) { return rename(other(a), a->text); }
static long rename_file_to(const struct attempt *a) { return rename(mine(), a->text); }
static long rename_new_to(const struct attempt *a) { return syscall(SYS_renameat2, AT_FDCWD, other(a), AT_FDCWD, a->text, 1); }
static long exchange_with(const struct attempt *a) {
    mkdir(a->text, 0755);
    return exchange(a);
}
static long link_to(const struct attempt *a) { return link(mine(), a->text); }
static long fill(const struct attempt *a) {
    mkdir(a->text, 0755);
    return create(a);
}
static long remove_and_make(const struct attempt *a) {
    rmdir(a->text);
    return mkdir(a->text, 0755) < 0 ? -1 : create(a);
}
static long move_and_make(const struct attempt *a) {
    rename(a->text, own(a, "moved"));
    mkdir(own(a, "other"), 0755);
    return rename(own(a, "other"), a->text);
}
static long temporary_to(const struct attempt *a) {
    int file = open(".", O_TMPFILE | O_WRONLY, 0644);
    return linkat(AT_FDCWD, text("/proc/self/fd/%d", file), AT_FDCWD, a->text, AT_SYMLINK_FOLLOW);
}
static long make_by_root(const struct attempt *a) {
    return mkdir(text("/proc/self/root%s/p/%s/%s", base, a->workspace, a->text), 0755) < 0 ? -1 : create(a);
}

struct way {
    const char *name;
    long (*run)(const struct attempt *);
    enum control control;
};
static const struct way of_directories[] = {
    {"create", create, EVERYBODY}, {"hook", create_hook, EVERYBODY}, {"append", append, EVERYBODY},
    {"truncate", by_truncate, EVERYBODY}, {"unlink", by_unlink, EVERYBODY}, {"rmdir", by_rmdir, EVERYBODY},
    {"mkdir", by_mkdir, EVERYBODY}, {"mkfifo", by_mkfifo, EVERYBODY}, {"symlink", by_symlink, EVERYBODY},
    {"chmod", by_chmod, EVERYBODY}, {"chmod-file", chmod_file, EVERYBODY}, {"times", by_times, EVERYBODY},
    {"chown", by_chown, EVERYBODY}, {"xattr", by_xattr, EVERYBODY}, {"rename-file", rename_file, EVERYBODY},
    {"rename-out", rename_out, EVERYBODY}, {"rename-over", rename_over, EVERYBODY},
    {"rename-away", rename_away, EVERYBODY}, {"rename-beside", rename_beside, EVERYBODY},
    {"exchange", exchange, EVERYBODY}, {"exchange-back", exchange_back, EVERYBODY},
    {"exchange-file", exchange_file, EVERYBODY}, {"link-out", link_out, EVERYBODY}, {"link-in", link_in, EVERYBODY},
    {"tmpfile", by_temporary, EVERYBODY}, {"mmap", by_mapping, EVERYBODY}, {"bind", by_mount, NOBODY},
    {"umount", uncover, NOBODY}, {"held", held, EVERYBODY}, {"self-cwd", self_cwd, EVERYBODY},
    {"self-root", self_root, EVERYBODY}, {"new-link", new_link, EVERYBODY}, {"entered", entered, EVERYBODY},
    {"socket", by_socket, EVERYBODY},
};
static const struct way of_files[] = {
    {"rewrite", rewrite, EVERYBODY}, {"remove", remove_it, EVERYBODY}, {"rename-away", rename_away, EVERYBODY},
    {"replace", replace, EVERYBODY}, {"exchange", exchange_it, EVERYBODY}, {"chown", by_chown, EVERYBODY},
};
static const struct way of_links[] = {
    {"remove", remove_it, EVERYBODY}, {"rename-away", rename_away, EVERYBODY}, {"replace", replace, EVERYBODY},
    {"replace-link", replace_link, EVERYBODY}, {"exchange", exchange_it, EVERYBODY}, {"create", create, EVERYBODY},
    {"append", append, EVERYBODY}, {"hook", create_hook, EVERYBODY},
};
static const struct way of_parents[] = {
    {"move", move_parent, EVERYBODY}, {"exchange", exchange_parent, EVERYBODY}, {"over", parent_over, EVERYBODY},
    {"held", parent_held, EVERYBODY}, {"proc", parent_by_proc, EVERYBODY},
};
static const struct way of_missing[] = {
    {"directory", make_directory, EVERYBODY}, {"file", make_file, EVERYBODY}, {"exclusive", make_exclusive, EVERYBODY},
    {"link", make_link, EVERYBODY}, {"mkfifo", make_pipe, EVERYBODY}, {"rename", rename_to, EVERYBODY},
    {"rename-file", rename_file_to, EVERYBODY}, {"rename-new", rename_new_to, EVERYBODY},
    {"exchange", exchange_with, EVERYBODY}, {"hard-link", link_to, EVERYBODY}, {"fill", fill, EVERYBODY},
    {"remove", remove_and_make, EVERYBODY}, {"move", move_and_make, EVERYBODY}, {"tmpfile", temporary_to, EVERYBODY},
    {"self-root", make_by_root, EVERYBODY},
};

/* The name of a place, without what separates names of directories. */
static char *flat(const char *place) {
    char *name = text("%s", place);
    for (char *c = name; *c; c++)
        if (*c == '/') *c = '+';
    return name;
}
/* Every way at one place; those of one way share a workspace. */
static void each(const char *family, const struct way *ways, size_t count, const char *place) {
    for (size_t w = 0; w < count; w++) {
        struct attempt *a = add(family, PLACES, ways[w].control, ways[w].run, "%s-%s", ways[w].name, flat(place));
        a->text = a->place = place, a->workspace = text("%s-%s", family, ways[w].name);
    }
}
#define EACH(family, list, place) each(family, list, sizeof list / sizeof *list, place);

void add_protected(void) {
    struct attempt *last;
    static const char *const directories[] = {".git", ".codex", ".agents", "nested/.git", "deep/er/.git", "sub/.GIT"};
    for (int i = 0; i < 6; i++) {
        EACH("protected", of_directories, directories[i])
    }
    EACH("protected", of_files, "module/.git")
    EACH("protected", of_directories, "store")
    EACH("links", of_links, "linked/.git")
    EACH("links", of_directories, "real")
    /* What is changed through the link is seen at the other place. */
    for (int i = 0; i < attempt_count; i++)
        if (!strcmp(attempts[i].family, "links")) attempts[i].workspace = attempts[i].name, attempts[i].place = NULL;
    static const char *const missing[] = {".git", ".openoxide", ".codex", ".agents"};
    for (int i = 0; i < 4; i++) {
        EACH("missing", of_missing, missing[i])
    }
    static const char *const parents[][2] = {
        {"nested", ".git"}, {"deep", "er"}, {"deep/er", ".git"}, {"sub", ".GIT"}, {"module", ".git"}};
    for (int i = 0; i < 5; i++)
        for (size_t w = 0; w < sizeof of_parents / sizeof *of_parents; w++) {
            struct attempt *a = add("parents", PLACES, EVERYBODY, of_parents[w].run, "%s-%s", of_parents[w].name, flat(parents[i][0]));
            a->text = a->place = parents[i][0], a->more = parents[i][1];
            a->workspace = text("parents-%s", of_parents[w].name);
        }
    last = add("parents", PLACES, EVERYBODY, move_within, "move-within-deep");
    last->text = last->place = "deep", last->workspace = "parents-within";
}
