// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A product and a solve with Eigen.
#include <Eigen/Dense>

#include <cstdio>

int main() {
  const Eigen::MatrixXf a = Eigen::MatrixXf::Random(64, 64);
  const Eigen::MatrixXf b = a * a.transpose();
  const Eigen::VectorXf x = b.partialPivLu().solve(Eigen::VectorXf::Ones(64));
  std::printf("%g\n", static_cast<double>(x.norm()));
}
