package judge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/autotune/ruler"
	"github.com/gdngen/gdngen/autotune/strategy"
	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/exam"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/gpu"
)

// GPULab is the evaluator of Triton variants without a GPU: Triton's interpreter, its compiler and ptxas in child
// processes, and a time model of the machine code. Compiles and test results are cached on disk by content.
type GPULab struct {
	toolkit *gpu.Toolkit
	cases   exam.Cache
	cache   *measure.Cache
	limit   time.Duration // processor time of one compile
}

// tritonLimit is the processor time of one compile: most take seconds, and straight-line code of ten thousand instructions, which takes minutes, gains
// nothing.
const tritonLimit = time.Minute

// NewGPULab obtains Triton. A device in the options is a *DeviceError: it can not time candidates yet.
func NewGPULab(ctx context.Context, o LabOptions) (*GPULab, error) {
	if o.Device != "" {
		return nil, &DeviceError{errors.New("on GPUs candidates are ranked by modelled time alone")}
	}
	k, err := gpu.Open(ctx, o.TPU)
	if err != nil {
		return nil, err
	}
	l := &GPULab{toolkit: k, cache: o.Cache, limit: cmp.Or(o.Timeout, tritonLimit)}
	l.cases.Dir, l.cases.Build = o.Exams, o.Build
	return l, nil
}

// identity names the Triton that the figures depend on.
func (l *GPULab) identity() string { return "triton " + cmp.Or(l.toolkit.Version, l.toolkit.Path) }

// Plugins returns the lab's Triton, and the devices that the tables of GPUs were fitted on.
func (l *GPULab) Plugins() map[string]string {
	names := map[string]string{"triton": l.identity()}
	for _, g := range target.GPUs() {
		if g.Calibrated != "" {
			names["calibration of "+g.Name] = g.Calibrated
		}
	}
	return names
}

// Close does nothing: each child process ends with its request.
func (l *GPULab) Close() error { return nil }

// CPU returns the processor time of this process and of the children that it reaped.
func (l *GPULab) CPU() time.Duration { return ownCPU() }

// Gates returns the gates, cheapest first.
func (l *GPULab) Gates() []Gate {
	ms := time.Millisecond
	return []Gate{
		{Name: "legality", Doc: "the variant is legal for the spec, and precise enough", Price: ms, Run: tritonLegality},
		{Name: "build", Doc: "its file is written", Price: ms, Run: tritonBuild},
		duplicateGate,
		{Name: "bound", Doc: "what its kernels move is below the best", Price: ms, Run: tritonBound},
		{Name: "interpret", Doc: "right numbers on a tiny shape, in Triton's interpreter", Price: 2000 * ms, Run: l.interpret},
		{Name: "compile", Doc: "Triton and ptxas take it for every target, within the shared memory of a program", Price: 4000 * ms, Run: l.compile},
		{Name: "cost", Doc: "the modelled time of its machine code", Price: 200 * ms, Run: l.cost},
		scheduleGate,
		{Name: "numerics", Doc: "of what would be kept: right numbers on every input class, in Triton's interpreter", Price: 30000 * ms, Run: l.numerics},
	}
}

