package llo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A trace is what executing a program once came to.
type trace struct {
	counts   []int64 // executions of each bundle
	waits    []int64 // cycles that each bundle waited for a matrix unit
	bundles  int64
	cycles   int64
	busy     [maxMXUs]int64
	hbmBytes int64  // -1: the size of a transfer is not known
	hbmWhy   string // why it is not known
	calls    map[string]int64
	order    []string // calls in order of their first execution
	clocks   []*clock
}

// wordBytes is the size of a word of scalar memory.
const wordBytes = 4

// A machine executes one program. It is in order: a bundle takes one cycle and its delays; all slots read registers and memory before
// any writes; the bundles in the delay slots of a taken branch execute.
type machine struct {
	*program
	delaySlots int // bundles after a taken branch that count; all of branch.slots execute
	granule    int // bytes
	op         string
	scalars    func(index int) ([]int64, bool)
	limit      int64
	top        bool // top-level program: see unknownBranch
	clocks     []*clock
	call       func(op string) error // runs an op that the program calls, at each call

	regs      [registers]value
	mem       map[value]value // scalar memory by word address
	quotients []value         // results of the divider that nothing has taken yet, in order
	lost      bool            // which of them is next is not known
	args      []value
	writes    []write
	open      map[value]int // transfers of unknown size to or from main memory, by sync flag: how often they pass it
	unbound   []int         // operands without values that scalar memory or a register takes

	matrixFree, portFree [maxMXUs]int64 // cycle from which on each is free
	trace                trace
}

type write struct {
	reg int // noRegister: to memory
	at  value
	val value
}

// run executes from the first bundle to past the last one.
func (m *machine) run() (*trace, error) {
	n := len(m.code)
	m.mem, m.open = map[value]value{}, map[value]int{}
	m.trace = trace{counts: make([]int64, n), waits: make([]int64, n), calls: map[string]int64{}}
	m.fillInputs()
	var u underway
	var steps int64
	for pc := 0; pc < n; {
		c := &m.code[pc]
		if steps++; steps > m.limit {
			return nil, m.errorf(c, "still running after %d bundles", m.limit)
		}
		if u.counted() {
			m.spend(c, pc)
		}
		for _, k := range m.clocks {
			k.issue(pc, c.cycles, c.vector, m.runs, m.number)
		}
		taken, err := m.perform(c, pc)
		if err != nil {
			return nil, err
		}
		if taken && u.slots > 0 {
			return nil, m.errorf(c, "branch taken in the delay slots of another")
		}
		pc = u.next(pc, c.branch, taken, m.delaySlots)
	}
	if u.slots > 0 {
		return nil, m.errorf(&m.code[n-1], "ends in the delay slots of a branch: the file is cut short")
	}
	if len(m.open) > 0 {
		m.refuseTraffic("a transfer whose size only a run would tell is never waited for")
	}
	return &m.trace, nil
}

// underway is a branch that was taken and whose delay slots execute.
type underway struct {
	target, slots int
	uncounted     int // of the slots, the last
}

// counted says whether the next bundle's cycles count.
func (u *underway) counted() bool { return u.slots == 0 || u.slots > u.uncounted }

// next is the bundle after pc, whose branch, if it has one, is taken or not.
func (u *underway) next(pc int, b *branch, taken bool, count int) int {
	switch {
	case u.slots > 0:
		if u.slots--; u.slots == 0 {
			return u.target
		}
	case taken:
		if *u = (underway{b.target, b.slots, b.slots - count}); u.slots == 0 {
			return u.target
		}
	}
	return pc + 1
}

// fillInputs sets scalar memory as the program finds it: what operands hold there, and the table of their addresses, which has those of
// one word themselves.
func (m *machine) fillInputs() {
	var table value
	for _, in := range m.inputs {
		switch {
		case in.index == addressTable:
			table = value{sym: in.sym, known: true}
		case in.space == "smem":
			m.fill(value{sym: in.sym, known: true}, in.index, 0, -1)
		}
	}
	for _, in := range m.inputs {
		if in.space != inTable {
			continue
		}
		at, holds := table, value{sym: in.sym, known: true}
		if data, ok := m.scalars(in.index); ok && len(data) == 1 {
			holds = number(int32(data[0]))
		}
		at.num = int32(in.index)
		m.mem[at] = holds
	}
}

