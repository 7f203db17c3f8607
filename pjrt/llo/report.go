package llo

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/llo/hlo"
)

// Flags are what LIBTPU_INIT_ARGS must hold, beside --xla_jf_dump_to=<folder>, for the dumps that [Analyze] reads. They change no schedule.
// Source annotations carry Mosaic locations to the bundles. The expression for passes ends the flags: more can be added as "|pass".
// libtpu writes the vmem report whatever the expression; naming it keeps that so.
const Flags = "--xla_jf_dump_llo_text=true --xla_mosaic_enable_llo_source_annotations=true --xla_jf_dump_llo_pass_label_regex=final_bundles|final_hlo-static|vmem_report"

// A Report is the static cost of one compiled module on one core.
type Report struct {
	Target     string     `json:"target"`
	Cycles     int64      `json:"cycles"`                // whole module
	Bundles    int64      `json:"bundles"`               // executed, whole module
	TopLevel   int64      `json:"top_level"`             // cycles of the top-level program itself, without the ops that it calls
	HBMBytes   int64      `json:"hbm_bytes"`             // bytes that all transfers read from and write to main memory; -1 where only a run would tell
	HBMUnknown string     `json:"hbm_unknown,omitempty"` // why HBMBytes is -1
	VMEM       int64      `json:"vmem"`                  // bytes of vector memory of the op that needs most; -1 if the dump does not say
	Schedule   string     `json:"schedule"`              // hash of all bundles, with register and allocation numbering made canonical and no names or locations
	Wall       Wall       `json:"wall"`
	Timeline   []Event    `json:"timeline,omitempty"` // of the top-level program, the first 512
	Code       Code       `json:"code"`
	Ops        []OpReport `json:"ops"` // by cycles over all calls, most first
	// Conditionals are the ops of which one branch runs, and all are counted.
	Conditionals []hlo.Conditional `json:"conditionals,omitempty"`
	Unread       []string          `json:"-"` // keys of Options.Scalars that no op read
}

// An OpReport is the cost of one op of the module. Figures are for one call, but for Calls.
type OpReport struct {
	Name       string     `json:"name"`
	Kernel     string     `json:"kernel,omitempty"` // its kernel, where that has another name
	Twin       string     `json:"twin,omitempty"`   // op whose schedule this is, where libtpu compiled two ops of the same computation once
	Calls      int64      `json:"calls"`
	Static     int        `json:"static"`                // bundles in the schedule
	Bundles    int64      `json:"bundles"`               // bundles executed
	Cycles     int64      `json:"cycles"`                // bundles, delays and waits
	Stall      int64      `json:"stall"`                 // cycles that bundles waited for a matrix unit
	MXUBusy    int64      `json:"mxu_busy"`              // cycles that matmuls held the busiest matrix unit
	HBMBytes   int64      `json:"hbm_bytes"`             // as in Report
	HBMUnknown string     `json:"hbm_unknown,omitempty"` // as in Report
	VMEM       int64      `json:"vmem"`                  // bytes of vector memory, spills included; -1 if the dump does not say
	Spills     int64      `json:"spills"`                // register spills executed
	Fills      int64      `json:"fills"`                 // register fills executed
	Slots      []Slot     `json:"slots"`                 // in the order of the dump
	Wall       Wall       `json:"wall"`
	Hot        []Region   `json:"hot"`               // straight-line parts by cycles, most first, at most 16
	Locations  []Location `json:"locations"`         // by cycles, most first; empty if the dump carries no locations
	Profile    *Profile   `json:"profile,omitempty"` // if Options.Columns asks for one
}

// Names of slots that are parts of others: register fills and spills.
const (
	slotFill  = "VLOAD:FILL"
	slotSpill = "VSTORE:SPILL"
)

