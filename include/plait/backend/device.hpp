// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <string>

#include "plait/backend/arguments.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/backend/queue_calls.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/operation/rows.hpp"
#include "plait/plan/schedule/synchronization.hpp"
#include "plait/tensor/view.hpp"

namespace plait::ext {

/// The tag by which a type declares itself a device: `using concept_tag = device_tag;`.
struct device_tag {};

/// The optional members of a device, by name: if a constant is true, the device has the member.
struct device_parts {
  /// go_on() -> void: lets posted messages progress; it is called between two operations.
  bool goes_on = false;
  /// workspace_bytes() -> size_t: the number of bytes that libraries and kernels have allocated in
  /// addition to the memory of the plan.
  bool counts_workspace = false;
  /// queue.loss_with_gradient() -> bool: true if steps compute a loss together with its gradient on
  /// this device, by `forward_backward` of the loss; nn::cross_entropy then needs the operation
  /// cross_entropy_with_gradient.
  bool joins_loss = false;
};

/// Returns true if a device has all members that its `parts` names.
template <class D>
consteval bool has_device_parts() {
  constexpr device_parts parts = D::parts;
  return (!parts.goes_on || requires(D& device) { device.go_on(); }) &&
         (!parts.counts_workspace || requires(D const& device) {
           { device.workspace_bytes() } -> std::same_as<std::size_t>;
         }) && (!parts.joins_loss || requires(typename D::queue const& queue) {
           { queue.loss_with_gradient() } -> std::same_as<bool>;
         });
}

/// A queue that has a kernel for an operation of operation/rows.hpp (a "row" of that table) with
/// operands and numbers of these types: `runs<host_queue, operation::fill, matrix<float>, float>`.
template <class Queue, class Row, class... Arguments>
concept runs =
    requires(Queue const& queue, Row row, Arguments... arguments) { queue.run(row, arguments...); };

/// A queue with kernels for the operations that every step needs, independent of the layers.
///
/// Syntax:  derives from queue_calls<Queue>; discard(data, bytes) -> void; run(row, operands...,
///          numbers...) for the operations below, in each type in which a job computes. The concept
///          checks only float.
/// Meaning: see `device`.
template <class Queue>
concept step_queue =
    std::derived_from<Queue, queue_calls<Queue>> &&
    requires(Queue const& queue, void* data, std::size_t bytes) {
      { queue.discard(data, bytes) } -> std::same_as<void>;
    } && runs<Queue, operation::copy_bytes, matrix<std::byte const>, matrix<std::byte>> &&
    runs<Queue, operation::copy_blocks, matrix<float const>, matrix<float>> &&
    runs<Queue, operation::convert, matrix<float const>, matrix<float>> &&
    runs<Queue, operation::fill, matrix<float>, float> &&
    runs<Queue, operation::swap, matrix<float>, matrix<float>> &&
    runs<Queue, operation::add, matrix<float const>, matrix<float const>, matrix<float>> &&
    runs<Queue, operation::add_and_clear, matrix<float>, matrix<float>> &&
    runs<Queue, operation::average, matrix<double const>, matrix<float const>, matrix<float>,
         double> &&
    runs<Queue, operation::sums_of_squares, float const*, matrix<squares_range const>, double*> &&
    runs<Queue, operation::divide, matrix<double const>, matrix<double>, double> &&
    runs<Queue, operation::clip, matrix<double const>, matrix<double>, matrix<double>, double> &&
    runs<Queue, operation::check_finite, matrix<double const>, matrix<double const>,
         matrix<double>>;

/// The device of one rank, with the same parts as a CUDA device: memory, streams, events between
/// streams, and queues that take operations. To support a new device, the author of a backend
/// writes only such a class. examples/own_device.cpp has a complete one, and
/// plait::testing::check_device runs a device and names each rule that it breaks.
///
/// Memory:  `memory` is a type that no other device uses, so that views of this memory cannot be
///          passed to another device. allocate() returns an arena of bytes with undefined values,
///          aligned to 64 bytes; its destructor frees them. upload() copies host memory to the
///          device in stream compute; the host memory may be changed when the call returns. Bytes
///          that download() copies to the host in stream compute are available after synchronize().
///          synchronize() returns when all streams are empty, and throws the error of an operation
///          that failed.
///
/// Streams: on(s) returns a queue, which puts operations into stream s; they run in order, during
///          the call or later. record(e, s) sets event e to the operations that are in stream s so
///          far; wait(s, e, site) delays all later operations of stream s until the operations of
///          event e have ended. replay(graph, body) runs body(), or repeats the operations that
///          body() has put into streams in an earlier call with this graph (as a CUDA graph does).
///
/// Queues:  run(row, operands..., numbers...) executes an operation; `row` is its entry in the
///          table operation/rows.hpp. Operands are matrices in the device's memory, in the order of
///          that entry, with const elements if they are only read (optimizers and users' functions
///          have other arguments, see host_queue). The numbers and the results are defined by the
///          function of host_queue with the same row. A kernel writes all elements of the operands
///          that are written, reads the previous values of an operand only if a '+' precedes the
///          operand in that entry, and touches no other memory.
///
///          A queue has the rows of `step_queue` and the row of each optimizer that its jobs use
///          (adamw, sgd). It needs other rows only for the layers of its jobs: a layer does not
///          compile for a device without the kernels of that layer. in_passes.hpp and epilogue.hpp
///          implement some rows by calls of other rows.
///
///          Only some layers need these three functions: prepare(row, operand, shape), which
///          attention layers call once before their first run(); run(row, f, ...) with a user's
///          function f, for the rows map, map_at, rows and accumulate_columns; and run(kernel,
///          views...), which calls kernel(queue, views...), for a layer's own kernels.
///          discard(data, bytes) states that these bytes are not read before they are written
///          again; most devices ignore the call.
///
/// Names:   kind() describes all properties on which the last bits of results depend and in which
///          devices may differ; it returns the same text each time. mark("name") returns an object:
///          operations that are put into streams while this object exists have this name in
///          profiles. Marks may be nested.
///
/// Parts:   the constant `parts` names the optional members of the device, see device_parts.
///
/// Syntax:  the members below.
/// Threads: used by the one thread that runs the rank.
template <class D>
concept device =
    std::same_as<typename D::concept_tag, device_tag> &&
    std::same_as<typename D::memory::concept_tag, memory_tag> &&
    std::default_initializable<typename D::arena> && std::movable<typename D::arena> &&
    std::default_initializable<typename D::graph> && std::movable<typename D::event> &&
    requires(typename D::arena const& arena) {
      { arena.data() } -> std::same_as<std::byte*>;
      { arena.size() } -> std::same_as<std::size_t>;
    } &&
    requires(D& device, std::size_t bytes, void const* from, void* to, stream on,
             typename D::event& event, wait_site site, typename D::graph& graph, void (*body)()) {
      { device.allocate(bytes) } -> std::same_as<typename D::arena>;
      { device.upload(from, to, bytes) } -> std::same_as<void>;
      { device.download(from, to, bytes) } -> std::same_as<void>;
      { device.synchronize() } -> std::same_as<void>;
      { device.on(on) } -> std::same_as<typename D::queue>;
      { device.make_event() } -> std::same_as<typename D::event>;
      { device.record(event, on) } -> std::same_as<void>;
      { device.wait(on, event, site) } -> std::same_as<void>;
      { device.replay(graph, body) } -> std::same_as<void>;
      { device.kind() } -> std::same_as<std::string>;
      device.mark("name");
      { D::parts } -> std::convertible_to<device_parts>;
    } &&
    has_device_parts<D>() && step_queue<typename D::queue>;

}  // namespace plait::ext
