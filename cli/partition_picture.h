// A partition as a self-contained, zoomable HTML page: one lane a part, operators in the order of the data, cut tensors drawn
// between the lanes.
#ifndef WEIR_CLI_PARTITION_PICTURE_H_
#define WEIR_CLI_PARTITION_PICTURE_H_

#include <string>
#include <vector>

#include "partitioner/cut/part_plan.h"

namespace weir::cli {

// Above this many operators the page shows parts and cut tensors only.
inline constexpr std::size_t kMaxPicturedOperators = 5000;

// `heading`: one line above the picture. `workers`: names by part, empty where no cluster was given.
std::string PartitionPicture(const partitioner::OperatorGraph& graph, const partitioner::PartPlan& plan,
                             const std::string& heading, const std::vector<std::string>& workers = {});

}  // namespace weir::cli

#endif  // WEIR_CLI_PARTITION_PICTURE_H_
