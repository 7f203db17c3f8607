package codegen

import (
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/ir"
)

// Error says that a backend can not render an instruction, and why.
type Error struct {
	Backend string
	Op      ir.Op
	Task    ir.Task
	Pos     ir.Pos
	Types   string // of operands -> of results
	What    string // the reason, and how to fix it
}

// Refuse wraps err as an Error that names the backend, and the op, task, position and types of in.
func Refuse(backend string, in *ir.Instr, err error) *Error {
	return &Error{Backend: backend, Op: in.Op, Task: in.Task, Pos: in.Pos, Types: types(in.Args) + " -> " + types(in.Results), What: err.Error()}
}

func (e *Error) Error() string {
	at := ""
	if s := (&ir.Instr{Task: e.Task, Pos: e.Pos}).Where(); s != "" {
		at = " at " + s
	}
	return fmt.Sprintf("%s: %s%s: %s\n    in: %s %s", e.Backend, e.Op, at, e.What, e.Op, e.Types)
}

func types(vs []*ir.Value) string {
	s := make([]string, len(vs))
	for i, v := range vs {
		s[i] = v.Type.String()
	}
	return "(" + strings.Join(s, ", ") + ")"
}
