#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Several ranks with a real MPI on this machine: bash tests/mpi.sh [--crossover]
#
# Builds examples/mpi and decodes with 1, 2 and 4 ranks, each of which compares what it commits with
# what one process alone commits. --crossover also prints the table of examples/mpi/README.md,
# measured here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

unmask_packages libopenmpi-dev openmpi-bin libeigen3-dev nlohmann-json3-dev

build=build/mpi
jobs=${UNMASK_JOBS:-$(nproc)}
unmask_configure "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DUNMASK_CUDA=OFF \
  -DUNMASK_BUILD_EXAMPLES=ON -DUNMASK_EXAMPLES_MPI=ON
unmask_build "$build" --parallel "$jobs" --target unmask_example_mpi_decode \
  unmask_example_mpi_crossover

# More ranks than cores, in a container, as root: as a test machine is. Waiting ranks give way.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_ALLOW_RUN_AS_ROOT=1
export PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1

for ranks in 1 2 4; do
  timeout 600 mpirun -n "$ranks" "$build/examples/mpi/unmask_example_mpi_decode" </dev/null
done

if [[ ${1:-} == --crossover ]]; then
  mpirun -n 2 "$build/examples/mpi/unmask_example_mpi_crossover" </dev/null
fi
