package llo

import (
	"fmt"

	"github.com/gdngen/gdngen/ir/target"
)

// A waitKind is what an interlock waits for.
type waitKind uint8

const (
	waitRegister     waitKind = iota // a vector register or mask that is being written
	waitMatmul                       // a matrix unit that an earlier product holds
	waitPush                         // its weight port
	waitMatmulResult                 // the result of a product
	waitMatmulPop                    // the result queue, between two pops
	waitLanes                        // a lane unit
	waitSwitch                       // a lane unit that switches between permutes, sums and transposes
	waitLaneResult                   // a permuted, summed or transposed register
	waitLanePop                      // their queue, between two pops
	waitTransc                       // the result of a transcendental function
	waitRead                         // a transfer from main memory
	waitWrite                        // a transfer to main memory
	waitCopy                         // a transfer between other memories
	waitKinds
)

var waitNames = [waitKinds]string{"register", "matrix unit", "weight port", "matrix result", "matrix result queue", "lane unit", "lane switch",
	"lane result", "lane result queue", "transcendental", "read", "write", "local copy"}

// A queue holds the times at which results are ready, in order.
type queue struct {
	ready []int64
	head  int
}

func (q *queue) push(t int64) { q.ready = append(q.ready, t) }

func (q *queue) empty() bool { return q.head == len(q.ready) }

func (q *queue) pop() {
	if q.head++; q.head == len(q.ready) {
		q.ready, q.head = q.ready[:0], 0
	}
}

// A transpose under way has taken some registers.
type transposing struct {
	pushes int64
	pair   bool
	width  int64
}

// A clock issues the bundles that a machine executes, in order, each when what it needs is ready. It has no part in what executes.
type clock struct {
	timing *target.Timing
	now    int64
	ready  [vectorsAndMask]int64

	matmulFree, portFree, matmulPopFree [maxMXUs]int64
	matmulOut                           [maxMXUs]queue
	matmulAt                            [maxMXUs]map[int]int64
	lanesFree, lanePopFree              [maxMXUs]int64
	switchFree                          [maxMXUs][laneClasses]int64
	lanesOut                            [maxMXUs]queue
	transposes                          [maxMXUs]transposing
	transcOut                           queue

	waits                 [waitKinds]int64
	at                    []int64 // waits by bundle
	inside                int64   // cycles of ops that it called
	products              bool    // whether there was one
	edges, inner, pending int64   // waits for transfers: before the first product, between two, since the last
	channel               *channel
	fault                 string // what the model does not understand; the first one
}

func newClock(tm *target.Timing, bundles int, ch *channel) *clock {
	return &clock{timing: tm, at: make([]int64, bundles), channel: ch}
}

func (k *clock) refuse(format string, args ...any) {
	if k.fault == "" {
		k.fault = fmt.Sprintf(format, args...)
	}
}

// wait moves the present to t and books the difference.
func (k *clock) wait(pc int, t int64, kind waitKind) {
	if t > k.now {
		k.waits[kind] += t - k.now
		k.at[pc] += t - k.now
		if kind >= waitRead {
			k.pending += t - k.now
		}
		k.now = t
	}
}

// issue takes a bundle: its cycles pass, it waits for the last of what it needs, and then its instructions start.
func (k *clock) issue(pc int, cycles int64, ops []*vectorOp, runs func(guard) bool, width func(operand) int64) {
	k.now += cycles
	until, why := k.now, waitRegister
	for _, o := range ops {
		if t, kind := k.needs(o, runs); t > until {
			until, why = t, kind
		}
	}
	k.wait(pc, until, why)
	for _, o := range ops { // pops first: a bundle may pop a result and enter another
		if o.kind >= popMatmul && o.kind <= popMatmulAddr && runs(o.guard) {
			k.popped(o)
		}
	}
	for _, o := range ops {
		if !runs(o.guard) {
			continue
		}
		k.start(o, width)
		if o.write != noVector {
			k.ready[o.write] = k.now + o.latency
		}
	}
}

// needs is when an instruction can issue, and what it waits for.
func (k *clock) needs(o *vectorOp, runs func(guard) bool) (t int64, kind waitKind) {
	need := func(at int64, why waitKind) {
		if at > t {
			t, kind = at, why
		}
	}
	for _, r := range o.reads {
		need(k.ready[r], waitRegister)
	}
	if o.kind == onVector || !runs(o.guard) {
		return t, kind
	}
	result := func(q *queue, why waitKind) {
		if q.empty() {
			k.refuse("a result is taken that nothing makes (%s)", waitNames[why])
			return
		}
		need(q.ready[q.head], why)
	}
	switch o.kind {
	case onMatmul:
		need(k.matmulFree[o.unit], waitMatmul)
	case onPush:
		need(k.portFree[o.unit], waitPush)
	case onLanes, onTranspose:
		need(k.lanesFree[o.unit], waitLanes)
		if o.kind == onLanes || o.start {
			need(k.switchFree[o.unit][o.class], waitSwitch)
		}
	case popMatmul:
		result(&k.matmulOut[o.unit], waitMatmulResult)
		need(k.matmulPopFree[o.unit], waitMatmulPop)
	case popMatmulAddr:
		at, ok := k.matmulAt[o.unit][o.addr]
		if !ok {
			k.refuse("result %d of a matrix unit is taken before it is made", o.addr)
		}
		need(at, waitMatmulResult)
	case popLanes:
		result(&k.lanesOut[o.unit], waitLaneResult)
		need(k.lanePopFree[o.unit], waitLanePop)
	case popTransc:
		result(&k.transcOut, waitTransc)
	}
	return t, kind
}

