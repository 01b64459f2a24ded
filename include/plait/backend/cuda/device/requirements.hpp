// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/core/concat.hpp"

// Requirements of a machine, checked by numbers only. Each function throws cuda_error if a
// requirement is not met; the text contains the number found, the number needed and a remedy.
namespace plait::cuda_requirements {

inline constexpr int least_capability = 80;       ///< Ampere, for bfloat16 and asynchronous copies
inline constexpr int least_nccl_version = 21900;  ///< 2.19, for ncclCommSplit with options
/// The least version of NCCL for a rank with several communicators. From 2.26 on, their kernels run
/// in the order in which they are launched.
inline constexpr int least_nccl_version_of_several = 22600;

/// Formats a version number of CUDA's runtime, for example 13000 as "13.0".
[[nodiscard]] inline std::string cuda_version_text(int version) {
  return concat({version / 1000, ".", version % 1000 / 10});
}

/// Formats a version number of NCCL, for example 22809 as "2.28.9".
[[nodiscard]] inline std::string nccl_version_text(int version) {
  if (version < 10000)  // NCCL before 2.9: major * 1000 + minor * 100 + patch
    return concat({version / 1000, ".", version % 1000 / 100, ".", version % 100});
  return concat({version / 10000, ".", version % 10000 / 100, ".", version % 100});
}

/// Checks that the driver can run the program. `driver`: the newest CUDA version that the driver
/// supports, or 0 without a driver; `runtime`: the version with which the program was built. A
/// driver runs programs built with its own major version or an older one.
inline void check_driver(int driver, int runtime) {
  if (driver == 0)
    throw cuda_error(
        {"cuda: no CUDA driver is loaded on this machine (the program needs one for CUDA ",
         cuda_version_text(runtime),
         "); install the NVIDIA driver, give the container access to the GPU, or run the job on "
         "plait::threads{}"});
  if (driver / 1000 < runtime / 1000)
    throw cuda_error({"cuda: the driver supports CUDA up to ", cuda_version_text(driver),
                      ", but the program was built with CUDA ", cuda_version_text(runtime),
                      "; update the driver or build with CUDA ", driver / 1000, ".x"});
}

/// Checks that a process sees enough GPUs. `devices`: the number of visible GPUs; `ranks`: the
/// ranks of the process, which use GPU `first_device` and the following ones.
inline void check_device_count(int devices, int ranks, int first_device, bool share_one_gpu) {
  if (devices == 0)
    throw cuda_error(
        "cuda: there is no GPU that this process may use; look at nvidia-smi and at "
        "CUDA_VISIBLE_DEVICES");
  int const needed = first_device + (share_one_gpu ? 1 : ranks);
  if (first_device < 0 || devices < needed)
    throw cuda_error(
        {"cuda: the job has ", ranks, " ranks from GPU ", first_device,
         " on, but this process sees ", devices, (devices == 1 ? " GPU" : " GPUs"),
         (share_one_gpu ? "; choose another .first_device"
                        : "; use a smaller mesh, plait::cuda_process{} on several machines, or "
                          ".share_one_gpu = true to put all ranks on one GPU for tests")});
}

/// Checks the compute capability of a GPU. `name`: the GPU's name, for the message.
inline void check_capability(int device, std::string const& name, int major, int minor) {
  if (major * 10 + minor >= least_capability) return;
  throw cuda_error({"cuda: GPU ", device, " (", name, ") has compute capability ", major, ".",
                    minor, ", but plait needs ", least_capability / 10, ".", least_capability % 10,
                    " or newer; choose another GPU by CUDA_VISIBLE_DEVICES"});
}

/// Checks the version of NCCL. `found`: the version of the library at run time; `built_with`: the
/// version of the header at compile time; `groups`: the number of groups of several ranks to which
/// a rank belongs.
inline void check_nccl(int found, int built_with, int groups) {
  int const least = groups > 1 ? least_nccl_version_of_several : least_nccl_version;
  if (found >= least && found / 10000 == built_with / 10000) return;
  throw cuda_error({"cuda: this program runs with NCCL ", nccl_version_text(found),
                    " and was built with ", nccl_version_text(built_with),
                    "; plait needs at least ", nccl_version_text(least),
                    " of the same major version",
                    (groups > 1 ? concat({", because a rank is in ", groups,
                                          " groups, and an older version may launch the kernels of "
                                          "these groups in different orders on different GPUs"})
                                : std::string{}),
                    "; correct the path of libnccl.so.2"});
}

}  // namespace plait::cuda_requirements
