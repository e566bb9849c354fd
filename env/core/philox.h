// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11:
// draw number i is a pure function of (key, i), so it doesn't matter who draws, in what order, or on which device.
#ifndef WEIR_ENV_CORE_PHILOX_H_
#define WEIR_ENV_CORE_PHILOX_H_

#include <array>
#include <cstdint>

#ifdef __CUDACC__
#define WEIR_HOST_DEVICE __host__ __device__
#else
#define WEIR_HOST_DEVICE
#endif

namespace weir {

struct Philox4 {
  std::uint32_t v[4];
};

// One block of four 32-bit words. `counter` least significant word first.
WEIR_HOST_DEVICE inline Philox4 Philox(Philox4 counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter.v[0], b = std::uint64_t{0xCD9E8D57u} * counter.v[2];
    counter = {{static_cast<std::uint32_t>(b >> 32) ^ counter.v[1] ^ key0, static_cast<std::uint32_t>(b),
                static_cast<std::uint32_t>(a >> 32) ^ counter.v[3] ^ key1, static_cast<std::uint32_t>(a)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// Words [4 block, 4 block + 4) of the stream `key`.
WEIR_HOST_DEVICE inline Philox4 PhiloxBlock(std::uint64_t key, std::uint64_t block) {
  return Philox({{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}},
                static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32));
}

// A draw is kept with probability 1 - p where its word is at least this.
WEIR_HOST_DEVICE inline std::uint32_t DropThreshold(double p) {
  const double words = p * 4294967296.0;
  return words >= 4294967295.0 ? 4294967295u : static_cast<std::uint32_t>(words);
}

}  // namespace weir

#endif  // WEIR_ENV_CORE_PHILOX_H_