// spend counts a bundle and its cycles, and the wait for its matrix units.
func (m *machine) spend(c *code, pc int) {
	m.trace.bundles++
	m.trace.counts[pc]++
	m.trace.cycles += c.cycles
	if len(c.matrix) > 0 {
		start := m.trace.cycles
		m.trace.cycles = m.occupy(c.matrix, start)
		m.trace.waits[pc] += m.trace.cycles - start
	}
}

// perform does what a bundle says: its branch is decided by what was in registers before it, then it executes, then its calls run.
func (m *machine) perform(c *code, pc int) (taken bool, err error) {
	if c.branch != nil {
		if taken, err = m.takes(c, pc); err != nil {
			return false, err
		}
	}
	if len(c.steps) > 0 {
		if err := m.execute(c, pc); err != nil {
			return false, err
		}
	}
	for _, op := range c.calls {
		if m.trace.calls[op]++; m.trace.calls[op] == 1 {
			m.trace.order = append(m.trace.order, op)
		}
		if m.call != nil {
			if err := m.call(op); err != nil {
				return false, err
			}
		}
	}
	return taken, nil
}

// occupy lets the bundle wait until its matrix units and ports are free, holds them, and returns when it issued.
func (m *machine) occupy(uses []matrixUse, now int64) int64 {
	matrix, port := &m.matrixFree, &m.portFree
	for _, u := range uses {
		if !u.push {
			now = max(now, matrix[u.unit])
			m.trace.busy[u.unit] += u.cycles
		}
	}
	for _, u := range uses {
		if !u.push {
			matrix[u.unit] = now + u.cycles
		}
	}
	for _, u := range uses {
		if u.push {
			now = max(now, port[u.unit])
		}
	}
	for _, u := range uses {
		if u.push {
			port[u.unit] = now + u.cycles
		}
	}
	return now
}

func (m *machine) errorf(c *code, format string, args ...any) error {
	return &notUnderstood{m.file, c.addr, fmt.Sprintf(format, args...)}
}

// holds evaluates a guard; ok is false where its predicate is unknown.
func (m *machine) holds(g guard) (runs, ok bool) {
	if g.reg == noRegister {
		return !g.negate, true
	}
	p := m.regs[g.reg]
	if !p.isNumber() {
		return false, false
	}
	return p.num != 0 != g.negate, true
}

// takes decides a branch. The top-level program skips parts on the state of the runtime (first launch, random seed): there a forward
// branch on an unknown falls through, which executes every part that it might skip. Any other unknown is an error.
func (m *machine) takes(c *code, pc int) (bool, error) {
	runs, ok := m.holds(c.branch.guard)
	if ok || m.top && c.branch.target > pc {
		return runs, nil
	}
	what := fmt.Sprintf("branch to %#x on a predicate that only a run would tell", m.code[c.branch.target].addr)
	for i, n := range m.unbound {
		what += []string{"; give the values of operands (Options.Scalars, explain --scalars): ", ", "}[min(i, 1)] + m.operandKey(n)
	}
	return false, m.errorf(c, "%s", what)
}

func (m *machine) value(o operand) value {
	v := o.val
	if o.reg != noRegister {
		v = m.regs[o.reg]
	}
	if o.negate {
		v = not(v)
	}
	return v
}

func (m *machine) sum(terms []operand) value {
	total := number(0)
	for _, o := range terms {
		total = total.add(m.value(o))
	}
	return total
}

