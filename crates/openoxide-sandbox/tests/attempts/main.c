/*! Runs attempts: `attempts VERB BASE FAMILY [WORKSPACE]`.
 *
 *  - `list`: one line for each: name, token, effect, control, workspace, place;
 *  - `prepare`: makes what stands outside for each, as whoever is to be attacked;
 *  - `run`: makes them, from the workspace, and says what was answered: `name<TAB>worked|refused|unclear<TAB>why`;
 *  - `everybody` and `root`: the same without a sandbox, for those that get through there as such a user; root's
 *    mounts in a namespace of its own, so that nothing stays mounted;
 *  - `outside`: is the host's side (`outside.c`);
 *  - `tmp`: `attempts tmp BASE USER PROGRAM...` runs a program where `BASE/tmp` is `/tmp`, as that user. What a command
 *    makes in `/tmp` is then seen there, and nobody else's `/tmp` is touched. */
#include "attempts.h"
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/wait.h>

enum { MOST = 4000, PATIENCE_S = 5 };

struct attempt attempts[MOST];
int attempt_count;
const char *base;

struct attempt *add(const char *family, enum effect effect, enum control control,
                    long (*run)(const struct attempt *), const char *format, ...) {
    if (attempt_count == MOST) abort();
    struct attempt *a = &attempts[attempt_count++];
    va_list list;
    va_start(list, format);
    vsnprintf(a->name, sizeof a->name, format, list);
    va_end(list);
    memcpy(a->token, a->name, sizeof a->token);
    a->family = family, a->effect = effect, a->control = control, a->run = run;
    return a;
}

char *text(const char *format, ...) {
    char *made = NULL;
    va_list list;
    va_start(list, format);
    if (vasprintf(&made, format, list) < 0) abort();
    va_end(list);
    return made;
}

const char *outside_text(const char *key) {
    static char all[4096];
    if (!all[0]) {
        int file = open(text("%s/host", base), O_RDONLY | O_CLOEXEC);
        long count = file < 0 ? 0 : read(file, all, sizeof all - 1);
        if (file >= 0) close(file);
        all[count > 0 ? count : 0] = 0;
    }
    char *at = strstr(all, text("%s=", key));
    if (!at) return "";
    at += strlen(key) + 1;
    return strndup(at, strcspn(at, "\n"));
}

long outside_number(const char *key) { return strtol(outside_text(key), NULL, 0); }

long tell(const struct attempt *a, const char *bytes, long count) {
    if (count <= 0) return count;
    char shown[1025];
    long most = count < 1024 ? count : 1024;
    for (long i = 0; i < most; i++) shown[i] = bytes[i] < ' ' ? ' ' : bytes[i];
    shown[most] = 0;
    dprintf(1, "%s\tread\t%s\n", a->name, shown);
    return count;
}

static int is_refusal(const struct attempt *a, int error) {
    return error == EPERM || error == EACCES || error == EROFS || error == ENOSYS || error == a->refusal;
}

static void check(int failed, const char *what) {
    if (failed) {
        perror(what);
        exit(2);
    }
}

/* Makes one attempt in a process of its own, so that whatever becomes of that, the next one is not touched by it. */
static void try(const struct attempt *a) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(PATIENCE_S);
        if (a->effect == PLACES) check(chdir(text("%s/p/%s", base, a->workspace)) < 0, a->name);
        errno = 0;
        long result = a->run(a);
        const char *word = result >= 0 ? "worked" : is_refusal(a, errno) ? "refused" : "unclear";
        dprintf(1, "%s\t%s\t%s\n", a->name, word, result >= 0 ? "" : strerrorname_np(errno));
        _exit(0);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (WIFSIGNALED(status)) {
        const char *word = WTERMSIG(status) == SIGALRM ? "unclear" : "refused";
        dprintf(1, "%s\t%s\tSIG%s\n", a->name, word, sigabbrev_np(WTERMSIG(status)));
    }
}

static void put(const char *path, const char *content) {
    int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    check(file < 0 || write(file, content, strlen(content)) < 0 || close(file) < 0, path);
}

/* What stands outside for an attempt: a file, a file to be moved, and a directory. */
static void prepare(const struct attempt *a) {
    if (a->effect == CANARY) {
        char *directory = text("%s/outside/%s", base, a->name);
        check(mkdir(directory, 0755) < 0, directory);
        put(text("%s/file", directory), "a canary's text, of more than a few bytes\n");
        check(mkdir(text("%s/inner", directory), 0755) < 0, directory);
    }
    if (a->effect == PLACES) prepare_workspace(a);
    if (a->effect == SECRET && a->text) {
        char *path = text("%s/%s", base, a->text);
        for (char *slash = path + strlen(base); (slash = strchr(slash + 1, '/'));) {
            *slash = 0;
            check(mkdir(path, 0755) < 0 && errno != EEXIST, path);
            *slash = '/';
        }
        put(path, text("secret-of-%s\n", a->name));
    }
}

static void tell_file(const char *path, const char *content) {
    int file = open(path, O_WRONLY);
    check(file < 0 || write(file, content, strlen(content)) < 0 || close(file) < 0, path);
}

static int with_tmp(char **words) {
    unsigned user = strtoul(words[0], NULL, 10), own = geteuid(), group = getegid();
    check(unshare(own ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS) < 0, "a mount namespace");
    if (own) {
        tell_file("/proc/self/setgroups", "deny");
        tell_file("/proc/self/uid_map", text("%u %u 1", own, own));
        tell_file("/proc/self/gid_map", text("%u %u 1", group, group));
    }
    check(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0, "private mounts");
    check(mount(text("%s/tmp", base), "/tmp", NULL, MS_BIND, NULL) < 0, "a /tmp");
    if (user != own) check(setgroups(0, NULL) < 0 || setgid(user) < 0 || setuid(user) < 0, "the user");
    execv(words[1], words + 1);
    perror(words[1]);
    return 2;
}

int main(int argc, char **argv) {
    if (argc < 4) return 64;
    const char *verb = argv[1], *family = argv[3], *workspace = argc > 4 ? argv[4] : NULL;
    base = argv[2];
    if (!strcmp(verb, "outside")) return run_outside();
    if (!strcmp(verb, "tmp") && argc > 4) return with_tmp(argv + 3);
    add_files(), add_secrets(), add_kernel(), add_numbers(), add_processes(), add_network(), add_protected();
    int as_root = !strcmp(verb, "root"), is_control = as_root || !strcmp(verb, "everybody");
    /* Where the others work, they need the mounts of the host. */
    if (as_root && !strcmp(family, "answers"))
        check(unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0, "mounts");
    signal(SIGPIPE, SIG_IGN);
    static const char *const effects[] = {"canary", "secret", "places", "reached", "answer"};
    static const char *const controls[] = {"everybody", "root", "nobody"};
    for (int i = 0; i < attempt_count; i++) {
        const struct attempt *a = &attempts[i];
        if (strcmp(family, a->family) || (workspace && strcmp(workspace, a->workspace))) continue;
        if (is_control && (a->control == NOBODY || (a->control == ROOT && !as_root))) continue;
        if (!strcmp(verb, "list")) {
            printf("%s\t%s\t%s\t%s\t", a->name, a->token, effects[a->effect], controls[a->control]);
            printf("%s\t%s\n", a->workspace ? a->workspace : "", a->place ? a->place : "");
        } else if (!strcmp(verb, "prepare")) {
            prepare(a);
        } else {
            try(a);
        }
    }
    return 0;
}
