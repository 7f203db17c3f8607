package trace

import (
	"fmt"
	"io"
	"strings"

	"github.com/gdngen/gdngen/internal/terminal"
)

// micro formats picoseconds as microseconds.
func micro(ps float64) string { return fmt.Sprintf("%.1f", ps/1e6) }

// signed formats a difference in microseconds; a rounded zero has no sign.
func signed(ps float64) string {
	return unsignedZero(fmt.Sprintf("%+.1f", ps/1e6))
}

func unsignedZero(text string) string {
	if strings.Trim(text, "+-0.") == "" {
		return "0.0"
	}
	return text
}

// band formats the spread of a time.
func band(s Spread) string { return micro(s.Low) + " to " + micro(s.High) }

func percent(x float64, cut bool) string {
	if cut {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*x)
}

// head prints what was summed.
func (s *Summary) head(w io.Writer) {
	fmt.Fprintf(w, "trace   %s\n", strings.Join(s.Files, ", "))
	kind := ""
	if v, ok := s.Facts["device_type_string"]; ok {
		kind = fmt.Sprintf(", %v", v)
	}
	fmt.Fprintf(w, "device  %s%s\n", strings.Join(s.Devices, ", "), kind)
	fmt.Fprintf(w, "events  %d of %s, self time %s us\n", s.Count, s.Line, micro(s.Self))
	if s.Steps.Count > 0 {
		fmt.Fprintf(w, "steps   %d by %s, %d of them warm-up: median %s us (%s), gaps %s us\n", s.Steps.Count, s.Steps.From, s.Steps.Warmup,
			micro(s.Steps.Time.Median), band(s.Steps.Time), micro(s.Steps.Gap.Median))
	}
	if s.Async != nil {
		fmt.Fprintf(w, "beside  %d events of %s, %s us, not in what follows\n", s.Async.Count, s.Async.Name, micro(s.Async.Total))
	}
}

// Write prints the first top rows; 0: all.
func (s *Summary) Write(w io.Writer, top int) {
	s.head(w)
	fmt.Fprintln(w)
	name := strings.ToUpper(s.By)
	if s.By == "stage" {
		name = "STAGE: MEASURED X STATIC SHARE"
	}
	heads := []string{name, ">COUNT", ">SELF us", ">SHARE", ">TOTAL us"}
	if s.Steps.Count > 0 {
		heads = append(heads, ">IN A STEP", "10 % TO 90 %")
	}
	detail := s.By == "op"
	if detail {
		heads = append(heads, "CATEGORY", "SCOPE")
	}
	t := terminal.NewTable(heads...)
	for i, r := range s.Rows {
		if top > 0 && i == top {
			break
		}
		row := []any{r.Name, r.Count, micro(r.Self), percent(r.Share, s.Cut), micro(r.Total)}
		if s.Steps.Count > 0 {
			row = append(row, micro(r.Step.Median), band(r.Step))
		}
		if detail {
			row = append(row, r.Category, r.Scope)
		}
		t.Add(row...)
	}
	t.Write(w)
	if top > 0 && len(s.Rows) > top {
		var rest float64
		for _, r := range s.Rows[top:] {
			rest += r.Share
		}
		fmt.Fprintf(w, "and %d more, %s\n", len(s.Rows)-top, percent(rest, s.Cut))
	}
}

func (c *Change) cells() []any {
	ratio := c.State
	if c.State == "" && c.A > 0 {
		ratio = unsignedZero(fmt.Sprintf("%+.1f", 100*c.Delta/c.A)) + "%"
	}
	return []any{c.Name, micro(c.A), micro(c.B), signed(c.Delta), ratio}
}

// Write prints the first top rows; 0: all.
func (d *Difference) Write(w io.Writer, top int) {
	fmt.Fprintf(w, "before  %s\nafter   %s\n\n", strings.Join(d.A.Files, ", "), strings.Join(d.B.Files, ", "))
	t := terminal.NewTable(strings.ToUpper(d.A.By), ">BEFORE us", ">AFTER us", ">CHANGE", ">")
	t.Add(d.Step.cells()...)
	if d.Unit == "step" {
		t.Add(d.Gap.cells()...)
	}
	for i, c := range d.Rows {
		if top > 0 && i == top {
			break
		}
		t.Add(c.cells()...)
	}
	t.Write(w)
	fmt.Fprintf(w, "figures are of the %s", d.Unit)
	if d.Unit == "step" {
		fmt.Fprint(w, ", medians")
	}
	if top > 0 && len(d.Rows) > top {
		fmt.Fprintf(w, "; %d more changed less", len(d.Rows)-top)
	}
	fmt.Fprintln(w)
}

// Write prints the budget.
func (b *Budget) Write(w io.Writer) {
	b.Trace.head(w)
	fmt.Fprintln(w)
	heads := []string{"PART OF A STEP", ">us", ">SHARE"}
	if b.Control != nil {
		fmt.Fprintf(w, "control %s\n\n", strings.Join(b.Control.Files, ", "))
		heads = append(heads, ">CONTROL us", ">ABOVE IT")
	}
	t := terminal.NewTable(heads...)
	for _, e := range b.Rows {
		row := []any{e.Name, micro(e.Time), percent(e.Share, b.Trace.Cut)}
		if e.Control != nil {
			row = append(row, micro(*e.Control), signed(*e.Above))
		}
		t.Add(row...)
	}
	t.Write(w)
}

// Write prints the utilisation.
func (u *Utilisation) Write(w io.Writer) {
	u.Trace.head(w)
	fmt.Fprintf(w, "work    %.4g model flops in a step\n", u.Flops)
	fmt.Fprintf(w, "peak    %.4g flops a second on each of %d, by %s\n", u.Peak, u.Chips, u.PeakFrom)
	fmt.Fprintf(w, "MFU     %.2f%% (%.2f%% to %.2f%%)\n", 100*u.MFU, 100*u.Low, 100*u.High)
	if u.Tokens > 0 {
		fmt.Fprintf(w, "tokens  %.0f a second\n", u.Tokens)
	}
	fmt.Fprintf(w, "check   XLA counted %.4g flops in a step, none in the %s us of custom calls\n", u.TraceFlops, micro(u.Opaque))
}
