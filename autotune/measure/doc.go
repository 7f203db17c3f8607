// Package measure is the only way to measure a program. The gates of a search, the commands that explain, compile and
// tabulate, and the headers of generated files all use it, so that a program has one cost everywhere.
//
// Rules:
//
//  1. A Program is resolved, built and lowered once, for all questions asked of it.
//  2. A program without a cost has a verdict: a *Refusal says which, and whose fault it is. Any other error is a failure of the
//     machinery, and the same program may succeed the next time.
//  3. A cost depends on the text, the target, the compiler, the values of the tables that steer kernels, and the cost model. It is
//     cached on disk by the hash of all of these.
//  4. The cost of packed sequences assumes sequences of equal length, unless the caller gives the values of the tables.
package measure