// A Slot is the use of one kind of instruction slot.
type Slot struct {
	Name     string `json:"name"`     // MXU, or MATMUL and MATPUSH; XLU VALU VPOP EUP VLOAD VSTORE SALU; VLOAD:FILL and VSTORE:SPILL are parts of theirs
	Used     int64  `json:"used"`     // instructions executed
	Capacity int64  `json:"capacity"` // slots in the bundles executed
}

// A Region is a run of bundles without a branch in or out.
type Region struct {
	First  int64 `json:"first"` // address of the first bundle
	Last   int64 `json:"last"`
	Runs   int64 `json:"runs"`   // executions
	Cycles int64 `json:"cycles"` // over all runs
	Stall  int64 `json:"stall"`
}

// A Location is a place in the source of a kernel and the cycles that its instructions account for.
type Location struct {
	File         string `json:"file"` // empty: instructions and waits that the compiler gives no location
	Line         int    `json:"line"`
	Column       int    `json:"column"`
	Cycles       int64  `json:"cycles"`
	Wait         int64  `json:"wait,omitempty"` // cycles that the wall has on top of Cycles, at its instructions
	Instructions int64  `json:"instructions"`   // executed
}

// Options says how a dump is costed. The zero value is the default.
type Options struct {
	// Scalars are values of operands in scalar memory that steer control flow, such as sequence offsets. A key is op and index of the
	// operand ("gdn.1/0"), the op without the number that XLA adds ("gdn/0"), its kernel ("body/0"), or the index alone ("0"), for all ops; the
	// first that is there counts. Operands that the optimised module makes of constants have their values without.
	Scalars map[string][]int64
	// Kernels names custom calls as the module that was compiled did, by KernelKey. XLA calls an op after the function of JAX around it.
	Kernels map[string]string
	// Columns is the most columns of the profile of each op; 0: no profiles.
	Columns int
	// MaxBundles ends the execution of a schedule with an error; 0 means 1e9.
	MaxBundles int64
}

// Analyze reads the dump folder of one compile and costs the whole module on the target.
func (o Options) Analyze(dir string, t *target.Target) (*Report, error) {
	if t.MatmulBF16 <= 0 || t.MatmulF32 <= 0 || t.PushBF16 <= 0 || t.PushF32 <= 0 || t.BranchDelay < 0 || t.Granule <= 0 {
		return nil, fmt.Errorf("target %q lacks matmul cycles, push cycles, branch delay or DMA granule", t.Name)
	}
	files, err := findDumps(dir)
	if err != nil {
		return nil, err
	}
	a := &analysis{Options: o, files: files, target: t, ops: map[string]*analyzed{}, read: map[string]bool{}}
	a.MaxBundles = cmp.Or(a.MaxBundles, 1e9)
	if err := a.readVMEM(); err != nil {
		return nil, err
	}
	if err := a.cost(topLevel); err != nil {
		return nil, err
	}
	order := a.tally(topLevel, 1, nil)
	top := a.ops[topLevel]
	r := &Report{Target: t.Name, Cycles: top.Cycles, Bundles: top.Bundles, TopLevel: top.Cycles, HBMBytes: top.HBMBytes, HBMUnknown: top.HBMUnknown, VMEM: -1}
	r.Wall, r.Timeline, r.Code = top.Wall, a.events, a.codeOf()
	schedule := sha256.New()
	for _, name := range order[1:] {
		op := a.ops[name]
		r.Cycles += op.Calls * op.Cycles
		r.Bundles += op.Calls * op.Bundles
		switch {
		case r.HBMBytes < 0:
		case op.HBMBytes < 0:
			r.HBMBytes, r.HBMUnknown = -1, name+": "+op.HBMUnknown
		default:
			r.HBMBytes += op.Calls * op.HBMBytes
		}
		r.VMEM = max(r.VMEM, op.VMEM)
		if r.Wall.Unknown == "" {
			r.Wall.addWaits(op.Calls, &op.Wall)
		}
		r.Ops = append(r.Ops, op.OpReport)
		fmt.Fprintf(schedule, "%d %s\n", op.Calls, op.hash)
	}
	if len(r.Ops) == 0 {
		fmt.Fprintln(schedule, top.hash)
	}
	r.Schedule = fmt.Sprintf("%x", schedule.Sum(nil)[:16])
	slices.SortStableFunc(r.Ops, func(x, y OpReport) int {
		return cmp.Or(cmp.Compare(y.Calls*y.Cycles, x.Calls*x.Cycles), strings.Compare(x.Name, y.Name))
	})
	if h, err := a.readHLO(); err == nil {
		r.Conditionals = h.Conditionals()
	}
	for key := range o.Scalars {
		if !a.read[key] {
			r.Unread = append(r.Unread, key)
		}
	}
	slices.Sort(r.Unread)
	return r, nil
}

