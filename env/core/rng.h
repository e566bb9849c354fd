// Random numbers that are the same on every platform and standard library: xoshiro256** seeded by SplitMix64, own
// distributions. One 64-bit seed fixes everything; Split makes independent streams by name.
#ifndef WEIR_ENV_CORE_RNG_H_
#define WEIR_ENV_CORE_RNG_H_

#include <array>
#include <cstdint>

namespace weir {

// Mixes a 64-bit state: the output function of SplitMix64 (Steele, Lea, Flood, OOPSLA'14). A bijection.
std::uint64_t Mix64(std::uint64_t x);
// A hash of a short sequence, for counter-based draws: equal inputs give equal outputs everywhere.
std::uint64_t Mix64(std::uint64_t a, std::uint64_t b);

class Rng {
 public:
  explicit Rng(std::uint64_t seed);
  // An independent stream: a pure function of this generator's seed and `stream`, whatever was drawn before.
  Rng Split(std::uint64_t stream) const;

  std::uint64_t Next();  // uniform over all 64-bit values
  double Uniform();      // in [0, 1), 53 bits
  double Uniform(double low, double high);
  std::uint64_t Below(std::uint64_t n);  // in [0, n), unbiased. REQUIRES: n > 0
  double Exponential(double mean);
  double Normal();  // mean 0, standard deviation 1 (polar method)
  double LogNormal(double median, double sigma);

 private:
  std::uint64_t seed_;
  std::array<std::uint64_t, 4> state_;
};

}  // namespace weir

#endif  // WEIR_ENV_CORE_RNG_H_
