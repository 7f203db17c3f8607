// Package autotune searches for the cheapest correct kernel of a spec. Rules:
//
//  1. A candidate is a gdn.Variant: data, never host code.
//  2. Gates judge it in order of price (package judge), and the first that refuses it ends its judgement with a typed verdict
//     (package journal). Tolerances are those of the input classes and are no part of a candidate.
//  3. What stops the machinery is no verdict: the gate is tried again, and then the run pauses with a [PauseError].
//  4. Candidates are judged in parallel and recorded in the order of their proposal. Candidate n is proposed knowing the
//     candidates up to n minus the lookahead, whatever the speed of the machine; so the same header gives the same
//     journal but for times, and budgets only choose where it ends.
//  5. The journal is the run. Resume folds it and goes on.
//
// # What belongs here
//
//	autotune    the driver: it proposes, orders, records and stops. Begin with search.go
//	judge       the gates: an evaluator lists them (Lab for TPUs, GPULab for GPUs). A candidate on its way is a Work
//	strategy    proposes. model has a surrogate (estimates, and Gaussian processes over what they miss); policy.go has what all share
//	journal     what was decided and why, append-only and chained by hash; Verify computes it anew
//	report      text, page and exports of a journal
//	worker      judges in other processes, so that driver and journal do not know where a candidate was judged
//	store       objects by content
//	promoted    a user's own champions
//	measure     the one instrument for the cost of a program: form, text, compile, schedule, verdict, cache
//	explain     a cost put together: stages, units, bounds, waits, pages with pictures
//	check       computes a spec (check/engine has the ways to) and compares it with float64, by package gdn/exam
//	results     docs/data/results.md: champions, fronts of cycles against errors, kernels of others
//	mfu         the parts of a training step, and their sum
//	selftest    named variants on works of every kind on a device
//	calibrate   what an attached GPU is asked for
//	ladder      a candidate from right numbers over kernel, layer and model to guards
//	flashinfer  files of FlashInfer-Bench, read strictly; bench sweeps its workloads, contest packs solutions
//
// It may import gdn, codegen, pjrt, ir and internal, and nothing of cmd.
//
// # Processes
//
// A compile worker has a process group of its own, a limit of time that follows how long compiles take here, and a limit of memory. Killed from
// outside, it is the machine's fault. A device is a child process too: its numbers are examined, and it is timed, alone on the machine,
// in pairs with the champion in turn. Wrong numbers refuse a candidate; times decide nothing.
//
// A program without a cost has a verdict: invalid, emit-error, vmem, compile-reject, cost-unknown (it compiles, and the cost model can not read
// its schedule), timeout, crash, internal (a pass or a backend panicked; the stack is kept). Other errors are failures of the machinery.
package autotune
