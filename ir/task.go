package ir

import (
	"fmt"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// Task is the purpose of an instruction: a stage of the algorithm, a chunk in flight and a head, each -1 if it does not apply. It is part of
// text and hash: schedules order instructions by task, and it survives into the compiler's schedule.
type Task struct {
	Stage       string
	Chunk, Head int
}

// At returns the task of a whole stage.
func At(stage string) Task { return Task{Stage: stage, Chunk: -1, Head: -1} }

// String returns stage, stage.c1, stage.h3 or stage.c1.h3; empty for no task. Without a stage it begins with the point.
func (t Task) String() string {
	s := t.Stage
	if t.Chunk >= 0 {
		s += fmt.Sprintf(".c%d", t.Chunk)
	}
	if t.Head >= 0 {
		s += fmt.Sprintf(".h%d", t.Head)
	}
	return s
}

// ParseTask is the inverse of String; it fails for other text.
func ParseTask(s string) (Task, error) {
	stage, rest, _ := strings.Cut(s, ".")
	t := At(stage)
	for part := range strings.SplitSeq(rest, ".") {
		if part == "" {
			continue
		}
		n, err := strconv.Atoi(part[1:])
		switch {
		case err == nil && n >= 0 && part[0] == 'c':
			t.Chunk = n
		case err == nil && n >= 0 && part[0] == 'h':
			t.Head = n
		}
	}
	if s == "" || !isStage(stage) || t.String() != s {
		return t, fmt.Errorf("task %q: stage, stage.c1, stage.h3 or stage.c1.h3 are possible", s)
	}
	return t, nil
}

// Pos is the source position of an instruction: the line of Go code that built it, or of the text that it was parsed from. It only serves
// error messages and readers of generated files. It is not part of text or hash, and no pass reads it.
type Pos struct {
	File string // folder and name; empty for parsed text
	Line int    // 0: unknown

	called string // formula name of the result (Value.Called)
	op     Op
}

// String returns build/chunk.go:61, or line 61 for parsed text; empty if the position is unknown.
func (p Pos) String() string {
	switch {
	case p.Line == 0:
		return ""
	case p.File == "":
		return fmt.Sprintf("line %d", p.Line)
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// caller returns the nearest calling line outside of this package.
func caller() Pos {
	var pcs [8]uintptr
	n := runtime.Callers(3, pcs[:])
	if p, ok := written.Load(pcs); ok {
		return p.(Pos)
	}
	frames := runtime.CallersFrames(pcs[:n])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, builders) {
			folder, name := path.Split(f.File)
			p := Pos{File: path.Join(path.Base(folder), name), Line: f.Line}
			written.Store(pcs, p)
			return p
		}
		if !more {
			return Pos{}
		}
	}
}

const builders = "github.com/gdngen/gdngen/ir.(*Builder)."

// written caches lines by call site; there is one entry per building call in the source.
var written sync.Map

// Where describes task and position of an instruction, as far as known.
func (in *Instr) Where() string {
	s := in.Task.String()
	if p := in.Pos.String(); p != "" {
		s = strings.TrimSpace(s + " (" + p + ")")
	}
	return s
}

// Stage is a named part of the algorithm.
type Stage struct {
	Name string
	By   string // the package that names it, or the two that share it
	Doc  string // the work of the stage
}

// Stages lists the stages; a schedule may name no other. Programs from elsewhere may have tasks with other stages.
var Stages = []Stage{
	{"glue", "gdn/build", "Reshapes, pads and gathers what kernels take and give."},
	{"load", "gdn/build", "Loads the rows of the chunk."},
	{"gates", "gdn/build", "Sums the log decay over the chunk."},
	{"products", "gdn/build", "Multiplies K K^T and Q K^T."},
	{"decay", "gdn/build", "Weighs the products by the decay between their tokens."},
	{"leaf", "gdn/build", "Inverts the diagonal blocks by substitution."},
	{"solve", "gdn/build", "Merges the inverses of blocks to that of the chunk."},
	{"uw", "gdn/build", "Makes U and W."},
	{"operands", "gdn/build", "Makes what meets the state: K and Q with their decay."},
	{"enter", "gdn/build", "Takes the state of a sequence that begins in the block."},
	{"state", "gdn/build", "Reads and updates the state."},
	{"output", "gdn/build", "Scales the output."},
	{"keep", "gdn/build", "Gives what a later kernel reads its form."},
	{"values", "gdn/build", "Makes the gradient of the values."},
	{"dr", "gdn/build", "Makes the gradient of what the inverse is multiplied by."},
	{"dq", "gdn/build", "Makes the gradient of the queries."},
	{"dk", "gdn/build", "Makes the gradient of the keys."},
	{"dg", "gdn/build", "Makes the gradients of the gates."},
	{"init", "codegen/tpu", "Starts the state."},
	{"store", "codegen/tpu", "Stores what the chunk made."},
	{"copy", "codegen/tpu", "Copies blocks to main memory."},
	{"step", "codegen/tpu", "Finds which body a step takes."},
	{"fetch", "codegen/tpu", "Copies the blocks of the next step from main memory."},
	{"projection", "gdn/model", "Multiplies by weights of the layer."},
	{"convolution", "gdn/build, gdn/model, gdn/parallel", "Convolves over the last tokens."},
	{"taps", "gdn/build", "Convolves values over the last tokens."},
	{"norm", "gdn/model", "Normalizes, and gates the output."},
	{"loss", "gdn/model", "Makes the loss."},
	{"compose", "gdn/parallel", "Joins the maps of two ranges of tokens."},
	{"carry", "gdn/parallel", "Takes a state through the map of a range."},
	{"loop", "autotune/bench", "Takes tokens one after another, as a reference."},
	{"out", "autotune/bench", "Gives the results of the reference their types."},
}

// LookupStage returns the row with this name.
func LookupStage(name string) (Stage, bool) {
	for _, s := range Stages {
		if s.Name == name {
			return s, true
		}
	}
	return Stage{}, false
}