// Stages sums the cycles of all calls of all ops by the file of the location, most first.
func (r *Report) Stages() []Location {
	stages := map[string]*Location{}
	for _, op := range r.Ops {
		for _, l := range op.Locations {
			s := stages[l.File]
			if s == nil {
				s = &Location{File: l.File}
				stages[l.File] = s
			}
			s.Cycles += op.Calls * l.Cycles
			s.Wait += op.Calls * l.Wait
			s.Instructions += op.Calls * l.Instructions
		}
	}
	var list []Location
	for _, s := range stages {
		list = append(list, *s)
	}
	sortLocations(list)
	return list
}

// topLevel is the name of the program that calls the ops.
const topLevel = "TLP"

// A dump is the pair of files of one op.
type dump struct{ bundles, utilization string }

func (d dump) complete() bool { return d.bundles != "" && d.utilization != "" }

var dumpName = regexp.MustCompile(`^\d+-(.+)-\d+-(final_bundles\.txt|final_hlo-static-per-bundle-utilization\.txt|vmem_report\.html)$|^\d+-TLP-hlo\.txt$`)

type dumpFiles struct {
	dir  string
	ops  map[string]dump
	vmem string // file, or empty
	hlo  string // file of the optimised module, or empty
}

// findDumps lists the files of one compile, by op.
func findDumps(dir string) (*dumpFiles, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("schedule dumps: %w", err)
	}
	f := &dumpFiles{dir: dir, ops: map[string]dump{}}
	for _, e := range entries {
		m := dumpName.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		d := f.ops[m[1]]
		var slot *string
		switch {
		case m[2] == "":
			slot = &f.hlo
		case strings.HasSuffix(m[2], ".html"):
			slot = &f.vmem
		case strings.HasPrefix(m[2], "final_bundles"):
			slot = &d.bundles
		default:
			slot = &d.utilization
		}
		if *slot != "" {
			return nil, fmt.Errorf("schedule dumps: %s holds more than one compile: %s and %s; give each compile its own folder", dir, *slot, e.Name())
		}
		*slot = e.Name()
		if m[1] != "" {
			f.ops[m[1]] = d
		}
	}
	if f.ops[topLevel].bundles == "" {
		return nil, fmt.Errorf("%w (*-%s-*-final_bundles.txt) in %s; compile with LIBTPU_INIT_ARGS=%q and --xla_jf_dump_to", ErrNoSchedule, topLevel, dir, Flags)
	}
	return f, nil
}

// ErrNoSchedule says that a folder holds no dump: a fault of how it was made, not of the program.
var ErrNoSchedule = errors.New("schedule dumps: no top-level program")

type analysis struct {
	Options
	files  *dumpFiles
	target *target.Target
	ops    map[string]*analyzed
	vmem   map[string]int64
	hlo    *hlo.Module     // read when an op lacks a schedule
	open   []string        // ops being costed, against a cycle of calls
	events []Event         // of the top-level program
	read   map[string]bool // keys of Scalars
}

