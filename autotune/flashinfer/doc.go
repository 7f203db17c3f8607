// Package flashinfer reads and writes the files of FlashInfer-Bench (the FlashInfer Trace schema): Definition, Workload,
// Solution and Trace. It maps definitions of the gated delta rule onto gdn.Spec, makes the inputs that a workload asks
// for, and judges outputs by the rules of the benchmark.
//
// Rules:
//
//  1. Reading is strict. A missing or mistyped field, an axis that is not declared, a value out of its bounds is an error that
//     names the place as a JSON path, such as definition.inputs.q.shape[1]. All faults of a file are reported together.
//  2. Fields that this package does not know are kept, and written again, but for those of a source, an environment and a correctness.
//  3. The order of axes, inputs and outputs is that of the file: it is the order of the arguments.
//  4. A trace has a performance if and only if its status is PASSED, and a correctness only with PASSED and INCORRECT_NUMERICAL.
//
// The schema is that of flashinfer-ai/flashinfer-bench, docs/flashinfer-trace.
package flashinfer
