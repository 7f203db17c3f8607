// Package truth is the reference for kernels: the rule token by token in float64 with gradients (Reference), classes of test inputs (Class), and
// stored cases (Case). It shares no code with builders.
package truth
