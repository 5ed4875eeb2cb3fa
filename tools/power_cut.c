/* Notes at each sync of a file or folder, in its attribute `user.synced`, what is on disk now.
 *
 * Preloaded (LD_PRELOAD) into a process, it tells `power_cut.py` what a power cut would lose. The
 * note is the size and the time of change: a file that was written since has others.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

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
  int status = real(file);
  if (!status) note(file);
  return status;
}

int fdatasync(int file) {
  int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
  int status = real(file);
  if (!status) note(file);
  return status;
}
