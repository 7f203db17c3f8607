// Package truth is what kernels are judged by: the rule token by token in float64 (Reference) with its gradients, inputs to test with (Class), and
// stored cases (Case). It shares no code with builders.
package truth
