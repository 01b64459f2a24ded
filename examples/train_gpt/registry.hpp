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
#include <plait/io/model_config.hpp>
#include <plait/mesh/hosts.hpp>
#include <plait/tensor/batch.hpp>
#include <plait/train/options/stop_on_signals.hpp>
#include <plait/train/options/trainer_options.hpp>
#include <plait/train/state/saved_state.hpp>

// The list of jobs, through which the main program finds them. Each job, a combination of size,
// plan, precision and backend, is compiled in one of several units apart from the main program, and
// adds itself to this list.
namespace train_gpt {

/// The name and shape of a parameter.
struct tensor_shape {
  std::string name;
  std::vector<std::size_t> lengths;
};

/// Receives whole parameters by name, for example to write them to a file.
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
  /// Saves the state after the last step, unless this state is already saved.
  virtual void finish() = 0;
};

/// Options of the backend `simulated` in addition to the seed; see the header of that backend.
struct simulation;

struct request {
  /// The training data: a text or tokens. The size of the model determines which of the two a job
  /// reads.
  std::variant<plait::byte_text const*, plait::token_shards const*> text;
  std::int64_t steps = 200;
  std::size_t batch = 16;
  int microbatches = 0;  ///< 0: the number of stages
  int data_ranks = 0;    ///< the number of data ranks, if the plan leaves it to the launch
  std::uint64_t seed = 0;
  double learning_rate = 3e-3;
  double weight_decay = 0.01;
  double clip = 1.0;
  plait::ext::outer_step outer{};  ///< the outer step of common updates; default without them
  bool in_order = false;
  bool program = false;    ///< explain also prints the program of each rank
  int generate = 0;        ///< the number of bytes or tokens to generate at the end
  bool replay = false;     ///< record a step and repeat it (CUDA graphs; one rank)
  bool share_gpu = false;  ///< all ranks on one GPU
  bool tf32 = false;       ///< products of float matrices in TF32 on a GPU
  /// The engine of attention in bfloat16 on a GPU, own or cudnn; empty: cuDNN if it is linked.
  std::string attention{};
  /// This option and the next seven are members of cuda_options.
  bool deterministic_attention = true;
  bool fused_gelu = true;
  bool fused_residual = true;
  bool one_pass_cross_entropy = true;
  bool loss_with_gradient = true;
  bool one_pass_layer_norm = true;
  bool fused_bias_gradient = false;
  bool time_products = false;
  /// The seed of the order in which the simulated device executes.
  std::uint64_t schedule_seed = 0;
  /// The engine that sends bytes between processes.
  std::shared_ptr<plait::ext::process_engine> engine{};
  double timeout = 0;  ///< seconds that a process waits for others; 0: the default of the backend
  /// Further options of the simulation, for tests of plait itself.
  simulation const* simulated = nullptr;
  plait::stop_on_signals const* stop = nullptr;
  /// Loads the first weights of a rank's trainer. If the function is empty, the weights are drawn
  /// from the seed.
  std::function<void(plait::saved_state&)> load;
  tensor_sink* save = nullptr;
  /// Makes the checkpoints of a rank. If the function is empty, no checkpoints are written. Only
  /// the main program knows the options of checkpoints.
  std::function<std::unique_ptr<rank_checkpoints>(std::unique_ptr<plait::saved_state>,
                                                  plait::ext::batch_description const&,
                                                  std::uint64_t epoch)>
      checkpoints;
  /// Receives the gradients of every step, for comparisons.
  tensor_sink* gradients = nullptr;
  std::function<void(plait::step_report const&, double tokens_per_second)> on_step;
};

struct moved_bytes {
  std::string axes;
  std::int64_t bytes = 0;
};

struct outcome {
  std::vector<moved_bytes> moved;    ///< the bytes that all ranks moved in all steps
  std::vector<std::int32_t> sample;  ///< the bytes or tokens that were generated at the end
};

/// One compiled job.
struct entry {
  std::string size, plan, precision, backend;
  /// The number of ranks. If the number of data ranks is left to the launch, the number of ranks
  /// for one data rank.
  int ranks = 1;
  int data_ranks = 1;  ///< 0: left to the launch
  int stages = 1;
  int slices = 0;  ///< slices of a reproducible plan; 0: the plan is not reproducible
  /// Parts of a batch of which each data rank has one or, under `shares`, as many as its share.
  int parts = 1;
  int local_steps = 0;      ///< steps between two common updates of replicas; 0: no replicas
  std::string recompute{};  ///< the kind of recomputation, if any
  int lora = 0;             ///< the rank of LoRA's matrices; 0: all parameters are trained
  std::size_t sequence = 0;
  std::size_t vocabulary = 0;
  bool reads_tokens = false;  ///< true: the job reads a token file; false: the bytes of a text
  std::vector<tensor_shape> (*parameters)() = nullptr;
  plait::model_config (*config)() = nullptr;
  std::string (*explain)(request const&, plait::host_map const&) = nullptr;
  plait::ext::drawn_plan (*draw)(request const&) = nullptr;
  /// Launches the job to find out on which hosts its ranks run.
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
/// The jobs that recompute activations.
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

/// The backend of entries whose ranks are processes. The command line names the engine.
inline constexpr char const* process_backend = "process";

/// An engine that can send bytes between processes.
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
