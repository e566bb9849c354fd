#!/usr/bin/env bash
# Builds and tests Weir on a GPU host that may have no package registry: LibTorch comes from the installed Python package `torch`, the other
# libraries from Debian packages that were fetched elsewhere into gpu-packages/ (about 18 MB, not in git).
#   scripts/gpu_host.sh fetch           where packages can be had: fill gpu-packages/
#   scripts/gpu_host.sh [build|test|demo]   on the GPU host (default: test); the build folder is build-gpu/
# Environment: TORCH_CUDA_ARCH_LIST (default 9.0), JOBS (default: all cores).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PACKAGES=(libboost1.74-dev libboost-graph1.74-dev libyaml-cpp-dev libyaml-cpp0.7 libzmq3-dev libzmq5 libsodium23 libsodium-dev libpgm-5.3-0 libnorm1
          libgtest-dev libgmock-dev googletest libprotobuf-dev libprotobuf32 libprotobuf-lite32 protobuf-compiler libprotoc32 libcli11-dev libfmt-dev
          libfmt9 nlohmann-json3-dev libsqlite3-dev libsqlite3-0 zlib1g-dev zlib1g libzstd-dev libzstd1 libbenchmark-dev libbenchmark1debian)

fetch() {
  mkdir -p gpu-packages
  (cd gpu-packages && apt-get download -qq "${PACKAGES[@]}")
  echo "gpu-packages/: $(ls gpu-packages/*.deb | wc -l) packages, $(du -sm gpu-packages | cut -f1) MB"
}

configure() {
  local sys=$PWD/build-gpu/sys
  if [ ! -d "$sys/usr" ]; then
    ls gpu-packages/*.deb >/dev/null 2>&1 || { echo "gpu_host.sh: gpu-packages/ is empty: run 'scripts/gpu_host.sh fetch' where packages can be had" >&2; exit 2; }
    mkdir -p "$sys"
    for f in gpu-packages/*.deb; do dpkg -x "$f" "$sys"; done
    # The packages' CMake files name /usr; the extracted tree is relocatable but for these absolute links.
    find "$sys/usr/lib" -lname '/*' -exec sh -c 'for l; do t=$(readlink "$l"); [ -e "$0$t" ] && ln -sf "$0$t" "$l"; done' "$sys" {} +
  fi
  L=$sys/usr/lib/x86_64-linux-gnu
  export LD_LIBRARY_PATH=$L:${LD_LIBRARY_PATH:-} PATH=$sys/usr/bin:$PATH TORCH_CUDA_ARCH_LIST=${TORCH_CUDA_ARCH_LIST:-9.0}
  [ -f build-gpu/build.ninja ] && return
  local torch
  torch=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')
  cmake -G Ninja -B build-gpu -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG" -DWEIR_WERROR=OFF \
    "-DCMAKE_PREFIX_PATH=$torch;$sys/usr" -DCMAKE_INCLUDE_PATH="$sys/usr/include" -DCMAKE_LIBRARY_PATH="$L" \
    -DCMAKE_EXE_LINKER_FLAGS="-Wl,-rpath-link,$L" -DCMAKE_SHARED_LINKER_FLAGS="-Wl,-rpath-link,$L" >build-gpu/configure.log 2>&1 ||
    { tail -n 30 build-gpu/configure.log; exit 7; }
}

case "${1:-test}" in
  fetch) fetch ;;
  build | test | demo)
    mkdir -p build-gpu
    configure
    cmake --build build-gpu -j "${JOBS:-$(nproc)}"
    case "${1:-test}" in
      test) ctest --test-dir build-gpu -j "$(nproc)" --output-on-failure --timeout 600 ;;
      demo) build-gpu/weir demo ;;
    esac
    ;;
  *) sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
