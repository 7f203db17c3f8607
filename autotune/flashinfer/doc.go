// Package flashinfer reads and writes the files of FlashInfer-Bench (the FlashInfer Trace schema): Definition,
// Workload, Solution and Trace. It maps definitions of the gated delta rule onto gdn.Spec, makes the inputs of a
// workload, and judges outputs by the rules of the benchmark.
//
// Rules:
//
//  1. Reading is strict. A missing or mistyped field, an axis that is not declared, a value out of its bounds is an error that
//     names the place as a JSON path, such as definition.inputs.q.shape[1]. All faults of a file are reported together.
//  2. Unknown fields are kept and written again, except in sources, environments and correctness records.
//  3. The order of axes, inputs and outputs is the file's: it is the order of the arguments.
//  4. A trace has a performance if and only if its status is PASSED, and a correctness only with PASSED and INCORRECT_NUMERICAL.
//
// The schema is defined in flashinfer-ai/flashinfer-bench, docs/flashinfer-trace.
package flashinfer
