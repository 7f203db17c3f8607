// Package autotune searches for the cheapest correct kernel of a spec. Rules:
//
//  1. A candidate is a gdn.Variant: data, never host code.
//  2. Gates judge it in order of price (package judge), and the first that refuses it ends its judgement with a typed verdict
//     (package journal). Tolerances are those of the input classes and are no part of a candidate.
//  3. What stops the machinery is no verdict: the gate is tried again, and then the run pauses with a [PauseError].
//  4. Candidates are judged in parallel and recorded in the order of their proposal. Candidate n is proposed knowing the
//     candidates up to n minus the lookahead, whatever the speed of the machine; so the same header gives the same
//     journal apart from times, and budgets only choose where it ends.
//  5. The journal is the run. Resume folds it and goes on.
package autotune
