// Package measure is the one instrument that programs are measured by. The gates of a search, the commands that explain, compile and
// tabulate, and the headers of generated files all ask it, so a program has one cost whoever asks.
//
// Rules:
//
//  1. A Program is suited, built and lowered once, whatever is asked of it afterwards.
//  2. What becomes of a program is a verdict: a *Refusal says which, and whose fault it is. Any other error is a failure of the
//     machinery, which the same program may survive the next time.
//  3. A cost follows from the text, the target, the compiler, the values of the tables that steer kernels, and the cost model. It is
//     kept on disk by the hash of all of these.
//  4. The cost of packed sequences is that of sequences of equal length, unless the caller gives the values of the tables.
package measure
