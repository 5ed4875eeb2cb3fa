/* Preloaded (LD_PRELOAD) into a process, this notes what is synced, and kills it while it writes.
 *
 * At each sync of a file or folder, its attribute `user.synced` gets the size and the time of its
 * last change, so that `disk_faults.py` knows what a power cut would lose.
 *
 * Writes, syncs, and changes of names (renames, links, removals, new folders) below FAULTS_FOLDER
 * are counted in the file FAULTS_COUNT, over all processes that share it. The one with the number
 * FAULTS_KILL_AT kills its process; of a write, half is done.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char *folder;
static long *counter, kill_at = -1;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("FAULTS_COUNT"), *number = getenv("FAULTS_KILL_AT");
  folder = getenv("FAULTS_FOLDER");
  if (!folder || !path) return;
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0 || ftruncate(file, sizeof *counter)) return;
  void *shared = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (shared != MAP_FAILED) counter = shared;
  if (number) kill_at = atol(number);
}

static int is_last(void) { return __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST) == kill_at; }

static int is_below(int file) {
  char link[64], path[PATH_MAX];
  if (!counter) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return !strncmp(path, folder, strlen(folder));
}

static void die(void) { kill(getpid(), SIGKILL); }

static void note(int file) {
  struct stat found;
  char text[64];
  if (fstat(file, &found)) return;
  int length = snprintf(text, sizeof text, "%lld %lld%09ld", (long long)found.st_size,
                        (long long)found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
  fsetxattr(file, "user.synced", text, length, 0);
}

int fsync(int file) {
  int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
  if (is_below(file) && is_last()) die();
  int status = real(file);
  if (!status) note(file);
  return status;
}

int fdatasync(int file) {
  int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
  if (is_below(file) && is_last()) die();
  int status = real(file);
  if (!status) note(file);
  return status;
}

ssize_t write(int file, const void *bytes, size_t size) {
  static ssize_t (*real)(int, const void *, size_t);
  if (!real) real = dlsym(RTLD_NEXT, "write");
  if (counter && is_below(file) && is_last()) {
    ssize_t half = real(file, bytes, size / 2);
    (void)half;
    die();
  }
  return real(file, bytes, size);
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t place) {
  static ssize_t (*real)(int, const void *, size_t, off64_t);
  if (!real) real = dlsym(RTLD_NEXT, "pwrite64");
  if (counter && is_below(file) && is_last()) {
    ssize_t half = real(file, bytes, size / 2, place);
    (void)half;
    die();
  }
  return real(file, bytes, size, place);
}

/* Functions that change names, of files at a path below an open folder or the working one. */

static int names_below(int at, const char *path) {
  char begin[PATH_MAX];
  if (!counter) return 0;
  if (*path == '/') return !strncmp(path, folder, strlen(folder));
  if (at != AT_FDCWD) return is_below(at);
  return getcwd(begin, sizeof begin - 1) && !strncmp(strcat(begin, "/"), folder, strlen(folder));
}

#define HOOK(name, parameters, arguments, at, path)   \
  int name parameters {                               \
    int(*real) parameters = dlsym(RTLD_NEXT, #name);  \
    if (names_below(at, path) && is_last()) die();    \
    return real arguments;                            \
  }

HOOK(rename, (const char *from, const char *to), (from, to), AT_FDCWD, to)
HOOK(renameat, (int at, const char *from, int to_at, const char *to), (at, from, to_at, to), to_at,
     to)
HOOK(renameat2, (int at, const char *from, int to_at, const char *to, unsigned flags),
     (at, from, to_at, to, flags), to_at, to)
HOOK(link, (const char *from, const char *to), (from, to), AT_FDCWD, to)
HOOK(linkat, (int at, const char *from, int to_at, const char *to, int flags),
     (at, from, to_at, to, flags), to_at, to)
HOOK(symlink, (const char *from, const char *to), (from, to), AT_FDCWD, to)
HOOK(symlinkat, (const char *from, int at, const char *to), (from, at, to), at, to)
HOOK(mkdir, (const char *path, mode_t mode), (path, mode), AT_FDCWD, path)
HOOK(mkdirat, (int at, const char *path, mode_t mode), (at, path, mode), at, path)
HOOK(unlink, (const char *path), (path), AT_FDCWD, path)
HOOK(unlinkat, (int at, const char *path, int flags), (at, path, flags), at, path)
HOOK(remove, (const char *path), (path), AT_FDCWD, path)
HOOK(rmdir, (const char *path), (path), AT_FDCWD, path)
HOOK(truncate64, (const char *path, off64_t size), (path, size), AT_FDCWD, path)
