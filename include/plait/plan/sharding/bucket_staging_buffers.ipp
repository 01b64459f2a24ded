// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/plan/sharding/bucket_staging_buffers.hpp"

namespace plait::planning {

PLAIT_DECL parameter_layout lay_out_stage_at_run_time(static_view<item> items,
                                                      static_view<parameter_entry> entries,
                                                      static_view<unit_range> chunks,
                                                      mesh const& complete,
                                                      layout_rules const& how) {
  return lay_out_stage(items, entries, chunks, complete, how);
}

}  // namespace plait::planning
