package ir

import "strconv"

// grid reads the grid of a grid or kernel op, in braces.
func (p *parser) grid() (*Grid, error) {
	g := &Grid{}
	err := p.commaList(func() error {
		k := p.word()
		if err := p.expect("="); err != nil {
			return err
		}
		switch k {
		case "name":
			g.Name = p.word()
			return nil
		case "tables":
			return p.int(&g.Tables)
		case "steps":
			return p.int(&g.sched().Steps)
		case "lags":
			return p.ints(&g.sched().Lags)
		case "lock":
			return p.int(&g.sched().Lock)
		case "late":
			return p.int(&g.sched().Late)
		case "ends":
			return p.ints(&g.sched().Ends)
		case "after":
			return p.int(&g.sched().After)
		case "stagger":
			return p.int(&g.sched().Stagger)
		case "live":
			return p.int(&g.Live)
		case "fetch":
			return p.flag(&g.sched().Fetch)
		case "main":
			return p.flag(&g.Main)
		case "into":
			return p.ints(&g.Into)
		}
		if err := p.expect("("); err != nil {
			return err
		}
		var item func() error
		switch k {
		case "dims":
			item = func() error { return p.gridDim(g) }
		case "in":
			item = func() error { return p.window(g, &g.In) }
		case "carry":
			item = func() error { return p.window(g, &g.Carry) }
		case "out":
			item = func() error {
				if err := p.window(g, &g.Out); err != nil {
					return err
				}
				if err := p.expect(":"); err != nil {
					return err
				}
				t, err := p.typ()
				g.Outs = append(g.Outs, t)
				return err
			}
		case "phases":
			item = func() error {
				w := StagePhase{Stage: p.word()}
				if err := p.expect(":"); err != nil {
					return err
				}
				err := p.int(&w.Phase)
				g.sched().Phases = append(g.sched().Phases, w)
				return err
			}
		case "beside":
			item = func() error {
				g.sched().Beside = append(g.sched().Beside, p.word())
				return nil
			}
		case "waves":
			item = func() error {
				g.sched().Waves = append(g.sched().Waves, p.word())
				return nil
			}
		case "scratch":
			item = func() error {
				t, err := p.typ()
				g.Scratch = append(g.Scratch, t)
				return err
			}
		case "alias":
			item = func() error {
				var a [2]int
				if err := p.int(&a[0]); err != nil {
					return err
				}
				if err := p.expect("="); err != nil {
					return err
				}
				err := p.int(&a[1])
				g.Alias = append(g.Alias, a)
				return err
			}
		default:
			return p.errf("unknown grid attribute %q (known: name dims tables in out into carry main steps lags lock late ends beside after live fetch phases scratch alias)", k)
		}
		if p.accept(")") {
			return nil
		}
		if err := p.commaList(item); err != nil {
			return err
		}
		return p.expect(")")
	})
	return g, err
}

// flag reads 0 or 1.
func (p *parser) flag(to *bool) error {
	on := 0
	err := p.int(&on)
	*to = on != 0
	return err
}

func (g *Grid) sched() *Sched {
	if g.Sched == nil {
		g.Sched = &Sched{Lags: []int{}}
	}
	return g.Sched
}

func (p *parser) gridDim(g *Grid) error {
	d := GridDim{Name: p.word()}
	if err := p.expect(":"); err != nil {
		return err
	}
	if err := p.int(&d.Size); err != nil {
		return err
	}
	if p.accept(":") {
		if p.word() != "seq" {
			return p.errf("expected seq")
		}
		d.Seq = true
		if p.accept(":") {
			if p.word() != "bound" {
				return p.errf("expected bound")
			}
			d.Bound = true
		}
	}
	g.Dims = append(g.Dims, d)
	return nil
}

func (p *parser) window(g *Grid, ws *[]Window) error {
	var w Window
	if err := p.ints(&w.Block); err != nil {
		return err
	}
	if err := p.expect("@("); err != nil {
		return err
	}
	if !p.accept(")") {
		if err := p.commaList(func() error {
			x, err := p.index(g)
			w.Index = append(w.Index, x)
			return err
		}); err != nil {
			return err
		}
		if err := p.expect(")"); err != nil {
			return err
		}
	}
	*ws = append(*ws, w)
	return nil
}

// index parses a block index: [t<n> "["] (const | ["plus(" const ","] ["clamp("] axis [shift] ["," max ")"] [")"]) ["]"].
func (p *parser) index(g *Grid) (Index, error) {
	table := -1
	p.space()
	start := p.pos
	if w := p.word(); len(w) > 1 && w[0] == 't' && p.accept("[") {
		n, err := strconv.Atoi(w[1:])
		if err != nil || n < 0 {
			return Index{}, p.errf("malformed table %q", w)
		}
		table = n
	} else {
		p.pos = start
	}
	x, err := p.axisIndex(g)
	if err != nil || table < 0 {
		return x, err
	}
	x.Table = table
	return x, p.expect("]")
}

func (p *parser) axisIndex(g *Grid) (Index, error) {
	x := IndexConst(0)
	p.space()
	if c := p.src[p.pos:]; c != "" && (c[0] == '-' || c[0] >= '0' && c[0] <= '9') {
		return x, p.int(&x.Const)
	}
	if p.accept("plus(") {
		var n int
		if err := p.int(&n); err != nil {
			return x, err
		}
		if err := p.expect(","); err != nil {
			return x, err
		}
		x, err := p.axisIndex(g)
		if err == nil && (x.Axis < 0 || x.Const != 0) {
			err = p.errf("plus wants an axis")
		}
		if err != nil {
			return x, err
		}
		x.Const = n
		return x, p.expect(")")
	}
	clamp := p.accept("clamp(")
	down := !clamp && p.accept("down(")
	w := p.word()
	for i, d := range g.Dims {
		if d.Name == w {
			x = IndexAxis(i)
		}
	}
	if x.Axis < 0 {
		return x, p.errf("unknown grid axis %q", w)
	}
	if p.peek("+") || p.peek("-") {
		if err := p.int(&x.Shift); err != nil {
			return x, err
		}
	}
	if !clamp && !down {
		return x, nil
	}
	x.Down = down
	if err := p.expect(","); err != nil {
		return x, err
	}
	if err := p.int(&x.Max); err != nil {
		return x, err
	}
	if x.Max < 0 {
		return x, p.errf("clamp to a negative index")
	}
	return x, p.expect(")")
}
