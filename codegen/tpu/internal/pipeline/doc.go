// Package pipeline orders the body of a kernel and overlaps successive chunks, as a schedule says (ir.Sched). A TPU compiler largely
// keeps the order of its source, so the order of instructions decides most of their cost.
//
// # Phases, lags and time slots
//
// A chunk passes through phases. The state forces an order: chunk n reads the state of chunk n-1, and its products with the state are a
// chain of dots, each waiting for the one before. All other work, such as K K^T, the decay and the inverse, needs no state. So a body is
// cut into phases: phase 0 has the work before the state, and the state's phase has the chain. A schedule may add a phase between them
// for the inverse, and one after for gradients. In time slot t, phase p works on chunk t - Lags[p]. Three chunks in three phases, lags
// 0, 1 and 2:
//
//	slot   phase 0        phase 1        phase 2
//	       products       solve          state
//	0      chunk 0
//	1      chunk 1        chunk 0
//	2      chunk 2        chunk 1        chunk 0
//	3                     chunk 2        chunk 1
//	4                                    chunk 2
//
// In slot 2 three chunks are in flight, and none waits for another within the slot: the MXUs always have a product ready. ExamplePlaces
// of codegen/tpu prints this table from a scheduled kernel.
//
// A step of the kernel has Steps time slots, in one straight line of code. With two slots a step and lags 0, 1 and 2, step n takes
// chunks 2n and 2n+1 into phase 0. Its phase 1 has chunk 2n-1 of the step before in the first slot and 2n in the second. So a slot has a
// delay, the number of steps since its chunk was new, and the chunk's number in that step (cutSlots):
//
//	          phase 0         phase 1         phase 2
//	slot 0    delay 0, #0     delay 1, #1     delay 1, #0
//	slot 1    delay 0, #1     delay 0, #0     delay 1, #1
//
// # Rings
//
// A value that one phase makes and a later one reads is in scratch for some slots. Its ring has one buffer slot more than the lags
// differ, rounded up so that the number of steps is a power of two. Between phases 0 and 2 above, a value of chunk 2 is stored in slot 2
// while the value of chunk 0 is read: three buffer slots, rounded up to four. The step number modulo the ring's steps, the turn, selects
// the buffer slot. Steps of different turns get their own bodies, in which all positions are constants (runs). A value that costs less
// to load or compute again has no ring (phase.go).
//
// # Bodies
//
// In the first and last steps some phases have no chunk: these steps have their own bodies, under conditions on the step. Five slots of
// three chunks are five bodies, and a thousand chunks are five too: all middle steps share one, or one per turn. A kernel of few steps
// that copies its blocks has a body per step, in which block numbers are constants (few).
//
// # Order in a step
//
// First, order.go arranges the instructions of the kernel as built: by stage, by the number of dots before, and by groups of heads. Then
// time.go spreads the instructions of each phase over a time slot, from 0 to 1 in proportion to their weights, and merges the phases by
// time. A phase that starts late (Sched.Late) or ends early (Sched.Ends) is squeezed into its part of the slot.
//
// Files: phase.go assigns instructions to phases; window.go gives phases windows with delays; copy.go writes the instructions of a slot.
// fetch.go and writeback.go have the copies that a kernel makes itself; ahead.go says when they start, drain.go when they start in the
// last step, and parts.go cuts the first and last blocks. pieces.go cuts the copies of a kernel of a single point.
package pipeline
