// SPDX-License-Identifier: Apache-2.0
// Runs a program and kills all its threads at once before a chosen call that changes a disk.
//   kill_at N PROGRAM ARGUMENTS...
// N counts the calls of all threads from 1. With 0 the program ends normally, and the last line of
// standard output is the number of calls. Each call is a line of kill_at.calls.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

struct call {
  long number;
  char const* name;
};
constexpr call calls[] = {
#ifdef SYS_open
    {SYS_open, "open"},
    {SYS_creat, "creat"},
    {SYS_mkdir, "mkdir"},
    {SYS_rename, "rename"},
    {SYS_link, "link"},
    {SYS_symlink, "symlink"},
    {SYS_unlink, "unlink"},
    {SYS_rmdir, "rmdir"},
#endif
#ifdef SYS_renameat
    {SYS_renameat, "renameat"},
#endif
    {SYS_openat, "openat"},
    {SYS_mkdirat, "mkdirat"},
    {SYS_renameat2, "renameat2"},
    {SYS_linkat, "linkat"},
    {SYS_symlinkat, "symlinkat"},
    {SYS_unlinkat, "unlinkat"},
    {SYS_write, "write"},
    {SYS_writev, "writev"},
    {SYS_pwrite64, "pwrite64"},
    {SYS_fallocate, "fallocate"},
    {SYS_ftruncate, "ftruncate"},
    {SYS_fchmod, "fchmod"},
    {SYS_fsetxattr, "fsetxattr"},
    {SYS_flock, "flock"},
    {SYS_fsync, "fsync"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_sync_file_range, "sync_file_range"},
};

[[noreturn]] void skip(char const* what) {
  std::printf("skipped: %s: %s\n", what, std::strerror(errno));
  std::exit(77);
}

/// Makes the system stop the calling process, and its threads, before each of `calls` and no other
/// call.
bool ask_for_stops() {
  std::vector<sock_filter> filter{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (auto const& each : calls) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(each.number), 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog const program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Returns true if a call changes a disk: opening a file for reading and writing to a terminal do
/// not.
bool changes_disk(__ptrace_syscall_info const& info) {
  auto const number = static_cast<long>(info.seccomp.nr);
  auto const flags = info.seccomp.args[number == SYS_openat ? 2 : 1];
  bool opens = number == SYS_openat;
#ifdef SYS_open
  opens = opens || number == SYS_open;
#endif
  if (opens) return (flags & (O_CREAT | O_TRUNC)) != 0;
  if (number == SYS_write || number == SYS_writev) return info.seccomp.args[0] > 2;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  long const last = std::atol(argv[1]);
  ::pid_t const child = ::fork();
  if (child < 0) skip("no process");
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) skip("ptrace is not permitted");
    ::raise(SIGSTOP);
    if (!ask_for_stops()) skip("system calls cannot be filtered");
    ::execvp(argv[2], argv + 2);
    ::_exit(126);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) skip("ptrace is not permitted");
  long const options = PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE | PTRACE_O_TRACESECCOMP;
  if (::ptrace(PTRACE_SETOPTIONS, child, nullptr, options) != 0) skip("ptrace is not permitted");
  ::ptrace(PTRACE_CONT, child, nullptr, nullptr);

  std::FILE* const log = std::fopen("kill_at.calls", "w");
  if (log == nullptr) return 2;
  long count = 0;
  for (;;) {
    ::pid_t const thread = ::waitpid(-1, &status, __WALL);
    if (thread < 0 && errno == EINTR) continue;
    if (thread < 0) return 2;
    if (!WIFSTOPPED(status)) {
      if (thread != child) continue;
      break;
    }
    int const signal = WSTOPSIG(status), event = status >> 16;
    if (event == PTRACE_EVENT_SECCOMP) {
      __ptrace_syscall_info info{};
      if (::ptrace(static_cast<__ptrace_request>(PTRACE_GET_SYSCALL_INFO), thread, sizeof info,
                   &info) < 0)
        skip("the system does not say which call it is");
      if (changes_disk(info)) {
        for (auto const& each : calls)
          if (static_cast<long>(info.seccomp.nr) == each.number)
            std::fprintf(log, "%ld %d %s\n", count + 1, int(thread), each.name);
        if (++count == last) {
          ::kill(child, SIGKILL);  // the thread is stopped, so its call does not begin
          continue;
        }
      }
    }
    // New threads begin with a stop, which must not be passed on to them.
    bool const is_own = event != 0 || signal == SIGTRAP || signal == SIGSTOP;
    ::ptrace(PTRACE_CONT, thread, nullptr, is_own ? 0L : static_cast<long>(signal));
  }
  std::fclose(log);
  if (last == 0) std::printf("%ld\n", count);
  if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
  return WEXITSTATUS(status);
}
