#include "worker/protocol/dataset.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdio>
#include <string>

#include "env/core/error.h"
#include "env/core/file.h"
#include "worker/protocol/wire.pb.h"

namespace weir::worker {
namespace {

std::string TempFile(const std::string& name, const std::string& content) {
  const std::string path = ::testing::TempDir() + "weir_dataset_" + std::to_string(::getpid()) + "_" + name;
  WriteFileAtomically(path, content);
  return path;
}

std::string Gzip(const std::string& content) {
  const std::string path = TempFile("gz", "");
  gzFile out = gzopen(path.c_str(), "wb");
  gzwrite(out, content.data(), static_cast<unsigned>(content.size()));
  gzclose(out);
  return ReadFile(path);
}

std::string Idx(int type, std::initializer_list<int> dims, const std::string& data) {
  std::string out = {0, 0, static_cast<char>(type), static_cast<char>(dims.size())};
  for (int d : dims)
    out += {static_cast<char>(d >> 24), static_cast<char>(d >> 16), static_cast<char>(d >> 8), static_cast<char>(d)};
  return out + data;
}

template <typename F>
std::string ErrorOf(F f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kInvalid);
    return e.what();
  }
  return "no error";
}

TEST(DatasetTest, ReadsTheBundledDigits) {
  const Dataset data = ReadDataset(WEIR_SOURCE_DIR "/data/digits8x8/digits.csv.gz", "", "csv", {1, 8, 8}, 10, 16);
  EXPECT_EQ(data.samples, 1797);
  EXPECT_EQ(data.features.size(), 1797u * 64);
  EXPECT_EQ(data.labels.size(), 1797u);
  EXPECT_FLOAT_EQ(data.features[2], 5.f / 16);
  EXPECT_EQ(data.labels[1], 1);
}

TEST(DatasetTest, CsvToleratesBlankLinesSpacesAndCarriageReturns) {
  const std::string path = TempFile("a.csv", "1, 2,0\r\n\n+3,-4e0,1\n");
  const Dataset data = ReadDataset(path, "", "csv", {2}, 2, 2);
  EXPECT_EQ(data.samples, 2);
  EXPECT_EQ(data.features, (std::vector<float>{0.5, 1, 1.5, -2}));
  EXPECT_EQ(data.labels, (std::vector<std::int64_t>{0, 1}));
}

TEST(DatasetTest, CsvErrorsNameLineExpectedAndFound) {
  auto error = [](const std::string& content) {
    const std::string path = TempFile("b.csv", content);
    std::string what = ErrorOf([&] { ReadDataset(path, "", "csv", {2}, 2, 1); });
    EXPECT_EQ(what.rfind(path, 0), 0u) << what;
    return what.substr(std::min(path.size(), what.size()));
  };
  EXPECT_EQ(error("1,2,0\n1,2\n"), ":2: expected 3 columns (2 features and a label), found 2");
  EXPECT_EQ(error("1,2,0\n1,2,3,0\n"), ":2: expected 3 columns (2 features and a label), found 4");
  EXPECT_EQ(error("a,b,label\n"), ":1: column 1: expected a number, found 'a'");
  EXPECT_EQ(error("1,,0\n"), ":1: column 2: expected a number, found ''");
  EXPECT_EQ(error("1,nan,0\n"), ":1: column 2: expected a number, found 'nan'");
  EXPECT_EQ(error("1,2,2\n"), ":1: column 3: expected a label from 0 to 1, found 2");
  EXPECT_EQ(error("1,2,0.5\n"), ":1: column 3: expected a label from 0 to 1, found 0.5");
  EXPECT_EQ(error("\n"), ": expected at least one row, found none");
}

