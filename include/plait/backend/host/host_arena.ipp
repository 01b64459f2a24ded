// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/host/host_arena.hpp"

#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"

namespace plait::ext {

PLAIT_DECL host_arena::host_arena(std::size_t bytes, std::size_t place,
                                  std::shared_ptr<detail::posted_messages> messages)
    : messages_(std::move(messages)), bytes_(bytes), place_(place) {
  if (bytes == 0) return;
  data_.reset(
      static_cast<std::byte*>(::operator new(bytes + place, std::align_val_t{64}, std::nothrow)));
  if (data_ == nullptr)
    throw out_of_memory(concat({"out of memory: asked the processor for ", bytes, " bytes (",
                                bytes >> 20, " MiB)"}),
                        {.asked = bytes});
}

PLAIT_DECL host_arena::~host_arena() {
  if (messages_ != nullptr && data_ != nullptr && !messages_->rest()) leave();
}

PLAIT_DECL host_arena& host_arena::operator=(host_arena&& other) noexcept {
  auto old = std::move(*this);  // its destructor waits for messages
  messages_ = std::move(other.messages_);
  data_ = std::move(other.data_);
  bytes_ = std::exchange(other.bytes_, 0);
  place_ = other.place_;
  return *this;
}

}  // namespace plait::ext
