// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/cuda/device/cuda_headers.hpp"  // must precede cuDNN's headers, which include CUDA's headers
#include "plait/core/concat.hpp"

#include <cudnn_frontend.h>  // after <cstring>, which it needs and does not include

#include "plait/backend/cuda/attention/attention_engine.hpp"
#include "plait/backend/cuda/attention/cudnn_requirements.hpp"
#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/backend/cuda/device/cuda_handles.hpp"
#include "plait/core/bfloat16.hpp"

// Attention that cuDNN computes, called through cuDNN's front end. Exactly one source file of a
// program includes this header, because it defines plait::cudnn_attention() and takes half a minute
// to compile.
static_assert(
    CUDNN_FRONTEND_VERSION >= 12200,
    "plait/backend/cuda/attention/cudnn_attention.hpp needs cudnn-frontend 1.22 or newer");

namespace plait::detail {

// The sizes and strides of a tensor of attention, in cuDNN's order of dimensions: (batch, heads,
// sequence, head_width).
struct cudnn_tensor {
  std::vector<std::int64_t> sizes, strides;
  cudnn_frontend::DataType_t type;
};

// A cuDNN graph with one operation. Its tensors are numbered in the order of their declaration;
// run() takes their addresses in this order.
class cudnn_graph {
 public:
  using attributes = cudnn_frontend::graph::Tensor_attributes;

  // `what`: the name of the operation in messages. `capability`: the compute capability, 90 for
  // 9.0.
  cudnn_graph(cuda_place at, std::string what, int capability) : at_(at), what_(std::move(what)) {
    using type = cudnn_frontend::DataType_t;
    operations.set_io_data_type(type::BFLOAT16)
        .set_intermediate_data_type(type::FLOAT)
        .set_compute_data_type(type::FLOAT)
        .set_sm_version(capability);
  }

  cudnn_frontend::graph::Graph operations{};

  [[nodiscard]] std::shared_ptr<attributes> input(cudnn_tensor const& like) {
    return operations.tensor(describe(attributes(), like));
  }
  void output(std::shared_ptr<attributes> const& made, cudnn_tensor const& like) {
    describe(*made, like).set_output(true);
  }

  // Searches for kernels for the device of `handle`, or for the device `described` if it is given.
  // Returns "" if there are kernels, else cuDNN's reason.
  [[nodiscard]] std::string refusal(
      cudnnHandle_t handle,
      std::shared_ptr<cudnn_frontend::DeviceProperties> const& described = nullptr) {
    using code = cudnn_frontend::error_code_t;
    operations.set_device_properties(described);
    auto answer = look_for_kernels(handle);
    switch (answer.get_code()) {
      case code::OK: return "";
      case code::GRAPH_NOT_SUPPORTED:
      case code::HEURISTIC_QUERY_FAILED:
      case code::GRAPH_EXECUTION_PLAN_CREATION_FAILED: return answer.get_message();
      default: fail("looking for kernels", answer.get_message());
    }
  }

  // Prepares the kernels. Returns the size of the workspace that they need, in bytes.
  [[nodiscard]] std::size_t build() {
    std::int64_t bytes = 0;
    if (auto bad = operations.build_plans(); bad.is_bad())
      fail("making the kernels ready", bad.get_message());
    if (auto bad = operations.get_workspace_size(bytes); bad.is_bad())
      fail("asking for the workspace", bad.get_message());
    return static_cast<std::size_t>(bytes);
  }

  template <std::size_t Count>
  void run(cudnnHandle_t handle, std::array<void*, Count> tensors, std::byte* workspace,
           cudaStream_t stream) const {
    // Without this alignment cuDNN would compute wrong numbers on some devices.
    for (void const* const each : tensors)
      if (reinterpret_cast<std::uintptr_t>(each) % 16 != 0)
        fail("running", "an operand is not aligned to 16 bytes");
    if (auto const code = cudnnSetStream(handle, stream); code != CUDNN_STATUS_SUCCESS)
      fail("cudnnSetStream", cudnnGetErrorString(code));
    if (auto bad = operations.execute(handle, tensors.data(), int{Count}, workspace); bad.is_bad())
      fail("running", bad.get_message());
  }

