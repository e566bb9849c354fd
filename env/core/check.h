// WEIR_CHECK aborts on our own bugs, with file, line, values. Bad input throws weir::Error (error.h) instead.
#ifndef WEIR_ENV_CORE_CHECK_H_
#define WEIR_ENV_CORE_CHECK_H_

#include <sstream>
#include <string>

namespace weir::internal {

[[noreturn]] void CheckFailed(const char* file, int line, const char* expression, const std::string& details);

// Collects what is streamed after a failed check; aborts when it goes out of scope.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* expression, std::string values = "")
      : file_(file), line_(line), expression_(expression) {
    stream_ << values;
  }
  ~CheckFailure() { CheckFailed(file_, line_, expression_, stream_.str()); }
  template <typename T>
  CheckFailure& operator<<(const T& value) {
    stream_ << ' ' << value;
    return *this;
  }

 private:
  const char* file_;
  int line_;
  const char* expression_;
  std::ostringstream stream_;
};

template <typename A, typename B>
std::string CheckValues(const A& a, const B& b) {
  std::ostringstream out;
  out << '(' << a << " vs " << b << ')';
  return out.str();
}

}  // namespace weir::internal

#define WEIR_CHECK(condition) \
  if (condition) [[likely]] { \
  } else                      \
    ::weir::internal::CheckFailure(__FILE__, __LINE__, #condition)

#define WEIR_CHECK_OP_(a, op, b) \
  if ((a)op(b)) [[likely]] {     \
  } else                         \
    ::weir::internal::CheckFailure(__FILE__, __LINE__, #a " " #op " " #b, ::weir::internal::CheckValues((a), (b)))
#define WEIR_CHECK_EQ(a, b) WEIR_CHECK_OP_(a, ==, b)
#define WEIR_CHECK_NE(a, b) WEIR_CHECK_OP_(a, !=, b)
#define WEIR_CHECK_LT(a, b) WEIR_CHECK_OP_(a, <, b)
#define WEIR_CHECK_LE(a, b) WEIR_CHECK_OP_(a, <=, b)
#define WEIR_CHECK_GT(a, b) WEIR_CHECK_OP_(a, >, b)
#define WEIR_CHECK_GE(a, b) WEIR_CHECK_OP_(a, >=, b)

#endif  // WEIR_ENV_CORE_CHECK_H_
