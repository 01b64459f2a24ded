// SPDX-License-Identifier: Apache-2.0
// The runtime of plait::elastic: the functions that do not depend on a program's types and are
// compiled once. See core/header_only.hpp.
#undef PLAIT_HEADER_ONLY
#define PLAIT_HEADER_ONLY 0

#include "plait/elastic/elastic_member.ipp"
#include "plait/elastic/elastic_run.ipp"
#include "plait/elastic/etcd.ipp"
#include "plait/elastic/etcd_access.ipp"
#include "plait/elastic/etcd_http.ipp"
#include "plait/elastic/etcd_rendezvous_store.ipp"
#include "plait/elastic/etcd_text.ipp"
#include "plait/elastic/etcd_watch.ipp"
#include "plait/elastic/job_keys.ipp"
#include "plait/elastic/membership.ipp"
#include "plait/elastic/replicas.ipp"
#include "plait/elastic/store_silence.ipp"