 private:
  cudnn_frontend::error_t look_for_kernels(cudnnHandle_t handle) {
    if (auto bad = operations.validate(); bad.is_bad()) return bad;
    if (auto bad = operations.build_operation_graph(handle); bad.is_bad()) return bad;
    if (auto bad = operations.create_execution_plans({cudnn_frontend::HeurMode_t::A}); bad.is_bad())
      return bad;
    return operations.check_support();
  }

  attributes& describe(attributes&& made, cudnn_tensor const& like) { return describe(made, like); }
  attributes& describe(attributes& made, cudnn_tensor const& like) {
    return made.set_dim(like.sizes)
        .set_stride(like.strides)
        .set_data_type(like.type)
        .set_uid(++tensors_);
  }

  [[noreturn, gnu::cold]] void fail(char const* doing, std::string const& why) const {
    (void)cudaGetLastError();  // clears the error, so that the host program does not find it
    throw cuda_error({place_text(at_), what_, " by cuDNN: ", doing, " failed: ", why});
  }

  cuda_place at_;
  std::string what_;
  std::int64_t tensors_ = 0;
};

// The forward and the backward graph of attention of one shape.
class cudnn_prepared_attention final : public prepared_attention {
 public:
  cudnn_prepared_attention(cuda_place at, int capability, attention_shape const& shape,
                           bool deterministic)
      : to_key_(shape.heads * shape.head_width),
        forward_(at, "attention", capability),
        backward_(at, "attention backward", capability) {
    auto const s = static_cast<std::int64_t>(shape.sequence),
               b = static_cast<std::int64_t>(shape.batch),
               h = static_cast<std::int64_t>(shape.heads),
               d = static_cast<std::int64_t>(shape.head_width);
    using type = cudnn_frontend::DataType_t;
    cudnn_tensor const in_qkv{{b, h, s, d}, {3 * h * d, d, b * 3 * h * d, 1}, type::BFLOAT16},
        in_out{{b, h, s, d}, {h * d, d, b * h * d, 1}, type::BFLOAT16},
        log_sum{{b, h, s, 1}, {h * s, s, 1, 1}, type::FLOAT};
    auto const scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
    auto const aligned = cudnn_frontend::DiagonalAlignment_t::TOP_LEFT;

    {
      auto& graph = forward_;
      auto const q = graph.input(in_qkv), k = graph.input(in_qkv), v = graph.input(in_qkv);
      auto const [out, sums] = graph.operations.sdpa(q, k, v,
                                                     cudnn_frontend::graph::SDPA_attributes()
                                                         .set_name("attention")
                                                         .set_generate_stats(true)
                                                         .set_attn_scale(scale)
                                                         .set_diagonal_alignment(aligned)
                                                         .set_diagonal_band_right_bound(0));
      graph.output(out, in_out);
      graph.output(sums, log_sum);
    }
    {
      auto& graph = backward_;
      auto const q = graph.input(in_qkv), k = graph.input(in_qkv), v = graph.input(in_qkv),
                 out = graph.input(in_out), dout = graph.input(in_out), sums = graph.input(log_sum);
      auto const [dq, dk, dv] =
          graph.operations.sdpa_backward(q, k, v, out, dout, sums,
                                         cudnn_frontend::graph::SDPA_backward_attributes()
                                             .set_name("attention_backward")
                                             .set_attn_scale(scale)
                                             .set_diagonal_alignment(aligned)
                                             .set_diagonal_band_right_bound(0)
                                             .set_deterministic_algorithm(deterministic));
      for (auto const& each : {dq, dk, dv}) graph.output(each, in_qkv);
    }
  }

