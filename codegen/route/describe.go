package route

import (
	"fmt"
	"io"
	"strings"

	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir"
)

// Description is a backend and its ops.
// It is what gdngen backends prints. Reasons stand without the names of backend and op, which rows have.
type Description struct {
	Name string      `json:"name"`
	Doc  string      `json:"doc"`
	Ops  []OpSupport `json:"ops"`

	supported int
}

// OpSupport is what a backend does with an op.
type OpSupport struct {
	Op        string `json:"op"`
	Supported bool   `json:"supported"`
	Reason    string `json:"reason,omitempty"` // why not
}

// Describe lists each op that the backend of a route renders, and why it refuses the others; none where it takes no modules.
//
//	Supports(OP) = "mosaic: OP: REASON"   ->   {Op: OP, Reason: REASON}
func (r Route) Describe() Description {
	row := Description{Name: r.Name(), Doc: r.Doc}
	if r.GPU {
		return row
	}
	for op := ir.BadOp + 1; op < ir.NumOps; op++ {
		o := OpSupport{Op: op.String(), Supported: true}
		if err := r.Supports(op); err != nil {
			o.Supported, o.Reason = false, strings.TrimPrefix(strings.TrimPrefix(err.Error(), row.Name+": "), o.Op+": ")
		} else {
			row.supported++
		}
		row.Ops = append(row.Ops, o)
	}
	return row
}

// Write prints what is supported, and a table of what is not.
func (r *Description) Write(w io.Writer) {
	var names []string
	refused := terminal.NewTable("  REFUSED", "REASON")
	for _, o := range r.Ops {
		if o.Supported {
			names = append(names, o.Op)
		} else {
			refused.Add("  "+o.Op, o.Reason)
		}
	}
	fmt.Fprintf(w, "%s: %s\n", r.Name, r.Doc)
	if len(r.Ops) == 0 {
		return
	}
	fmt.Fprintf(w, "  %d of %d ops: %s\n", r.supported, len(r.Ops), strings.Join(names, " "))
	refused.Write(w)
}