// An analyzed op knows what it calls.
type analyzed struct {
	OpReport
	hash    string
	callees []string // in order of first call
	counts  map[string]int64
	sites   map[string]int // places that call each
	called
}

// tally adds n calls of an op and of all that it calls, and lists the ops in order of their first call.
func (a *analysis) tally(name string, n int64, order []string) []string {
	op := a.ops[name]
	if op.Calls == 0 {
		order = append(order, name)
	}
	op.Calls += n
	for _, callee := range op.callees {
		order = a.tally(callee, n*op.counts[callee], order)
	}
	return order
}

// cost executes an op and, once each, all that it calls.
func (a *analysis) cost(name string) error {
	if slices.Contains(a.open, name) {
		return fmt.Errorf("schedule not understood: %s calls itself through %s", name, strings.Join(a.open, ", "))
	}
	if a.ops[name] != nil {
		return nil
	}
	d, twin := a.files.ops[name], ""
	if !d.complete() {
		var err error
		if twin, err = a.twin(name); err != nil {
			return fmt.Errorf("schedule dumps: op %q is called but its final_bundles or utilization file is missing in %s, and so is a twin: %w; was the dump filtered?", name, a.files.dir, err)
		}
		d = a.files.ops[twin]
	}
	a.open = append(a.open, name)
	defer func() { a.open = a.open[:len(a.open)-1] }()

	bundles, err := read(a.files.dir, d.bundles, parseBundles)
	if err != nil {
		return err
	}
	use, err := read(a.files.dir, d.utilization, parseUtilization)
	if err != nil {
		return err
	}
	if len(use.rows) != len(bundles) {
		return fmt.Errorf("schedule not understood: %s has %d bundles, but %s has %d rows: one is cut short", d.bundles, len(bundles), d.utilization, len(use.rows))
	}
	p, err := decode(d.bundles, bundles, a.target)
	if err != nil {
		return err
	}
	kernel := a.kernel(name)
	m := &machine{
		program: p, op: name, delaySlots: a.target.BranchDelay, granule: a.target.Granule, limit: a.MaxBundles, top: name == topLevel,
		clocks: clocksOf(a.target, len(bundles)),
		scalars: func(index int) ([]int64, bool) {
			return a.operand(name, kernel, index)
		},
	}
	m.call = func(callee string) error { return a.follow(m, callee) }
	tr, err := m.run()
	if err != nil {
		return err
	}
	tr.clocks = m.clocks
	op := &analyzed{OpReport: *report(name, p, bundles, tr, use, a.Columns), hash: canonicalHash(bundles), counts: tr.calls, sites: p.sites()}
	op.Wall = wallOf(a.target, p, m.clocks)
	op.read(m.clocks)
	op.Twin = twin
	if kernel != withoutNumber(name) {
		op.Kernel = kernel
	}
	if v, ok := a.vmem[name]; ok {
		op.VMEM = v
	} else if v, ok := a.vmem[twin]; ok {
		op.VMEM = v
	}
	for _, callee := range tr.order {
		if !ofRuntime(callee) {
			op.callees = append(op.callees, callee)
		}
	}
	a.ops[name] = op
	return nil
}

// operand gives the words of an operand in scalar memory: of Options.Scalars, or of the constants of the module. It is false where nothing gives them,
// and where it is not known how they lie.
func (a *analysis) operand(name, kernel string, index int) ([]int64, bool) {
	h, err := a.readHLO()
	for _, key := range []string{fmt.Sprintf("%s/%d", name, index), fmt.Sprintf("%s/%d", withoutNumber(name), index), fmt.Sprintf("%s/%d", kernel, index), fmt.Sprint(index)} {
		v, ok := a.Scalars[key]
		if !ok {
			continue
		}
		if err == nil {
			v, ok = h.Words(name, index, v)
		}
		a.read[key] = a.read[key] || ok
		return v, ok
	}
	if err != nil {
		return nil, false
	}
	v, ok := h.Constant(name, index)
	if !ok {
		return nil, false
	}
	return h.Words(name, index, v)
}