  // Returns cuDNN's reason to refuse the forward or the backward graph, or "" if it has kernels for
  // both; see cudnn_graph::refusal.
  [[nodiscard]] std::string refusal(
      cudnnHandle_t handle,
      std::shared_ptr<cudnn_frontend::DeviceProperties> const& described = nullptr) {
    auto const text = forward_.refusal(handle, described);
    return text.empty() ? backward_.refusal(handle, described) : text;
  }

  void build(cudnnHandle_t handle) {
    handle_ = handle;
    workspace_bytes_ = std::max(forward_.build(), backward_.build());
  }

  [[nodiscard]] std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void forward(bfloat16 const* qkv, bfloat16* out, float* log_sum, std::byte* workspace,
               cudaStream_t stream) override {
    auto* const q = const_cast<bfloat16*>(qkv);
    forward_.run<5>(handle_, {q, q + to_key_, q + 2 * to_key_, out, log_sum}, workspace, stream);
  }
  void backward(bfloat16 const* qkv, bfloat16 const* out, float const* log_sum,
                bfloat16 const* dout, bfloat16* dqkv, std::byte* workspace,
                cudaStream_t stream) override {
    auto* const q = const_cast<bfloat16*>(qkv);
    backward_.run<9>(
        handle_,
        {q, q + to_key_, q + 2 * to_key_, const_cast<bfloat16*>(out), const_cast<bfloat16*>(dout),
         const_cast<float*>(log_sum), dqkv, dqkv + to_key_, dqkv + 2 * to_key_},
        workspace, stream);
  }

 private:
  std::size_t to_key_;  // elements from a query to its key, and from the key to its value
  cudnnHandle_t handle_ = nullptr;
  std::size_t workspace_bytes_ = 0;
  cudnn_graph forward_, backward_;
};

class cudnn_attention_engine final : public attention_engine {
 public:
  cudnn_attention_engine(cuda_place at, attention_engine_options const& how) : at_(at), how_(how) {
    cuda_requirements::check_cudnn(cudnnGetVersion(), CUDNN_VERSION);
    int major = 0, minor = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, at.device),
          "cudaDeviceGetAttribute", at);
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, at.device),
          "cudaDeviceGetAttribute", at);
    capability_ = 10 * major + minor;
    cudnnHandle_t handle = nullptr;
    if (auto const code = cudnnCreate(&handle); code != CUDNN_STATUS_SUCCESS)
      throw cuda_error({place_text(at), "cudnnCreate failed: ", cudnnGetErrorString(code)});
    handle_.reset(handle);
  }

  [[nodiscard]] std::string name() const override {
    return concat({"cuDNN ", cuda_requirements::cudnn_version_text(cudnnGetVersion())});
  }

  [[nodiscard]] std::unique_ptr<prepared_attention> prepare(attention_shape const& shape) override {
    if (!cuda_requirements::cudnn_may_take(shape)) return nullptr;
    auto made =
        std::make_unique<cudnn_prepared_attention>(at_, capability_, shape, how_.deterministic);
    if (!made->refusal(handle_.get()).empty()) return nullptr;
    made->build(handle_.get());
    return made;
  }

 private:
  cuda_place at_;
  attention_engine_options how_;
  int capability_ = 0;
  std::unique_ptr<cudnnContext, released_by<cudnnDestroy>> handle_;
};

std::string cudnn_refusal(attention_shape const& shape, int capability, std::string const& device,
                          bool deterministic) {
  auto const described = std::make_shared<cudnn_frontend::DeviceProperties>();
  if (auto const answer = described->deserialize({device.begin(), device.end()}); answer.is_bad())
    return answer.err_msg;
  return cudnn_prepared_attention({}, capability, shape, deterministic).refusal(nullptr, described);
}

}  // namespace plait::detail

namespace plait {

ext::attention_engine_factory cudnn_attention() {
  return [](ext::cuda_place at,
            ext::attention_engine_options const& how) -> std::unique_ptr<ext::attention_engine> {
    return std::make_unique<detail::cudnn_attention_engine>(at, how);
  };
}

namespace detail {
bool const cudnn_is_linked = (linked_engine() = cudnn_attention()) != nullptr;
}  // namespace detail

}  // namespace plait
