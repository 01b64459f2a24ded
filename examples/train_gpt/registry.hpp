// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <plait/backend/process/process_engine.hpp>
#include <plait/data/byte_text.hpp>
#include <plait/data/token_shards.hpp>
#include <plait/draw/drawn_plan.hpp>
#include <plait/mesh/hosts.hpp>
#include <plait/tensor/batch.hpp>
#include <plait/train/options/stop_on_signals.hpp>
#include <plait/train/options/trainer_options.hpp>
#include <plait/train/state/saved_state.hpp>

#include "train_gpt/config_line.hpp"

// The main program's list of jobs: every (size, plan, precision, backend) is compiled separately,
// some in each unit, and enters itself into one list.
namespace train_gpt {

/// The name and shape of a parameter.
struct tensor_shape {
  std::string name;
  std::vector<std::size_t> lengths;
};

/// Writes whole parameters by name to a file.
struct tensor_sink {
  virtual ~tensor_sink() = default;
  virtual void write(std::string const& name, std::span<float const> values) = 0;
  virtual void write(std::string const& name, std::span<double const> values) = 0;
};

/// Checkpoints of one rank's trainer.
struct rank_checkpoints {
  virtual ~rank_checkpoints() = default;
  /// Returns the number of the next batch.
  virtual std::uint64_t resume() = 0;
  virtual void after_step() = 0;
  /// Saves the last step, unless it is saved.
  virtual void finish() = 0;
};

/// Options of the backend `simulated` besides the seed; see its own header.
struct simulation;

struct request {
  /// The data of the model; its size determines which of the two.
  std::variant<plait::byte_text const*, plait::token_shards const*> text;
  std::int64_t steps = 200;
  std::size_t batch = 16;
  int microbatches = 0;  ///< 0: as many as the plan needs
  int data_ranks = 0;    ///< for a plan that leaves them to the launch
  std::uint64_t seed = 0;
  double learning_rate = 3e-3;
  double weight_decay = 0.01;
  double clip = 1.0;
  bool in_order = false;
  bool program = false;    ///< explained, too
  int generate = 0;        ///< bytes or tokens to make up at the end
  bool replay = false;     ///< record a step and repeat it (CUDA graphs; one rank)
  bool share_gpu = false;  ///< all ranks on one GPU
  bool tf32 = false;       ///< products of float matrices in TF32 on a GPU
  /// The kernels of attention in bfloat16 on a GPU, own or cudnn; empty: cuDNN if it is linked.
  std::string attention{};
  bool deterministic_attention = true;  ///< as in cuda_options, these eight
  bool fused_gelu = true;
  bool fused_residual = true;
  bool one_pass_cross_entropy = true;
  bool loss_with_gradient = true;
  bool one_pass_layer_norm = true;
  bool fused_bias_gradient = false;
  bool time_products = false;
  std::uint64_t schedule_seed = 0;  ///< seed of the simulated device's order of events
  std::shared_ptr<plait::ext::process_engine> engine{};  ///< between processes
  double timeout = 0;  ///< seconds that a process waits for others; 0: the backend's default
  simulation const* simulated = nullptr;  ///< options of simulation, for tests of plait
  plait::stop_on_signals const* stop = nullptr;
  /// Gives a rank's trainer its first weights; if it is empty, the seed determines them.
  std::function<void(plait::saved_state&)> load;
  tensor_sink* save = nullptr;
  /// Makes the checkpoints of a rank; none if it is empty. Only the main program knows how.
  std::function<std::unique_ptr<rank_checkpoints>(std::unique_ptr<plait::saved_state>,
                                                  plait::ext::batch_description const&,
                                                  std::uint64_t epoch)>
      checkpoints;
  /// Takes the gradients of every step, for comparisons.
  tensor_sink* gradients = nullptr;
  std::function<void(plait::step_report const&, double tokens_per_second)> on_step;
};

struct moved_bytes {
  std::string axes;
  std::int64_t bytes = 0;
};

struct outcome {
  std::vector<moved_bytes> moved;    ///< by all ranks, in all steps
  std::vector<std::int32_t> sample;  ///< the bytes or tokens made up at the end
};

/// One compiled job.
struct entry {
  std::string size, plan, precision, backend;
  int ranks = 1;       ///< without data ranks that are left to the launch
  int data_ranks = 1;  ///< 0: left to the launch
  int stages = 1;
  int slices = 0;           ///< of a reproducible plan
  std::string recompute{};  ///< the kind of recomputation, if any
  int lora = 0;             ///< the rank of LoRA's matrices; 0: all parameters are trained
  std::size_t sequence = 0;
  std::size_t vocabulary = 0;
  bool reads_tokens = false;  ///< from a token file, not bytes from a text
  std::vector<tensor_shape> (*parameters)() = nullptr;
  std::vector<config_line> (*config)() = nullptr;
  std::string (*explain)(request const&, plait::host_map const&) = nullptr;
  plait::ext::drawn_plan (*draw)(request const&) = nullptr;
  /// Launches the job to see which hosts its ranks are on.
  plait::host_map (*hosts)(request const&) = nullptr;
  outcome (*run)(request const&) = nullptr;
};

/// All compiled jobs, in the order of their units.
inline std::vector<entry>& entries() {
  static std::vector<entry> all;
  return all;
}
/// The reproducible jobs, for any number of data ranks.
inline std::vector<entry>& reproducible_entries() {
  static std::vector<entry> all;
  return all;
}
/// The jobs that recompute.
inline std::vector<entry>& recompute_entries() {
  static std::vector<entry> all;
  return all;
}

struct registration {
  explicit registration(entry const& job) {
    (job.slices > 0           ? reproducible_entries()
     : !job.recompute.empty() ? recompute_entries()
                              : entries())
        .push_back(job);
  }
};

/// The backend's name in entries whose ranks are processes; the command line names the engine.
inline constexpr char const* process_backend = "process";

/// The engines that can carry bytes between processes.
struct engine_entry {
  char const* name = "";
  std::shared_ptr<plait::ext::process_engine> (*make)() = nullptr;
};

inline std::vector<engine_entry>& engines() {
  static std::vector<engine_entry> all;
  return all;
}

struct engine_registration {
  explicit engine_registration(engine_entry const& engine) { engines().push_back(engine); }
};

}  // namespace train_gpt
