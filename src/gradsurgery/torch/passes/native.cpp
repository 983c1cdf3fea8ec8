// The two passes over memory on the CPU, compiled once for each kind of step:
//
//   GRADIENTS, AVERAGES   the number of each; the vectors of a step are its gradients, main first, then its averages
//   COUNT, PAIRS          the inner products: their number, and the two vectors of each as "{a, b}, {c, d}"
//   NUMBER, WIDE          the type of the gradients; the type to compute in, which is also that of the averages
//
// Each vector is split into blocks, one for each parameter.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_num_threads() { return 1; }
static int omp_get_thread_num() { return 0; }
#endif

namespace {

using std::int64_t;
using std::size_t;

constexpr std::array<std::array<size_t, 2>, COUNT> FACTORS{{PAIRS}};
constexpr size_t VECTORS = GRADIENTS + AVERAGES;
constexpr int64_t LANES = 16;             // partial sums side by side
constexpr int64_t CHUNK = 1 << 14;        // elements summed before the lanes are added to a total in double
constexpr int64_t PER_THREAD = 1 << 16;   // fewer elements than this are not worth another thread

// The vectors of one parameter.
struct Block {
  std::array<NUMBER*, GRADIENTS> gradients;
  std::array<WIDE*, AVERAGES> averages;

  template <size_t K>
  WIDE at(const int64_t i) const {
    if constexpr (K < GRADIENTS) {
      return static_cast<WIDE>(gradients[K][i]);
    } else {
      return averages[K - GRADIENTS][i];
    }
  }
};

// All blocks. `pointers` holds VECTORS pointers for each block: gradients, then averages.
struct Blocks {
  int64_t count;
  const int64_t* sizes;
  void* const* pointers;

  Block operator[](const int64_t index) const {
    Block block;
    void* const* pointer = pointers + index * VECTORS;
    for (NUMBER*& gradient : block.gradients) gradient = static_cast<NUMBER*>(*pointer++);
    for (WIDE*& average : block.averages) average = static_cast<WIDE*>(*pointer++);
    return block;
  }
};

// Call work(thread, block, begin, end) over all elements, an equal and contiguous share for each thread. The second pass
// runs backwards, to begin with the blocks that the first pass has left in the cache.
template <class Work>
void parallel_for(const Blocks& blocks, const int max_threads, const bool backwards, const Work work) {
  const int64_t total = std::accumulate(blocks.sizes, blocks.sizes + blocks.count, int64_t{0});
  const int threads = static_cast<int>(std::clamp<int64_t>(total / PER_THREAD, 1, max_threads));
#pragma omp parallel num_threads(threads)
  {
    const int64_t thread = omp_get_thread_num(), count = omp_get_num_threads();
    const int64_t from = total * thread / count, to = total * (thread + 1) / count;
    int64_t visited = 0;
    for (int64_t k = 0; k < blocks.count; ++k) {
      const int64_t index = backwards ? blocks.count - 1 - k : k, size = blocks.sizes[index];
      const int64_t start = backwards ? total - visited - size : visited;
      const int64_t begin = std::max<int64_t>(from - start, 0), end = std::min(to - start, size);
      if (begin < end) work(thread, blocks[index], begin, end);
      visited += size;
    }
  }
}

template <size_t A, size_t B>
void multiply(const Block& block, const int64_t i, std::array<WIDE, LANES>& sums) {
#pragma omp simd
  for (int64_t lane = 0; lane < LANES; ++lane) {
    sums[lane] += block.at<A>(i + lane) * block.at<B>(i + lane);
  }
}

template <size_t... P>
void add_products(const Block& block, const int64_t begin, const int64_t end, std::array<double, COUNT>& totals,
                  std::index_sequence<P...>) {
  for (int64_t i = begin; i < end;) {
    const int64_t stop = std::min(i + CHUNK, end);
    std::array<std::array<WIDE, LANES>, COUNT> sums{};
    for (; i + LANES <= stop; i += LANES) (multiply<FACTORS[P][0], FACTORS[P][1]>(block, i, sums[P]), ...);
    for (; i < stop; ++i) ((sums[P][0] += block.at<FACTORS[P][0]>(i) * block.at<FACTORS[P][1]>(i)), ...);
    ((totals[P] = std::accumulate(sums[P].begin(), sums[P].end(), totals[P])), ...);
  }
}

// The weights of the direction over the vectors, and average <- keep * average + take * gradient.
struct Coefficients {
  std::array<WIDE, VECTORS> weights;
  WIDE keep, take;
};

template <bool UPDATE_AVERAGES, size_t... V, size_t... A>
void combine_elements(const Block& block, const int64_t begin, const int64_t end, const Coefficients coefficients,
                      std::index_sequence<V...>, std::index_sequence<A...>) {
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    const WIDE direction = ((coefficients.weights[V] * block.at<V>(i)) + ...);
    if constexpr (UPDATE_AVERAGES) {
      ((block.averages[A][i] = coefficients.keep * block.averages[A][i] + coefficients.take * block.at<A>(i)), ...);
    }
    block.gradients[GRADIENTS - 1][i] = static_cast<NUMBER>(direction);
  }
}

}  // namespace

// The inner products of the vectors, in the order of PAIRS.
extern "C" void products(const int64_t count, const int64_t* sizes, void* const* pointers, const int threads,
                         double* results) {
  std::vector<std::array<double, COUNT>> totals(threads);  // summed in the order of the threads: reproducible
  const auto work = [&](int64_t thread, const Block& block, int64_t begin, int64_t end) {
    add_products(block, begin, end, totals[thread], std::make_index_sequence<COUNT>{});
  };
  parallel_for({count, sizes, pointers}, threads, false, work);
  for (size_t p = 0; p < COUNT; ++p) {
    results[p] = 0;
    for (const auto& total : totals) results[p] += total[p];
  }
}

// Write the direction over the last gradient and update the averages. With take = 0 the averages are not touched, as 0
// times NaN is NaN.
extern "C" void combine(const int64_t count, const int64_t* sizes, void* const* pointers, const int threads,
                        const double* weights, const double keep, const double take) {
  Coefficients coefficients{{}, static_cast<WIDE>(keep), static_cast<WIDE>(take)};
  std::copy_n(weights, VECTORS, coefficients.weights.begin());
  const auto work = [&](int64_t, const Block& block, int64_t begin, int64_t end) {
    constexpr std::make_index_sequence<VECTORS> vectors{};
    constexpr std::make_index_sequence<AVERAGES> averages{};
    if (take > 0) {
      combine_elements<true>(block, begin, end, coefficients, vectors, averages);
    } else {
      combine_elements<false>(block, begin, end, coefficients, vectors, averages);
    }
  };
  parallel_for({count, sizes, pointers}, threads, true, work);
}
