package route

import (
	"fmt"
	"io"
	"strings"

	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir"
)

// Description is a backend with its ops; gdngen backends prints it. A reason omits the names of the backend and the op.
type Description struct {
	Name string      `json:"name"`
	Doc  string      `json:"doc"`
	Ops  []OpSupport `json:"ops"`

	supported int
}

// OpSupport reports whether a backend supports an op.
type OpSupport struct {
	Op        string `json:"op"`
	Supported bool   `json:"supported"`
	Reason    string `json:"reason,omitempty"` // why the op is refused
}

// Describe lists every op with whether the route's backend renders it, and else the reason. Ops is empty for a GPU route, which takes no
// modules.
//
//	Supports(OP) = "mosaic: OP: REASON"   ->   {Op: OP, Reason: REASON}
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

// Write prints the names of the supported ops, and a table of the refused ones with reasons.
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
