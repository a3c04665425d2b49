// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Threads for the steps of sessions on the host: thread_pool for one session at a time,
/// shared_thread_pool for any number of them.

#include <unmask/host/shared_thread_pool.hpp>
