// Table of lowering rules, one function an ONNX operator. To add one: write it in the onnx_rules_*.cc that fits, list it there.
#ifndef WEIR_WORKER_RUNTIME_ONNX_RULES_H_
#define WEIR_WORKER_RUNTIME_ONNX_RULES_H_

#include <functional>
#include <map>
#include <string>

#include "worker/runtime/onnx_emitter.h"

namespace weir::worker {

using OnnxRule = std::function<void(OnnxEmitter&)>;
using OnnxRuleTable = std::map<std::string, OnnxRule>;

void AddElementwiseRules(OnnxRuleTable* table);  // activations, arithmetic, comparisons
void AddLayerRules(OnnxRuleTable* table);        // convolutions, pools, normalisation, products, dropout
void AddShapeRules(OnnxRuleTable* table);        // reshape, slice, gather, reductions
void AddIndexingRules(OnnxRuleTable* table);     // gather and scatter by element, top-k, tiles, blocks
void AddRecurrentRules(OnnxRuleTable* table);    // LSTM, GRU, RNN
void AddAttentionRules(OnnxRuleTable* table);    // attention, einsum, group and RMS normalisation

const OnnxRuleTable& OnnxRules();

}  // namespace weir::worker

#endif  // WEIR_WORKER_RUNTIME_ONNX_RULES_H_
