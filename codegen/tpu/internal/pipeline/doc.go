// Package pipeline orders the body of a kernel and overlaps successive chunks, as a schedule says
// (ir.Sched). The compiler of a TPU keeps the order of its source to a large degree, so the order
// in which instructions are written is most of what they cost.
//
// # Phases, lags and time slots
//
// A chunk passes through phases. The state forces an order: chunk n reads the state that chunk n-1
// left, and its products with it are a chain of dots, each waiting for the one before. Everything
// else, such as K K^T, the decay and the inverse, needs no state. So a body is cut into phases:
// phase 0 has what comes before the state, the phase of the state has the chain, and a schedule
// may have one between them for the inverse, and one behind for gradients. In time slot t, phase p
// works on chunk t - Lags[p]. Three chunks in three phases, lags 0, 1 and 2:
//
//	slot   phase 0        phase 1        phase 2
//	       products       solve          state
//	0      chunk 0
//	1      chunk 1        chunk 0
//	2      chunk 2        chunk 1        chunk 0
//	3                     chunk 2        chunk 1
//	4                                    chunk 2
//
// In slot 2 three chunks are under way, and nothing of one waits for another in that slot: the
// matrix units always have a product of some chunk that is ready. ExamplePlaces of codegen/tpu prints
// this table from a scheduled kernel.
//
// A step of the kernel has Steps time slots, one after another in one straight line of code. With
// two slots a step, and lags 0, 1 and 2, a step takes chunks 2n and 2n+1 into phase 0; phase 1 has
// 2n-1 of the step before in its first slot and 2n in its second. A slot so has a delay, of how
// many steps ago its chunk was new, and the number of the chunk in that step (cutSlots):
//
//	          phase 0         phase 1         phase 2
//	slot 0    delay 0, #0     delay 1, #1     delay 1, #0
//	slot 1    delay 0, #1     delay 0, #0     delay 1, #1
//
// # Rings
//
// A value that a phase makes and a later one reads is in scratch for some slots. It has a ring of
// as many places as the lags are apart, and one, rounded up to a power of two in steps. Between
// phase 0 and 2 above, a value of chunk 2 is stored in slot 2 while those of chunk 0 are read: the
// ring has four places, the next power of two beyond three. A place is chosen by the step's number
// modulo the ring's, its turn; steps of different turns get bodies of their own, in which all
// places are constants (runs). What a load costs less than a place in a ring is loaded or computed
// again instead (phase.go).
//
// # Bodies
//
// The first and the last steps have phases without a chunk: they are bodies of their own, under
// conditions on the step. So five slots of three chunks are five bodies, and those of a thousand
// chunks are five as well: all steps in the middle share one, or one a turn. Kernels of few steps that
// copy their blocks have a body for each step, in which blocks have constant numbers (few).
//
// # Order in a step
//
// First, order.go arranges the instructions of the kernel as built: by stage, by the number of dots
// before, and by groups of heads. Then time.go spreads the instructions of each phase evenly over
// a time slot, from 0 to 1 by their weights, and merges the phases by time. A phase that starts
// late (Sched.Late) or ends early (Sched.Ends) is squeezed into its part of the slot.
//
// One file has one subject: phase.go finds the phase of each instruction; window.go gives phases
// windows of their delays; copy.go writes the instructions of a slot; fetch.go and
// writeback.go have the copies that a kernel makes by itself, ahead.go when they start, drain.go when
// those of a last step do, and parts.go those at the two ends;
// pieces.go cuts those of a kernel that has one point alone.
package pipeline
