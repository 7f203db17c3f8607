package pipeline

import (
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/ir"
)

// Vector work between two dots of four heads, in groups of two: a group's tiles are made, used and
// gone before those of the next.
func Example_order() {
	var text strings.Builder
	text.WriteString("module t (%x: f32[8,128], %y: f32[128,128]) -> (h0, h1, h2, h3) {\n")
	for _, line := range []string{
		"%%a%[1]d = dot %%x, %%y {lb=[], rb=[], lc=[1], rc=[0], prec=f32} : f32[8,128] @state.h%[1]d\n",
		"%%v%[1]d = exp %%a%[1]d : f32[8,128] @state.h%[1]d\n",
		"%%d%[1]d = dot %%v%[1]d, %%y {lb=[], rb=[], lc=[1], rc=[0], prec=f32} : f32[8,128] @state.h%[1]d\n",
	} {
		for head := range 4 {
			fmt.Fprintf(&text, line, head)
		}
	}
	text.WriteString("yield %d0, %d1, %d2, %d3\n}")
	m, err := ir.Parse(text.String())
	if err != nil {
		panic(err)
	}
	order(m.Body, &ir.Sched{Steps: 1, Lags: []int{0}, Lock: 2})
	for _, in := range m.Body.Instrs {
		fmt.Printf("%s.h%d ", in.Op, in.Task.Head)
	}
	// Output:
	// dot.h0 dot.h1 dot.h2 dot.h3 exp.h0 exp.h1 dot.h0 dot.h1 exp.h2 exp.h3 dot.h2 dot.h3
}

// Steps of two chunks, phases of lag 0, 1 and 2: which chunk each phase has in each time slot.
func Example_slots() {
	l := &pipeline{opt: &ir.Sched{Steps: 2, Lags: []int{0, 1, 2}}, g: &ir.Grid{Dims: []ir.GridDim{{Name: "c", Size: 8, Seq: true}}}}
	l.cutSlots()
	for _, s := range l.slots {
		if s.phase == 0 {
			fmt.Printf("slot %d", s.time)
		}
		fmt.Printf("    delay %d, #%d", s.delay, s.chunk)
		if s.phase == 2 {
			fmt.Println()
		}
	}
	for step := range l.steps + l.last {
		fmt.Printf("step %d: %d of %d slots have a chunk\n", step, len(l.active(step)), len(l.slots))
	}
	// Output:
	// slot 0    delay 0, #0    delay 1, #1    delay 1, #0
	// slot 1    delay 0, #1    delay 0, #0    delay 1, #1
	// step 0: 3 of 6 slots have a chunk
	// step 1: 6 of 6 slots have a chunk
	// step 2: 6 of 6 slots have a chunk
	// step 3: 6 of 6 slots have a chunk
	// step 4: 3 of 6 slots have a chunk
}

// When each instruction of a phase is in its time slot: spread by weights, after the delay of
// the state.
func Example_timeline() {
	const text = `module t (%x: f32[8,1024], %y: f32[8,512], %z: f32[8,512]) -> (a, b, c) {
  %a = exp %x : f32[8,1024] @state
  %b = exp %y : f32[8,512] @state
  %c = exp %z : f32[8,512] @state
  yield %a, %b, %c
}`
	m, err := ir.Parse(text)
	if err != nil {
		panic(err)
	}
	n := len(m.Body.Instrs)
	for _, delay := range []int{0, 50} {
		l := &pipeline{opt: &ir.Sched{Steps: 1, Lags: []int{0}, Late: delay}, body: m.Body, phase: make([]int, n), deps: make([][]int, n),
			free: make([]bool, n), lazy: make([]bool, n), first: make([]bool, n)}
		fmt.Println("state_delay", delay, l.timeline(0, nil))
	}
	// Output:
	// state_delay 0 [0.25 0.625 0.875]
	// state_delay 50 [0.625 0.8125 0.9375]
}

// Work that stands together, and gives way to other phases where a quarter of the time slot has gone.
func Example_together() {
	at := []float64{.125, .25, .375, .625, .75, 1, -1}
	together(at, .25)
	fmt.Println(at)
	// Output: [0 0.25 0.25 0.625 0.625 1 -1]
}