// ofRuntime tells the runtime's own parts, which no figure counts.
func ofRuntime(op string) bool { return strings.HasPrefix(op, "<") }

// maxEvents is the longest time line.
const maxEvents = 512

// follow costs an op that a program calls, once, and lets the clocks of the program pass it.
func (a *analysis) follow(m *machine, callee string) error {
	if ofRuntime(callee) {
		return nil
	}
	if err := a.cost(callee); err != nil {
		return err
	}
	if len(m.clocks) == 0 {
		return nil
	}
	op, peak := a.ops[callee], m.clocks[1]
	start := peak.now
	op.follow(m.clocks, callee, op.Wall.Unknown)
	if m.top && len(a.events) < maxEvents {
		a.events = append(a.events, Event{callee, start, peak.now})
	}
	return nil
}

// placed is an error of a text that knows its line.
type placed interface {
	error
	Place() (line int, what string)
}

// read parses a file of the folder and names it in the error.
func read[T any](dir, name string, parse func(string) (T, error)) (T, error) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		var none T
		return none, fmt.Errorf("schedule dumps: %w", err)
	}
	v, err := parse(string(data))
	if e := placed(nil); errors.As(err, &e) {
		line, what := e.Place()
		err = fmt.Errorf("schedule not understood: %s:%d: %s", name, line, what)
	}
	return v, err
}

// report sums up one execution.
func report(name string, p *program, bundles []bundle, tr *trace, use *utilization, columns int) *OpReport {
	op := &OpReport{
		Name: name, Static: len(p.code), Bundles: tr.bundles, Cycles: tr.cycles,
		MXUBusy: slices.Max(tr.busy[:]), HBMBytes: tr.hbmBytes, HBMUnknown: tr.hbmWhy, VMEM: -1, Slots: use.executed(tr.counts, tr.bundles),
	}
	for _, w := range tr.waits {
		op.Stall += w
	}
	for _, s := range op.Slots {
		switch s.Name {
		case slotSpill:
			op.Spills = s.Used
		case slotFill:
			op.Fills = s.Used
		}
	}
	op.Hot = hotRegions(p, tr)
	op.Locations = locations(p, bundles, tr)
	op.Profile = profile(p, bundles, tr, use, columns)
	return op
}

// withoutNumber is the name of an op without the ".N" that tells it from others of that name.
func withoutNumber(name string) string {
	if i := strings.LastIndexByte(name, '.'); i > 0 && strings.Trim(name[i+1:], "0123456789") == "" {
		return name[:i]
	}
	return name
}

// hotRegions cuts the program where control enters or leaves, that is where the execution count changes or a branch lands.
func hotRegions(p *program, tr *trace) []Region {
	lands := map[int]bool{}
	for i := range p.code {
		if b := p.code[i].branch; b != nil {
			lands[b.target] = true
		}
	}
	var regions []Region
	for i := range p.code {
		if i == 0 || lands[i] || tr.counts[i] != tr.counts[i-1] {
			regions = append(regions, Region{First: p.code[i].addr, Runs: tr.counts[i]})
		}
		r := &regions[len(regions)-1]
		r.Last = p.code[i].addr
		r.Cycles += tr.cyclesAt(p, i)
		r.Stall += tr.waits[i]
	}
	regions = slices.DeleteFunc(regions, func(r Region) bool { return r.Cycles == 0 })
	slices.SortFunc(regions, func(x, y Region) int {
		return cmp.Or(cmp.Compare(y.Cycles, x.Cycles), cmp.Compare(x.First, y.First))
	})
	return regions[:min(len(regions), 16)]
}

// cyclesAt is what all executions of a bundle took.
func (tr *trace) cyclesAt(p *program, i int) int64 {
	return tr.counts[i]*p.code[i].cycles + tr.waits[i]
}