TEST(DatasetTest, RefusesTruncatedAndDamagedGzip) {
  std::string content;
  for (int i = 0; i < 1000; ++i) content += std::to_string(i * 7919 % 1000) + ",2,0\n";
  const std::string packed = Gzip(content);
  EXPECT_EQ(ReadDataset(TempFile("c.gz", packed), "", "csv", {2}, 2, 1).samples, 1000);
  EXPECT_EQ(ReadDataset(TempFile("c.gz", packed + packed), "", "csv", {2}, 2, 1).samples, 2000);
  for (std::size_t size : {packed.size() - 1, packed.size() / 2, std::size_t{5}}) {
    const std::string path = TempFile("c.gz", packed.substr(0, size));
    EXPECT_EQ(ErrorOf([&] { ReadDataset(path, "", "csv", {2}, 2, 1); }), path + ": truncated gzip file");
  }
  std::string damaged = packed;
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x40);
  EXPECT_NE(ErrorOf([&] { ReadDataset(TempFile("c.gz", damaged), "", "csv", {2}, 2, 1); }), "no error");
}

TEST(DatasetTest, ReadsIdxWithAndWithoutAShape) {
  const std::string samples = TempFile("s", Gzip(Idx(0x08, {2, 2, 2}, std::string("\x00\x01\x02\x03\xff\x05\x06\x07", 8))));
  const std::string labels = TempFile("l", Idx(0x08, {2}, std::string("\x01\x00", 2)));
  const Dataset data = ReadDataset(samples, labels, "idx", {}, 2, 255);
  EXPECT_EQ(data.sample_shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_FLOAT_EQ(data.features[4], 1);
  EXPECT_EQ(data.labels[0], 1);
  EXPECT_EQ(ReadDataset(samples, labels, "idx", {1, 2, 2}, 2, 1).sample_shape.size(), 3u);
  EXPECT_EQ(ErrorOf([&] {
              ReadDataset(samples, labels, "idx", {3, 2, 2}, 2, 1);
            }),
            samples + ": expected samples of shape [3, 2, 2], found [2, 2]");
}

TEST(DatasetTest, IdxErrorsNameExpectedAndFound) {
  const std::string good = TempFile("s", Idx(0x08, {2, 1}, "ab"));
  auto labels_error = [&](const std::string& content) {
    const std::string path = TempFile("l", content);
    return ErrorOf([&] { ReadDataset(good, path, "idx", {}, 2, 1); }).substr(path.size());
  };
  EXPECT_EQ(labels_error(Idx(0x08, {3}, std::string(3, 0))), ": expected 2 labels, found shape [3]");
  EXPECT_EQ(labels_error(Idx(0x08, {2}, std::string("\x00\x02", 2))), ": label 1: expected a label from 0 to 1, found 2");
  EXPECT_EQ(labels_error(Idx(0x08, {2}, "a")), ": expected 10 bytes for shape [2], found 9");
  EXPECT_EQ(labels_error(Idx(0x07, {2}, "ab")), ": idx element type 0x07 is unknown");
  EXPECT_EQ(labels_error("nonsense"), ": not an idx file (it must start with two zero bytes)");
  EXPECT_EQ(labels_error(std::string("\x00\x00\x08\x02\x00", 5)), ": truncated idx header");
}

TEST(DatasetTest, CountsIterationsAndHeldOutSamples) {
  EXPECT_EQ(HeldOutSamples(1797, 0.2), 359);
  EXPECT_EQ(HeldOutSamples(1, 0.99), 0);
  EXPECT_EQ(HeldOutSamples(10, 0), 0);
  EXPECT_EQ(TotalIterations(0, 10, 1438, 64), 220);
  EXPECT_EQ(TotalIterations(0, 0.5, 1438, 64), 11);
  EXPECT_EQ(TotalIterations(0, 0.01, 1438, 64), 1);
  EXPECT_EQ(TotalIterations(7, 0, 1438, 64), 7);
}

wire::DataSpec Spec(const std::string& format, std::int64_t classes, std::vector<std::int64_t> shape = {}) {
  wire::DataSpec spec;
  spec.set_format(format);
  spec.set_num_classes(classes);
  spec.set_scale(1);
  for (std::int64_t d : shape) spec.add_sample_shape(d);
  return spec;
}

TEST(DatasetTest, CsvWithRealTargets) {
  wire::DataSpec spec = Spec("csv", 0, {2});
  spec.set_targets(2);
  const Dataset data = ReadDataset(TempFile("t.csv", "1,2,0.5,-1\n3,4,1.5,2\n"), "", spec);
  EXPECT_EQ(data.samples, 2);
  EXPECT_EQ(data.features, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(data.targets, (std::vector<float>{0.5, -1, 1.5, 2}));
  EXPECT_EQ(data.label_shape, (std::vector<std::int64_t>{2}));
  EXPECT_TRUE(data.labels.empty());
  EXPECT_NE(ErrorOf([&] {
              ReadDataset(TempFile("t2.csv", "1,2,3\n"), "", spec);
            }).find(":1: expected 4 columns (2 features and 2 targets), found 3"),
            std::string::npos);
}

TEST(DatasetTest, CifarRecords) {
  std::string two;
  for (int i = 0; i < 2; ++i) {
    two += static_cast<char>(7 - i);
    for (int p = 0; p < 3072; ++p) two += static_cast<char>((p + i) % 256);
  }
  const std::string path = TempFile("cifar.bin", two);
  const Dataset data = ReadDataset(path, "", Spec("cifar", 10));
  EXPECT_EQ(data.samples, 2);
  EXPECT_EQ(data.sample_shape, (std::vector<std::int64_t>{3, 32, 32}));
  EXPECT_EQ(data.labels, (std::vector<std::int64_t>{7, 6}));
  EXPECT_EQ(data.features[255], 255);
  EXPECT_EQ(data.features[3072], 1);
  EXPECT_NE(ErrorOf([&] { ReadDataset(path, "", Spec("cifar", 7)); }).find("record 0: expected a label from 0 to 6, found 7"),
            std::string::npos);
  wire::DataSpec hundred = Spec("cifar", 100);
  hundred.set_label_bytes(2);
  EXPECT_NE(ErrorOf([&] { ReadDataset(path, "", hundred); }).find("expected records of 3074 bytes"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { ReadDataset(TempFile("short.bin", two.substr(0, 4000)), "", Spec("cifar", 10)); }).find("cut off"),
            std::string::npos);
  EXPECT_EQ(ReadDataset(TempFile("c.gz", Gzip(two)), "", Spec("cifar", 10)).samples, 2);
}

TEST(DatasetTest, TokensInWindows) {
  wire::DataSpec spec = Spec("tokens", 256, {3});
  const Dataset data = ReadDataset(TempFile("text", "abcdefgh"), "", spec);  // the eighth is only a label's neighbour
  EXPECT_EQ(data.samples, 2);
  EXPECT_EQ(data.ids, (std::vector<std::int64_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
  EXPECT_EQ(data.labels, (std::vector<std::int64_t>{'b', 'c', 'd', 'e', 'f', 'g'}));
  EXPECT_EQ(data.label_shape, (std::vector<std::int64_t>{3}));
  spec.set_token_type("uint16");
  spec.set_num_classes(70000);
  const Dataset wide = ReadDataset(TempFile("w", std::string("\x01\x02\x03\x04\x05\x06\x07\x08", 8)), "", spec);
  EXPECT_EQ(wide.ids, (std::vector<std::int64_t>{0x0201, 0x0403, 0x0605}));
  EXPECT_EQ(wide.labels.back(), 0x0807);
  EXPECT_NE(ErrorOf([&] { ReadDataset(TempFile("odd", "abc"), "", spec); }).find("3 bytes are no whole number of uint16 tokens"),
            std::string::npos);
  spec.set_token_type("int32");
  EXPECT_NE(ErrorOf([&] {
              ReadDataset(TempFile("neg", std::string(16, '\xff')), "", spec);
            }).find("token 0: expected a number from 0 to 69999, found -1"),
            std::string::npos);
  spec.set_token_type("uint8");
  spec.set_num_classes(100);
  EXPECT_NE(ErrorOf([&] {
              ReadDataset(TempFile("high", "AAAz"), "", spec);
            }).find("token 3: expected a number from 0 to 99, found 122"),
            std::string::npos);
  EXPECT_NE(ErrorOf([&] { ReadDataset(TempFile("few", "abc"), "", spec); }).find("expected at least 4 tokens"),
            std::string::npos);
}

}  // namespace
}  // namespace weir::worker
