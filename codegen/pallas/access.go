package pallas

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/ir"
)

// start returns the text of an access's first index along dimension d, with dyn the run-time starts, if any.
func (o *operands) start(d int, dyn []expr) expr {
	switch f := o.ints[d]; {
	case len(dyn) == 0 || dyn[d].s == "0":
		return formText(f)
	case f.IsConst() && f.C == 0:
		return dyn[d]
	default:
		return expr{dyn[d].in(precAdd) + " + " + formText(f).in(precMul), precAdd}
	}
}

// access returns the index text of a load or store of a block in a reference.
func (o *operands) access(refType ir.Type, block []int, dyn []expr) (string, error) {
	lead := refType.Rank() - len(block)
	at := make([]string, refType.Rank())
	for d, n := range refType.Shape {
		start := o.start(d, dyn)
		size := 1
		if d >= lead {
			size = block[d-lead]
		}
		step := o.in.Attrs.Step(d)
		switch {
		case d < lead:
			at[d] = start.s
		case len(dyn) > 0 || step != 1 && size > 1:
			at[d] = fmt.Sprintf("pl.ds(%s, %d)", start.s, size)
			if step != 1 && size > 1 {
				at[d] = fmt.Sprintf("pl.ds(%s, %d, stride=%d)", start.s, size, step)
			}
		default:
			lo, hi := o.ints[d], o.ints[d]
			hi.C += size
			at[d] = span(lo, hi, n, 1)
		}
	}
	for len(at) > 0 && at[len(at)-1] == ":" {
		at = at[:len(at)-1]
	}
	if len(at) == 0 {
		return "...", nil
	}
	return strings.Join(at, ", "), nil
}

func writeLoad(o *operands) (expr, error) {
	ref, block := o.in.Args[0].Type, o.in.Results[0].Type.Shape
	at, err := o.access(ref, block, o.texts[1:])
	return expr{element(o.texts[0].s, at, ref.Rank()-len(block)), atom}, err
}

// element returns the text of a block of a reference, at an index whose first lead dimensions the block lacks. Interpret mode takes no
// plain numbers in the index of a bitcast, nor next to strided rows. So the numbers of leading dimensions and of scratch lists are
// indexed first.
func element(ref, at string, lead int) string {
	base, cast, ok := strings.Cut(ref, ".bitcast")
	listed := !ok && strings.HasSuffix(ref, "]") && !strings.Contains(ref, ".at[")
	if lead == 0 && !listed || !ok && !strings.Contains(at, "stride=") {
		return index(ref, at)
	}
	l := strings.SplitN(at, ", ", lead+1)
	n := min(len(l), lead)
	if before, shape, shaped := strings.Cut(cast, ".reshape("); shaped && ok {
		return rowsOf(base+".bitcast"+before, strings.Split(strings.TrimSuffix(shape, ")"), ", "), l, lead)
	}
	ref = view(base, strings.Join(l[:n], ", "))
	if ok {
		ref += ".bitcast" + cast
	}
	if at = "..."; n < len(l) {
		at = l[n]
	}
	return ref + "[" + at + "]"
}

// rowsOf returns the text of a block of a cast reference, with its leading dimensions joined with the rows, so that the index has no
// plain numbers. The first lead entries of l index these dimensions, the next one the rows.
func rowsOf(ref string, shape, l []string, lead int) string {
	total, rows, place := asRows(shape, l, lead)
	ref += fmt.Sprintf(".reshape(%d, %s)", total, strings.Join(shape[lead+1:], ", "))
	if total != rows {
		ref += fmt.Sprintf(".at[pl.ds(%s, %d)]", cmp.Or(place, "0"), rows)
	}
	return ref + "[" + append(l[lead:], "...")[0] + "]"
}

// asRows returns the number of rows of a shape with its leading dimensions joined, the rows per leading index, and the row at which l
// begins ("" for 0).
func asRows(shape, l []string, lead int) (total, rows int, place string) {
	total = 1
	for d := lead; d >= 0; d-- {
		n, err := strconv.Atoi(shape[d])
		if err != nil {
			panic("pallas: a shape of numbers was written otherwise: " + shape[d])
		}
		if d == lead {
			rows = n
		} else if l[d] != "0" {
			at := l[d]
			if !identifier.MatchString(at) {
				at = "(" + at + ")"
			}
			place = strings.Trim(fmt.Sprintf("%d * %s + %s", total, at, place), " +")
		}
		total *= n
	}
	return total, rows, place
}

// index appends an index to a name, merging it with an index the name may end in.
func index(name, at string) string {
	if inner, ok := strings.CutSuffix(name, "]"); ok && !strings.HasSuffix(inner, "[") && at != "..." && strings.Count(name, "[") == 1 {
		return inner + ", " + at + "]"
	}
	if strings.HasSuffix(name, "]") && at == "..." {
		return name
	}
	return name + "[" + at + "]"
}

// view returns the text of part at of a reference, or of the whole for "". A list of scratch is one array, so its element is merged into
// the index.
func view(ref, at string) string {
	if base, i, ok := strings.Cut(strings.TrimSuffix(ref, "]"), "["); ok && !strings.HasSuffix(base, ".at") {
		ref, at = base, strings.TrimSuffix(i+", "+at, ", ")
	}
	if at == "" {
		return ref
	}
	return ref + ".at[" + at + "]"
}

// termText returns the text of a term without its factor.
func termText(t loops.Term) string {
	switch {
	case t.Div != 0:
		return fmt.Sprintf("(%s // %d)", t.V.Name, t.Div)
	case t.Mod != 0:
		return fmt.Sprintf("(%s %% %d)", t.V.Name, t.Mod)
	}
	return t.V.Name
}

// formText returns a form as a Python expression.
func formText(f loops.Form) expr {
	if len(f.T) == 1 && f.T[0].K == 1 && f.T[0].Div+f.T[0].Mod > 0 && f.C == 0 && f.Div <= 1 {
		return expr{strings.Trim(termText(f.T[0]), "()"), precMul}
	}
	var s string
	prec := atom
	for i, t := range f.T {
		k, v := t.K, termText(t)
		if i > 0 || s != "" {
			op := " + "
			if k < 0 {
				op, k = " - ", -k
			}
			s += op
			prec = precAdd
		} else if k < 0 && f.C > 0 {
			s, k = fmt.Sprintf("%d - ", f.C), -k
			prec = precAdd
			f.C = 0
		}
		switch k {
		case 1:
			s += v
		case -1:
			s, prec = s+"-"+v, min(prec, precUnary)
		default:
			s += fmt.Sprintf("%d * %s", k, v)
			prec = min(prec, precMul)
		}
	}
	switch {
	case s == "":
		s = strconv.Itoa(f.C)
	case f.C > 0:
		s, prec = fmt.Sprintf("%s + %d", s, f.C), precAdd
	case f.C < 0:
		s, prec = fmt.Sprintf("%s - %d", s, -f.C), precAdd
	}
	e := expr{s, prec}
	if f.Div > 1 {
		e = expr{fmt.Sprintf("%s // %d", e.in(precMul), f.Div), precMul}
	}
	return e
}