// popped takes a result from its queue.
func (k *clock) popped(o *vectorOp) {
	take := func(q *queue) {
		if !q.empty() {
			q.pop()
		}
	}
	switch o.kind {
	case popMatmul:
		take(&k.matmulOut[o.unit])
		k.matmulPopFree[o.unit] = k.now + k.timing.MatmulPop
	case popLanes:
		take(&k.lanesOut[o.unit])
		k.lanePopFree[o.unit] = k.now + k.timing.LanePop
	case popTransc:
		take(&k.transcOut)
	}
}

// start holds the unit of an instruction and enters its results.
func (k *clock) start(o *vectorOp, width func(operand) int64) {
	u, tm := o.unit, k.timing
	switch o.kind {
	case onMatmul:
		k.product()
		k.matmulFree[u] = k.now + o.cycles
		n := tm.MatmulResults
		if o.half {
			n /= 2
		}
		for i := range n {
			switch {
			case tm.MatmulPop == 0:
				if k.matmulAt[u] == nil {
					k.matmulAt[u] = map[int]int64{}
				}
				k.matmulAt[u][o.addr+i] = k.now + tm.Matmul
			default:
				k.matmulOut[u].push(k.now + tm.Matmul)
			}
		}
	case onPush:
		k.portFree[u] = k.now + o.cycles
	case onLanes:
		k.lanesFree[u] = k.now + o.cycles
		k.lanesOut[u].push(k.now + o.latency)
		k.switches(o)
	case onTranspose:
		k.transpose(o, width)
	case onTransc:
		k.transcOut.push(k.now + o.latency)
	case setLanePattern:
		k.switches(o)
	}
}

// product tells the waits for transfers before the first product from those before others.
func (k *clock) product() {
	if k.products {
		k.inner += k.pending
	} else {
		k.edges = k.pending
	}
	k.products, k.pending = true, 0
}

// switches notes how long the other classes of a lane unit have to wait.
func (k *clock) switches(o *vectorOp) {
	tm, free := k.timing, &k.switchFree[o.unit]
	after := func(c laneClass, cycles int64) { free[c] = max(free[c], k.now+cycles) }
	switch o.class {
	case lanePermute:
		after(laneTranspose32, tm.TransposeAfterPermute32)
		after(laneTranspose16, tm.TransposeAfterPermute16)
		after(laneSum, tm.SumAfterPermute)
	case laneSum:
		after(laneTranspose32, tm.TransposeAfterSum)
		after(laneTranspose16, tm.TransposeAfterSum)
		after(lanePermute, tm.PermuteAfterSum)
	default:
		permute := tm.PermuteAfterTranspose
		if o.class == laneTranspose16 && o.start {
			permute = tm.PermuteAfterTranspose16
		}
		after(lanePermute, permute)
		after(laneSum, tm.SumAfterTranspose)
	}
}

// transpose takes a register; the last one enters the results: a row of registers of 32 bits for each 8 lanes, half as many packed ones.
func (k *clock) transpose(o *vectorOp, width func(operand) int64) {
	x, tm := &k.transposes[o.unit], k.timing
	if o.start {
		*x = transposing{pair: o.pair, width: width(o.width)}
	}
	x.pushes++
	k.lanesFree[o.unit] = k.now + o.cycles
	if !o.end {
		return
	}
	k.switches(o)
	kind, results := tm.Transpose32, int64(16)
	if o.class == laneTranspose16 {
		kind, results = tm.Transpose16, 8
	}
	first := kind.First - kind.Step*(x.pushes-1)
	if x.pair {
		results = 16
		if tm.PairFirst > 0 {
			first = tm.PairFirst - kind.Step*(x.pushes-8)
		}
	}
	results = max(1, (results*x.width+127)/128)
	for i := range results {
		k.lanesOut[o.unit].push(k.now + first + i*tm.LanePop)
	}
}

// leftovers names a queue that is not empty; empty if all are.
func (k *clock) leftovers() string {
	for u := range maxMXUs {
		if !k.matmulOut[u].empty() {
			return fmt.Sprintf("matrix unit %d has results that nothing takes", u)
		}
		if !k.lanesOut[u].empty() {
			return fmt.Sprintf("lane unit %d has results that nothing takes", u)
		}
	}
	if !k.transcOut.empty() {
		return "transcendental functions have results that nothing takes"
	}
	return ""
}
