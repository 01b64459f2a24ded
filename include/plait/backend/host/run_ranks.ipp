// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/host/run_ranks.hpp"

#include <typeinfo>

namespace plait::detail {

PLAIT_DECL void rethrow_with_rank(std::exception_ptr const& failure, int rank) {
  auto const prefix = concat({"rank ", rank, ": "});
  try {
    std::rethrow_exception(failure);
  } catch (error const& e) {
    std::string const text = e.what();
    if (text.find("rank ") != std::string::npos) throw;
    if (typeid(e) == typeid(input_error)) throw input_error({prefix, text});
    if (typeid(e) == typeid(size_mismatch)) throw size_mismatch({prefix, text});
    if (typeid(e) == typeid(collective_mismatch)) throw collective_mismatch({prefix, text});
    if (typeid(e) == typeid(error)) throw error({prefix, text});
    throw;
  } catch (std::exception const& e) {
    std::throw_with_nested(error({prefix, e.what()}));
  }
}

PLAIT_DECL std::string failure_text(std::exception_ptr const& failure, int rank) {
  auto const subject = concat({"rank ", rank, " failed"});
  try {
    std::rethrow_exception(failure);
  } catch (std::exception const& e) {
    return concat({subject, ": ", e.what()});
  } catch (...) {
    return concat({subject, " with an exception that is not a std::exception"});
  }
}

}  // namespace plait::detail
