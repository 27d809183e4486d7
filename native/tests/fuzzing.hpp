// What fuzzers share: random numbers, the end at the first difference, and one problem after another.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <random>

#include "strip_pass.hpp"

namespace heedmap {

using Random = std::mt19937;

inline Index pick(Random& random, Index low, Index high) {
  return std::uniform_int_distribution<Index>(low, high)(random);
}
inline bool coin(Random& random, int one_in = 2) { return pick(random, 1, one_in) == 1; }

[[noreturn]] inline void fail(const char* what, double found, double expected, const char* level, unsigned seed) {
  std::fprintf(stderr, "%s (%s, seed %u): found %.9g, expected %.9g\n", what, level, seed, found, expected);
  std::exit(1);
}

// `run_one(seed)` as often as the first argument says (1000 times), from the seed that the second one says (1).
inline unsigned run_all(int count, char** arguments, void (*run_one)(unsigned)) {
  const unsigned many = count > 1 ? static_cast<unsigned>(std::atoi(arguments[1])) : 1000;
  const unsigned first = count > 2 ? static_cast<unsigned>(std::atoi(arguments[2])) : 1;
  for (unsigned seed = first; seed < first + many; ++seed) run_one(seed);
  return many;
}

// The same for strips, each of which every instruction set passes.
inline int fuzz(int count, char** arguments, void (*run_one)(unsigned), const char* what, bool products_only) {
  const unsigned strips = run_all(count, arguments, run_one);
  std::printf("%u strips agree in every instruction set%s:", strips, what);
  for (const Level* level : levels()) {
    if (level->panel > 0 || !products_only) std::printf(" %s", level->name);
  }
  std::printf("\n");
  return 0;
}

}  // namespace heedmap
