// The two passes over memory on a CPU, compiled for steps of one kind:
//
//   GRADIENTS, AVERAGES   how many of each there are; a step's vectors are its gradients, main first, then its averages
//   COUNT, PAIRS          the inner products: how many, and as "{a, b}, {c, d}" the vectors that each is of
//   NUMBER, WIDE          the type of the gradients, and the type to compute in, which is that of the averages
//
// Each vector comes in blocks, one for each parameter.

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

constexpr std::array<std::array<size_t, 2>, COUNT> PLACES{{PAIRS}};
constexpr size_t VECTORS = GRADIENTS + AVERAGES;
constexpr int64_t LANES = 16;       // sums that run side by side
constexpr int64_t CHUNK = 1 << 14;  // elements that they run over before they are added to a total in double
constexpr int64_t SHARE = 1 << 16;  // elements that are worth a thread

// The block of each vector that belongs to one parameter.
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

// All blocks: `addresses` has those of the first parameter, gradients and then averages, those of the second, ...
struct Blocks {
  int64_t count;
  const int64_t* sizes;
  void* const* addresses;

  Block operator[](const int64_t index) const {
    Block block;
    void* const* from = addresses + index * VECTORS;
    for (NUMBER*& one : block.gradients) one = static_cast<NUMBER*>(*from++);
    for (WIDE*& one : block.averages) one = static_cast<WIDE*>(*from++);
    return block;
  }
};

// Call work(thread, block, begin, end) for all elements; every thread has as many, side by side. A pass backwards begins
// with the blocks that the pass before has read last, as they are still in the cache.
template <class Work>
void shared_out(const Blocks& blocks, const int most, const bool backwards, const Work work) {
  const int64_t total = std::accumulate(blocks.sizes, blocks.sizes + blocks.count, int64_t{0});
  const int threads = static_cast<int>(std::clamp<int64_t>(total / SHARE, 1, most));
#pragma omp parallel num_threads(threads)
  {
    const int64_t thread = omp_get_thread_num(), all = omp_get_num_threads();
    const int64_t from = total * thread / all, to = total * (thread + 1) / all;
    int64_t seen = 0;
    for (int64_t k = 0; k < blocks.count; ++k) {
      const int64_t index = backwards ? blocks.count - 1 - k : k, size = blocks.sizes[index];
      const int64_t start = backwards ? total - seen - size : seen;
      const int64_t begin = std::max<int64_t>(from - start, 0), end = std::min(to - start, size);
      if (begin < end) work(thread, blocks[index], begin, end);
      seen += size;
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
    for (; i + LANES <= stop; i += LANES) (multiply<PLACES[P][0], PLACES[P][1]>(block, i, sums[P]), ...);
    for (; i < stop; ++i) ((sums[P][0] += block.at<PLACES[P][0]>(i) * block.at<PLACES[P][1]>(i)), ...);
    ((totals[P] = std::accumulate(sums[P].begin(), sums[P].end(), totals[P])), ...);
  }
}

// The direction's weights over the vectors, and average <- keep * average + take * gradient.
struct Formula {
  std::array<WIDE, VECTORS> weights;
  WIDE keep, take;
};

template <bool MOVING, size_t... V, size_t... A>
void form(const Block& block, const int64_t begin, const int64_t end, const Formula formula, std::index_sequence<V...>,
          std::index_sequence<A...>) {
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    const WIDE direction = ((formula.weights[V] * block.at<V>(i)) + ...);
    if constexpr (MOVING) {
      ((block.averages[A][i] = formula.keep * block.averages[A][i] + formula.take * block.at<A>(i)), ...);
    }
    block.gradients[GRADIENTS - 1][i] = static_cast<NUMBER>(direction);
  }
}

}  // namespace

// The inner products of the vectors, in the order of PAIRS.
extern "C" void products(const int64_t count, const int64_t* sizes, void* const* addresses, const int threads,
                         double* found) {
  std::vector<std::array<double, COUNT>> totals(threads);  // added in the order of the threads: the same every time
  const auto work = [&](int64_t thread, const Block& block, int64_t begin, int64_t end) {
    add_products(block, begin, end, totals[thread], std::make_index_sequence<COUNT>{});
  };
  shared_out({count, sizes, addresses}, threads, false, work);
  for (size_t p = 0; p < COUNT; ++p) {
    found[p] = 0;
    for (const auto& total : totals) found[p] += total[p];
  }
}

// The direction in place of the last gradient, and the averages moved, but left alone where there is nothing to take: 0
// times NaN is NaN.
extern "C" void finish(const int64_t count, const int64_t* sizes, void* const* addresses, const int threads,
                       const double* weights, const double keep, const double take) {
  Formula formula{{}, static_cast<WIDE>(keep), static_cast<WIDE>(take)};
  std::copy_n(weights, VECTORS, formula.weights.begin());
  const auto work = [&](int64_t, const Block& block, int64_t begin, int64_t end) {
    constexpr std::make_index_sequence<VECTORS> vectors{};
    constexpr std::make_index_sequence<AVERAGES> averages{};
    if (take > 0) {
      form<true>(block, begin, end, formula, vectors, averages);
    } else {
      form<false>(block, begin, end, formula, vectors, averages);
    }
  };
  shared_out({count, sizes, addresses}, threads, true, work);
}
