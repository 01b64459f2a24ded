// SPDX-License-Identifier: Apache-2.0
// The runtime of plait::checkpoint: see core/header_only.hpp.
#undef PLAIT_HEADER_ONLY
#define PLAIT_HEADER_ONLY 0

#include "plait/checkpoint/batch_settings.ipp"
#include "plait/checkpoint/best_checkpoint.ipp"
#include "plait/checkpoint/check_config.ipp"
#include "plait/checkpoint/checkpoint_folder.ipp"
#include "plait/checkpoint/checkpoint_list.ipp"
#include "plait/checkpoint/checkpoint_name.ipp"
#include "plait/checkpoint/checkpoint_options.ipp"
#include "plait/checkpoint/checkpoints.ipp"
#include "plait/checkpoint/checksum.ipp"
#include "plait/checkpoint/config_fields.ipp"
#include "plait/checkpoint/counted_checkpoints.ipp"
#include "plait/checkpoint/disk.ipp"
#include "plait/checkpoint/elements.ipp"
#include "plait/checkpoint/folder_lease.ipp"
#include "plait/checkpoint/load_weights.ipp"
#include "plait/checkpoint/manifest.ipp"
#include "plait/checkpoint/manifest_parser.ipp"
#include "plait/checkpoint/manifest_rules.ipp"
#include "plait/checkpoint/manifest_text.ipp"
#include "plait/checkpoint/save_weights.ipp"
#include "plait/checkpoint/state_files.ipp"
#include "plait/checkpoint/state_reader.ipp"
#include "plait/checkpoint/weights_folder.ipp"
#include "plait/checkpoint/weights_index.ipp"