// execute does what the scalar instructions of a bundle do. All read before any writes.
func (m *machine) execute(c *code, pc int) error {
	m.writes = m.writes[:0]
	for i := range c.steps {
		s := &c.steps[i]
		runs, certain := m.holds(s.guard)
		if certain && !runs && s.old == nil {
			continue
		}
		switch s.kind {
		case stepDMA:
			m.dma(s, certain)
		case stepOddDMA:
			m.refuseTraffic("%s at %#x is a form of transfer that is not known", s.opname, c.addr)
		case stepWait:
			m.wait(s, pc)
		case stepStore:
			m.store(s, certain)
		case stepPush:
			m.push(m.result(s, runs, certain), certain)
		default:
			v := m.result(s, runs, certain)
			if !certain && m.before(s) != v {
				v = value{}
			}
			m.writes = append(m.writes, write{reg: s.dst, val: v})
		}
	}
	for _, w := range m.writes {
		if w.reg == noRegister {
			m.mem[w.at] = w.val
		} else {
			m.regs[w.reg] = w.val
		}
	}
	return nil
}

// store writes to scalar memory. Where it is not known whether it happens, the word stays known only if nothing would change.
func (m *machine) store(s *step, certain bool) {
	v, at := m.value(s.args[0]), m.sum(s.args[1:])
	if !at.known {
		m.clobber(s.args[1:])
		return
	}
	if !certain && m.mem[at] != v {
		v = value{}
	}
	m.writes = append(m.writes, write{noRegister, at, v})
}

// before is what the result of an instruction is that does not run.
func (m *machine) before(s *step) value {
	if s.old != nil {
		return m.value(*s.old)
	}
	return m.regs[s.dst]
}

// result is what an instruction gives, whose guard holds or not, as far as that is known.
func (m *machine) result(s *step, runs, certain bool) (v value) {
	switch {
	case certain && !runs:
		return m.value(*s.old)
	case s.kind == stepPop:
		return m.pop(certain)
	case s.kind == stepLoad:
		if at := m.sum(s.args); at.known {
			return m.mem[at]
		}
		return v
	}
	m.args = m.args[:0]
	for _, a := range s.args {
		m.args = append(m.args, m.value(a))
	}
	v = s.eval(s.typ, m.args)
	if v.sym != 0 && strings.HasPrefix(s.opname, "inlined_call_operand") {
		v = m.inputValue(v)
	}
	return v
}

// push enters a result of the divider. Where it is not known whether it enters, nothing is known of the queue from then on.
func (m *machine) push(v value, certain bool) {
	if !certain {
		m.lost = true
	}
	m.quotients = append(m.quotients, v)
}

// pop takes the result that entered first.
func (m *machine) pop(certain bool) value {
	if !certain {
		m.lost = true
	}
	if m.lost || len(m.quotients) == 0 {
		return value{}
	}
	v := m.quotients[0]
	m.quotients = m.quotients[1:]
	return v
}

// operandKey names an operand as a key of Options.Scalars, with its shape.
func (m *machine) operandKey(index int) string {
	key := fmt.Sprintf("%s/%d", m.op, index)
	for _, in := range m.inputs {
		if in.index == index && in.shape != "" {
			key += " (" + in.shape + ")"
		}
	}
	return key
}

// inputValue is what the register of an operand holds: its address, or for one passed by value, that value.
func (m *machine) inputValue(v value) value {
	for _, in := range m.inputs {
		if in.sym == v.sym && in.space == "" {
			if data := m.input(in.index); len(data) > 0 {
				return number(int32(data[0]))
			}
			return value{}
		}
	}
	return v
}

// clobber forgets what a store to a partly known address may have overwritten: the allocation that it names, or all but spill slots.
func (m *machine) clobber(terms []operand) {
	var sym int16
	for _, o := range terms {
		if v := m.value(o); v.known && v.sym != 0 {
			sym = v.sym
		}
	}
	m.forget(sym)
}

// forget makes the words of an allocation unknown, all words but spill slots for sym 0.
func (m *machine) forget(sym int16) {
	for at := range m.mem {
		if at.sym == sym || sym == 0 && !strings.HasSuffix(m.symbols[at.sym], "_spill") {
			delete(m.mem, at)
		}
	}
}

