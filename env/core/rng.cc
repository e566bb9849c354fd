#include "env/core/rng.h"

#include <bit>
#include <cmath>

#include "env/core/check.h"

namespace weir {

std::uint64_t Mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

std::uint64_t Mix64(std::uint64_t a, std::uint64_t b) {
  return Mix64(Mix64(a) ^ std::rotl(b, 32) ^ (b * 0xd6e8feb86659fd93ull));
}

Rng::Rng(std::uint64_t seed) : seed_(seed) {
  for (std::uint64_t i = 0; i < 4; ++i) state_[i] = Mix64(seed + i * 0x9e3779b97f4a7c15ull);
}

Rng Rng::Split(std::uint64_t stream) const {
  return Rng(Mix64(seed_, stream));
}

std::uint64_t Rng::Next() {
  auto& s = state_;
  const std::uint64_t result = std::rotl(s[1] * 5, 7) * 9;
  const std::uint64_t t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = std::rotl(s[3], 45);
  return result;
}

double Rng::Uniform() {
  return static_cast<double>(Next() >> 11) * 0x1.0p-53;
}
double Rng::Uniform(double low, double high) {
  return low + (high - low) * Uniform();
}

std::uint64_t Rng::Below(std::uint64_t n) {
  WEIR_CHECK_GT(n, 0u);
  const std::uint64_t threshold = (0 - n) % n;  // values below it would favour small results
  std::uint64_t x = Next();
  while (x < threshold) x = Next();
  return x % n;
}

double Rng::Exponential(double mean) {
  return -mean * std::log1p(-Uniform());
}

double Rng::Normal() {
  while (true) {
    const double u = Uniform(-1, 1), v = Uniform(-1, 1), s = u * u + v * v;
    if (s > 0 && s < 1) return u * std::sqrt(-2 * std::log(s) / s);
  }
}

double Rng::LogNormal(double median, double sigma) {
  return median * std::exp(sigma * Normal());
}

}  // namespace weir