// tritons returns the candidate's variant at the shapes of the run.
func (w *Work) tritons() (list []triton.Variant, err error) {
	for _, s := range w.Shapes {
		v, err := triton.Parse(w.Record.Variant, s.Spec)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func tritonLegality(_ context.Context, w *Work) (*Refusal, error) {
	list, err := w.tritons()
	if err != nil {
		return Refuse(journal.Invalid, "%v", err), nil
	}
	for i, v := range list {
		if p := v.Precision(w.Shapes[i].Spec); !strategy.Reaches(p, w.Least) {
			return Refuse(journal.Invalid, "it computes in %s, and the run asks for %s", p, w.Least), nil
		}
	}
	return nil, nil
}

// programText returns the part of a file that determines the program: without its head, which names spec, variant and generator.
func programText(source string) string {
	_, text, _ := strings.Cut(source, "\nimport triton\n")
	return text
}

// tritonFiles are the files that build makes for the gates after it, one for each shape.
type tritonFiles struct {
	sources  []string
	launches [][]gpu.Launch // by compile
}

func tritonBuild(_ context.Context, w *Work) (*Refusal, error) {
	list, err := w.tritons()
	if err != nil {
		return nil, err
	}
	files, all := &tritonFiles{}, sha256.New()
	for i, v := range list {
		source, err := triton.Source(w.Shapes[i].Spec, v, "search")
		if err != nil {
			return Refuse(journal.EmitError, "%v", err), nil
		}
		files.sources = append(files.sources, source)
		for _, g := range w.GPUs {
			w.Objects[role("module/"+g.Name, i)] = []byte(source)
		}
		fmt.Fprintln(all, programText(source))
	}
	w.Left, w.Record.IR = files, fmt.Sprintf("%x", all.Sum(nil))
	return nil, nil
}

// GPUTraffic returns a lower bound in cycles on g: for each shape, the bytes of its inputs and outputs, each moved once at g.Copy, times its weight,
// summed.
func GPUTraffic(shapes []Shape, g *target.GPU) (sum float64) {
	for _, s := range shapes {
		sum += s.Weight * float64(s.Spec.NecessaryBytes()) / g.Copy * g.Clock
	}
	return sum
}

// tritonBound refuses a candidate whose traffic alone is too slow to be the best on any target.
func tritonBound(_ context.Context, w *Work) (*Refusal, error) {
	list, err := w.tritons()
	if err != nil {
		return nil, err
	}
	var moved float64
	for i, v := range list {
		for _, x := range triton.WorkOf(w.Shapes[i].Spec, v) {
			moved += w.Shapes[i].Weight * float64(x.Bytes)
		}
	}
	var reason *Refusal
	for _, g := range w.GPUs {
		best := w.Known.Champion(g.Name)
		least := int64(moved / g.Copy * g.Clock)
		if best == nil || least < best.Cost(g.Name).Score {
			return nil, nil
		}
		reason = Refuse(journal.Pruned, "it moves %.1f MB, at least %d cycles on %s, and candidate %d takes %d", moved/1e6, least, g.Name, best.ID, best.Cost(g.Name).Score)
	}
	return reason, nil
}

// few returns s with few heads, rows and sequences, and the given tokens.
func few(s gdn.Spec, heads, tokens int) gdn.Spec {
	g := s.Groups()
	s.HeadsK = min(s.HeadsK, max(1, heads/g))
	s.HeadsV = s.HeadsK * g
	s.Batch, s.Seqs = min(s.Batch, 2), min(s.Seqs, 4)
	s.Tokens = min(s.Tokens, tokens)
	return s
}

// tritonExam is the size of the spec that a variant is tested on.
type tritonExam uint8

const (
	tinyExam   tritonExam = iota // parts of one chunk
	fullExam                     // more heads and sequences, and parts of at most two chunks
	chunksExam                   // one sequence of several chunks, to add up the rounding of each
)

// tritonForm returns a small spec like a shape's, with the variant as it is tested there. Heads keep their width, on
// which errors depend. Warps and stages are defaults: they change no number in the interpreter.
func tritonForm(s gdn.Spec, text string, size tritonExam) (gdn.Spec, triton.Variant, error) {
	v, err := triton.Parse(text, s)
	if err != nil {
		return s, v, err
	}
	usual := triton.Default(s)
	v.Warps, v.PrepareWarps, v.Stages = usual.Warps, usual.PrepareWarps, usual.Stages
	switch size {
	case tinyExam:
		v.Part = min(v.Part, 1)
		s = few(s, 4, 2*v.Chunk+v.Chunk/4)
	case fullExam:
		v.Part = min(v.Part, 2)
		s = few(s, 8, max(150, v.Chunk*(2*v.Part+1)+v.Chunk/4))
	case chunksExam:
		v.Part = min(v.Part, 2)
		s = few(s, 1, 4*v.Chunk)
		s.Seqs = min(s.Seqs, 1)
	}
	small, err := triton.Parse(v.Text(s), s)
	return s, small, err
}

// examineOn tests the variant on small specs like the shapes. A passed test is not repeated.
func (l *GPULab) examineOn(ctx context.Context, w *Work, size tritonExam, classes func(gdn.Spec) ([]truth.Class, error)) (*Refusal, error) {
	for _, x := range w.Shapes {
		s, v, err := tritonForm(x.Spec, w.Record.Variant, size)
		if err != nil {
			return Refuse(journal.Invalid, "%s: %v", s, err), nil
		}
		source, err := triton.Source(s, v, "search")
		if err != nil {
			return Refuse(journal.EmitError, "%s: %v", s, err), nil
		}
		list, err := classes(s)
		if err != nil {
			return nil, err
		}
		p := accuracyTest{spec: s, classes: list, seeds: firstSeed, engine: "triton", size: s}
		p.program = func(in map[string]*array.Array) (map[string]*array.Array, error) {
			limited, cancel := context.WithTimeoutCause(ctx, compileMost, errLate)
			defer cancel()
			return l.toolkit.Compute(limited, source, s, in)
		}
		var names []string
		for _, c := range list {
			names = append(names, c.Name)
		}
		precision := v.Precision(s)
		type result struct {
			Errors  []journal.ClassError
			Refusal *Refusal
		}
		said, err := measure.Kept(l.cache, func() (result, error) {
			own := &Work{Spec: w.Spec, Seed: w.Seed, Record: &journal.Candidate{}}
			r, err := own.examine(&l.cases, p, precision)
			return result{own.Record.Errors, r}, err
		}, "triton exam 1", l.identity(), programText(source), s.String(), strings.Join(names, " "), fmt.Sprint(w.Seed, p.seeds), precision)
		switch fault := (*gpu.ChildError)(nil); {
		case errors.As(err, &fault):
			return Refuse(journal.Invalid, "%s: %v", s, err), nil
		case errors.Is(err, errLate) && ctx.Err() == nil:
			return Refuse(journal.Timeout, "%s: the interpreter took more than %v", s, compileMost), nil
		case err != nil:
			return nil, err
		}
		w.Record.Errors = append(w.Record.Errors, said.Errors...)
		if said.Refusal != nil {
			return said.Refusal, nil
		}
	}
	return nil, nil
}

func (l *GPULab) interpret(ctx context.Context, w *Work) (*Refusal, error) {
	return l.examineOn(ctx, w, tinyExam, func(s gdn.Spec) ([]truth.Class, error) { return lookup(s, tinyClasses) })
}

// numerics tests every class, for candidates that would be kept. With guarded targets a held one may turn out to be kept.
func (l *GPULab) numerics(ctx context.Context, w *Work) (*Refusal, error) {
	v, _, err := w.Known.Rank(w.Record)
	if err != nil || v != journal.Improved && len(w.Known.Header().Guards) == 0 {
		return nil, err
	}
	r, err := l.examineOn(ctx, w, fullExam, func(s gdn.Spec) ([]truth.Class, error) { return exam.Supported(s), nil })
	if r != nil || err != nil {
		return r, err
	}
	return l.examineOn(ctx, w, chunksExam, func(s gdn.Spec) ([]truth.Class, error) { return lookup(s, []string{"identical"}) })
}

// compiledTriton is a file's entry in the cache: its launches, with the listings that times are modelled from.
type compiledTriton struct {
	Launches []gpu.Launch
	Texts    [][2]string // SASS, and resource usage
}

func (l *GPULab) compile(ctx context.Context, w *Work) (*Refusal, error) {
	files := w.Left.(*tritonFiles)
	files.launches = nil
	for i, source := range files.sources {
		s := w.Shapes[i].Spec
		key := []string{"triton compiled 1", l.identity(), programText(source), s.String()}
		for _, g := range w.GPUs {
			key = append(key, fmt.Sprint(g.Capability))
		}
		made, err := measure.Kept(l.cache, func() (c compiledTriton, err error) { return l.compileNow(ctx, source, s, w.GPUs) }, key...)
		switch fault := (*gpu.ChildError)(nil); {
		case errors.Is(err, errLate) && ctx.Err() == nil, is[*gpu.LateError](err):
			return Refuse(journal.Timeout, "the compiler took more than %v of processor time, or %v", l.limit, compileMost), nil
		case errors.As(err, &fault):
			return Refuse(journal.CompileReject, "%s", firstLines(err.Error())), nil
		case err != nil:
			return nil, err
		}
		for j := range made.Launches {
			made.Launches[j].SASS, made.Launches[j].Usage = made.Texts[j][0], made.Texts[j][1]
		}
		for _, g := range w.GPUs {
			for _, x := range made.Launches {
				if err := x.Fits(g); x.Capability == g.Capability && err != nil {
					verdict := journal.VMEM
					if x.Refused != "" {
						verdict = journal.CompileReject
					}
					return Refuse(verdict, "%s", firstLines(err.Error())), nil
				}
			}
		}
		files.launches = append(files.launches, made.Launches)
	}
	return nil, nil
}

// errLate says that a child took too long.
var errLate = errors.New("it takes too long")

// compileNow compiles in a child.
func (l *GPULab) compileNow(ctx context.Context, source string, s gdn.Spec, gpus []*target.GPU) (c compiledTriton, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, compileMost, errLate)
	defer cancel()
	k := gpu.Toolkit{Python: l.toolkit.Python, Limit: l.limit}
	if c.Launches, err = k.Compile(ctx, source, s, gpus...); err != nil {
		return c, err
	}
	for _, x := range c.Launches {
		c.Texts = append(c.Texts, [2]string{x.SASS, x.Usage})
	}
	return c, nil
}

// cost models the time of the launches on each target.
func (l *GPULab) cost(_ context.Context, w *Work) (*Refusal, error) {
	files := w.Left.(*tritonFiles)
	list, err := w.tritons()
	if err != nil {
		return nil, err
	}
	for _, g := range w.GPUs {
		c := journal.Cost{Target: g.Name, Ruler: ruler.Modelled}
		var cycles, hbm, tokens, most float64
		stages, all := map[string]float64{}, sha256.New()
		for i, launches := range files.launches {
			s, weight := w.Shapes[i].Spec, w.Shapes[i].Weight
			work := triton.WorkOf(s, list[i])
			models, err := gpu.Model(launches, g, work.Of)
			if err != nil {
				return Refuse(journal.CostUnknown, "%s: %s", g.Name, firstLines(err.Error())), nil
			}
			tokens += weight * float64(s.Work())
			took, each := 0., sha256.New()
			for _, m := range models {
				n := m.Cost.Time * 1e-6 * g.Clock
				took += n
				hbm += weight * m.Cost.DRAM * 1e-6 * g.Clock
				stages[m.Kernel] += weight * n
				c.Calls++
				c.VMEM, c.Spills = max(c.VMEM, int64(m.Shared)), max(c.Spills, int64(m.Stack))
				if weight*n > most {
					most = weight * n
					c.Slot, c.Fill = fullest(m)
				}
				fmt.Fprintln(each, m.SHA256, m.Grid)
			}
			cycles += weight * took
			digest := fmt.Sprintf("%x", each.Sum(nil)[:16])
			fmt.Fprintln(all, digest)
			c.Shapes = append(c.Shapes, journal.ShapeCost{Spec: s.String(), Score: int64(math.Round(took)), PerToken: journal.Figure(took / float64(s.Work())), Schedule: digest})
		}
		c.Cycles, c.HBM = int64(math.Round(cycles)), int64(math.Round(hbm))
		c.Score, c.PerToken, c.Micros = c.Cycles, journal.Figure(cycles/tokens), journal.Figure(math.Round(cycles/g.Clock*1e9)/1e3)
		c.Schedule = fmt.Sprintf("%x", all.Sum(nil)[:16])
		if len(c.Shapes) == 1 {
			c.Schedule, c.Shapes = c.Shapes[0].Schedule, nil
		}
		for _, name := range slices.Sorted(maps.Keys(stages)) {
			c.Stages = append(c.Stages, journal.Stage{Name: name, Cycles: int64(math.Round(stages[name]))})
		}
		slices.SortStableFunc(c.Stages, func(x, y journal.Stage) int { return cmp.Compare(y.Cycles, x.Cycles) })
		w.Record.Costs = append(w.Record.Costs, c)
	}
	return nil, nil
}

// fullest returns the scheduler's unit that a launch uses longest, and for what share of its time.
func fullest(m gpu.Modelled) (unit string, share journal.Figure) {
	took := m.Cost.Turn
	if took == 0 {
		took = m.Cost.Cycles
	}
	for _, name := range slices.Sorted(maps.Keys(m.Cost.Busy)) {
		if s := journal.Figure(math.Round(1000*m.Cost.Busy[name]/took) / 1000); s > share {
			unit, share = name, s
		}
	}
	return unit, share
}