// dma counts the bytes that pass main memory and fills scalar memory from the values of the operand that is its source. A transfer
// whose size the runtime decides (one core of two may do it) counts what the program then waits for.
func (m *machine) dma(s *step, certain bool) {
	src, size, dst, flag := m.value(s.args[0]), m.value(s.args[1]), m.value(s.args[2]), m.value(s.args[3])
	passes := 0
	for _, space := range [2]string{cmp.Or(s.from, m.spaceOf(src)), cmp.Or(s.to, m.spaceOf(dst))} {
		switch space {
		case "hbm":
			passes++
		case "":
			m.refuseTraffic("%s has an address whose memory only a run would tell", s.opname)
		}
	}
	m.begin(s, certain, flag, size, passes)
	switch {
	case passes == 0:
	case certain && size.isNumber():
		m.transfer(passes, size)
	case flag.known && m.open[flag] == 0:
		m.open[flag] = passes
	default:
		m.refuseTraffic("%s has a size that only a run would tell", s.opname)
	}
	if s.to != "smem" {
		return
	}
	m.forget(dst.sym)
	for _, in := range m.inputs {
		if certain && src.known && in.sym == src.sym && dst.known && size.isNumber() {
			m.fill(dst, in.index, int(src.num)*m.granule/wordBytes, int(size.num)*m.granule/wordBytes)
		}
	}
}

// spaceOf is the memory space of the operand that an address points into; empty if it is not known.
func (m *machine) spaceOf(at value) string {
	for _, in := range m.inputs {
		if at.known && at.sym == in.sym && in.space != inTable {
			return in.space
		}
	}
	return ""
}

// begin tells the clocks of a transfer.
func (m *machine) begin(s *step, certain bool, flag, size value, passes int) {
	granules := int64(-1)
	if certain && size.isNumber() {
		granules = int64(uint32(size.num))
	}
	kind := waitCopy
	switch {
	case passes > 0 && s.to == "hbm":
		kind = waitWrite
	case passes > 0:
		kind = waitRead
	}
	for _, k := range m.clocks {
		k.channel.begin(k.now, flag, granules, kind, passes)
	}
}

// runs evaluates a guard for the clocks: one whose predicate is unknown holds.
func (m *machine) runs(g guard) bool {
	runs, ok := m.holds(g)
	return runs || !ok
}

// number is the value of an operand that counts lanes, a whole register where it is not known.
func (m *machine) number(o operand) int64 {
	if v := m.value(o); v.isNumber() && v.num > 0 {
		return int64(v.num)
	}
	return 128
}

// refuseTraffic gives up the count of bytes. The first reason stays.
func (m *machine) refuseTraffic(format string, args ...any) {
	if m.trace.hbmBytes >= 0 {
		m.trace.hbmBytes, m.trace.hbmWhy = -1, fmt.Sprintf(format, args...)
	}
}

// transfer adds a transfer of some granules that passes main memory once or twice.
func (m *machine) transfer(passes int, granules value) {
	if m.trace.hbmBytes >= 0 {
		m.trace.hbmBytes += int64(passes) * int64(uint32(granules.num)) * int64(m.granule)
	}
}

// wait settles a transfer of unknown size on the flag.
func (m *machine) wait(s *step, pc int) {
	flag, size := m.value(s.args[0]), m.value(s.args[1])
	if size.isNumber() {
		for _, k := range m.clocks {
			done, kind := k.channel.until(flag, int64(uint32(size.num)))
			k.wait(pc, done, kind)
		}
	}
	if passes := m.open[flag]; flag.known && passes > 0 && size.isNumber() {
		m.transfer(passes, size)
		delete(m.open, flag)
	}
}

// fill copies count words (-1: all) of the values of an operand, from word first on, to scalar memory.
func (m *machine) fill(dst value, index, first, count int) {
	data := m.input(index)
	for i := 0; first+i >= 0 && first+i < len(data) && (count < 0 || i < count); i++ {
		at := dst
		at.num += int32(i)
		m.mem[at] = number(int32(data[first+i]))
	}
}

// input returns the values given for an operand; that there are none is remembered for the error that may follow.
func (m *machine) input(index int) []int64 {
	data, ok := m.scalars(index)
	if !ok && !slices.Contains(m.unbound, index) {
		m.unbound = append(m.unbound, index)
		slices.Sort(m.unbound)
	}
	return data
}
